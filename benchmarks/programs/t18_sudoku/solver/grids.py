import numpy as np
import torch

BASE = np.array([[0, 1, 2, 3], [2, 3, 0, 1], [1, 0, 3, 2], [3, 2, 1, 0]])


def batch(rng, count, hidden):
    """4x4 Sudokus: the cells with hints (4 = empty) and the solution."""
    out = np.empty((count, 4, 4), np.int64)
    for n in range(count):
        g = rng.permutation(4)[BASE]
        if rng.random() < 0.5:
            g = g.T
        rows = np.concatenate([rng.permutation(2), 2 + rng.permutation(2)])
        columns = np.concatenate([rng.permutation(2), 2 + rng.permutation(2)])
        out[n] = g[rows][:, columns]
    solution = out.reshape(count, 16)
    shown = np.where(rng.random((count, 16)) < hidden, 4, solution)
    return torch.from_numpy(shown), torch.from_numpy(solution)
