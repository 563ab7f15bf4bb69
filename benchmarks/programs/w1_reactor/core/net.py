from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))

    def forward(self, x):
        return (x + self.body(x)).relu()


class PowerNet(nn.Sequential):
    def __init__(self, width, depth):
        super().__init__(
            nn.Conv2d(3, width, 3, padding=1),
            *[Residual(width) for _ in range(depth)],
            nn.Conv2d(width, 1, 1),
        )
