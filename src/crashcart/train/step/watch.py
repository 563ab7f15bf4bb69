"""A step that somebody else makes: looked at by all ranks together just before it, and taken away where it is bad.

Trainers have their own cycle of backward, clip and step, and hooks around it. What they do not have is the decision. A
step is taken away in the one way that each path knows: without a scaler there are no gradients left, so that the optimizer
changes nothing (gradients of zero would still decay weights and move by momentum); with one the scaler is told of an inf.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch

from crashcart.train.step.answers import Answers
from crashcart.train.step.gradients import Gradients
from crashcart.train.step.judge import HopelessTraining, Judge
from crashcart.train.step.kept import Micro, Shelf
from crashcart.train.step.ledger import Ledger
from crashcart.train.step.rollback import not_finite_names
from crashcart.train.step.stepping import Stepping
from crashcart.train.step.syncing import Syncing
from crashcart.train.step.together import Ranks
from crashcart.train.step.verdicts import Verdict

if TYPE_CHECKING:
    import os

    from torch import Tensor

__all__ = ["StepWatch"]

# Whole batches that are held while a window is open; of older ones only the ids, so that long windows do not fill a GPU.
_MOST_HELD = 16


class StepWatch(Answers):
    """Counts, kept batches, advice and the end are those of `StepGuard`; see docs/train.md."""

    def __init__(  # noqa: PLR0913 - each a choice of its own, all with a good default
        self,
        *,
        keep_in: str | os.PathLike[str] | None = None,
        keep: int = 8,
        keep_bytes: int = 64 << 20,
        skip_limit: float = 0.05,
        hopeless_after: int = 50,
        rollback_every: int = 0,
        rollback_after: int = 10,
    ) -> None:
        super().__init__()
        self._limits, self._shelf_room = (skip_limit, hopeless_after), (keep_in, keep, keep_bytes)
        self._rollback = rollback_every, rollback_after
        self.reset()

    def reset(self) -> None:
        """As if nothing had been trained yet."""
        self._judge = Judge([], Ranks(False), Ledger(*self._limits), Shelf(*self._shelf_room))
        self._seen: list[tuple[Micro, Tensor | None]] = []
        self._norm: Tensor | None = None
        self._losses: list[Tensor] = []
        self._scale_before: list[tuple[Tensor, Tensor]] = []
        self._device = torch.device("cpu")
        self._sharded = self._passed_by = False

    def begin(self, model: torch.nn.Module, optimizers: list[Any], device: torch.device, step: int) -> None:
        """Before the first forward, after a checkpoint was loaded; `step`: the number of the first one to come."""
        self._device = device
        self._sharded = bool(Syncing([model], wanted=None).shards)
        old = self._judge
        self._judge = Judge([model], Ranks(), old.ledger, old.shelf)
        self._judge.step = step - 1
        every, after = self._rollback
        if every:
            self._judge.keep_weights(every, after, Stepping(optimizers, None).optimizers)
        self._judge.begin()

    def saw(self, batch: Any, loss: Tensor | None) -> None:  # noqa: ANN401 - whatever a loader yields
        """One micro batch of the step to come, and its loss where it is known."""
        self._seen.append((Micro(batch), None if loss is None else loss.detach()))
        if len(self._seen) > _MOST_HELD:
            self._seen[-_MOST_HELD - 1][0].forget()

    @torch.no_grad()
    def before_step(self, step: int, optimizer: Any, scaler: Any = None) -> bool:  # noqa: ANN401 - any of either
        """Between backward and the optimizer's step, on all ranks: whether the step will be made. The host waits for the answer."""
        if "deepspeed" in type(optimizer).__module__:
            self._pass_by()
            return True
        self.after_step()
        stepping = Stepping([optimizer], scaler)
        seen, self._seen = self._seen, []
        self._norm = Gradients(stepping.parameters()).local_norm()
        if self._norm is None and self._judge.ranks.size == 1:  # Nothing was trained: there is no step to judge.
            return True
        values = self._agreed([loss for _, loss in seen], stepping.scale())
        if values[0]:
            self._take_away(stepping, by_loss=values[1] > 0)
        self._judge.window(Verdict(step, [micro for micro, _ in seen]), None, values)
        return values[0] == 0

    def after_step(self) -> None:
        """After the scaler's update: a loss that was not finite before it was scaled says nothing about the scale."""
        for tensor, before in self._scale_before:
            tensor.copy_(before)
        self._scale_before = []

    def finish(self) -> None:
        """At the end of training, on all ranks: an error for weights that are lost, a warning for a run that learned nothing."""
        lost = self.lost_weights()
        if lost is not None:
            self._judge.lost = lost
            raise HopelessTraining(f"Training ended with {lost}. Do not save them; go back to the last good checkpoint.")
        doubts = self._judge.doubts()
        if doubts is not None and self._judge.ranks.first:
            warnings.warn(f"Training ended, but {doubts}: {self.summary()}.", stacklevel=2)

    def lost_weights(self) -> str | None:
        """What is wrong with the weights, None where they are finite. Ranks meet only where each holds a part of the model."""
        names = not_finite_names(self._judge.models)
        if not names and self._sharded and self._judge.ranks.smallest(1, self._device) == 0:
            return "weights that are not finite on another rank"
        if not names:
            return None
        if self._sharded:
            self._judge.ranks.smallest(0, self._device)
        return f"{len(names)} weights that are not finite: {', '.join(names[:3])}{' ...' if names[3:] else ''}"

    @property
    def norm(self) -> Tensor | None:
        """The gradient norm of the last step on this rank, as it was found."""
        return self._norm

    @property
    def loss(self) -> Tensor | None:
        """The mean loss of the last step on this rank, None where it is not known."""
        return torch.stack(self._losses).mean() if self._losses else None

    def _agreed(self, losses: list[Tensor | None], scale: Tensor | None) -> list[float]:
        """The numbers of a verdict, the first two alike on all ranks: one small sum, one read."""
        unknown = torch.full((), float("nan"), device=self._device)
        known = [unknown if loss is None else self._here(loss.float().mean()) for loss in losses]
        self._losses = [one for one, loss in zip(known, losses, strict=True) if loss is not None]
        bad = torch.zeros(2, device=self._device)
        if self._norm is not None:
            bad[0] = self._here(~self._norm.isfinite())
        if self._losses:
            bad[1] = ~torch.stack(self._losses).isfinite().all()
        self._judge.ranks.sum(bad)
        norm = bad[0] * 0 if self._norm is None else self._here(self._norm)
        now = bad[0] * 0 + 1 if scale is None else self._here(scale)
        values: list[float] = torch.stack(
            [(bad.sum() > 0).float(), bad[1], norm, now, torch.zeros_like(norm), *known]
        ).tolist()
        return values

    def _here(self, value: Tensor) -> Tensor:
        return value.to(self._device, torch.float32, non_blocking=True)

    def _take_away(self, stepping: Stepping, *, by_loss: bool) -> None:
        """The scaler skips by what it found when it unscaled; where it has not yet, it will find what is put there."""
        scaler = stepping.scaler
        if scaler is None:
            stepping.forget()
            return
        if by_loss:
            self._scale_before = [(one, one.clone()) for one in (scaler._scale, scaler._growth_tracker)]  # noqa: SLF001 - no public name
        found = stepping.found()
        for one in found:
            one.fill_(1.0)
        if not found:
            Gradients(stepping.parameters()).multiply(float("inf"))

    def _pass_by(self) -> None:
        if not self._passed_by:
            self._passed_by = True
            warnings.warn("DeepSpeed makes its steps itself: they are not guarded here, only what is saved.", stacklevel=2)
