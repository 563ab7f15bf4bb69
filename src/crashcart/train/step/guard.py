"""StepGuard: loss, backward, unscale, clip, step, update, with accumulation; a bad step is skipped by all ranks together.

    guard = StepGuard(model, optimizer, scaler=scaler, accumulate=4, clip=1.0)
    for batch in guard.batches(loader):
        guard.backward(loss_of(model, batch))
        if guard.stepped:
            scheduler.step()

Backward always runs, on every rank: a rank that leaves it out pairs its next all-reduce with the others' last one.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from crashcart.train.step.ahead import Batches, Turn, ahead
from crashcart.train.step.answers import Answers
from crashcart.train.step.cycle import Cycle, Window, checked_clip
from crashcart.train.step.judge import Judge
from crashcart.train.step.kept import Micro, Shelf
from crashcart.train.step.ledger import Ledger
from crashcart.train.step.saying import say
from crashcart.train.step.stepping import Stepping
from crashcart.train.step.syncing import Syncing
from crashcart.train.step.together import Ranks
from crashcart.train.step.untraced import untraced
from crashcart.train.step.verdicts import Verdict

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from torch import Tensor

__all__ = ["StepGuard"]

Batch = TypeVar("Batch")


class StepGuard(Answers):
    """The cycle around an optimizer step: backward, unscale, clip, step, update, with accumulation, alike on all ranks.

        guard = StepGuard(model, optimizer, scaler=scaler, accumulate=4, clip=1.0)
        for batch in guard.batches(loader):
            guard.backward(loss_of(model, batch))   # instead of loss.backward, unscale_, step, update, zero_grad

    accumulate: micro batches a step. clip: the largest norm, or a function of the model. keep_in: a folder for the first `keep`
    batches that break a step, `keep_bytes` of each. skip_limit: the share of skipped steps that brings advice. hopeless_after:
    so many in a row end it. rollback_every: copy weights so often, and go back after `rollback_after` skips or lost weights.
    group: who decides (False: this rank alone). no_sync=True: hold FSDP's averaging back too, for the memory of whole gradients.
    """

    def __init__(  # noqa: PLR0913 - each a choice of its own, all but the first two with a good default
        self,
        model: Any,  # noqa: ANN401 - a module, or a list of them
        optimizer: Any,  # noqa: ANN401 - an optimizer, or a list of them
        *,
        scaler: Any = None,  # noqa: ANN401 - torch's, FSDP's, or any with their methods
        accumulate: int = 1,
        clip: Any = None,  # noqa: ANN401 - a number, or a function of the model that returns the norm
        group: Any = None,  # noqa: ANN401 - a process group; False: this rank decides alone
        no_sync: bool | None = None,
        keep_in: str | os.PathLike[str] | None = None,
        keep: int = 8,
        keep_bytes: int = 64 << 20,
        skip_limit: float = 0.05,
        hopeless_after: int = 50,
        rollback_every: int = 0,
        rollback_after: int = 10,
        rollback_optimizer: bool = True,
    ) -> None:
        if not isinstance(accumulate, int) or accumulate < 1:
            raise ValueError(
                f"accumulate is {accumulate!r}: give the number of micro batches for one optimizer step, at least 1."
            )
        self.model = model
        self.accumulate = accumulate
        models = list(model) if isinstance(model, (list, tuple)) else [model]
        optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        self._syncing = Syncing(models, wanted=no_sync)
        self._ranks = Ranks(self._syncing.group if group is None else group)
        self._stepping = Stepping(optimizers, scaler)
        self._cycle = Cycle(
            self._stepping, self._syncing, self._ranks, clip=checked_clip(clip), model=model, accumulate=accumulate
        )
        self._judge = Judge(models, self._ranks, Ledger(skip_limit, hopeless_after), Shelf(keep_in, keep, keep_bytes))
        if rollback_every:
            self._judge.keep_weights(rollback_every, rollback_after, self._stepping.optimizers if rollback_optimizer else [])
        self._window = Window()
        self._turn: Turn | None = None
        self._uneven = self._by_hand = False
        self._last = self._window
        self.stepped = False

    def batches(self, loader: Iterable[Batch]) -> Batches[Batch]:
        """The loader's batches, looked one ahead: the last window is known to be partial before its last backward.

        On several ranks a loader with a length ends at the shortest one's: a rank with a batch more would wait for ever.
        Has the loader's length, for `tqdm`; when its end was reached, the next loop over it is the next epoch.
        """
        return Batches(loader, self._epoch)

    def _epoch(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        self._finish_open()
        self._judge.begin()
        limit = self._common_length(loader)
        given = used = 0
        for batch, final in ahead(loader, limit):
            if not self._window.micros:
                self._stepping.forget()
            turn = self._turn = Turn(batch, last=final or len(self._window.micros) + 1 >= self.accumulate)
            if not turn.last:
                self._syncing.pause(sure=True)
            try:
                yield batch
            finally:
                if self._turn is turn:  # Not so where a loop that was left is closed late, within the next one.
                    self._syncing.resume()
                    self._turn = None
            given, used = given + 1, used + turn.done
            if turn.last and self._window.micros:
                self._finish_open()
        if given and not used:
            say(
                f"guard.backward was called for none of {given} batches, so no step was made: call it instead of loss.backward."
            )

    @contextmanager
    def step(self, batch: Any = None, *, ids: Any = None, weight: Any = None, last: bool | None = None) -> Iterator[None]:  # noqa: ANN401 - whatever a loader yields
        """Around forward and backward of one micro batch, in loops of your own; `last`: it closes the window."""
        self._judge.begin()
        if not self._window.micros:
            self._stepping.forget()
        turn = self._turn or Turn(batch)
        turn.ids, turn.weight = ids, weight
        turn.last = turn.last if last is None else last
        closing = self._closes(turn.last)
        outer, self._turn = self._turn, turn
        self._by_hand = self._by_hand or outer is None
        if not closing and not self._syncing.paused:
            self._syncing.pause(sure=last is not None)
        try:
            yield
        finally:
            if outer is None:
                self._syncing.resume()
            self._turn = outer

    @untraced
    def backward(
        self,
        loss: Tensor,
        *,
        batch: Any = None,  # noqa: ANN401 - whatever a loader yields
        ids: Any = None,  # noqa: ANN401 - a list, a tensor, one value
        weight: Tensor | float | None = None,
        last: bool | None = None,
    ) -> None:
        """Backward of one micro batch, and the optimizer step where it closes the window.

        `loss` is the mean over the micro batch, `weight` how much it counts (its number of samples or tokens; for all micro
        batches of a window, on all ranks, or for none). Call it once for each micro batch, on every rank, whatever the loss is.
        """
        turn = self._turn or Turn()
        if turn.done:
            raise RuntimeError("StepGuard.backward was called twice for one batch: add the losses and call it once.")
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise ValueError("StepGuard.backward needs the loss as a tensor with one element: take its mean first.")
        turn.done, self.stepped = True, False
        self._by_hand = self._by_hand or self._turn is None
        weight = turn.weight if weight is None else weight
        micro = Micro(turn.batch if batch is None else batch, turn.ids if ids is None else ids)
        closing = self._closes(turn.last if last is None else last)
        window = self._window
        window.add(micro, loss.reshape(()), weight)
        window.unreduced = window.unreduced or self._syncing.paused
        share = (1.0 if weight is None else weight) / self.accumulate
        if closing:
            self._cycle.begin_agreement(window, loss.device)
        try:
            self._stepping.scaled(loss if isinstance(share, float) and share == 1.0 else loss * share).backward()  # type: ignore[no-untyped-call]
        except BaseException:
            window.spoiled = True
            raise
        if closing:
            self._close()

    @untraced
    def finish(self) -> bool:
        """At the end of an epoch in a loop of your own, on all ranks: step with what a partial window holds. True if it did.

        Also waits for what is not yet known of earlier steps.
        """
        self._syncing.resume()
        closed = self._finish_open()
        self._judge.settle()
        return closed

    def _closes(self, last: bool | None) -> bool:  # noqa: FBT001 - unknown is a third answer
        return len(self._window.micros) + 1 >= self.accumulate if last is None else last

    def _device(self) -> torch.device:
        if self._window.losses:
            return self._window.losses[0].device
        return next((parameter.device for parameter in self._stepping.parameters()), torch.device("cpu"))

    def _finish_open(self) -> bool:
        """Step with a window whose last micro batch did not come; a collective where loops are the user's own."""
        window, by_hand = self._window, self._by_hand
        self._by_hand = False
        unreduced = window.unreduced
        if by_hand and self._ranks.size > 1:
            told = torch.tensor([float(len(window.micros)), float(unreduced)]).to(self._device())
            micros, held_back = self._ranks.sum(told).tolist()
            unreduced = held_back > 0
            if not micros:
                return False
        elif not window.micros:
            return False
        if unreduced:
            self._syncing.average_by_hand()
        self._cycle.begin_agreement(window, self._device())
        self._close(uneven=True)
        return True

    def _close(self, *, uneven: bool = False) -> None:
        window, self._window = self._window, Window()
        try:
            numbers, values = self._cycle.close(window, uneven=uneven or self._uneven)
        except BaseException:
            self._stepping.abandon()
            raise
        self._last, micros, window.micros = window, window.micros, []
        self.stepped = values is None or values[0] == 0
        self.counts.partial += len(micros) < self.accumulate
        self._judge.window(Verdict(self._judge.step + 1, micros), numbers, values)

    def _common_length(self, loader: Any) -> int | None:  # noqa: ANN401 - any iterable
        """The number of batches that every rank has; None without a length, where means are then taken over what each rank had."""
        try:
            length = len(loader)
        except TypeError:
            length = -1
        length = self._ranks.smallest(length, self._device())
        self._uneven = length < 0 and self._ranks.size > 1 and self.accumulate > 1
        return None if length < 0 else length
