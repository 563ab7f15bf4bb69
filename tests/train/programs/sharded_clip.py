"""One of two gloo ranks with a model of FSDP2, clipped by module, against the whole model: sharded_clip.py RANK STORE."""

from __future__ import annotations

import copy
import os
import sys
from datetime import timedelta

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from crashcart.train import clip_by_module

rank, store = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=60))
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.aggregator, self.depth_head, self.camera = nn.Linear(5, 3), nn.Linear(3, 1), nn.Linear(3, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.aggregator(x)
        return 100 * (self.depth_head(hidden).sum() + self.camera(hidden).pow(2).sum())  # type: ignore[no-any-return]


whole = Model()
sharded = copy.deepcopy(whole)
for module in [*sharded.children(), sharded]:
    fully_shard(module, mesh=mesh)
x = torch.randn(6, 5)
limits = {"depth_head": 0.5, "aggregator": 0.3}
for norm_type in (2.0, 1.0, float("inf")):
    for model in (whole, sharded):
        model.zero_grad()
        model(x).backward()
    expected = {
        name: nn.utils.clip_grad_norm_(getattr(whole, name).parameters(), limit, norm_type) for name, limit in limits.items()
    }
    norms = clip_by_module(limits, rest=float("inf"), norm_type=norm_type)(sharded)
    for name, norm in expected.items():
        torch.testing.assert_close(norms[name], norm)
    for one, other in zip(whole.parameters(), sharded.parameters(), strict=True):
        torch.testing.assert_close(other.grad.full_tensor(), one.grad)  # type: ignore[union-attr]
sys.stdout.write(f"rank {rank} agrees\n")
distributed.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # gloo's threads live as long as DDP does, and abort where the interpreter ends first (pytorch#179291)
