import argparse
import torch
from ddpm import store
from ddpm.net import Denoiser, schedule
ap = argparse.ArgumentParser(); ap.add_argument("--ckpt")
ck = store.load(ap.parse_args().ckpt)
net, abar = Denoiser(), schedule()
net.load_state_dict(ck["net"])
x = torch.randn(4, 64)
with torch.no_grad():
    for t in reversed(range(100)):
        e = net(x, torch.full((4,), t))
        x0 = ((x - (1 - abar[t]).sqrt() * e) / abar[t].sqrt()).clamp(-1, 1)
        x = abar[t - 1].sqrt() * x0 + (1 - abar[t - 1]).sqrt() * e if t else x0
print("samples", x.shape, "step", ck["step"])
