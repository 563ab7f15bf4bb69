"""A rank asks the keeper for a channel of its own, over a socket in the job's live folder, and gets it as a descriptor.

It is of the kind of the stream that it stands for: a pipe for a pipe, a pseudo-terminal of the same size and modes for a
terminal. Before the rank gets its end the supervisor holds ours as well, so that a keeper that is killed costs the rank nothing.
"""

from __future__ import annotations

import contextlib
import os
import pty
import socket
import termios
from typing import TYPE_CHECKING, NamedTuple

from crashcart.inside.layout import OUTPUT, RANK_NAMES
from crashcart.run.output import copy_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crashcart.run.output import Streams

__all__ = ["Asked", "identity", "listen", "open_ends", "read_request", "stop_listening"]

_LONGEST = 256
_WAITING = 256


class Asked(NamedTuple):
    """What a rank asks for: its own ends of these streams."""

    streams: tuple[int, ...]
    rank: int
    restarts: int


def listen(live: str | None, streams: Streams) -> socket.socket | None:
    """Say which streams are ours, and wait for ranks; nothing where that is impossible."""
    if live is None:
        return None
    path = os.path.join(live, OUTPUT)
    try:
        with open(path, "w", encoding="ascii") as file:
            for number in (1, 2):
                found = os.fstat(streams.job[number])
                file.write(f"{found.st_dev}:{found.st_ino} {streams.place(number)}\n")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.setblocking(False)
        listener.bind(path + ".socket")
        listener.listen(_WAITING)
    except OSError:
        return None
    return listener


def stop_listening(live: str | None) -> None:
    """Nobody will answer: let nobody ask."""
    for end in ("", ".socket"):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(live or "", OUTPUT + end))


def identity(environment: Mapping[str, str]) -> str:
    """What the environment says about the rank; a process that says the same as ours does is not one rank of several below us."""
    return "/".join(environment.get(name, "") for name in RANK_NAMES)


def read_request(words: bytes, ours: str, streams: int) -> Asked | None:
    """``0,1 3 0 3/1/``: streams, rank, restarts of the launcher, and what the environment says."""
    try:
        numbers, rank, restarts, says = words[:_LONGEST].decode("ascii").split()
        wanted = tuple(int(number) for number in numbers.split(","))
        asked = Asked(wanted, int(rank), int(restarts))
    except ValueError:
        return None
    fits = 0 < len(set(wanted)) == len(wanted) and all(0 <= number < streams for number in wanted)
    return asked if fits and says != ours and asked.rank >= 0 and asked.restarts >= 0 else None


def open_ends(streams: Streams, stream: int, modes: Sequence[object] | None) -> tuple[int, int]:
    """Our end and the rank's of a channel like one of the job's streams."""
    like = streams.outputs[stream].read
    if like != streams.master:
        return os.pipe()
    ours, theirs = pty.openpty()
    with contextlib.suppress(termios.error):
        termios.tcsetattr(theirs, termios.TCSANOW, list(modes or termios.tcgetattr(like)))
    copy_size(like, theirs)
    return ours, theirs
