"""What a kernel log says about the machine: kills for lack of memory, GPU faults, dead disks, each as one event.

Reads what people save or paste: ``dmesg``, ``dmesg -T``, ``journalctl -k`` in its formats, syslog, ``/dev/kmsg``; the
line formats are in ``kernel_clock``, the messages in ``kernel_lines`` and ``kernel_oom``::

    [    0.000000] Linux version 5.15.0-91-generic (buildd@lcy02-amd64-045) (gcc ...) #101-Ubuntu SMP ...
    [    1.287570] rtc_cmos rtc_cmos: setting system clock to 2026-11-15T07:02:11 UTC (1794726131)
    [12345.678901] Out of memory: Killed process 4410 (python3) total-vm:3512020kB, anon-rss:2981440kB, ...

Seconds since boot become Unix time where the same boot wrote a line with the date in it (``kernel_boots``). Whether an
event belongs to a run is decided by ``place``. A log of any size is read in blocks, and at most 2,000 events are kept:
the first and the last thousand.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections import deque
from typing import TYPE_CHECKING, Any

from crashcart.case import KernelEvent
from crashcart.deadline import attempt, check, too_long
from crashcart.decompression import DamagedDataError, decompressor_for, unpacked
from crashcart.model import Evidence
from crashcart.pattern import Pattern
from crashcart.readers.kernel import lines as kernel_lines
from crashcart.readers.kernel import oom as kernel_oom
from crashcart.readers.kernel.boots import MARKS, Boots
from crashcart.readers.kernel.clock import Stamped, read_line
from crashcart.readers.kernel.place import place
from crashcart.record import record
from crashcart.regular_files import open_input, read_start

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["looks_like_kernel_log", "place", "read_kernel"]

_BLOCK = 1 << 20
_LONGEST_LINE = 8192
_HALF = 1000
_SECONDS = 3.0
_LITERALS = tuple(text.encode() for text in {*kernel_lines.LITERALS, *kernel_oom.LITERALS, *kernel_oom.DAEMONS, *MARKS})


_SNIFFED, _FEWEST, _MOSTLY, _FIRST = 1 << 16, 3, 0.7, 20
_OF_KERNEL = Pattern(
    r"^(?:<\d{1,4}>)?\[\s{0,8}\d{1,10}\.\d{3,9}\]\s|^\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} .{0,40}\]\s|^\S.{5,60}\bkernel: "
)


def looks_like_kernel_log(path: str) -> bool:
    """Whether a file holds what the kernel says, by its first lines: most of them have its clock or its name."""
    try:
        start = read_start(path, _SNIFFED)
    except OSError:
        return False
    lines = [line[:_LONGEST_LINE] for line in start.splitlines()[:200] if line.strip()]
    if not any(map(_is_of_kernel, lines[:_FIRST])):  # there are folders with thousands of logs
        return False
    return len(lines) >= _FEWEST and sum(map(_is_of_kernel, lines)) >= _MOSTLY * len(lines)


def _is_of_kernel(line: bytes) -> bool:
    return _OF_KERNEL.search(line.decode("utf-8", "replace")) is not None


@record
class _Draft:
    kind: str
    line: Stamped
    number: int
    details: dict[str, Any]


def read_kernel(
    source: str | os.PathLike[str] | bytes,
    *,
    name: str | None = None,
    no_links_below: str | None = None,
    notes: list[str] | None = None,
) -> tuple[KernelEvent, ...]:
    """Every event of a kernel log that can matter to a training run, in the order of the log.

    A string with a line end in it, and bytes, are the log itself; anything else names a file (compressed ones are unpacked),
    and a file that cannot be read raises ``OSError``. ``details["clock"]`` says what is known of the time, for ``place``.
    Where reading takes too long, ``notes`` says so, and what was read till then is returned.
    """
    if isinstance(source, str) and "\n" in source:
        source = source.encode("utf-8", "replace")
    if isinstance(source, bytes):
        return _read(io.BytesIO(source), name or "kernel log", None, notes)
    path = os.fspath(source)
    stream, size = open_input(path, no_links_below=no_links_below)
    with stream:
        written = os.fstat(stream.fileno()).st_mtime if size is not None else None
        return _read(stream, name or path, written, notes)


def _read(
    stream: io.RawIOBase | io.BytesIO, name: str, written: float | None, notes: list[str] | None
) -> tuple[KernelEvent, ...]:
    reader = _Reader()
    _, in_time = attempt(lambda: reader.take_all(stream), _SECONDS, None)
    if not in_time and notes is not None:
        notes.append(f"{name} {too_long(_SECONDS)}")
    drafts, left_out = reader.finish()
    events = [
        KernelEvent(
            draft.kind,
            Evidence("kernel", _short(draft.line.message), f"{name}:{draft.number}", time=draft.line.text or None),
            details=draft.details,
        )
        for draft in drafts
    ]
    if left_out:
        events[_HALF].details["left_out_before"] = left_out
    return reader.boots.dated(events, written)


class _Reader:
    """Puts lines together into events; holds no more than the drafts that will be kept."""

    def __init__(self) -> None:
        self.boots = Boots()
        self._first: list[_Draft] = []
        self._last: deque[_Draft] = deque(maxlen=_HALF)
        self._count = 0
        self._report = kernel_oom.OomReport()
        self._told: _Draft | None = None

    def take_all(self, stream: io.RawIOBase | io.BytesIO) -> None:
        for number, raw in _lines(_blocks(stream)):
            check()
            self.take(number, raw.decode("utf-8", "replace").rstrip("\r\n"))

    def take(self, number: int, text: str) -> None:
        line = read_line(text)
        if self.boots.see(line, text):
            self._close()  # its clock was read when its line came by
        if line.sender != "kernel":
            killed = kernel_oom.by_daemon(line.sender, line.message) if line.sender in kernel_oom.DAEMONS else None
            if killed:
                self._keep(self._draft("oom-kill", line, number, killed))
            return
        if self._take_oom(number, line):
            return
        found = kernel_lines.recognise(line.message)
        if found and not self._repeats(found, line, number):
            self._keep(self._draft(found[0], line, number, found[1]))

    def finish(self) -> tuple[list[_Draft], int]:
        self._close()
        kept = sorted([*self._first, *self._last], key=lambda draft: draft.number)
        return kept, self._count - len(kept)

    def _take_oom(self, number: int, line: Stamped) -> bool:
        stale = self._told is not None and not _near(self._told, line, number, seconds=60, lines=100_000)
        if stale or self._report.begins_anew(line.message):
            report = self._report
            self._close()
            self._report = kernel_oom.OomReport() if stale else report.heir(line.message)
        weight = self._report.takes(line.message)
        if weight and (self._told is None or weight >= self._report.weight):
            self._report.weight = weight
            self._told = self._draft("oom-kill", line, number, {})
        return weight > 0

    def _close(self) -> None:
        if self._told is not None:
            self._told.details |= self._report.finished()
            self._keep(self._told)
        self._told, self._report = None, kernel_oom.OomReport()

    def _repeats(self, found: tuple[str, dict[str, Any]], line: Stamped, number: int) -> bool:
        """Whether the line tells more of the event before it: a machine check has many lines, a lost GPU two."""
        kind, details = found
        before = self._last[-1] if self._last else self._first[-1] if self._first else None
        if before is None or before.kind != kind or not _near(before, line, number, seconds=5, lines=40):
            return False
        if kind == "memory-error":
            if before.details.get("corrected") is None:
                before.details["corrected"] = details["corrected"]
            named: dict[str, Any] = {key: details[key] for key in ("process", "pid") if key in details}
            before.details = {**named, **before.details}
            return True
        lost = kind == "xid" and details["code"] == before.details["code"] == 79  # noqa: PLR2004 - fallen off the bus
        return lost and details.get("pci", "")[:10] in ("", before.details.get("pci", "")[:10])

    def _draft(self, kind: str, line: Stamped, number: int, details: dict[str, Any]) -> _Draft:
        return _Draft(kind, line, number, {**details, "clock": self.boots.clock(line)})

    def _keep(self, draft: _Draft) -> None:
        self._count += 1
        (self._first if len(self._first) < _HALF else self._last).append(draft)


def _near(before: _Draft, line: Stamped, number: int, *, seconds: float, lines: int) -> bool:
    for clock in ("since_boot", "unix", "local"):
        then, now = getattr(before.line, clock), getattr(line, clock)
        if then is not None and now is not None:
            return bool(abs(now - then) <= seconds)
    return number - before.number <= lines


def _lines(blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that hold any text of interest; all of them around the table of a report."""
    number, rest, table = 1, b"", False
    for chunk in blocks:
        block = rest + chunk
        cut = block.rfind(b"\n") + 1
        if not cut and len(block) > _BLOCK:  # one endless line: binary, or hostile
            rest = block[:_LONGEST_LINE]
            continue
        body, rest = block[:cut], block[cut:]
        here = kernel_oom.TABLE.encode() in body
        yield from _all(body, number) if here or table else _hits(body, number)
        number, table = number + body.count(b"\n"), here
    yield from _hits(rest, number)


