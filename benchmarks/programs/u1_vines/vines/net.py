import logging

import torch
from torch import nn

log = logging.getLogger(__name__)


class Block(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(width, width, 7, padding=3, padding_mode="circular"),
            nn.GroupNorm(4, width),
            nn.GELU(),
            nn.Dropout(dropout),
        )

    def forward(self, x):
        return x + self.net(x)


class LeafNet(nn.Module):
    def __init__(self, cfg, kinds):
        super().__init__()
        self.stem = nn.Conv1d(1, cfg.width, 9, padding=4, padding_mode="circular")
        self.blocks = nn.Sequential(*[Block(cfg.width, cfg.dropout) for _ in range(cfg.depth)])
        self.neck = nn.Linear(2 * cfg.width, cfg.narrow)
        self.head = nn.Linear(cfg.narrow, kinds)

    def forward(self, outline):
        x = self.blocks(self.stem(outline.unsqueeze(1)))
        return self.head(torch.tanh(self.neck(torch.cat([x.mean(-1), x.amax(-1)], 1))))


def build(cfg, kinds):
    model = LeafNet(cfg, kinds)
    if cfg.init_from:
        log.info("weights from %s", cfg.init_from)
        model.load_state_dict(torch.load(cfg.init_from)["model"])
    if cfg.freeze:
        for part in (model.stem, model.blocks, model.neck):
            part.requires_grad_(False)
    return model
