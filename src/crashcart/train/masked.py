"""A log that hides NaN: a loss of exactly 0, or a smooth one, beside a gradient norm that is no number.

transformers' `logging_nan_inf_filter` (on by default) replaces a loss that is not finite by the mean of the others since the last
line, and by 0 where there were none: `{'loss': 0.0, 'grad_norm': nan}` from a run whose weights are lost.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["masked_nan"]

_NORMS = ("grad_norm", "gradient_norm", "train/grad_norm", "train_grad_norm", "gnorm", "grad_norm/total")
_LOSSES = ("loss", "train/loss", "train_loss")


def masked_nan(logs: Mapping[str, Any], *, nan_filter: bool = False) -> str | None:
    """A sentence where a line of a log hides a loss that is not finite, else None.

    `nan_filter`: whether the trainer filters (`args.logging_nan_inf_filter`), which the sentence then names.
    """
    loss, norm = _first(logs, _LOSSES), _first(logs, _NORMS)
    if loss is None or norm is None or not math.isfinite(loss) or math.isfinite(norm):
        return None
    if math.isinf(norm) and loss != 0:  # Gradients that overflowed: a scaler's search, and no matter of the loss.
        return None
    remedy = "set logging_nan_inf_filter=False to see it" if nan_filter else "the logger seems to filter it"
    how = "a loss of exactly 0" if loss == 0 else f"a loss of {loss:.4g}"
    return f"The log shows {how}, but the gradient norm is {norm}: the real loss is not finite; {remedy}."


def _first(logs: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    value = next((logs[name] for name in names if name in logs), None)
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError, RuntimeError):
        return None
