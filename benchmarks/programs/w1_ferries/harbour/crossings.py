"""Crossings of ferries: wind, swell, tide and load at twelve points of the route, and the delay on arrival."""
import torch
from torch.utils.data import TensorDataset

POINTS, SEEN = 12, 6
ROUTES = {"north": (0.8, 0.3), "islands": (0.2, 1.1)}


def crossings(route, count, seed):
    g = torch.Generator().manual_seed(seed)
    wind, swell = ROUTES[route]
    x = torch.randn(count, POINTS, SEEN, generator=g)
    x[:, :, :2] = x[:, :, :2].cumsum(1) / 3
    rough = (wind * x[:, :, 0].abs() + swell * x[:, :, 1].square() * (x[:, :, 2] > 0)).mean(1)
    delay = rough + 0.4 * x[:, 0, 3] * x[:, -1, 4] + 0.1 * torch.randn(count, generator=g)
    cancelled = (rough > rough.quantile(0.85)).float()
    return TensorDataset(x, delay, cancelled)
