"""What NVML says about each card: the questions themselves, asked on one thread that may be kept waiting.

NVML needs neither root nor a CUDA context. A question that a card does not know is not asked again; one that takes long (power
and utilisation do while a card is being reset or drained) is asked less often, and its last answer stands meanwhile.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from crashcart.record import record
from crashcart.run.outside.nvml_events import Events, GpuEvent

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Answer", "Card", "Nvml"]

_NAN = math.nan
_LONG = 0.05
_LONG_EVERY = 30.0
_RETRY_EVERY = 10.0
_RECENT = 5.0  # seconds of which the shares of processes are asked


@record(frozen=True)
class Card:
    """A card as it is named in reports."""

    index: int
    name: str
    uuid: str
    bus: str


@record
class Answer:
    """Rows of the GPU table, the bytes that each process holds on each card, events since the last answer.

    ``idle`` are the holders of a shared card that did nothing on it lately, where the driver tells them apart.
    """

    rows: list[list[float]]
    holders: dict[int, dict[int, float]]
    events: list[GpuEvent]
    idle: dict[int, frozenset[int]]


class Nvml:
    """NVML, opened; raises what it raises while opening, and nothing afterwards."""

    def __init__(self) -> None:
        import pynvml

        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        self.driver = _text(pynvml.nvmlSystemGetDriverVersion())
        self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        self.cards = [self._card(index, handle) for index, handle in enumerate(self._handles)]
        self._last: dict[tuple[int, str], Any] = {}
        self._due: dict[tuple[int, str], float] = {}
        self._events = Events(pynvml, self._handles)

    def ask(self, ours: frozenset[int], *, fresh: bool) -> Answer:
        """Everything, of every card."""
        now = time.monotonic()
        if fresh:
            self._due = {key: due for key, due in self._due.items() if due == math.inf}
        rows, holders, idle = [], {}, {}
        for index, handle in enumerate(self._handles):
            held = self._holders(index, handle, now)
            holders[index] = held or {}
            idle[index] = self._idle(index, handle, holders[index], now)
            rows.append([*self._row(index, handle, now), *_divided(held, ours)])
        return Answer(rows, holders, self._events.new(), idle)

    def close(self) -> None:
        """Let go of the driver."""
        with contextlib.suppress(Exception):
            self._nvml.nvmlShutdown()

    def _row(self, index: int, handle: Any, now: float) -> list[float]:  # noqa: ANN401 - a ctypes pointer
        n = self._nvml

        def get(name: str, every: float, question: Callable[[], Any], scale: float = 1.0) -> float:
            value = self._value((index, name), every, question, now)
            return _NAN if value is None else float(value) * scale

        memory = self._value((index, "memory"), 0, lambda: n.nvmlDeviceGetMemoryInfo(handle), now)
        rates = self._value((index, "rates"), 0, lambda: n.nvmlDeviceGetUtilizationRates(handle), now)
        return [
            float(index),
            _NAN if memory is None else float(memory.used),
            _NAN if memory is None else float(memory.total),
            _NAN if rates is None else rates.gpu / 100,
            _NAN if rates is None else rates.memory / 100,
            get("temperature", 0, lambda: n.nvmlDeviceGetTemperature(handle, n.NVML_TEMPERATURE_GPU)),
            get("power", 0, lambda: n.nvmlDeviceGetPowerUsage(handle), 0.001),
            get("power_limit", 60, lambda: n.nvmlDeviceGetEnforcedPowerLimit(handle), 0.001),
            get("clock", 0, lambda: n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_SM)),
            get("clock_limit", 60, lambda: n.nvmlDeviceGetMaxClockInfo(handle, n.NVML_CLOCK_SM)),
            get("throttle", 0, lambda: n.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
            get(
                "ecc",
                10,
                lambda: n.nvmlDeviceGetTotalEccErrors(handle, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_VOLATILE_ECC),
            ),
        ]

    def _holders(self, index: int, handle: Any, now: float) -> dict[int, float] | None:  # noqa: ANN401 - a ctypes pointer
        held: dict[int, float] = {}
        known = False
        for kind in ("Compute", "Graphics"):
            question = getattr(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses", None)
            found = None if question is None else self._value((index, kind), 2, partial(question, handle), now)
            known = known or found is not None
            held |= {one.pid: _NAN if one.usedGpuMemory is None else float(one.usedGpuMemory) for one in found or ()}
        return held if known else None

    def _idle(self, index: int, handle: Any, held: dict[int, float], now: float) -> frozenset[int]:  # noqa: ANN401 - a ctypes pointer
        """Who of several holders computed nothing lately; the busy share of the card says nothing of each of them."""
        if len(held) < 2:  # noqa: PLR2004 - a shared card
            return frozenset()
        shares = self._value((index, "shares"), 0, lambda: self._recent_shares(handle), now)
        return frozenset() if shares is None else frozenset(held) - {share.pid for share in shares if share.smUtil}

    def _recent_shares(self, handle: Any) -> Any:  # noqa: ANN401 - a ctypes pointer
        try:
            return self._nvml.nvmlDeviceGetProcessUtilization(handle, int((time.time() - _RECENT) * 1e6))
        except self._nvml.NVMLError_NotFound:  # nobody computed anything
            return []

    def _value(self, key: tuple[int, str], every: float, question: Callable[[], Any], now: float) -> Any:  # noqa: ANN401
        if now < self._due.get(key, 0.0):
            return self._last.get(key)
        begin = time.perf_counter()
        try:
            value = question()
        except Exception as error:  # noqa: BLE001 - a lost card, an old driver, anything: the sample goes on
            self._last.pop(key, None)
            unknown = type(error).__name__ in ("NVMLError_NotSupported", "NVMLError_FunctionNotFound", "AttributeError")
            self._due[key] = math.inf if unknown else now + _RETRY_EVERY
            return None
        if time.perf_counter() - begin > _LONG:
            every = _LONG_EVERY
        if every:
            self._due[key] = now + every - 0.5
        self._last[key] = value
        return value

    def _card(self, index: int, handle: Any) -> Card:  # noqa: ANN401 - a ctypes pointer
        n = self._nvml
        bus = n.nvmlDeviceGetPciInfo(handle).busId
        return Card(index, _text(n.nvmlDeviceGetName(handle)), _text(n.nvmlDeviceGetUUID(handle)), _text(bus))


def _divided(held: dict[int, float] | None, ours: frozenset[int]) -> tuple[float, float]:
    """What our processes hold and what others do; unknown where the pids are those of another namespace."""
    if held is None or (held and not any(pid in ours or os.path.exists(f"/proc/{pid}") for pid in held)):
        return _NAN, _NAN
    return (
        math.fsum(size for pid, size in held.items() if pid in ours),
        math.fsum(size for pid, size in held.items() if pid not in ours),
    )


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
