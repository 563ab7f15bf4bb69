"""What crashcart raises: one error for the user, one for a detector that lacks a fact."""

from __future__ import annotations

__all__ = ["CommandError", "Missing"]


class CommandError(Exception):
    """A sentence for the user and an exit code; the command line prints it and never a traceback."""

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class Missing(Exception):  # noqa: N818 - not an error: it ends one detector, and the report says what was missing
    """A cause asked for something that the case does not hold."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
