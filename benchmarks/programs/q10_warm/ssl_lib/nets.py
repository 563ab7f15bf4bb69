from torch import nn


class Backbone(nn.Module):
    def __init__(self, d=40, h=64):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d, h), nn.LayerNorm(h), nn.GELU(), nn.Linear(h, h), nn.LayerNorm(h), nn.GELU())

    def forward(self, x):
        return self.layers(x)


class Classifier(nn.Module):
    def __init__(self, classes=6):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        return self.head(self.backbone(x))
