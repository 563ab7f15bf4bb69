from torch import nn


def mlp(d_in, width, classes, depth=2):
    layers = []
    for i in range(depth):
        layers += [nn.Linear(d_in if i == 0 else width, width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, classes))
