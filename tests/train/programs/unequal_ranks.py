"""One of two gloo ranks, with 5 samples on the first and 2 on the second: unequal_ranks.py RANK STORE usual|ours|broken."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from crashcart.train import chunks

rank, store, mode = int(sys.argv[1]), sys.argv[2], sys.argv[3]
distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=60))
torch.manual_seed(0)
everything = torch.randn(7, 3)
batch: dict[str, Any] = {"x": everything[:5] if rank == 0 else everything[5:]}
whole = nn.Linear(3, 1)
model = DistributedDataParallel(nn.Linear(3, 1))
model.module.load_state_dict(whole.state_dict())

if mode == "broken" and rank == 1:
    batch["y"] = torch.randn(3)
if mode == "usual":
    size = max(1, 5 // 4)
    parts: list[tuple[Any, float]] = [
        ({"x": batch["x"][start : start + size]}, 1 / 4) for start in range(0, len(batch["x"]), size)
    ]
    scale = 1.0
else:
    try:
        found = chunks(batch, 4, all_ranks=True)
    except ValueError as error:
        sys.stdout.write(f"rank {rank} refuses: {error}\n")
        sys.exit(3)
    parts, scale = [*found], found.share
for part, weight in parts:
    (model(part["x"]).pow(2).mean() * weight * scale).backward()
whole(everything).pow(2).mean().backward()
torch.testing.assert_close(model.module.weight.grad, whole.weight.grad)
sys.stdout.write(f"rank {rank}: {len(parts)} chunks of {[len(part['x']) for part, _ in parts]}\n")
sys.stdout.flush()
os._exit(0)  # gloo's threads live as long as DDP does, and abort where the interpreter ends first (pytorch#179291)
