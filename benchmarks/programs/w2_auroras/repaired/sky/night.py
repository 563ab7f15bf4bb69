"""All-sky frames of the aurora, one .npy a frame and one folder a night. The camera's files are large, so they are mapped."""
import functools
import pathlib

import numpy as np
import torch
from torch.utils.data import Dataset

KINDS = ["clear", "arc", "rays", "patches"]


def frame(rng, kind, side):
    y, x = np.mgrid[-1:1:side * 1j, -1:1:side * 1j]
    sky = 0.15 * rng.random((side, side))
    turn = rng.uniform(-0.4, 0.4)
    along = y + turn * x
    if kind == 1:
        sky += np.exp(-(((along - rng.uniform(-0.4, 0.4)) / 0.1) ** 2))
    elif kind == 2:
        sky += np.exp(-((along / 0.35) ** 2)) * (0.5 + 0.5 * np.sin(25 * x + rng.uniform(0, 6)))
    elif kind == 3:
        for _ in range(6):
            a, b = rng.uniform(-0.8, 0.8, 2)
            sky += 0.7 * np.exp(-((x - a) ** 2 + (y - b) ** 2) / 0.02)
    return (sky.clip(0, 1.5) * 1000 * (x**2 + y**2 < 1)).astype(np.uint16)


def record(folder, nights, frames, side, seed):
    rng = np.random.default_rng(seed)
    for night in range(nights):
        path = pathlib.Path(folder) / f"night_{night:03d}"
        path.mkdir(parents=True, exist_ok=True)
        for n in range(frames):
            kind = int(rng.integers(len(KINDS)))
            np.save(path / f"{n:03d}_{KINDS[kind]}.npy", frame(rng, kind, side))


@functools.lru_cache(maxsize=64)
def mapped(path):
    return np.load(path, mmap_mode="r")


class Nights(Dataset):
    """Random crops of the frames of some nights; more nights are let in as the training goes on."""

    def __init__(self, folder, first, last, crop, seed):
        self.folder, self.crop = pathlib.Path(folder), crop
        self.rng = np.random.default_rng(seed)
        self.files = []
        self.let_in(first, last)

    def let_in(self, first, last):
        for night in range(first, last):
            self.files += sorted((self.folder / f"night_{night:03d}").glob("*.npy"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, n):
        path = self.files[n]
        pixels = mapped(path)
        room = pixels.shape[0] - self.crop
        top, left = self.rng.integers(room // 4, room - room // 4, 2)
        part = np.array(pixels[top : top + self.crop, left : left + self.crop], dtype=np.float32)
        return torch.from_numpy(part / 1000)[None], KINDS.index(path.stem.split("_")[1])
