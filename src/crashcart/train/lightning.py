"""For Lightning: a step with bad gradients on any rank is not made, and no checkpoint holds lost weights.

from crashcart.train.lightning import GuardCallback

trainer = Trainer(..., callbacks=[GuardCallback()])
"""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any

from crashcart.train.step.judge import HopelessTraining
from crashcart.train.step.watch import StepWatch

__all__ = ["GuardCallback"]


def _callback() -> Any:  # noqa: ANN401 - a class of Lightning's
    """Of the package under whose name the program has it."""
    for name in sorted(("lightning.pytorch", "pytorch_lightning"), key=lambda name: name not in sys.modules):
        with suppress(ImportError):
            return import_module(name).Callback
    return object


Callback: Any = _callback()


class GuardCallback(StepWatch, Callback):  # type: ignore[misc]  # not known where it is not installed
    """`counts`, `kept`, `advice` and `summary()` are those of `StepGuard`, and so are the options; counts are resumed."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of StepWatch
        if Callback is object:
            raise ImportError("GuardCallback needs lightning or pytorch_lightning, and neither can be imported.")
        super().__init__(**options)
        self._batch: Any = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ANN401, ARG002 - Lightning's own
        """Before a checkpoint is loaded."""
        if stage == "fit":
            self.reset()
            self._guard_saving(trainer)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ANN401 - as above
        """The model is as a checkpoint left it."""
        self.begin(pl_module, trainer.optimizers, trainer.strategy.root_device, trainer.global_step)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:  # noqa: ANN401, ARG002 - as above
        """Of what the next losses come."""
        self._batch = batch

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """The loss comes scaled, and divided by the number of micro batches."""
        scale = getattr(_scaler(trainer), "_scale", None)
        loss = loss.detach() * trainer.accumulate_grad_batches
        self.saw(self._batch, loss if scale is None else loss / scale)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """After backward, before clipping; also for each optimizer of a manual optimization."""
        self.before_step(trainer.global_step, optimizer, _scaler(trainer))

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - as above
        """After the scaler's update."""
        self.after_step()
        self._batch = None

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """A run that is lost does not end as if it were not."""
        self.finish()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ANN401, ARG002 - as above
        """Saving is Lightning's own again."""
        if isinstance(vars(trainer).get("save_checkpoint"), _Saving):
            del trainer.save_checkpoint

    def _guard_saving(self, trainer: Any) -> None:  # noqa: ANN401 - as above
        """Here and not in a hook: `save_weights_only` calls none, and ModelCheckpoint deletes the last one whatever was written."""
        if not isinstance(trainer.save_checkpoint, _Saving):
            trainer.save_checkpoint = _Saving(self, trainer)


class _Saving:
    """`trainer.save_checkpoint`, unless the weights are lost: then an error, so that nobody deletes the one before."""

    def __init__(self, watch: StepWatch, trainer: Any) -> None:  # noqa: ANN401 - as above
        self._watch, self._trainer, self._save = watch, trainer, trainer.save_checkpoint

    def __call__(self, filepath: Any, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Lightning's own
        lost = self._watch.lost_weights()
        if lost is None:
            self._save(filepath, *args, **options)
            return
        sentence = f"No checkpoint was written to {filepath}: it would hold {lost}."
        if not self._trainer.interrupted:
            raise HopelessTraining(f"{sentence} Training cannot go on; go back to the last good one.")
        warnings.warn(sentence, stacklevel=2)


def _scaler(trainer: Any) -> Any:  # noqa: ANN401 - as above
    return getattr(trainer.precision_plugin, "scaler", None)
