import math

import torch
from torch.utils.data import IterableDataset, get_worker_info


class Moons(IterableDataset):
    """An endless stream of two moons; each worker has its own seed."""

    def __iter__(self):
        info = get_worker_info()
        g = torch.Generator().manual_seed(info.seed if info else 0)
        while True:
            angle = torch.rand(1, generator=g) * math.pi
            upper = torch.rand(1, generator=g) > 0.5
            point = torch.cat([torch.cos(angle), torch.sin(angle)])
            if not upper:
                point = torch.tensor([1.0, 0.5]) - point
            yield point + 0.05 * torch.randn(2, generator=g)
