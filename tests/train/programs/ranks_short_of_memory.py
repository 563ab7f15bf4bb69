"""One of two gloo ranks, of which the second has less memory: ranks_short_of_memory.py RANK STORE."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from crashcart.train import find_batch_size, safe_eval_batch

rank, store = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=60))
sizes: list[int] = []


def step(samples: int) -> None:
    sizes.append(samples)
    distributed.all_reduce(torch.ones(1))


def measure(work: Any) -> float:
    work()
    return 100.0 + 10 * sizes[-1]


found = find_batch_size(step, measure=measure, limit=1000 if rank == 0 else 600, margin=0)
both = [None, None]
distributed.all_gather_object(both, (int(found), sizes))
assert both[0] == both[1], both
assert found == 50, found


def less_than_said(samples: int) -> None:
    sizes.append(samples)
    if rank == 1 and samples > 20:
        raise MemoryError


try:
    find_batch_size(less_than_said, measure=measure, limit=100_000, margin=0)
except RuntimeError as error:
    print("no answer:", error)  # noqa: T201 - read by the test

calls: list[int] = []
batch = torch.arange(7 + rank)


def before_collectives(batch: torch.Tensor) -> torch.Tensor:
    """Only one rank runs out, before anything is waited for."""
    calls.append(len(batch))
    if rank == 1 and len(batch) > 3:
        raise MemoryError
    return batch * 2


together = safe_eval_batch(before_collectives, all_ranks=True)
assert torch.equal(together(batch), batch * 2)
counted = [None, None]
distributed.all_gather_object(counted, len(calls))
assert counted[0] == counted[1], counted


def breaks(_batch: torch.Tensor) -> torch.Tensor:
    if rank == 1:
        raise KeyError("labels")
    return _batch


try:
    safe_eval_batch(breaks, all_ranks=True)(batch)
except (KeyError, RuntimeError) as error:
    sys.stdout.write(f"rank {rank}: {type(error).__name__} {error}\n")
distributed.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # gloo's threads live as long as DDP does, and abort where the interpreter ends first (pytorch#179291)
