"""How much memory a piece of work takes at its peak, and how much there is for it.

On a device the allocator counts; what other processes hold is no room. On the host the kernel counts: the resident peak of
this process (``VmHWM``, which ``/proc/self/clear_refs`` resets), against the tightest of free memory, control groups and
address space.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch

from crashcart.train.memory.out_of_memory import free_memory

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DeviceMeter", "HookMeter", "HostMeter", "Meter", "Peak"]

_MIB = 1 << 20
_UNLIMITED = 1 << 60


class Peak(NamedTuple):
    """Bytes in use at the peak, bytes that the allocator had taken for them, and bytes in use before the work."""

    used: float
    taken: float
    rest: float


class Meter(Protocol):
    """Measures one piece of work after the other."""

    grain: int  # bytes below which a difference means nothing

    def measure(self, work: Callable[[], object]) -> Peak:
        """Do the work; its peak."""

    def room(self) -> float:
        """Bytes that the peak may reach."""


class DeviceMeter:
    """CUDA, or whatever backend has the same counters."""

    grain = 8 * _MIB

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._backend: Any = getattr(torch, device.type, None)
        if not all(
            hasattr(self._backend, name) for name in ("mem_get_info", "max_memory_allocated", "reset_peak_memory_stats")
        ):
            raise ValueError(f"the memory of {device} cannot be measured: pass measure= and limit=")

    def measure(self, work: Callable[[], object]) -> Peak:
        """Start from an empty cache; wait for the device before and after."""
        free_memory(self._device)
        self._backend.synchronize(self._device)
        self._backend.reset_peak_memory_stats(self._device)
        rest = self._backend.memory_allocated(self._device)
        work()
        self._backend.synchronize(self._device)
        return Peak(self._backend.max_memory_allocated(self._device), self._backend.max_memory_reserved(self._device), rest)

    def room(self) -> float:
        """What is free on the device and what our own allocator holds."""
        free_memory(self._device)
        free, _ = self._backend.mem_get_info(self._device)
        return float(free + self._backend.memory_reserved(self._device))


class HostMeter:
    """The resident memory of this process; its children (loader workers) are not counted."""

    grain = 32 * _MIB  # the C library keeps freed blocks below 32 MiB or gives them back, as it happens

    def __init__(self) -> None:
        try:
            self._reset()
            _status("VmHWM")
        except (OSError, KeyError):
            raise ValueError("the peak memory of a process cannot be measured here: pass measure= and limit=") from None

    def measure(self, work: Callable[[], object]) -> Peak:
        """Give free memory back to the kernel first, so that each piece of work starts alike."""
        free_memory(torch.device("cpu"))
        _trim()
        self._reset()
        rest = _status("VmRSS")
        work()
        peak = _status("VmHWM")
        return Peak(peak, peak, rest)

    def room(self) -> float:
        """What this process holds and may still get."""
        free_memory(torch.device("cpu"))
        _trim()
        return float(_status("VmRSS") + max(0, min(_available(), _left_in_groups(), _left_in_address_space())))

    @staticmethod
    def _reset() -> None:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")


class HookMeter:
    """The caller's own way to measure: does the work and returns the bytes of its peak."""

    grain = 0

    def __init__(self, hook: Callable[[Callable[[], object]], float]) -> None:
        self._hook = hook

    def measure(self, work: Callable[[], object]) -> Peak:
        """As the hook says."""
        peak = float(self._hook(work))
        return Peak(peak, peak, 0.0)

    def room(self) -> float:
        """Unknown: the limit decides."""
        return float("inf")


def _status(name: str, path: str = "/proc/self/status") -> int:
    with open(path, encoding="ascii", errors="replace") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    return int(fields[name].split()[0]) * 1024


def _available() -> int:
    try:
        return _status("MemAvailable", "/proc/meminfo")
    except (OSError, KeyError, ValueError):
        return _UNLIMITED


def _left_in_address_space() -> int:
    import resource

    left = _UNLIMITED
    for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        soft = resource.getrlimit(limit)[0]
        if soft != resource.RLIM_INFINITY:
            left = min(left, soft - _status(name))
    return left


def _left_in_groups() -> int:
    """The least that any control group above this process leaves; pages of files that can be dropped count as free."""
    left = _UNLIMITED
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return left
    for number, controllers, path in lines:
        if number == "0" and not controllers:
            top, names = "/sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top, names = "/sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        while True:
            left = min(left, _left_in(os.path.join(top, path.strip("/")), *names))
            if path in {"", "/"}:
                break
            path = os.path.dirname(path)  # noqa: PLW2901 - upwards
    return left


def _left_in(folder: str, limit_name: str, usage_name: str, cache_name: str) -> int:
    try:
        with open(f"{folder}/{limit_name}", encoding="ascii") as file:
            limit = int(file.read())
        with open(f"{folder}/{usage_name}", encoding="ascii") as file:
            usage = int(file.read())
        with open(f"{folder}/memory.stat", encoding="ascii") as file:
            cache = next((int(line.split()[1]) for line in file if line.startswith(f"{cache_name} ")), 0)
    except (OSError, ValueError):  # no such group here, or "max"
        return _UNLIMITED
    return _UNLIMITED if limit >= _UNLIMITED else limit - usage + cache


def _trim() -> None:
    """The C library keeps what was freed; without this the second probe would seem to need nothing new."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
