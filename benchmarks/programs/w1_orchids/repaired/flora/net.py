import torch
from torch import nn

from flora.records import HABITATS, SPECIES


class OrchidNet(nn.Module):
    def __init__(self, width, drop):
        super().__init__()
        self.habitat = nn.Embedding(len(HABITATS), 8)
        self.month = nn.Embedding(13, 8)
        self.body = nn.Sequential(
            nn.Linear(19, width), nn.SiLU(), nn.Dropout(drop), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, SPECIES)
        )

    def forward(self, place, code):
        return self.body(torch.cat([place, self.habitat(code[:, 0]), self.month(code[:, 1])], -1))
