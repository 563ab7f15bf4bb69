import sys

import torch

g = torch.Generator().manual_seed(0)
t = torch.arange(512) / 512
speech = torch.rand(256, 8, generator=g) > 0.5
wave = torch.randn(256, 512, generator=g) * 0.2
wave += speech.repeat_interleave(64, 1) * torch.sin(2 * torch.pi * 40 * t)
torch.save({"wave": wave, "speech": speech.float()}, sys.argv[1])
