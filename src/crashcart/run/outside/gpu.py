"""The cards of the machine, from outside the job: rows for the GPU table, who holds them, and what the driver reports.

Made before the job starts, so that no Xid is missed. A driver that hangs costs rows, never the supervisor.
"""

from __future__ import annotations

import math
import time

from crashcart.recording.tables import GPU
from crashcart.run.outside.aside import Aside
from crashcart.run.outside.nvml import Answer, Card, Nvml
from crashcart.run.outside.nvml_events import GpuEvent

__all__ = ["Card", "Cards", "GpuEvent"]

_PATIENCE = 0.05
_SILENT = 10.0


class Cards:
    """``cards`` by index, ``driver``, ``holders`` (bytes by card and pid), ``idle`` holders of shared cards.

    Without NVML there are none, and ``why`` says why.
    """

    def __init__(self, *, patience: float = 15.0) -> None:
        self.cards: list[Card] = []
        self.driver = ""
        self.holders: dict[int, dict[int, float]] = {}
        self.idle: dict[int, frozenset[int]] = {}
        self.why = ""
        self._events: list[GpuEvent] = []
        self._nvml: Nvml | None = None
        self._asked_at = 0.0
        self._aside: Aside[tuple[frozenset[int], bool] | None, Answer | str] = Aside(self._ask)
        self._aside.begin(None)
        answer = self._aside.take(patience)
        if isinstance(answer, str):
            self.why = answer
        elif answer is None:
            self.why = f"NVML did not answer within {patience:.0f} seconds."

    def begin(self, ours: frozenset[int], *, fresh: bool = False) -> None:
        """Ask for the next rows; ``ours`` are the pids of the job."""
        if self.cards and self._aside.begin((ours, fresh)):
            self._asked_at = time.monotonic()

    def take(self, patience: float = _PATIENCE) -> list[list[float]]:
        """The rows that were asked for; NaN where NVML keeps us waiting."""
        if not self.cards:
            return []
        waited = time.monotonic() - self._asked_at
        answer = self._aside.take(patience if waited < 1 else 0.0)
        if isinstance(answer, Answer):
            self.holders, self.idle = answer.holders, answer.idle
            self._events.extend(answer.events)
            self.why = ""
            if waited < _SILENT:
                return answer.rows
        elif self._aside.busy and waited > _SILENT:
            self.why = f"NVML has not answered for {waited:.0f} seconds."
        return [[float(card.index), *[math.nan] * (len(GPU) - 1)] for card in self.cards]

    def events(self) -> list[GpuEvent]:
        """Xid and ECC events since the last call."""
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """Let go of the driver, unless it keeps us waiting."""
        self._aside.close()
        if self._nvml is not None and not self._aside.busy:
            self._nvml.close()

    def _ask(self, question: tuple[frozenset[int], bool] | None) -> Answer | str:
        if question is not None and self._nvml is not None:
            return self._nvml.ask(question[0], fresh=question[1])
        try:
            self._nvml = Nvml()
        except ImportError:
            return "GPUs cannot be monitored: nvidia-ml-py is not installed."
        except Exception as error:  # noqa: BLE001 - no driver, another version, no permission
            return f"GPUs cannot be monitored: NVML reports {error}."
        self.driver, self.cards = self._nvml.driver, self._nvml.cards
        return Answer([], {}, [], {})
