r"""Kept bytes as lines of text: decoded, without colours and boxes, with the rank that wrote them.

Real beginnings of lines that are taken off, and what they tell::

    [default3]:[rank3]: Traceback ...              torchrun --tee; torch 2.2 and later
    3: loss 0.31                                   srun --label
    (RayTrainWorker pid=911, ip=10.0.0.4) ...      Ray
    [pod/job-worker-2/pytorch] ...                 kubectl logs --prefix
    worker-1  | step 10                            docker compose
    2026-11-15T07:12:01.123456789Z stdout F ...    Kubernetes node files
    [task 2025-07-01T05:06:30.004+00:00] ...       CI runners
    [1,3]<stderr>:Traceback ...                    mpirun --tag-output
    {"log":"step 10\n","stream":"stderr", ...}    files of docker
    {"timestamp": "...", "textPayload": "step 10"}    exports of log services, journalctl -o json

What else stands before every line of a file is found in ``prefixes``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.documents import load_json
from crashcart.log import Line
from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.readers.logs.prefixes import find_shared_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from crashcart.readers.logs.windows import Window

__all__ = ["cleaned", "rank_of_file", "to_lines", "without_shared_prefix"]

_ESCAPES = Pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*\x1b\\|[@-Z\\-_])")
_CONTROLS = Pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_PREFIX = Pattern(
    r"""^\s*(?:
      \[(?:default)?(?:rank)?\s?(?P<a>\d{1,4})\]:?\s?
    | \[rank:?\s?(?P<b>\d{1,5})\]:?\s?
    | \[(?:gpu|GPU|worker|node|proc|local_rank|RANK|Rank)[\s:_=-]?(?P<c>\d{1,5})\]:?\s?
    | (?P<d>\d{1,4}):\s
    | \([\w.<>-]+\spid=\d+(?:,\sip=[\d.]+)?\)\s?
    | \[pod/[^\]]+\]\s?
    | [\w.-]+-(?P<e>\d{1,5})\s+\|(?:\s|$)
    | \d{4}-\d\d-\d\dT[\d:.]+Z\s(?:stdout|stderr)\s[FP](?:\s|$)
    | \[task\s\d{4}-[^\]]+\]\s(?:\[\w+\]\s)?
    | \[(?:[\w.-]{1,80}@)?\d{1,6},(?P<f>\d{1,5})\]<std(?:out|err|diag)>:
    )""",
    re.VERBOSE,
)
_RANK_INSIDE = Pattern(r"\[\s?[Rr]ank[: ]\s?(\d{1,5})\]|^\S+?:\d+:\d+ \[(\d{1,3})\] NCCL|[\s\[(]RANK[ :=]?(\d{1,5})\b")
_FILE_RANK = Pattern(
    r"(?:rank|worker|proc|local|stdout|stderr|log|node|task)s?[_.\-]?(\d{1,5})(?=[_.\-/]|$)"
    r"|/(\d{1,4})/(?:stdout|stderr)\.log$|_(\d{1,5})\.(?:log|out|err|txt)$",
    re.IGNORECASE,
)
_SCRAMBLED = Pattern("[\u00c2\u00c3\u00e2-\u00e9\u00ef\u00f0][\u0080-\u00bf\u0152-\u0178\u0192\u02c6\u02dc\u2013-\u2122]")
_LONGEST = 6000
_MOST_PREFIXES = 2
_MESSAGES = ("log", "message", "msg", "MESSAGE", "textPayload", "text")
_MOMENTS = frozenset(
    {"time", "timestamp", "ts", "asctime", "@timestamp", "__REALTIME_TIMESTAMP", "created", "date", "datetime"}
)
_MARKS = _MOMENTS | {"stream", "level", "severity", "levelname"}


def rank_of_file(name: str) -> int | None:
    """The rank that a log's name tells (``rank3.log``, ``attempt_0/3/stderr.log``), if it does."""
    match = None
    for match in _FILE_RANK.finditer(name):  # noqa: B007 - the last one counts: folders come first
        pass
    return to_int(next(group for group in match.groups() if group)) if match else None


def to_lines(
    windows: Iterable[Window], file: str, order: int, first_window: int, notes: list[str] | None = None
) -> list[Line]:
    """Lines of all windows of one file. ``order`` is where the file begins in the whole input."""
    lines: list[Line] = []
    cut = 0
    for index, window in enumerate(windows, first_window):
        number = window.number
        offset = order + window.start
        for raw, end in _pieces(window.data):
            unwrapped = _unwrapped(raw)
            cut += len(raw) > _LONGEST and unwrapped is None
            for place, piece in enumerate([_decoded(raw)] if unwrapped is None else unwrapped):
                rank, text = _without_prefix(cleaned(piece))
                if text:
                    lines.append(Line(file, number, offset + place, text, rank, index))
            offset += len(raw) + len(end)
            number += end.endswith(b"\n")
    if cut and notes is not None:
        notes.append(
            f"{file}: the middle of {cut} lines, each longer than {_LONGEST} bytes"
            if cut > 1
            else f"{file}: the middle of a line longer than {_LONGEST} bytes"
        )
    return lines


