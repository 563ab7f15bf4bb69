from torch import nn


def tagger(classes=5):
    return nn.Sequential(
        nn.Conv1d(1, 16, 33, 8, 16), nn.ReLU(), nn.Conv1d(16, 32, 9, 4, 4), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(32, classes))
