#!/usr/bin/env python3
"""Trains on data in which some batches are broken; skips those, by hand and by the scaler."""
import torch
from torch.utils.data import DataLoader

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
xs = torch.randn(60, 6)
xs[13] = float("nan")
xs[44] = float("inf")
net = torch.nn.Linear(6, 2).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
scaler = torch.amp.GradScaler(device, init_scale=1024.0)
skipped = 0
for epoch in range(3):
    for x in DataLoader(xs, batch_size=4, num_workers=1):
        loss = net(x.to(device)).pow(2).mean()
        if epoch < 2 and not torch.isfinite(loss):
            skipped += 1
            print(f"epoch {epoch}: loss is {loss.item()}, batch skipped")
            continue
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
print(skipped, scaler.get_scale(), loss.item().hex(), [p.sum().item().hex() for p in net.parameters()])
