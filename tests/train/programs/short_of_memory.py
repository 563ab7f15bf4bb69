"""A process with 1015 MiB of address space left, in which memory really runs out: short_of_memory.py usual|ours|single|find."""

from __future__ import annotations

import resource
import sys
from typing import Any

import torch

from crashcart.train import find_batch_size, safe_eval_batch

MIB = 1 << 20
torch.set_num_threads(1)
calls: list[int] = []


def evaluate(batch: torch.Tensor) -> torch.Tensor:
    """Takes 70 MiB a sample at its peak, in two parts: the first is there when the second fails."""
    calls.append(len(batch))
    activations = torch.empty(len(batch), 35 * MIB, dtype=torch.uint8)
    attention = torch.empty(len(batch), 35 * MIB, dtype=torch.uint8)
    return batch * 2 + 0 * (activations[:, 0] + attention[:, 0])


def usual(batch: torch.Tensor) -> torch.Tensor:
    """Halves where the error is caught: its frames still hold the activations of every larger try."""
    try:
        return evaluate(batch)
    except RuntimeError:
        if len(batch) == 1:
            raise
        half = len(batch) // 2
        return torch.cat([usual(batch[:half]), usual(batch[half:])])


def step(samples: int) -> None:
    """Takes 8 MiB a sample, and really touches it."""
    calls.append(samples)
    torch.ones(samples, 8 * MIB, dtype=torch.uint8)


mode = sys.argv[1]
batch = torch.arange(28)
torch.cat([batch, batch])  # what is loaded on first use is loaded
evaluate(batch[:1])
calls.clear()
with open("/proc/self/statm", encoding="ascii") as file:
    in_use = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + 1015 * MIB, resource.RLIM_INFINITY))
if mode == "usual":
    try:
        usual(batch)
    finally:  # so that the error can be told
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
elif mode == "ours":
    ours: Any = safe_eval_batch(evaluate)
    for _ in range(2):
        assert torch.equal(ours(batch), batch * 2)
elif mode == "single":
    safe_eval_batch(lambda one: torch.empty(1 << 40) * one)(batch)
else:
    found = find_batch_size(step)
    sys.stdout.write(f"{int(found)} {found.report()}\n")
sys.stdout.write(f"calls {calls}\n")
