from torch import nn


def stage(a, b, stride):
    return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU())


class MeltNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(stage(2, width, 1), stage(width, width * 2, 2), stage(width * 2, width * 2, 2))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width * 2, 1))

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)
