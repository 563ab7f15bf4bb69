"""The job's ways out: its own streams, and one for each rank that asked for it; each line goes to the logs and to the user.

What two ranks write into one pipe is glued together in the middle of lines. So a rank of a job with several has a channel of its
own, and from then on whole lines pass at once. A line without an end (a prompt) is passed on after a moment, a bar at once. The joint
log and the user's own stream get everything in the order in which it came; ``rank1.log`` has what one rank said,
``launcher.log`` what nobody of them said.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from crashcart.recording.print_times import PrintTimes
from crashcart.run.keep import Kept, Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from crashcart.run.output import Streams

__all__ = ["Channels", "Held"]

_PIECE = 1 << 16
_DRAWN = re.compile(rb"\r(?!\n)|\x1b\[[\d;?]*[A-HJKfsu]")  # a bar moves the cursor: its parts stay together
_MOMENT = 0.1  # seconds that the rest of a line has to come
_ECHOED = 0.2  # seconds after a key in which what is shown of it comes before what the job answers
_LONGEST = 1 << 16
_LAST_WORDS = 256 << 10  # bytes of all logs that are written when room was made for the end
_SHARE = 4  # of that room; the rest is for the answer
_EARLIER = 64 << 20  # bytes of what was said before the first rank spoke that are copied


class Held(NamedTuple):
    """One channel, as it is handed from a keeper that was killed to the next: what we read, the stream it belongs to, whose it is."""

    read: int
    stream: int
    rank: int | None = None
    attempt: int = 1

    @property
    def log(self) -> str:
        """The file for what comes this way alone."""
        if self.rank is None:
            return "launcher.log"
        return f"rank{self.rank}.log" if self.attempt == 1 else f"rank{self.rank}-attempt{self.attempt}.log"


class _Channel:
    __slots__ = ("due", "held", "logs", "number", "rest", "shown", "times")

    def __init__(self, number: int, held: Held, logs: list[Kept], shown: Shown, times: PrintTimes) -> None:
        self.number, self.held, self.logs, self.shown, self.times = number, held, logs, shown, times
        self.rest = b""
        self.due = 0.0

    def take(self, piece: bytes, now: float) -> None:
        """Pass whole lines on, and keep the rest for a moment."""
        piece = self.rest + piece
        end = piece.rfind(b"\n") + 1
        if end or not self.rest:
            self.due = now + _MOMENT
        if len(piece) - end > _LONGEST or _DRAWN.search(piece):
            end = len(piece)
        self.rest = piece[end:]
        self.pass_on(piece[:end])

    def pass_on(self, piece: bytes) -> None:
        """Write to everybody who gets it."""
        if piece:
            for log in self.logs:
                self.times.note(os.path.basename(log.path), log.size)
                log.write(piece)
            self.shown.write(piece)

    def pass_rest(self) -> None:
        """The beginning of a line whose end does not come."""
        rest, self.rest = self.rest, b""
        self.pass_on(rest)


class Channels:
    """All channels of one job, by the descriptor that is read."""

    def __init__(
        self, folder: str, streams: Streams, held: Mapping[int, Held], wake: Callable[[], None] = lambda: None
    ) -> None:
        self.folder = os.path.join(folder, "logs")
        self._logs: dict[str, Kept] = {}
        self._times = PrintTimes(folder)
        self._joint = [output.log for output in streams.outputs]
        self.shown = [Shown(output.user, wake) for output in streams.outputs]
        self.open: dict[int, _Channel] = {}
        self.last_word = self.typed = 0.0
        self._attempts: dict[int, int] = {}
        self._next = 1 + max(held, default=0)
        self.several = any(one.rank is not None for one in held.values()) or os.path.exists(
            os.path.join(self.folder, "launcher.log")
        )
        for number, one in held.items():
            self._add(number, one)

    def new(self, read: int, stream: int, rank: int, attempt: int) -> tuple[int, Held]:
        """A channel for a rank; from the first one on, what is no rank's is kept apart too."""
        if not self.several:
            self.several = True
            self._keep_apart()
        held = Held(read, stream, rank, attempt)
        number, self._next = self._next, self._next + 1
        self._add(number, held)
        return number, held

    def attempt(self, rank: int, restarts: int) -> int:
        """Which attempt a process that has this rank belongs to: each has a file of its own."""
        self._attempts[rank] = max(restarts, self._attempts.get(rank, 0)) + 1
        return self._attempts[rank]

    def _add(self, number: int, held: Held) -> None:
        logs = [self._log(self._joint[held.stream])]
        if self.several:
            logs.append(self._log(held.log))
        if held.rank is not None:
            self._attempts[held.rank] = max(held.attempt, self._attempts.get(held.rank, 0))
        self.open[held.read] = _Channel(number, held, logs, self.shown[held.stream], self._times)

    def _log(self, name: str) -> Kept:
        if name not in self._logs:
            self._logs[name] = Kept(os.path.join(self.folder, name))
        return self._logs[name]

    def _keep_apart(self) -> None:
        """What was said before any rank spoke was the launcher's, or that of what ran before it."""
        apart = self._log("launcher.log")
        for name in dict.fromkeys(self._joint):
            with contextlib.suppress(OSError), open(os.path.join(self.folder, name), "rb") as said:
                left_out = max(0, os.fstat(said.fileno()).st_size - _EARLIER)
                said.seek(left_out)
                self._times.copied(name, os.path.basename(apart.path), apart.size - left_out)
                while piece := said.read(_PIECE):
                    apart.write(piece)
        for channel in self.open.values():
            channel.logs.append(apart)

    @property
    def watched(self) -> list[int]:
        """What may be read now: not where the user's own stream is far behind."""
        return [read for read, channel in self.open.items() if channel.shown.has_room]

    @property
    def behind(self) -> bool:
        """Whether somebody reads more slowly than the job writes."""
        return any(not channel.shown.has_room for channel in self.open.values())

    def copy(self, readable: Iterable[int]) -> list[int]:
        """Pass on what has come; the numbers of those that ended.

        Ranks first, since a launcher speaks about what they said before; but after a key the job's own terminal, which shows it.
        """
        shows_keys = time.monotonic() - self.typed < _ECHOED
        found = [self.open[read] for read in readable if read in self.open]
        found.sort(key=lambda one: (one.held.rank is None) != shows_keys)
        return [one.number for one in found if not self._copy(one)]

    def _copy(self, channel: _Channel) -> bool:
        try:
            piece = os.read(channel.held.read, _PIECE)
        except OSError:  # EIO: nobody holds the other side of the pseudo-terminal any more
            piece = b""
        if not piece:
            self._end(channel)
            return False
        self.last_word = time.monotonic()
        shows_key = channel.held.rank is None and self.last_word - self.typed < _ECHOED
        if self.several and not shows_key:
            channel.take(piece, self.last_word)
        else:
            channel.pass_rest()
            channel.pass_on(piece)
        return True

    def pass_late(self) -> float | None:
        """Pass on the beginnings of lines that have waited long enough; how long the next may wait."""
        now = time.monotonic()
        waits = []
        for channel in self.open.values():
            if channel.rest and channel.due <= now:
                channel.pass_rest()
            elif channel.rest:
                waits.append(channel.due - now)
        return min(waits, default=None)

    def _end(self, channel: _Channel) -> None:
        channel.pass_rest()
        del self.open[channel.held.read]
        if channel.held.rank is not None:
            os.close(channel.held.read)
        if all(other.held.stream != channel.held.stream for other in self.open.values()):
            channel.shown.close()
        for log in channel.logs:
            if not log.full and all(log not in other.logs for other in self.open.values()):
                log.close()

    def break_off(self, stream: int) -> list[int]:
        """Nobody reads a stream of the user's: keep what was said up to now, and let go, so that the job gets to know."""
        ended = [one for one in self.open.values() if one.held.stream == stream]
        for channel in ended:
            os.set_blocking(channel.held.read, False)
            with contextlib.suppress(OSError):
                while piece := os.read(channel.held.read, _PIECE):
                    channel.take(piece, 0.0)
            self._end(channel)
            if channel.held.rank is None:
                os.close(channel.held.read)
        return [channel.number for channel in ended]

    def flush(self, seconds: float) -> None:
        """Let the user have everything, but not for ever."""
        for stream in {channel.held.stream for channel in self.open.values()}:
            self.shown[stream].flush(seconds)

    def settle(self) -> int:
        """Write the last words where the disk was full; how many bytes of the log found no room in all."""
        full = [log for log in self._logs.values() if log.full]
        for log in full:
            log.settle(min(_LAST_WORDS, self._room() // _SHARE) // len(full))
        lost = {name: log.lost_in_all for name, log in self._logs.items()}
        joint = sum(lost.pop(name, 0) for name in set(self._joint))
        return max(joint, sum(lost.values()))

    def _room(self) -> int:
        try:
            found = os.statvfs(self.folder)
        except OSError:
            return 0
        return found.f_bavail * found.f_frsize

    def close(self) -> None:
        """Nothing more will come."""
        for channel in list(self.open.values()):
            channel.pass_rest()
        for stream in {channel.held.stream for channel in self.open.values()}:
            self.shown[stream].close()
        for log in self._logs.values():
            log.close()
        self._times.close()
