from torch import nn
from torch.nn.functional import normalize


class Embedder(nn.Module):
    def __init__(self, width, views=40):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(views, width * 2), nn.GELU(), nn.LayerNorm(width * 2), nn.Linear(width * 2, width))
        self.spare = nn.Linear(width, 4)  # ship type, not labelled yet

    def forward(self, x):
        return normalize(self.body(x), dim=-1)
