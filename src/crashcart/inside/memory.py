"""The allocator's numbers, at most once a second and only where the program uses the GPU already; and running out of memory.

Peaks are never reset: they are the program's.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from . import events, inputs, page, phases, tracing
from .mistakes import Hook

_state = {"observed": False, "told": 0.0, "has_numbers": True}
_slow_looks, _observer = Hook("look at memory"), Hook("out of memory")


def look(moment: float) -> None:
    """The slow things, once a second: allocator, late numbers, recompilations."""
    page.here.next_look = moment + 1.0
    torch = tracing.torch
    if torch is None or not _slow_looks.on:
        return
    try:
        if "torch._dynamo.convert_frame" in sys.modules:
            from . import compiling

            compiling.count()
        inputs.choose()
        if torch.cuda.is_initialized():
            _collect()
            _allocator(torch)
            if not _state["observed"]:
                _state["observed"] = True
                _observe(torch)
    except Exception:
        _slow_looks.failed()


def _collect() -> None:
    package = __name__.rpartition(".")[0]
    for name in ("losses", "scaling"):
        module: Any = sys.modules.get(package + "." + name)
        if module is not None:
            module.later.collect()


def _allocator(torch: Any) -> None:
    numbers = stats(torch, torch._C._cuda_getDevice())
    for field, value in numbers.items():
        page.put(field, value)


def stats(torch: Any, device: int) -> dict[str, int]:
    """Four numbers from the allocator's own table, without the flattening that `memory_stats` does; a foreign one may have none."""
    if not _state["has_numbers"]:
        return {}
    try:
        table = torch._C._cuda_memoryStats(device)
    except RuntimeError:
        _state["has_numbers"] = False
        return {}
    allocated = table["allocated_bytes"]["all"]
    return {
        "allocated": allocated["current"],
        "peak": allocated["peak"],
        "reserved": table["reserved_bytes"]["all"]["current"],
        "allocator_retries": table["num_alloc_retries"],
    }


def _observe(torch: Any) -> None:
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if attach is not None:
        with contextlib.suppress(RuntimeError):  # cudaMallocAsync has no such thing
            attach(_observed)


def _observed(device: int, tried: int, total: int, free: int) -> None:
    try:
        if _observer.on:
            _tell(device, tried, total, free)
    except Exception:
        _observer.failed()


def out_of_memory(phase: str) -> None:
    """For an uncaught one that the observer did not see."""
    torch = tracing.torch
    if torch is None or not torch.cuda.is_initialized() or _state["told"]:
        return
    _tell(torch._C._cuda_getDevice(), None, None, None, phase)


def _tell(device: int, tried: Any, total: Any, free: Any, phase: str = "") -> None:
    _state["told"] += 1
    numbers = page.here.numbers
    sizes = {
        name: _whole(numbers[page.at(name)])
        for name in ("batch_size", "largest_batch", "batch_elements", "largest_elements")
    }
    events.write(
        "oom",
        device=device,
        tried=tried,
        total=total,
        free=free,
        phase=phase or phases.name(),
        step=int(numbers[page.STEPS]),
        **stats(tracing.torch, device),
        **sizes,
    )
    _allocator(tracing.torch)


def _whole(number: float) -> int | None:
    return int(number) if number == number else None
