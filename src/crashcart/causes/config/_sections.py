"""Names of settings as names are compared."""

from __future__ import annotations

__all__ = ["squeezed"]


def squeezed(name: str) -> str:
    """A name as names are compared: case, dashes and underscores do not count."""
    return name.replace("_", "").replace("-", "").lower()
