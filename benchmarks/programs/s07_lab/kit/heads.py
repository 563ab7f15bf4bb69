from torch import nn

from kit.registry import HEADS, into


@into(HEADS)
def reconstruct(width, channels):
    return nn.ConvTranspose1d(width, channels, 4, stride=4)


@into(HEADS)
def classify(width, channels):
    return nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, 3))
