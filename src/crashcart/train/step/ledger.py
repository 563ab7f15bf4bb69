"""What is made of the verdicts: counts, one piece of advice, and the moment when nothing is to be hoped for.

A scaler looks for its scale by overflowing: skips with a finite loss at a scale that has not worked before are its search, not
an alarm. They are counted apart, and only a search without end is hopeless.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crashcart.train.step.verdicts import Verdict

__all__ = ["Counts", "Ledger"]

# The share of skipped steps is taken over so many, and not before half of them are there.
_RECENT = 200


@dataclass
class Counts:
    """Windows by how they ended; `searching` are the scaler's own skips."""

    windows: int = 0
    stepped: int = 0
    skipped: int = 0
    bad_loss: int = 0
    bad_gradients: int = 0
    searching: int = 0
    partial: int = 0
    rolled_back: int = 0


class Ledger:
    """Counts of all windows and a memory of the last ones."""

    def __init__(self, limit: float, hopeless_after: int) -> None:
        self.limit, self.hopeless_after = limit, hopeless_after
        self.counts = Counts()
        self.in_a_row = 0
        self.advised = False
        self.since = 0
        self._recent: deque[bool] = deque(maxlen=_RECENT)
        self._worked_at: float | None = None

    def add(self, verdict: Verdict) -> str | None:
        """Count one; why it was skipped ("loss", "gradients", "searching"), None where it was not."""
        counts = self.counts
        counts.windows += 1
        if not verdict.bad:
            counts.stepped += 1
            self.in_a_row = 0
            self._worked_at = verdict.scale
            self._recent.append(False)
            return None
        if not self.in_a_row:
            self.since = verdict.step
        self.in_a_row += 1
        if verdict.bad_losses:
            reason = "loss"
            counts.bad_loss += 1
        elif self._searching(verdict.scale):
            counts.searching += 1
            return "searching"
        else:
            reason = "gradients"
            counts.bad_gradients += 1
        counts.skipped += 1
        self._recent.append(True)
        return reason

    def _searching(self, scale: float) -> bool:
        return scale > 1.0 and (self._worked_at is None or scale > self._worked_at)

    @property
    def share(self) -> float:
        """Of the last 200 windows without the scaler's search."""
        return sum(self._recent) / len(self._recent) if self._recent else 0.0

    @property
    def too_many(self) -> bool:
        """Whether there is something to advise."""
        return len(self._recent) >= _RECENT // 2 and self.share > self.limit

    @property
    def hopeless(self) -> bool:
        """Whether there was nothing but skips for long."""
        return self.in_a_row >= self.hopeless_after

    def summary(self) -> str:
        """One line for the log."""
        counts = self.counts
        text = f"{counts.windows} windows, {counts.stepped} stepped, {counts.skipped} skipped"
        if counts.skipped:
            text += f" (loss {counts.bad_loss}, gradients {counts.bad_gradients})"
        for number, words in (
            (counts.searching, "skipped while the scaler looked for its scale"),
            (counts.partial, "partial"),
            (counts.rolled_back, "rolled back"),
        ):
            text += f", {number} {words}" if number else ""
        return text

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers, for a checkpoint."""
        return {**asdict(self.counts), "in_a_row": self.in_a_row, "recent": list(self._recent), "worked_at": self._worked_at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        self.counts = Counts(**{name: state[name] for name in asdict(self.counts)})
        self.in_a_row = state["in_a_row"]
        self._recent = deque(state["recent"], maxlen=_RECENT)
        self._worked_at = state["worked_at"]
