"""Whether a process does anything, from a few looks at it.

Being woken is not moving: a queue that is asked for news every five seconds, a tracker's loop. Who stands in its own code and runs
has gone round its loop; who waits in gloo's collective and runs has come out of it. Where a card is open waiting may spin.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from crashcart.run.hangs import is_own, same_places
from crashcart.run.outside.ends import called

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.live.looks import Look, Seen, Watch
    from crashcart.run.outside.process import Process

__all__ = ["Pace", "meets", "pace_of"]

_MEETING = frozenset({"init_process_group", "next_rendezvous"})
_BUSY = 0.03  # of a core, over the time of the looks
_SPINS = 0.5
_BYTES = 1 << 16
_OF_A_LOOP = 0.002  # seconds of the main thread in each second: more than asking for news takes
_ASKS = frozenset({"poll", "select", "epoll_wait", "futex", "nanosleep"})


class Pace(NamedTuple):
    """What one process did: ``seconds`` is for how long it has stood still, ``share`` the part of a core that it used."""

    process: Process
    moves: bool
    seconds: float
    share: float
    collective: bool
    spins: bool
    last: Seen

    @property
    def name(self) -> str:
        """What people call it."""
        return called(self.process)


def pace_of(watch: Watch, process: Process) -> Pace | None:
    """How a process did over the looks; nothing where it was seen once."""
    looks = [look for look in watch.looks if process.pid in look.seen]
    if len(looks) < 2:  # noqa: PLR2004 - to compare
        return None
    seen = [look.seen[process.pid] for look in looks]
    span = looks[-1].now - looks[0].now
    first, last = seen[0], seen[-1]
    share = (last.cpu - first.cpu) / span
    collective = last.collective
    stopped = all(one.state in "Tt" for one in seen[-2:])
    still = _same(seen)
    moves = not stopped and (
        share >= _BUSY
        or last.bytes - first.bytes >= _BYTES
        or not still
        or _went_round(seen, span, woken=collective or watch.recorded)
    )
    card = watch.ends.on_card(process.pid)
    spins = card and still and share >= _SPINS
    if collective and not card and not watch.recorded and last.turns != first.turns:
        moves = True
    if meets(first) and meets(last):
        moves = share >= _SPINS
    return Pace(process, moves, 0.0 if moves else _stood(watch, looks, process.pid), share, collective, spins, last)


def meets(seen: Seen) -> bool:
    """Whether it still waits for the others to come, before there is a job: it asks again and again."""
    return any(frame.function in _MEETING and "torch/distributed/" in frame.file for frame in seen.stack.frames)


def _same(seen: Sequence[Seen]) -> bool:
    """Whether it stands where it stood: by its stacks, else by its system call and its stack pointer."""
    pairs = list(pairwise(seen))
    if all(one.stack.frames for one in seen):
        before = [one.stack._replace(role="rank", rank=0) for one in seen]
        return all(same_places([a], [b]) for a, b in pairwise(before))
    return all(a.wait.call.name == b.wait.call.name for a, b in pairs if a.wait.place and b.wait.place)


def _went_round(seen: Sequence[Seen], span: float, *, woken: bool) -> bool:
    """Whether its main thread ran, and not only to ask whether there is anything new; ``woken``: others make it run."""
    first, last = seen[0], seen[-1]
    if last.turns == first.turns or last.turns < 0:
        return False
    if (last.ran - first.ran) / span >= _OF_A_LOOP:
        return True
    if woken:
        return False
    if last.stack.frames:
        return is_own(last.stack.frames[0])
    return last.wait.call.name not in _ASKS - {"nanosleep"} or not last.wait.timed


def _stood(watch: Watch, looks: Sequence[Look], pid: int) -> float:
    """Since when: as the scheduler has it, and at least since it was first seen at this place."""
    observed = looks[-1].now - looks[0].now
    idle = watch.idle(pid)
    return max(observed, idle) if not math.isnan(idle) else observed
