import h5py
import numpy as np
import torch


class EpisodicDataset(torch.utils.data.Dataset):
    def __init__(self, path, chunk, length):
        self.path, self.chunk, self.length = path, chunk, length
        self.root = None
        with h5py.File(path, "r") as f:
            self.names = sorted(k for k in f if k.startswith("episode_"))
            self.weights = f["weights"][()]

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.root is None:
            self.root = h5py.File(self.path, "r")
        rng = np.random.default_rng(index)
        p = self.weights / self.weights.sum()
        ep = int(rng.choice(len(self.names), p=p))
        g = self.root[self.names[ep]]
        start = int(rng.integers(0, g["action"].shape[0]))
        qpos = g["qpos"][start]
        act = g["action"][start:start + self.chunk]
        pad = np.zeros((self.chunk, act.shape[1]), "f4")
        pad[: len(act)] = act
        is_pad = np.arange(self.chunk) >= len(act)
        return torch.from_numpy(qpos), torch.from_numpy(pad), torch.from_numpy(is_pad), ep


def refresh_weights(path, running):
    """Episodes that are learnt badly come more often (Schaul et al.)."""
    w = np.sqrt(running + 1e-6)
    w = (w / w.mean()).astype("f4")
    with h5py.File(path, "a") as f:
        f["weights"][...] = w
        f.attrs["refreshed"] = f.attrs.get("refreshed", 0) + 1
    return w
