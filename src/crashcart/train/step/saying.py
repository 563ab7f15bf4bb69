"""Warnings that point at the line of the loop, and not into the library: how many frames lie between differs."""

from __future__ import annotations

import sys
import warnings

__all__ = ["say"]

_NOT_THE_LOOP = frozenset(
    {"accelerate", "contextlib", "crashcart", "lightning", "pytorch_lightning", "torch", "transformers"}
)


def say(sentence: str) -> None:
    """Warn at the nearest line of the program; `skip_file_prefixes` would need Python 3.12."""
    level, frame = 2, sys._getframe(1)  # noqa: SLF001 - there is no public way that is as cheap
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _NOT_THE_LOOP:
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, stacklevel=level)
