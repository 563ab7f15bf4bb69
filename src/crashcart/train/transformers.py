"""For transformers' Trainer: a step with bad gradients on any rank is not made, and lost weights are not saved.

from crashcart.train.transformers import GuardCallback

trainer = Trainer(..., callbacks=[GuardCallback()])
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from crashcart.train.masked import masked_nan
from crashcart.train.step.judge import HopelessTraining
from crashcart.train.step.watch import StepWatch

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GuardCallback"]

TrainerCallback: Any = object
try:
    TrainerCallback = import_module("transformers").TrainerCallback
except (ImportError, RuntimeError) as _error:  # the second is how its lazy modules say it
    _missing: str | None = f"GuardCallback needs transformers, which cannot be imported: {_error}"
else:
    _missing = None if hasattr(TrainerCallback, "on_pre_optimizer_step") else (
        "GuardCallback needs a transformers whose Trainer calls `on_pre_optimizer_step`: install a newer one."
    )  # fmt: skip


class GuardCallback(StepWatch, TrainerCallback):  # type: ignore[misc]  # not known where it is not installed
    """`counts`, `kept`, `advice` and `summary()` are those of `StepGuard`, and so are the options."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of StepWatch
        if _missing is not None:
            raise ImportError(_missing)
        super().__init__(**options)
        self._ear: Any = None
        self._bad_at_last_log = 0
        self._told_of_log = self._scaled = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ANN401, ARG002 - the Trainer's own
        """The model is as a checkpoint left it; its batches are seen where the model is not compiled."""
        self.reset()
        self._bad_at_last_log = 0
        model = given["model"]
        self.begin(model, [given["optimizer"]], args.device, state.global_step)
        self._stop_listening()
        if not getattr(args, "torch_compile", False) and not hasattr(model, "_orig_mod"):
            self._ear = model.register_forward_hook(_Listener(self.saw), with_kwargs=True)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """After backward and clipping."""
        optimizer = given["optimizer"]
        scaler = getattr(optimizer, "scaler", None)
        self._scaled = scaler is not None
        self.before_step(state.global_step, optimizer, scaler)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """After the scaler's update."""
        self.after_step()

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> Any:  # noqa: ANN401, ARG002 - as above
        """No checkpoint of weights that are lost; the next step ends the run, or takes them back."""
        if control.should_save:
            lost = self.lost_weights()
            if lost is not None:
                control.should_save = False
                warnings.warn(f"No checkpoint was written at step {state.global_step}: it would hold {lost}.", stacklevel=2)
        return control

    def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> Any:  # noqa: ANN401 - as above
        """As after a step."""
        return self.on_step_end(args, state, control, **given)

    def on_evaluate(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """`save_strategy="best"` saves after this, whatever callbacks say."""
        lost = self.lost_weights() if getattr(args.save_strategy, "value", None) == "best" else None
        if lost is not None:
            raise HopelessTraining(f"Evaluation found {lost}. Do not save them; go back to the last good checkpoint.")

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """Once, where the line hides a loss that is not finite."""
        if "loss" not in (logs or {}):
            return
        hidden, self._bad_at_last_log = self.counts.bad_loss - self._bad_at_last_log, self.counts.bad_loss
        if self._told_of_log or not state.is_world_process_zero:
            return
        filtered = args.logging_nan_inf_filter
        sentence = None
        if hidden or (self.loss is None and not self._scaled):  # Gradients that overflow are no sign: the loss was seen.
            sentence = masked_nan(logs, nan_filter=filtered)
        if sentence is None and hidden and filtered and math.isfinite(logs["loss"]):
            sentence = (
                f"The log shows a loss of {logs['loss']:.4g}, but in {hidden} of the steps since the last line it was not "
                "finite: set logging_nan_inf_filter=False to see it."
            )
        if sentence is not None:
            self._told_of_log = True
            warnings.warn(sentence, stacklevel=2)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """A run that is lost does not end as if it were not."""
        self._stop_listening()
        self.finish()

    def _stop_listening(self) -> None:
        if self._ear is not None:
            self._ear.remove()
            self._ear = None


class _Listener:
    """Sees what goes into a model and the loss that comes out; copies of the model (moving averages, pickles) have a deaf one."""

    def __init__(self, tell: Callable[[Any, Any], None] | None = None) -> None:
        self._tell = tell

    def __call__(self, model: torch.nn.Module, args: Any, given: Any, output: Any) -> None:  # noqa: ANN401 - a model's own
        if self._tell is not None and model.training and torch.is_grad_enabled():
            self._tell(given or args, _loss_in(output))

    def __deepcopy__(self, memo: Any) -> _Listener:  # noqa: ANN401 - not used
        return _Listener()

    def __reduce__(self) -> Any:  # noqa: ANN401 - as pickle wants it
        return _Listener, ()


def _loss_in(output: Any) -> torch.Tensor | None:  # noqa: ANN401 - a model's own
    loss = output.get("loss") if isinstance(output, Mapping) else output[0] if isinstance(output, tuple) and output else None
    return (
        loss
        if isinstance(loss, torch.Tensor) and loss.is_floating_point() and (loss.dim() == 0 or "loss" in output)
        else None
    )
