"""Numbers in variables of the environment: they count only where the program asks for them, which is seen when it is followed."""

from __future__ import annotations

__all__ = ["PREFIX"]

PREFIX = "environment_number."
