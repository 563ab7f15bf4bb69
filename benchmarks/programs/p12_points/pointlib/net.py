import torch.nn as nn


class PointNetLite(nn.Module):
    def __init__(self, classes=4, dropout=0.3):
        super().__init__()
        self.feat = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1), nn.BatchNorm1d(64), nn.ReLU())
        self.cls = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(dropout), nn.Linear(64, classes))

    def forward(self, xyz):
        return self.cls(self.feat(xyz.transpose(1, 2)).amax(-1))
