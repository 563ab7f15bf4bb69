"""What clipping by module costs against `clip_grad_norm_` over the same parameters, taking turns.

    python benchmarks/clip_by_module.py [--rounds 30] [--device cpu cuda]

Four model shapes, five patterns each; gradients that are all clipped, and gradients that none is. `one call` is torch's single
norm over all parameters, given them as a list; `a loop` calls it once a module, which is the usual way to what we do.
Promised: at most 1.0 times `one call`. On the host time of the processor counts, on a GPU time until the device is done.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from crashcart.train import clip_by_module

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = ("patch", "aggregator", "camera_head", "depth_head", "point_head")
SHAPES = {  # modules a part, width: few large, usual, many small, and tiny
    "large": (4, 1024),
    "usual": (20, 256),
    "many": (200, 32),
    "tiny": (1, 8),
}


def model_of(count: int, width: int, device: str) -> nn.Module:
    """Five parts of linear layers, each with its own norm layers."""
    layers = {part: nn.Sequential(*[nn.Linear(width, width) for _ in range(count)]) for part in PARTS}
    return nn.ModuleDict(layers).to(device)


def seconds(work: Callable[[], object], gradients: list[torch.Tensor], times: int) -> float:
    """The median time of one call on fresh gradients; clipped ones would not be clipped again."""
    taken = []
    for _ in range(times):
        torch._foreach_zero_(gradients)
        torch._foreach_add_(gradients, 1.0)
        start = _clock(gradients[0])
        work()
        taken.append(_clock(gradients[0]) - start)
    return statistics.median(taken)


def _clock(tensor: torch.Tensor) -> float:
    """Time of this thread on the processor, which neighbours cannot take; on a GPU time until its work is done."""
    if not tensor.is_cuda:
        return time.thread_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def compare(shape: str, device: str, limit: float, rounds: int) -> str:
    """One line: the median times, and the median of the ratios of neighbours."""
    model = model_of(*SHAPES[shape], device)
    parameters = list(model.parameters())
    parts = [list(module.parameters()) for module in model.children()]
    gradients = [torch.ones_like(parameter) for parameter in parameters]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    clip = clip_by_module(dict.fromkeys(PARTS, limit))
    rivals: dict[str, Callable[[], object]] = {
        "one call": lambda: clip_grad_norm_(parameters, limit),
        "a loop": lambda: [clip_grad_norm_(part, limit) for part in parts],
        "ours": lambda: clip(model),
    }
    times: dict[str, list[float]] = {name: [] for name in rivals}
    repeats = min(50, max(3, int(0.05 / seconds(rivals["one call"], gradients, 3))))
    gc.disable()
    for turn in range(rounds):
        names = list(rivals)
        for name in names[turn % 3 :] + names[: turn % 3]:
            times[name].append(seconds(rivals[name], gradients, repeats))
    gc.enable()
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = [
        statistics.median(a / b for a, b in zip(times["ours"], times[name], strict=True)) for name in ("one call", "a loop")
    ]
    told = "   ".join(f"{name} {1e6 * value:9.1f} us" for name, value in medians.items())
    kind = "none clipped" if limit > 1 else "all clipped"
    return f"{device:5}{shape:6} {len(parameters):5} tensors  {kind:12}  {told}   ours/one {ratios[0]:.3f}   ours/loop {ratios[1]:.3f}"


def main() -> int:
    """Every shape on every device that is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--device", nargs="*", default=["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    for device in options.device:
        for shape in SHAPES:
            for limit in (1e-3, 1e9):
                print(compare(shape, device, limit, options.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
