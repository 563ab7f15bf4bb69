"""Regular expressions that are compiled when they are first used.

A small log needs a tenth of all the expressions that the readers and causes know, and compiling them all would take longer
than everything else that ``crashcart why`` does with it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Pattern", "compiled"]


@cache
def compiled(pattern: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    """A regular expression, compiled on first use and kept; case is ignored unless said otherwise."""
    return re.compile(pattern, flags)


class Pattern:
    """A regular expression that costs nothing until it is used.

    ``needs`` are words in lower case of which a matching text holds at least one: a cheap test that comes first.
    """

    __slots__ = ("_flags", "_needs", "_search", "_source")

    def __init__(self, source: str, flags: int = 0, *, needs: tuple[str, ...] = ()) -> None:
        self._source = source
        self._flags = flags
        self._needs = needs
        self._search: Callable[[str], re.Match[str] | None] | None = None

    def search(self, text: str) -> re.Match[str] | None:
        """The first match anywhere in the text."""
        if self._needs:
            lowered = text.lower()
            if not any(word in lowered for word in self._needs):
                return None
        if self._search is None:
            self._search = compiled(self._source, self._flags).search
        return self._search(text)

    def match(self, text: str) -> re.Match[str] | None:
        """A match at the beginning of the text."""
        return compiled(self._source, self._flags).match(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """All matches."""
        return compiled(self._source, self._flags).finditer(text)

    def sub(self, replacement: str, text: str) -> str:
        """The text with all matches replaced."""
        return compiled(self._source, self._flags).sub(replacement, text)
