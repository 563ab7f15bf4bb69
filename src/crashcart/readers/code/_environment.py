"""How a program asks for a variable of the environment."""

from __future__ import annotations

__all__ = ["GETTERS"]

GETTERS = ("os.environ.get", "os.getenv", "environ.get", "getenv")
