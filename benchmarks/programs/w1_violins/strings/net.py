import torch
from torch import nn


class StringNet(nn.Module):
    def __init__(self, width=64, bins=256):
        super().__init__()
        self.register_buffer("window", torch.hann_window(bins * 2))
        self.bins = bins
        self.body = nn.Sequential(
            nn.Conv1d(bins + 1, width * 2, 5, padding=2),
            nn.SiLU(),
            nn.Conv1d(width * 2, width, 5, 2, padding=2),
            nn.SiLU(),
            nn.Dropout(0.1),
        )
        self.out = nn.Linear(width, 4)

    def forward(self, wave):
        wave = wave + 1e-4 * torch.randn_like(wave)
        power = torch.stft(wave, self.bins * 2, self.bins // 8, window=self.window, return_complex=True).abs()
        return self.out(self.body((power + 1e-6).log()).mean(-1))
