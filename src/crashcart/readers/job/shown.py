"""A command as it can be shown and typed again: no secret in it, and nothing that only the shell of the day can fill in."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from crashcart.names import is_secret

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.readers.job.shell import Command
    from crashcart.readers.job.words import Word

__all__ = ["HIDDEN", "masked", "shown"]

HIDDEN = "[redacted]"


def shown(command: Command) -> str:
    """The command as it can be typed again, without secrets; words that are not known stay as written."""
    words = zip(masked(command.words), command.words, strict=True)
    return " ".join(shlex.quote(text) if word.known and HIDDEN not in text else text for text, word in words)


def masked(words: Sequence[Word]) -> list[str]:
    """The arguments without secrets."""
    shown: list[str] = []
    for word in words:
        name, equals, _ = word.text.partition("=")
        if shown and is_secret(shown[-1].lstrip("-")) and shown[-1].startswith("-") and "=" not in shown[-1]:
            shown.append(HIDDEN)
        else:
            shown.append(f"{name}={HIDDEN}" if equals and is_secret(name.lstrip("-+~")) else word.text)
    return shown