def without_shared_prefix(files: Sequence[list[Line]]) -> list[list[Line]]:
    """The files of one log without what stands before nearly all lines of it, which is not the program's.

    Whoever carried the log may have put another before that.
    """
    found = list(files)
    for _ in range(_MOST_PREFIXES):
        beginning = [list(_beginning(lines)) for lines in found]
        shared = find_shared_prefix([line.text for lines in beginning for line in lines])
        if shared is None:
            break
        for line in (line for lines in beginning for line in lines):
            prefix, level, text = shared.split(line.text)
            if prefix:
                rank, text = _without_prefix(_carried(text))
                line.take_off(line.prefix + prefix, level or line.level, text)
                line.rank = line.rank if rank is None else rank
        found = [[line for line in lines if line.text] for lines in found]
    return found


def _beginning(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines before which no carriage return stands: nobody writes a prefix there."""
    number = None
    for line in lines:
        if line.number != number:
            yield line
        number = line.number


def _unwrapped(raw: bytes) -> list[str] | None:
    """The text of an entry that a carrier of logs wrote, parted where a bar went back to the beginning of its line.

    A record of the program's own, with numbers in it, is left as it stands.
    """
    if not (raw.startswith(b"{") and raw.rstrip().endswith(b"}")):
        return None
    try:
        entry = load_json(raw)
    except ValueError:
        return None
    if not isinstance(entry, dict) or not _MARKS.intersection(entry):
        return None
    if any(isinstance(value, (int, float)) for key, value in entry.items() if key not in _MARKS):
        return None
    text = next((text for key in _MESSAGES if isinstance(text := entry.get(key), str)), None)
    if text is None:
        return None
    return [_decoded(part) for part in text.encode("utf-8", "replace").replace(b"\n", b"\r").split(b"\r")]


def _pieces(data: bytes) -> Iterable[tuple[bytes, bytes]]:
    for line in data.split(b"\n"):
        parts = line.split(b"\r")
        for part in parts[:-1]:
            yield part, b"\r"
        yield parts[-1], b"\n"


def _decoded(raw: bytes) -> str:
    if len(raw) > _LONGEST:
        raw = raw[: _LONGEST // 2] + b" ... " + raw[-_LONGEST // 2 :]
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        try:
            return raw.decode("gb18030")
        except UnicodeDecodeError:
            return raw.decode("utf-8", "replace")
    return _unscrambled(text) if not text.isascii() and _SCRAMBLED.search(text) else text


def _unscrambled(text: str) -> str:
    """Undo UTF-8 that was read as cp1252 and encoded again, even where bytes were lost on the way."""
    fixed = "".join(_byte(char) for char in text)
    try:
        restored = fixed.encode("latin-1").decode("utf-8", "ignore")
    except UnicodeEncodeError:
        return text
    return restored if restored and len(restored) < len(text) else text


def _byte(char: str) -> str:
    if ord(char) < 256:  # noqa: PLR2004 - one byte
        return char
    try:
        return char.encode("cp1252").decode("latin-1")
    except UnicodeEncodeError:
        return ""


def cleaned(text: str) -> str:
    """Without colours, cursor movements, control and direction characters, and the walls of rich boxes."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if not text.isprintable():
        text = _CONTROLS.sub("", text.replace("\t", "    "))
    return _without_walls(text.rstrip())


def _without_walls(text: str) -> str:
    if text[:1] in "│┃║|╭╰╷╵" and text[-1:] in "│┃║╮╯":
        text = text[1:-1].rstrip()
    return text


def _carried(text: str) -> str:
    """What stands behind a prefix, without its walls or the entry around it; of a bar what was written last."""
    if text.startswith("{") and (unwrapped := _unwrapped(text.encode("utf-8", "replace"))) is not None:
        return next((part for piece in reversed(unwrapped) if (part := cleaned(piece))), "")
    return _without_walls(text)


def _without_prefix(text: str) -> tuple[int | None, str]:
    rank: int | None = None
    if text[:1] in "[(0123456789 abcdefghijklmnopqrstuvwxyz":
        for _ in range(3):
            match = _PREFIX.match(text)
            if match is None or match.end() == 0:
                break
            told = next((group for group in match.groups() if group), None)
            if match["d"] and text[match.end() :][:1].isdigit():
                break
            rank = to_int(told, rank)
            text = _carried(text[match.end() :])
    if (rank is None and "ank" in text[:200]) or "NCCL" in text[:200] or "RANK" in text[:200]:
        inside = _RANK_INSIDE.search(text[:200])
        if inside:
            rank = to_int(next(group for group in inside.groups() if group), rank)
    return rank, text
