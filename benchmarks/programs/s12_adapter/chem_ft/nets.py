from collections import OrderedDict

from torch import nn


def trunk():
    return nn.Sequential(
        OrderedDict(
            stem=nn.Sequential(nn.Conv1d(1, 16, 7, 2), nn.GELU()),
            mid=nn.Sequential(nn.Conv1d(16, 32, 5, 2), nn.GELU()),
            top=nn.Sequential(nn.Conv1d(32, 32, 5, 2), nn.GELU(), nn.AdaptiveAvgPool1d(4), nn.Flatten()),
        )
    )
