"""crashcart keeps PyTorch training runs alive, and says why one died."""

from __future__ import annotations

from crashcart.version import __version__

TYPE_CHECKING = False  # importing typing would cost a tenth of `--help`
if TYPE_CHECKING:
    from typing import Any

    from crashcart.verbs.check import check
    from crashcart.verbs.why import why

__all__ = ["__version__", "check", "why"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name == "why":
        from crashcart.verbs.why import why

        return why
    if name == "check":
        from crashcart.verbs.check import check

        return check
    raise AttributeError(f"module 'crashcart' has no attribute {name!r}")
