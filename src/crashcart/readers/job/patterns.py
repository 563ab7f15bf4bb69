"""Patterns of the shell (``*.py``, ``exp-?``, ``[0-9]``), matched in time that grows with the text and not with its powers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.deadline import check
from crashcart.readers.job.words import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.readers.job.words import Cell

__all__ = ["Pattern", "UnknownPatternError"]

_LONGEST = 2000


class UnknownPatternError(Exception):
    """A pattern that depends on the locale, on an option of the shell, or on a value that is not known."""


class Pattern:
    """One pattern: a list of what each step accepts, None for ``*``."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.steps: list[frozenset[str] | tuple[frozenset[str]] | str | None] = []
        cells = [cell for cell in cells if cell.char]
        if not all(cell.known for cell in cells) or len(cells) > _LONGEST:
            raise UnknownPatternError
        at = 0
        while at < len(cells):
            char, active = cells[at].char, cells[at].kind != Kind.QUOTED
            if active and char in "\\(":
                raise UnknownPatternError
            if active and char == "[":
                at = self._set(cells, at)
            elif active and char in "*?":
                self.steps.append(None if char == "*" else "")
            else:
                self.steps.append(frozenset(char))
            at += 1

    def _set(self, cells: Sequence[Cell], at: int) -> int:
        """``[abc]`` and ``[!0-9]``; ranges of letters depend on the locale."""
        end = next((index for index in range(at + 2, len(cells)) if cells[index].char == "]"), None)
        inner = cells[at + 1 : end]
        if end is None or any(cell.char in "[\\]" for cell in inner):
            raise UnknownPatternError
        negated = inner[0].char in "!^" and inner[0].kind != Kind.QUOTED
        signs = "".join(cell.char for cell in inner[negated:])
        signs = signs.replace("0-9", "0123456789") if any(cell.kind != Kind.QUOTED for cell in inner) else signs
        if "-" in signs[1:-1] or not signs:
            raise UnknownPatternError
        self.steps.append((frozenset(signs),) if negated else frozenset(signs))
        return end

    def lengths(self, text: str, start: int = 0) -> list[int]:
        """How many characters from the start on the pattern can match, the shortest first."""
        found: list[int] = []
        states = self._closed({0})
        for at in range(start, len(text) + 1):
            check()
            if len(self.steps) in states:
                found.append(at - start)
            if at == len(text) or not states:
                break
            states = self._closed(self._after(states, text[at]))
        return found

    def reversed(self) -> Pattern:
        """The pattern that matches what this one does, read backwards."""
        other = Pattern([])
        other.steps = self.steps[::-1]
        return other

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        return len(text) in self.lengths(text)

    def _closed(self, states: set[int]) -> set[int]:
        for state in sorted(states):
            while state < len(self.steps) and self.steps[state] is None:
                state += 1  # noqa: PLW2901
                states.add(state)
        return states

    def _after(self, states: set[int], char: str) -> set[int]:
        after: set[int] = set()
        for state in states:
            step = self.steps[state] if state < len(self.steps) else frozenset[str]()
            if step is None:
                after.add(state)
            elif step == "" or (char not in step[0] if isinstance(step, tuple) else char in step):
                after.add(state + 1)
        return after
