"""What follows from verdicts: batches kept, a warning, advice, weights rolled back, an end; on all ranks at the same window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from crashcart.train.step.cycle import SOME_WEIGHTED
from crashcart.train.step.rollback import Snapshots, Statistics, not_finite_names
from crashcart.train.step.saying import say
from crashcart.train.step.verdicts import LAG, Pending, Verdict

if TYPE_CHECKING:
    from torch import Tensor

    from crashcart.train.step.kept import Kept, Shelf
    from crashcart.train.step.ledger import Ledger
    from crashcart.train.step.together import Ranks

__all__ = ["HopelessTraining", "Judge", "NotSafeToSave"]

_NO_STEP = -2
_DOUBTFUL = 10
# Weights that are lost again and again are not saved by going back once more.
_MOST_ROLLBACKS = 10
_WORDS = {"loss": "the loss was not finite", "gradients": "the gradients were not finite"}


class HopelessTraining(RuntimeError):  # noqa: N818 - the name is the message
    """Every step is skipped, or the weights are lost: to go on is to burn hours. Raised on all ranks together."""


class NotSafeToSave(RuntimeError):  # noqa: N818 - the name is the message
    """These weights would be written over a checkpoint that is better."""


class Judge:
    """Counts verdicts as they become known, and acts."""

    def __init__(self, models: list[torch.nn.Module], ranks: Ranks, ledger: Ledger, shelf: Shelf) -> None:
        self.models, self.ranks, self.ledger, self.shelf = models, ranks, ledger, shelf
        self.pending = Pending()
        self.statistics = Statistics(models)
        self.snapshots: Snapshots | None = None
        self.rollback_every = self.rollback_after = 0
        self.advice: str | None = None
        self.lost: str | None = None
        self.step = self._known = -1
        self._snapshot_at: int | None = None
        self._back_since: int | None = None
        self._told = False

    def keep_weights(self, every: int, after: int, optimizers: list[Any]) -> None:
        """Roll back from now on."""
        self.rollback_every, self.rollback_after = every, after
        self.snapshots = Snapshots(self.models, optimizers)

    def begin(self) -> None:
        """Before the first forward."""
        self.statistics.begin()
        if self.snapshots is not None and self._snapshot_at is None:
            self._snapshot_at = self.step
            self.snapshots.take(self.step)

    def window(self, verdict: Verdict, numbers: Tensor | None, values: list[float] | None) -> None:
        """One more window ended; what is known by now is judged."""
        self.step = verdict.step
        known: list[Verdict] = []
        if values is not None:
            known = [*self.pending.rest(), verdict.read(values)]
        elif numbers is not None:
            self.pending.send(verdict, numbers)
            known = self.pending.due(self.step)
            self.pending.let_go(self.shelf.most_bytes)
        self._judge(known)
        self._take_snapshot()

    def settle(self) -> None:
        """Wait for what is on its way, and judge it."""
        self._judge(self.pending.rest())

    def _judge(self, verdicts: list[Verdict]) -> None:
        bad_since = nan_since = None
        streak_began = False
        for verdict in verdicts:
            if verdict.some_weighted:
                raise ValueError(SOME_WEIGHTED.format("some ranks"))
            was_fine = self.ledger.in_a_row == 0
            reason = self.ledger.add(verdict)
            self._known = verdict.step
            if reason is None:
                continue
            bad_since = verdict.step if bad_since is None else bad_since
            if nan_since is None and (reason == "loss" or (reason == "gradients" and self.statistics.poisoned)):
                nan_since = verdict.step
            if reason != "searching":
                streak_began = streak_began or was_fine
                self._keep(verdict, reason)
        if self._known >= 0:
            self.statistics.after(self.step, self._known, bad_since=nan_since)
        if bad_since is not None:
            self._advise()
            self._act(streak_began=streak_began)

    def _keep(self, verdict: Verdict, reason: str) -> None:
        """On the rank where the loss broke; where only gradients did, every micro batch of the window may have done it."""
        first: Kept | None = None
        for number, (micro, loss) in enumerate(zip(verdict.micros, verdict.losses, strict=False)):
            if reason == "loss" and math.isfinite(loss):
                continue
            kept = self.shelf.put(micro, verdict.step, number, rank=self.ranks.number, reason=reason, loss=loss)
            first = first or kept
        if not self._told and (first is not None or self.ranks.first):
            self._told = True
            where = f" Kept: {first}." if first is not None else ""
            say(f"StepGuard skipped step {verdict.step}: {_WORDS[reason]}.{where}")

    def _advise(self) -> None:
        if self.advice is not None or not self.ledger.too_many:
            return
        counts = self.ledger.counts
        look = "look at the data" if counts.bad_loss >= counts.bad_gradients else "clip the gradients"
        kept = f" Kept: {'; '.join(map(str, self.shelf.kept[:3]))}." if self.shelf.kept else ""
        self.advice = (
            f"StepGuard skipped {100 * self.ledger.share:.0f} % of the last steps (loss {counts.bad_loss}, gradients "
            f"{counts.bad_gradients} in all): {look} first, then lower the learning rate, lengthen the warm-up, or use bf16 "
            f"instead of fp16.{kept}"
        )
        if self.ranks.first or self.shelf.kept:
            say(self.advice)

    def _act(self, *, streak_began: bool) -> None:
        """Weights are looked at once for each series of skips: nothing changes them while it lasts."""
        lost = self._weights_lost() if streak_began else False
        too_long = (
            bool(self.rollback_after)
            and self.ledger.in_a_row >= self.rollback_after
            and self._back_since != self.ledger.since
        )
        if (lost or too_long) and self._rolled_back():
            return
        if lost:
            names = not_finite_names(self.models)
            which = f" ({', '.join(names[:3])}{' ...' if len(names) > 3 else ''})" if names else " on another rank"  # noqa: PLR2004 - a line
            self._end(f"the weights are not finite since step {self.ledger.since} or before{which}")
        if self.ledger.hopeless:
            self._end(f"all of the last {self.ledger.in_a_row} steps were skipped, since step {self.ledger.since}")

    def _weights_lost(self) -> bool:
        return self.ranks.smallest(int(not not_finite_names(self.models)), self._device()) == 0

    def _device(self) -> torch.device:
        return next((parameter.device for model in self.models for parameter in model.parameters()), torch.device("cpu"))

    def doubts(self) -> str | None:
        """What is known to speak against saving these weights."""
        counts, in_a_row = self.ledger.counts, self.ledger.in_a_row
        if self.lost is not None:
            return self.lost
        if in_a_row >= _DOUBTFUL:
            return f"the last {in_a_row} steps were skipped"
        if counts.skipped and not counts.stepped:
            return f"all {counts.windows} steps were skipped"
        return None

    def _rolled_back(self) -> bool:
        """All ranks to the same window, or none."""
        if self.snapshots is None or self.ledger.counts.rolled_back >= _MOST_ROLLBACKS:
            return False
        steps = self.snapshots.good_before(self.ledger.since)
        step = self.ranks.smallest(max(steps, default=_NO_STEP), self._device())
        if self.ranks.smallest(int(step in steps), self._device()) == 0:
            return False
        self.snapshots.restore(step)
        self._back_since = self.ledger.since
        self.ledger.counts.rolled_back += 1
        if self.ranks.first:
            say(f"StepGuard went back to the weights after step {step}.")
        return True

    def _take_snapshot(self) -> None:
        """Not within a series of skips: then there is nothing new, and the copy from before it is what may be needed."""
        if self.snapshots is None or self.ledger.in_a_row:
            return
        if self._snapshot_at is None or self.step - self._snapshot_at >= max(self.rollback_every, LAG + 1):
            self._snapshot_at = self.step
            self.snapshots.take(self.step)

    def _end(self, why: str) -> None:
        self.lost = why
        kept = f" Kept: {'; '.join(map(str, self.shelf.kept[:3]))}." if self.shelf.kept else ""
        raise HopelessTraining(
            f"Training cannot go on: {why}. Nothing should be saved now; go back to the last good checkpoint, and lower the "
            f"learning rate or look at the data.{kept}"
        )
