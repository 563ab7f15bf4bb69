import torch
from torch import nn

from shop.orders import PAD


class Recommender(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.items = nn.Embedding(PAD + 1, width, padding_idx=PAD)
        self.price = nn.Linear(1, width)
        self.query = nn.Parameter(torch.randn(width) / width**0.5)
        self.key = nn.Linear(width, width)
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, PAD))

    def forward(self, items, prices):
        tokens = self.items(items) + self.price(prices.unsqueeze(-1))
        score = self.key(tokens).tanh() @ self.query
        weight = score.masked_fill(items == PAD, float("-inf")).softmax(-1)
        return self.out((weight.unsqueeze(-1) * tokens).sum(1))


@torch.no_grad()
def suggest(model, items, prices, count, temperature=0.7):
    """Draw items to show, so that not always the same ones are seen."""
    model.eval()
    logits = model(items, prices) / temperature
    drawn = torch.distributions.Categorical(logits=logits).sample((count,)).T
    model.train()
    return drawn
