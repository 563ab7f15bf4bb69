r"""The beginning that nearly all lines of a file share in shape: whoever carried the text put it there, not the program.

A logger writes its header before a message, and the lines of a traceback have none. A wrapper writes before every line::

    2026-11-15T07:12:01.1234567Z Traceback (most recent call last):        GitHub Actions, kubectl --timestamps, ts
    [2026-11-15 07:12:01]   File "train.py", line 10, in main
    Nov 15 07:12:01 n1 python[4711]:     lr = config["lr"]                  journald
    node01: KeyError: 'lr'                                                 pdsh, deepspeed
    trainer  | KeyError: 'lr'                                              docker compose
    2026-11-15 07:12:01.000 | INFO     | train:main:12 - KeyError: 'lr'    loguru
    2026-11-15 07:12:01,000 - train - INFO - KeyError: 'lr'                logging
    INFO:root:KeyError: 'lr'
    [2026-11-15, 07:12:01 UTC] {subprocess.py:93} INFO - KeyError: 'lr'    Airflow

A prefix of any other shape shows at a traceback: what stands before its first line stands before the frames too, with other digits::

    train\trun\t2026-11-15T07:12:01.1234567Z Traceback (most recent call last):    gh run view --log
    train\trun\t2026-11-15T07:12:01.1234568Z   File "train.py", line 10, in main

What stands there on every line says nothing of any of them, also where it is a level. Where a file has lines of several levels,
the level of a line counts.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from crashcart.pattern import compiled
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SharedPrefix", "find_shared_prefix"]

# Words before a dash, colon or bar that are names of numbers, or of programs with messages of their own, not of loggers or nodes.
_LEVEL = r"(?:TRACE|DEBUG|INFO|SUCCESS|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)"
_NO_NUMBER = r"(?!(?i:steps?|epochs?|iter|iteration|it|loss|lr|batch|ep)[\d_.-]{0,20}(?![\w.-]))"
_NO_PROGRAM = (
    r"(?!(?i:train|training|val|valid|validation|eval|test|rank|gpu|cuda|"
    r"errors?|warnings?|info|debug|note|wandb|srun|slurmstepd|traceback)[\d_.-]{0,20}(?![\w.-]))"
)
_PIECES = {
    "time": (
        r"[\[(]?(?:(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d[-/]\d\d[-/]\d{4})(?:[T_ ]|, ?| - )\d\d:\d\d:\d\d|"
        r"(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: \d{4})?|\d\d:\d\d:\d\d)"
        r"(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?[\])]?(?![\w:/%|<])"
    ),
    "level": (
        r"[\[(<]?(?P<level>" + _LEVEL + r")[\])>]?(?![\w.-])"
        r"(?: {0,12}[:|-](?= |\w|$))?"
    ),
    "unit": r"[\w.-]{1,80} [\w./@-]{1,80}\[\d{1,9}\]:(?= |$)",
    "place": r"[\[{(][\w./<>-]{1,80}:\d{1,6}(?::[\w<>]{1,60})?[\]})]:?|[\w/<>-]{1,80}\.py:\d{1,6}:?(?= |$)",
    "logger": _NO_NUMBER + rf"(?!{_LEVEL}\b)" + r"[A-Za-z_][\w.<>/]{0,80}(?::[\w<>.]{1,60}){0,2} {1,12}[-|](?= |$)",
    "root": r"(?<=:)[A-Za-z_][\w.]{0,80}:",
    "bracket": rf"\[(?!{_LEVEL}\b)"
    r"(?!(?i:rank|default|gpu|worker|node|local|proc|pod))[A-Za-z_][\w./:-]{0,60}\](?= |$)",
    "bar": r"[-|](?= |$)",
    "node": _NO_NUMBER + _NO_PROGRAM + r"(?=[A-Za-z.]{0,80}[\d-])[A-Za-z][\w.-]{0,80}:(?= |$)",
    "service": _NO_NUMBER + _NO_PROGRAM + r"[A-Za-z][\w.-]{0,80} {1,20}\|(?= |$)",
}
_FIRST = ("time", "level", "node", "service")
_LATER = ("time", "bar", "level", "unit", "place", "root", "logger", "bracket")
_MOST_PIECES = 7
_SAMPLE = 300
_NEARLY_ALL = 20  # all but one line in so many
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = 'File "'
_LONGEST_PREFIX = 120


@record(frozen=True)
class SharedPrefix:
    """What the lines of a file begin with, how many blanks follow it, and whether its level tells lines apart."""

    pattern: re.Pattern[str]
    blanks: int
    has_level: bool

    def split(self, text: str) -> tuple[str, str, str]:
        """The prefix of a line, its level where that tells anything, and the rest; a line without a prefix is all rest."""
        match = self.pattern.match(text)
        if match is None:
            return "", "", text
        end = match.end()
        end += min(self.blanks, _blanks(text, end))
        return text[:end], match["level"] if self.has_level else "", text[end:]


def find_shared_prefix(texts: Sequence[str]) -> SharedPrefix | None:
    """The longest beginning, in pieces of known shape, that nearly all lines of a file have."""
    sample = texts[:: max(1, len(texts) // _SAMPLE)]
    counts: Counter[tuple[str, ...]] = Counter()
    for text in sample:
        kinds = _kinds(text)
        counts.update(kinds[:length] for length in range(1, len(kinds) + 1))
    common = [kinds for kinds, count in counts.items() if _is_nearly_all(count, len(sample))]
    for kinds in sorted(common, key=len, reverse=True):
        shared = _shared(kinds, texts)
        if shared is not None:
            return shared
    return _before_traceback(texts)


def _before_traceback(texts: Sequence[str]) -> SharedPrefix | None:
    """What stands before the lines of a traceback, if nearly all other lines have it too."""
    for text, frame in pairwise(texts):
        before = text.find(_TRACEBACK)
        if 0 < before < _LONGEST_PREFIX:
            pattern = _of_this_shape(text[:before])
            match = pattern.match(frame)
            if match is not None and frame.startswith(f"  {_FRAME}", match.end()):
                having = sum(pattern.match(text) is not None for text in texts)
                return SharedPrefix(pattern, 0, has_level=False) if _is_nearly_all(having, len(texts)) else None
    return None


def _of_this_shape(prefix: str) -> re.Pattern[str]:
    """An expression for a prefix with other digits in it; at its end a line may be empty."""
    start = prefix.rstrip()
    source = "".join(
        r" {0,20}\d{1,30}" if piece.strip().isdigit() else re.escape(piece)
        for piece in compiled(r" {0,20}\d{1,30}|\D", 0).findall(start)
    )
    return compiled(source + (f"(?: {{{len(prefix) - len(start)}}}|$)" if prefix != start else ""), 0)


def _is_nearly_all(count: int, total: int) -> bool:
    return (total - count) * _NEARLY_ALL <= total


def _kinds(text: str) -> tuple[str, ...]:
    """The kinds of the pieces with which a line begins."""
    kinds: list[str] = []
    place = 0
    while len(kinds) < _MOST_PIECES:
        for kind in _LATER if kinds else _FIRST:
            match = compiled(_PIECES[kind], 0).match(text, place) if kind not in kinds else None
            if match is not None:
                kinds.append(kind)
                place = match.end()
                place += _blanks(text, place)
                break
        else:
            break
    return tuple(kinds)


def _blanks(text: str, start: int) -> int:
    place = start
    while text.startswith(" ", place):
        place += 1
    return place - start


def _shared(kinds: tuple[str, ...], texts: Sequence[str]) -> SharedPrefix | None:
    """The prefix of these pieces, unless many lines or the frames of tracebacks lack it."""
    pattern = compiled(" {0,20}".join(f"(?:{_PIECES[kind]})" for kind in kinds), 0)
    has_level = "level" in kinds
    blanks: Counter[int] = Counter()
    levels: set[str] = set()
    having = on_frames = bare_frames = 0
    for text in texts:
        match = pattern.match(text)
        is_frame = _FRAME in text
        if match is None:
            bare_frames += is_frame
            continue
        having += 1
        on_frames += is_frame
        if has_level:
            levels.add(match["level"])
        if match.end() < len(text):
            blanks[_blanks(text, match.end())] += 1
    if not _is_nearly_all(having, len(texts)) or (bare_frames and not on_frames):
        return None
    if (len(levels) > 1 and not on_frames) or (levels and having == 1):
        return None  # a logger's own header, which its readers expect
    return SharedPrefix(pattern, _usual(blanks), len(levels) > 1)


def _usual(blanks: Counter[int]) -> int:
    """So many blanks follow the prefix on nearly all lines."""
    few = blanks.total() // _NEARLY_ALL
    for count in sorted(blanks):
        few -= blanks[count]
        if few < 0:
            return count
    return 0
