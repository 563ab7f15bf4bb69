from torch import nn


class GestureNet(nn.Module):
    def __init__(self, markers=9, kinds=5, width=32):
        super().__init__()
        self.conv = nn.Conv1d(markers, width, 5, padding=2)
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, kinds)

    def forward(self, markers):
        h = self.conv(markers.transpose(1, 2)).relu().transpose(1, 2)
        h = self.norm(h + self.attend(h, h, h, need_weights=False)[0])
        return self.out(h.mean(1))
