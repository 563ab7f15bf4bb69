#!/bin/bash
# training with little room: address space, descriptors
set -e
ulimit -n 200
ulimit -v 16000000
python - <<'PY'
import torch
from torch.utils.data import DataLoader
torch.manual_seed(0)
try:
    torch.empty(64 << 30, dtype=torch.uint8)
except RuntimeError as error:
    print(str(error)[:80])
m = torch.nn.Linear(4, 1); o = torch.optim.SGD(m.parameters(), 0.1)
for e in range(3):
    for x in DataLoader(torch.randn(32, 4), 4, num_workers=2):
        l = m(x).pow(2).mean(); o.zero_grad(); l.backward(); o.step()
    print(e, l.item().hex())
PY
