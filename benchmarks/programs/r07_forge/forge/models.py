from torch import nn

from forge.registry import MODELS


@MODELS.register("ring_mlp")
def ring_mlp(width):
    return nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 3))


@MODELS.register("ring_mlp")
def ring_mlp_relu(width):
    return nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))
