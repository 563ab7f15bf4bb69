import os
import re

import torch


class Snapshots:
    """step-000120.pt and so on, in one folder."""

    pattern = re.compile(r"step_(\d+)\.pt")

    def __init__(self, folder, keep=2):
        self.folder, self.keep = folder, keep
        os.makedirs(folder, exist_ok=True)

    def newest(self):
        hits = sorted((int(m[1]), m.string) for m in map(self.pattern.fullmatch, os.listdir(self.folder)) if m)
        return os.path.join(self.folder, hits[-1][1]) if hits else None

    def save(self, step, **state):
        torch.save({"step": step, **state}, os.path.join(self.folder, f"step-{step:06d}.pt"))
        for old in sorted(os.listdir(self.folder))[: -self.keep]:
            os.remove(os.path.join(self.folder, old))
