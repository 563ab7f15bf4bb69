"""Water levels along the reaches of a canal, hour by hour, with gates that somebody opens."""
import torch
from torch.utils.data import TensorDataset

REACHES, KEPT = 10, 8


def flow(level, gate, rain):
    """One hour of the canal: what passes a gate depends on the difference of the levels."""
    through = 0.25 * gate * (level[..., :-1] - level[..., 1:]).tanh()
    level = level + 0.1 * rain
    level = torch.cat([level[..., :1], level[..., 1:] + through], -1)
    level = torch.cat([level[..., :-1] - through, level[..., -1:]], -1)
    return level - 0.02 * level.abs() * level


def history(hours, seed):
    g = torch.Generator().manual_seed(seed)
    level = torch.rand(REACHES, generator=g)
    levels, gates, rains = [], [], []
    for hour in range(hours):
        gate = (torch.rand(REACHES - 1, generator=g) > 0.5).float()
        rain = (torch.rand(1, generator=g) > 0.9).float().expand(REACHES) * torch.rand(REACHES, generator=g)
        levels.append(level)
        gates.append(gate)
        rains.append(rain)
        level = flow(level, gate, rain)
    return torch.stack(levels), torch.stack(gates), torch.stack(rains)


def hourly(hours, seed):
    levels, gates, rains = history(hours, seed)
    now = torch.cat([levels[:-1], gates[:-1], rains[:-1]], -1)
    return TensorDataset(now, levels[1:] - levels[:-1])
