"""Pairs of radar scenes of a moving tongue of ice. The second scene is the first one, displaced and decorrelated."""
import torch
from torch.nn.functional import grid_sample, interpolate
from torch.utils.data import Dataset


def field(g, side, cells, scale):
    coarse = torch.randn(1, 2, cells, cells, generator=g) * scale
    return interpolate(coarse, side, mode="bicubic", align_corners=True)[0]


class Pairs(Dataset):
    """All scenes are kept in memory: reading them from the archive takes longer than a step."""

    def __init__(self, count, side, noise, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.side, self.noise = side, noise
        coarse = torch.rand(count, 1, side // 4, side // 4, generator=self.g)
        self.scenes = interpolate(coarse, side, mode="bicubic", align_corners=True)
        self.flows = torch.stack([field(self.g, side, 4, 2.0) for _ in range(count)])
        axis = torch.linspace(-1, 1, side)
        self.grid = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1)

    def __len__(self):
        return len(self.scenes)

    def __getitem__(self, n):
        flow = self.flows[n]
        moved = self.grid + flow.permute(1, 2, 0) * 2 / self.side
        later = grid_sample(self.scenes[n : n + 1], moved[None], align_corners=True)[0]
        later = later + self.noise * torch.randn(later.shape)
        return torch.cat([self.scenes[n], later]), flow
