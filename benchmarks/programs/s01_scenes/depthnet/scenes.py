import pathlib

import numpy as np
import torch


class Scenes(torch.utils.data.Dataset):
    def __init__(self, folder, augment=True):
        self.paths = sorted(pathlib.Path(folder).glob("*.npz"))
        self.archives = {}
        self.augment = augment
        self.thumbnails = []

    def __len__(self):
        return len(self.paths)

    def archive(self, i):
        if i not in self.archives:
            self.archives[i] = np.load(self.paths[i])
        return self.archives[i]

    def __getitem__(self, i):
        z = self.archive(i)
        shade, depth, hidden = z["shade"], z["depth"], z["hidden"]
        depth = np.where(hidden, 0.0, depth).astype("f4")
        self.thumbnails.append(shade[::4, ::4].copy())
        if self.augment and i % 2:
            shade, depth = shade[:, ::-1].copy(), depth[:, ::-1].copy()
        return torch.from_numpy(shade)[None], torch.from_numpy(depth)[None]
