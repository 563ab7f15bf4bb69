"""Patches of bark with lichens: colour and texture of the thallus, drawn. Six families, or ten species of two of them."""
import torch
from torch.nn.functional import interpolate
from torch.utils.data import TensorDataset

FAMILIES, SPECIES = 6, 8


def texture(g, count, cells, side):
    return interpolate(torch.randn(count, 1, cells, cells, generator=g), side, mode="bilinear")


def draw(grain, stripe, lobes, seed, side=32):
    """Texture of a grain size, stripes of a direction, lobes or none; no colour, which depends on the weather."""
    g = torch.Generator().manual_seed(seed)
    count = len(grain)
    field = torch.zeros(count, 1, side, side)
    for k, cells in enumerate((3, 6, 12, 20)):
        mine = grain == k
        field[mine] = texture(g, int(mine.sum()), cells, side)
    axis = torch.linspace(-1, 1, side)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    angle = stripe.float()[:, None, None] * 0.8
    phase = 6.3 * torch.rand(count, 1, 1, generator=g)
    field[:, 0] += (9 * (x * angle.cos() + y * angle.sin()) + phase).sin()
    field[:, 0] += lobes.float()[:, None, None] * 1.5 * ((14 * x + phase).sin() * (14 * y + phase).sin() > 0.4)
    tint = 0.6 + 0.4 * torch.rand(count, 3, 1, 1, generator=g)
    return field * tint + 0.3 * torch.randn(count, 3, side, side, generator=g)


def families(count, seed):
    g = torch.Generator().manual_seed(seed)
    family = torch.randint(FAMILIES, (count,), generator=g)
    return TensorDataset(draw(family % 3 + 1, family % 2 * 2, family // 3, seed), family)


def species(count, seed):
    g = torch.Generator().manual_seed(seed)
    kind = torch.randint(SPECIES, (count,), generator=g)
    return TensorDataset(draw(kind % 4, kind // 4 * 2, kind // 2 % 2, seed), kind)
