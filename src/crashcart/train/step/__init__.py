"""The cycle of loss, backward, unscale, clip, step and update, done right: see `guard`."""

from __future__ import annotations

from crashcart.train.step.guard import StepGuard
from crashcart.train.step.judge import HopelessTraining, NotSafeToSave
from crashcart.train.step.together import agree_finite

__all__ = ["HopelessTraining", "NotSafeToSave", "StepGuard", "agree_finite"]
