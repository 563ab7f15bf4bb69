"""Trackers that never block, slow or end the training, and the local copy from which nothing is lost."""

from __future__ import annotations

from crashcart.train.tracking.wrapper import nonblocking

__all__ = ["nonblocking"]
