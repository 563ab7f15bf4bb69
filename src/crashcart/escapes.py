"""Text that a terminal shows as it stands: no escape sequence, no control character, nothing invisible, no lone surrogate.

A log line, a path or an argument may hold ``ESC ] 0 ; title BEL``, a right-to-left override or half of a character. Whole escape
sequences go, so that ``hf_ab<ESC>[31mcd`` is read as one word; other control and invisible characters go one by one. A lone
surrogate is a byte of a file name that is not UTF-8; it becomes U+FFFD, which can be written and encoded everywhere.
"""

from __future__ import annotations

import re

__all__ = ["PlainStream", "one_line", "plain", "unfiltered"]

TYPE_CHECKING = False  # this is loaded on every start, and typing is not
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

# Tab and line feed stay. Soft hyphen, joiners, bidirectional marks, word joiners, byte order marks and tags have no width.
_TRICKS = "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
_TRICK = f"[{_TRICKS}\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
# Each body ends before the next sequence begins, so that a line of nothing but beginnings is read once.
_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f\n]*(?:\x07|\x9c|\x1b\\)"
    r"|\x1b[ -/]*[0-~]"
)
_compiled: dict[str, re.Pattern[str]] = {}


def plain(text: str) -> str:
    """The text without anything that a terminal would obey or hide."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    if not _compiled:  # not at import: most starts show plain text only
        _compiled.update(trick=re.compile(_TRICK), sequence=re.compile(f"{_SEQUENCE}|{_TRICK}"))
    return _compiled["sequence"].sub(_visible, text) if _compiled["trick"].search(text) else text


def _visible(match: re.Match[str]) -> str:
    return "\ufffd" if "\ud800" <= match[0][0] <= "\udfff" else ""


def one_line(text: str) -> str:
    """The same on one line: a line feed in the name of a file must not begin a line of ours."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def unfiltered(stream: TextIO) -> TextIO:
    """The stream itself, for escape sequences of our own: colours, a bar, a line that the next one replaces."""
    return getattr(stream, "unfiltered", stream)


class PlainStream:
    """A stream of text that lets only plain text through."""

    def __init__(self, unfiltered: TextIO, filtered: Callable[[str], str] = plain) -> None:
        self.unfiltered = unfiltered
        self._filtered = filtered

    def write(self, text: str) -> int:
        """Write what is left of the text."""
        self.unfiltered.write(self._filtered(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the stream has it
        return getattr(self.unfiltered, name)
