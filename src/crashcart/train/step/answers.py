"""What a StepGuard tells: counts, kept batches, advice, whether weights are worth a checkpoint. Nothing here waits or meets ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.train.step.judge import NotSafeToSave
from crashcart.train.step.rollback import not_finite_names

if TYPE_CHECKING:
    from torch import Tensor

    from crashcart.train.step.cycle import Cycle, Window
    from crashcart.train.step.judge import Judge
    from crashcart.train.step.kept import Kept
    from crashcart.train.step.ledger import Counts

__all__ = ["Answers"]


class Answers:
    """The part of a guard that is read."""

    _judge: Judge
    _cycle: Cycle
    _last: Window

    @property
    def norm(self) -> Tensor | None:
        """The gradient norm of the last window before clipping, on the device; None where nobody had to know it."""
        return self._cycle.norm

    @property
    def loss(self) -> Tensor | None:
        """The mean loss of the last window on this rank, on the device, not finite where it was not."""
        return self._last.mean_loss() if self._last.losses else None

    @property
    def counts(self) -> Counts:
        """Windows by how they ended, as far as it is known: on a GPU a few windows late, exact after `finish`."""
        return self._judge.ledger.counts

    @property
    def kept(self) -> list[Kept]:
        """The micro batches that broke a step on this rank, the first few."""
        return self._judge.shelf.kept

    @property
    def advice(self) -> str | None:
        """What to change, once more than `skip_limit` of the last 200 steps were skipped."""
        return self._judge.advice

    @property
    def safe_to_save(self) -> bool:
        """Whether nothing known so far speaks against saving; nothing is waited for."""
        return self._judge.doubts() is None

    def check_before_save(self) -> None:
        """Look at this rank's weights and raise `NotSafeToSave` where they are not worth a checkpoint. No collective: rank 0 may ask alone."""
        doubts = self._judge.doubts()
        names = not_finite_names(self._judge.models)
        if names:
            doubts = f"{len(names)} tensors are not finite: {', '.join(names[:3])}{' ...' if names[3:] else ''}"
        if doubts is not None:
            raise NotSafeToSave(f"These weights should not be written over a good checkpoint: {doubts}.")

    def summary(self) -> str:
        """One line about all windows so far."""
        return self._judge.ledger.summary()

    def state_dict(self) -> dict[str, Any]:
        """Counts for a checkpoint, as plain numbers. The scaler has a state of its own."""
        return {**self._judge.ledger.state_dict(), "step": self._judge.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting after a resume; a window that was open begins anew."""
        self._judge.ledger.load_state_dict(state)
        self._judge.step = state["step"]
