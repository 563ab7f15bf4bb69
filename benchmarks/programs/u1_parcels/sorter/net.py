from torch import nn

from sorter.belt import FEATURES

TRAYS = 12


class TrayNet(nn.Sequential):
    def __init__(self, width=96, dropout=0.05):
        super().__init__(
            nn.Linear(len(FEATURES), width),
            nn.SiLU(),
            nn.Dropout(dropout),
            nn.Linear(width, width),
            nn.SiLU(),
            nn.Linear(width, TRAYS),
        )
