from torch import nn


class Chunked(nn.Module):
    """One trunk, a head for each skill."""

    def __init__(self, horizons):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(7, 64), nn.Mish(), nn.Linear(64, 64), nn.Mish())
        self.heads = nn.ModuleDict({k: nn.Linear(64, 7 * h) for k, h in horizons.items()})

    def forward(self, skill, s):
        return self.heads[skill](self.trunk(s)).view(len(s), -1, 7)