def _blocks(stream: io.RawIOBase | io.BytesIO) -> Iterator[bytes]:
    """The log in pieces, unpacked; of one that is cut off or damaged what comes before that."""
    first = stream.read(_BLOCK) or b""
    fresh = decompressor_for(first)
    if fresh is None:
        yield first
        while block := stream.read(_BLOCK):
            yield block
        return
    with contextlib.suppress(DamagedDataError):
        yield from unpacked(_Resumed(first, stream), fresh)


class _Resumed:
    """A stream whose first bytes were taken to look at."""

    def __init__(self, first: bytes, stream: io.RawIOBase | io.BytesIO) -> None:
        self._first, self._stream = io.BytesIO(first), stream

    def read(self, size: int, /) -> bytes:
        return self._first.read(size) or self._stream.read(size) or b""


def _all(body: bytes, number: int) -> Iterator[tuple[int, bytes]]:
    for offset, line in enumerate(body.split(b"\n")):
        yield number + offset, line[:_LONGEST_LINE]


def _hits(body: bytes, number: int) -> Iterator[tuple[int, bytes]]:
    starts: set[int] = set()
    for literal in _LITERALS:
        at = body.find(literal)
        while at >= 0:
            starts.add(body.rfind(b"\n", 0, at) + 1)
            end = body.find(b"\n", at)
            at = body.find(literal, end) if end >= 0 else -1
    counted = 0
    for start in sorted(starts):
        number, counted = number + body.count(b"\n", counted, start), start
        end = body.find(b"\n", start)
        stop = len(body) if end < 0 else end
        yield number, body[start : min(stop, start + _LONGEST_LINE)]


def _short(text: str, limit: int = 400) -> str:
    text = text.strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"
