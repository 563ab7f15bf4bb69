import json
import pathlib
import subprocess
import sys

import torch
from torch.utils.data import Dataset


class Decoder:
    """One process decodes all clips; starting one for each is too slow."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "voice.decode"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, path):
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


class Clips(Dataset):
    def __init__(self, folder, decoder):
        self.paths = sorted(pathlib.Path(folder).glob("*.b64"))
        self.decoder = decoder

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, n):
        path = self.paths[n]
        samples = torch.tensor(self.decoder(path), dtype=torch.float32) / 2048
        return samples, int(path.name.split("_")[0])
