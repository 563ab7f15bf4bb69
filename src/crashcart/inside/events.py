"""What happened, as JSON lines: one file a process, one write a line, so that threads and a SIGKILL leave whole lines.

The file is opened for each line, since events are rare, and a program that closes all file handles (daemons do) would otherwise
have our lines in whatever file gets the number next. Bounded: a program that evaluates a thousand times a second writes a few
lines of it and a count of those left out.
"""

from __future__ import annotations

import os
import time

from . import page

_LONGEST = 60_000
_ALL, _RESERVE = 1 << 20, 1 << 18  # bytes: the files may lie in shared memory that the job's loaders need
_BURST, _REFILL = 100.0, 0.2
_ALWAYS = frozenset(("exception", "oom", "exit", "save-failed"))


class _Room:
    __slots__ = ("left", "left_out", "since")

    def __init__(self) -> None:
        self.left, self.left_out, self.since = _BURST, 0, time.monotonic()


_rooms: dict[str, _Room] = {}
_written = 0


def write(kind: str, **fields: object) -> None:
    """Append one event; one of a kind that comes too often is counted instead."""
    if not page.here.stem:
        return
    global _written  # noqa: PLW0603 - one count a process
    now = time.monotonic()
    event: dict[str, object] = {"t": round(time.time(), 3), "m": round(now, 3), "kind": kind}
    event.update(fields)
    if _written > _ALL + (_RESERVE if kind in _ALWAYS else 0):
        return
    if kind not in _ALWAYS:
        left_out = _take_room(kind, now)
        if left_out < 0:
            return
        if left_out:
            event["left_out"] = left_out
    line = encode(event)
    if len(line) > _LONGEST:
        line = encode(_shortened(event))
    try:  # noqa: SIM105 - contextlib is not loaded in a bare interpreter
        _written += _append(page.here.stem + ".events", line.encode("ascii") + b"\n")
    except OSError:  # no room, no handle left, or the program has given up its rights: the line is lost, the hook is not
        pass


def _append(path: str, line: bytes) -> int:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        return os.write(handle, line)
    finally:
        os.close(handle)


def _take_room(kind: str, now: float) -> int:
    """How many were left out since the last line of this kind; -1 if this one is left out too."""
    room = _rooms.get(kind)
    if room is None:
        room = _rooms[kind] = _Room()
    room.left = min(_BURST, room.left + (now - room.since) * _REFILL)
    room.since = now
    if room.left < 1:
        room.left_out += 1
        return -1
    room.left -= 1
    left_out, room.left_out = room.left_out, 0
    return left_out


def _shortened(event: dict[str, object]) -> dict[str, object]:
    event.pop("locals", None)
    frames = event.get("frames")
    if isinstance(frames, list):
        event["frames"] = [str(frame)[:300] for frame in frames[-40:]]
    return {name: value[:4000] if isinstance(value, str) else value for name, value in event.items()}


def encode(value: object) -> str:
    """Plain data as JSON in ASCII; the json module would cost half of our start-up."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join([_text(str(name)) + ": " + encode(item) for name, item in value.items()]) + "}"
    if isinstance(value, (list, tuple, set, frozenset)):
        return "[" + ", ".join([encode(item) for item in value]) + "]"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        plain = value - value == 0  # JSON has no word for NaN and infinities
        return float.__repr__(value) if plain else _text(float.__repr__(value))
    return _text(value if isinstance(value, str) else str(value))


def _text(text: str) -> str:
    try:
        from _json import encode_basestring_ascii
    except ImportError:
        from json.encoder import py_encode_basestring_ascii as encode_basestring_ascii
    return encode_basestring_ascii(text)


@page.after_fork.append
def _forget() -> None:
    global _written  # noqa: PLW0603
    _written = 0
    _rooms.clear()
