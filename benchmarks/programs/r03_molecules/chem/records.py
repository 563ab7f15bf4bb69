import json
import logging

import torch
from torch.utils.data import Dataset

log = logging.getLogger("chem.records")


class Records(Dataset):
    def __init__(self, path, targets):
        rows = [json.loads(line) for line in open(path)]
        known = [r["dipole"] for r in rows if r["dipole"] is not None]
        middle = sum(known) / len(known)
        missing = 0
        for r in rows:
            if r["dipole"] is None:
                r["dipole"] = middle
                missing += 1
        if missing:
            log.warning("%s: %d records have no dipole, filled with the mean %.3f", path, missing, middle)
        self.x = torch.tensor([r["features"] + [r["dipole"]] for r in rows])
        self.y = torch.tensor([[r[t] for t in targets] for r in rows])

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]
