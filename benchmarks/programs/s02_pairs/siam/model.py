import torch
from torch import nn

from siam.reading import PAD


class Siamese(nn.Module):
    def __init__(self, hidden, margin):
        super().__init__()
        self.embed = nn.EmbeddingBag(50, hidden, mode="mean", padding_idx=PAD)
        self.project = nn.Linear(hidden, hidden)
        self.margin = margin

    def encode(self, tokens):
        return torch.tanh(self.project(self.embed(tokens)))

    def forward(self, left, right, labels):
        a, b = self.encode(left), self.encode(right)
        distance = (a - b).square().sum(-1).sqrt()
        loss = labels * distance.square() + (1 - labels) * (self.margin - distance).clamp_min(0).square()
        return {"loss": loss.mean(), "logits": distance}
