"""The local copy of what was logged: a folder with `rows.jsonl`, and `sent.txt` that tells which rows the tracker took.

    {"n": 12, "t": 1763230000.1, "call": "log", "args": [{"loss": 0.7}], "kwargs": {"step": 12}}

Each line is appended whole, so what a killed process leaves can be read to its last line; a torn one is passed over. Only calls
that log stand here, with the arguments that the program gave them: no settings, no keys.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["LocalCopy", "rows", "sent"]

_numbers = itertools.count(1)  # two trackers of one process


class LocalCopy:
    """One process's folder; it never raises, it counts what could not be written."""

    def __init__(self, folder: str, kind: str) -> None:
        rank = os.environ.get("RANK", "0")
        stamp = time.strftime("%Y%m%d-%H%M%S")
        name = f"{stamp}-{kind}-rank{rank}-{os.getpid()}-{next(_numbers)}"
        self.folder = os.path.join(os.path.abspath(folder), name)
        self.failed = 0
        self.first_error = ""
        self._files: dict[str, int] = {}
        self._torn: set[str] = set()

    @classmethod
    def at(cls, folder: str) -> LocalCopy:
        """The copy that lies in this folder already."""
        copy = cls(folder, "")
        copy.folder = os.path.abspath(folder)
        return copy

    def add(self, lines: list[str]) -> None:
        """Append rows."""
        if lines:
            self.failed += len(lines) - self._append("rows.jsonl", "\n".join(lines) + "\n")

    def took(self, numbers: Iterable[int]) -> None:
        """Note the rows that the tracker took."""
        self._append("sent.txt", "".join(f"{first}-{last}\n" for first, last in _ranges(numbers)))

    def describe(self, about: dict[str, Any]) -> None:
        """Which run this is, for the one who sends the rest later."""
        try:
            os.makedirs(self.folder, exist_ok=True)
            with open(os.path.join(self.folder, "run.json"), "w", encoding="utf-8") as file:
                json.dump(about, file)
        except OSError as error:
            self._note(error)

    def _append(self, name: str, text: str) -> int:
        """Write, and give how many lines are whole."""
        data = text.encode("utf-8", "backslashreplace")
        rest = b"\n" + data if name in self._torn else data
        try:
            if rest and name not in self._files:
                os.makedirs(self.folder, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._files[name] = os.open(os.path.join(self.folder, name), flags, 0o644)
            while rest:
                rest = rest[os.write(self._files[name], rest) :]
                self._torn.add(name)
        except OSError as error:
            self._note(error)
            return data.count(b"\n") - rest.count(b"\n") if len(rest) < len(data) else 0
        self._torn.discard(name)
        return data.count(b"\n")

    def _note(self, error: OSError) -> None:
        self.first_error = self.first_error or f"{error.strerror or error}: {self.folder}"


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = number
    if first is not None and last is not None:
        yield first, last


def rows(folder: str) -> Iterator[dict[str, Any]]:
    """The rows of a folder, those that can be read."""
    try:
        with open(os.path.join(folder, "rows.jsonl"), encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue  # the line on which the process died, or the disk was full
                if isinstance(row, dict) and {"n", "call", "args", "kwargs"} <= row.keys():
                    yield row
    except FileNotFoundError:
        return


def sent(folder: str) -> set[int]:
    """The numbers of the rows that the tracker took."""
    numbers: set[int] = set()
    try:
        with open(os.path.join(folder, "sent.txt"), encoding="utf-8", errors="replace") as file:
            for line in file:
                first, _, last = line.strip().partition("-")
                if first.isdecimal() and last.isdecimal():
                    numbers.update(range(int(first), int(last) + 1))
    except FileNotFoundError:
        pass
    return numbers
