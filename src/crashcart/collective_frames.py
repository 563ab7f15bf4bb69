"""Which frames mean that a rank waits for the others: in a collective, or in a backward pass whose collectives it waits for.

The innermost frame that is not Python's own decides: around a model that is sharded, every frame has a collective's file above it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.flight import Frame

__all__ = ["waits_for_ranks"]

_COLLECTIVE = (
    "distributed_c10d", "torch/distributed/", "nn/parallel/distributed.py", "nccl", "gloo", "_functional_collectives", "c10d",
    "accelerate/utils/operations", "horovod", "deepspeed/comm",
)  # fmt: skip
_OWN_WORK = ("distributed/checkpoint/filesystem", "distributed/checkpoint/_fsspec", "distributed/elastic")
_BACKWARD = ("_engine_run_backward", "synchronize", "_broadcast_coalesced", "barrier")
_STANDARD = ("/lib/python3", "<frozen")
_PACKAGES = ("site-packages", "dist-packages")


def waits_for_ranks(frames: Sequence[Frame]) -> bool:
    """Whether a main thread with these frames, innermost first, waits for other ranks."""
    inner = next((frame for frame in frames if not _is_standard(frame.file)), None)
    if inner is None:
        return False
    file = inner.file.lower().replace("\\", "/")
    if any(mark in file for mark in _COLLECTIVE):
        return not any(mark in file for mark in _OWN_WORK)
    return inner.function in _BACKWARD and "torch" in file


def _is_standard(file: str) -> bool:
    """Whether a file is Python's own."""
    return any(mark in file for mark in _STANDARD) and not any(mark in file for mark in _PACKAGES)
