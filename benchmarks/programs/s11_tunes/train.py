import dataclasses
import os

import torch
from torch.nn.functional import cross_entropy

from abc_model.gpt import TinyGPT
from abc_model.settings import LETTERS, Settings

torch.set_num_threads(1)
torch.manual_seed(0)
s = Settings.from_argv()
with open(s.data) as f:
    ids = torch.tensor([LETTERS.index(c) for c in f.read()])
model = TinyGPT(s)
optimizer = torch.optim.AdamW(model.parameters(), s.lr)
print(f"{sum(p.numel() for p in model.parameters()) / 1e3:.1f}k parameters")
for it in range(s.iters):
    start = torch.randint(len(ids) - s.block - 1, (24, 1))
    rows = ids[start + torch.arange(s.block + 1)]
    loss = cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if it % 25 == 0:
        print(f"iter {it}: loss {loss.item():.4f}")
torch.save({"model": model.state_dict(), "settings": dataclasses.asdict(s), "iters": s.iters}, os.path.join(s.out, "ckpt.pt"))
