import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--out")
args = parser.parse_args()
g = torch.Generator().manual_seed(0)
speed = torch.randint(0, 5, (800,), generator=g)
start = torch.randint(0, 16, (800,), generator=g)
frames = torch.zeros(800, 8, 16)
for f in range(8):
    frames[torch.arange(800), f, (start + f * speed) % 16] = 1.0
torch.save({"frames": frames + 0.1 * torch.randn(frames.shape, generator=g), "speed": speed}, args.out)
