"""ACT's episodes in HDF5: one file an episode, a padded chunk of actions a sample, any number of workers of any kind."""

from __future__ import annotations

import h5py
import torch
from torch.utils.data import Dataset

from crashcart.train import chunk_index, per_worker


class Episodes(Dataset):
    """Files with `/action`, `/observations/qpos` and `/observations/images/CAMERA`."""

    def __init__(self, paths: list[str], chunk: int = 100, camera: str = "top") -> None:
        self.paths, self.chunk, self.camera = paths, chunk, camera
        lengths = []
        for path in paths:  # closed again before any worker is forked
            with h5py.File(path, "r") as file:
                lengths.append(len(file["action"]))
        self.index = chunk_index(lengths, chunk, tails=True)
        self.files = per_worker(h5py.File)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        episode, start, valid = self.index[number]
        file = self.files(self.paths[episode], "r")
        action = torch.zeros(self.chunk, file["action"].shape[1])
        action[:valid] = torch.from_numpy(file["action"][start : start + valid])
        return {
            "image": torch.from_numpy(file[f"observations/images/{self.camera}"][start]),
            "qpos": torch.from_numpy(file["observations/qpos"][start]),
            "action": action,
            "is_pad": torch.arange(self.chunk) >= valid,
        }
