"""Tells that memory ran out from every other error, and lets go of what the failed attempt still holds.

An exception keeps its frames, the frames keep their tensors: a retry inside the ``except`` block starts with the memory of the
first try still taken, however often the cache is emptied.
"""

from __future__ import annotations

import gc
import traceback
from typing import Any

import torch

__all__ = ["free_memory", "is_out_of_memory", "let_go"]

_WORDS = (
    "out of memory",  # CUDA, HIP, XPU, MPS
    "can't allocate memory",  # DefaultCPUAllocator
    "not enough memory: you tried to allocate",  # the same on Windows and macOS
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "std::bad_alloc",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the device or the host had no memory left for an allocation."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


def let_go(error: BaseException) -> str:
    """Clear the frames of an error, and of those it came from; what it said remains."""
    said = f"{type(error).__name__}: {error}"
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            one.__traceback__ = None
            pending += [one.__cause__, one.__context__]
    return said


def free_memory(device: Any = None) -> None:  # noqa: ANN401 - a torch.device
    """Collect cycles, and give cached blocks back, so that they are not in the way of larger ones."""
    gc.collect()
    for kind in ("cuda", "xpu") if device is None else (device.type,):
        backend: Any = getattr(torch, kind, None)
        if hasattr(backend, "empty_cache") and backend.is_available() and getattr(backend, "is_initialized", bool)():
            backend.empty_cache()
