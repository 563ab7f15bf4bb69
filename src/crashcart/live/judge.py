"""Whether a job that is looked at moves or stands still, and who keeps it: the same odd one out as the supervisor's.

A rank that stands still is no hang while another one gets on. The job stands still where the rank that the others wait for does,
or where all of them do. Seconds of standing still that are less than the supervisor's floor are told as probable only.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from crashcart.live.pace import Pace, pace_of
from crashcart.readers.standing import at_prompt
from crashcart.run.hangs import WORKS, Odd, odd_one_out, place_of
from crashcart.run.movement import Movement
from crashcart.run.outside.roles import LOADER, TRACKER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from crashcart.live.looks import Watch

__all__ = ["Verdict", "observe", "paces"]

EVERY = 0.5
SHORTEST, ENOUGH, LONGEST = (
    3.0,
    15.0,
    16.0,
)  # seconds: of looking; of standing still; of looking where that is not yet reached


class Verdict(NamedTuple):
    """How the job is: ``works`` says that the odd rank does something, ``prompt`` that it waits for its user."""

    hung: bool
    odd: Odd | None
    seconds: float
    works: bool
    prompt: bool
    paces: tuple[Pace, ...]


def observe(
    watch: Watch,
    counts: Mapping[int, tuple[float, ...]],
    floor: float,
    progress: Callable[[float], None] | None = None,
) -> Verdict:
    """Look until it is clear that the job moves, or that it has stood still for long enough."""
    begin = time.monotonic()
    watch.look()
    while True:
        time.sleep(EVERY)
        watch.look()
        spent = time.monotonic() - begin
        if progress is not None:
            progress(spent)
        if spent < SHORTEST:
            continue
        verdict = _verdict(watch, counts, floor)
        stopped = any(pace.last.state in "Tt" for pace in verdict.paces)
        if not verdict.hung or stopped or verdict.seconds >= min(ENOUGH, floor) or spent > LONGEST:
            return verdict


def paces(watch: Watch) -> tuple[Pace, ...]:
    """Of everybody that was seen at least twice and is still there."""
    last = watch.looks[-1].seen
    found = (pace_of(watch, one) for one in watch.watched if one.pid in last)
    return tuple(one for one in found if one is not None)


def _verdict(watch: Watch, counts: Mapping[int, tuple[float, ...]], floor: float) -> Verdict:
    everybody = paces(watch)
    ranks = [one for one in everybody if one.process in watch.ranks] or list(everybody)
    works = {rank.process.pid: _family_works(watch, everybody, rank) for rank in ranks}
    odd = _odd(ranks, counts, works)
    mine = next((rank for rank in ranks if odd is not None and rank.process.pid == odd.pid), None)
    prompt = mine is not None and _asks(mine)
    nothing = Verdict(hung=False, odd=odd, seconds=0.0, works=False, prompt=prompt, paces=everybody)
    if not ranks or any(rank.collective and rank.moves and not rank.spins for rank in ranks):
        return nothing
    waited = max((rank.seconds for rank in ranks if not rank.moves), default=0.0)
    if mine is None or odd is None or odd.rank is None:
        stands = not any(works[rank.process.pid] and not rank.spins for rank in ranks)
        stands = stands and not all(rank.spins for rank in ranks)
        return nothing._replace(hung=stands, seconds=waited)
    others = [rank for rank in ranks if rank is not mine]
    if any(works[other.process.pid] and not other.spins for other in others):
        return nothing
    if works[mine.process.pid]:
        if others and not mine.spins and all(other.collective for other in others) and waited > WORKS * floor:
            return nothing._replace(hung=True, seconds=waited, works=True)
        return nothing._replace(works=True, seconds=waited)
    stood = [one.seconds for one in everybody if one.process.role == LOADER and one.process.rank == mine.process.rank]
    if prompt and not others:
        return nothing
    return nothing._replace(hung=True, seconds=max([mine.seconds, waited, *(one for one in stood if _at_loader(mine))]))


def _family_works(watch: Watch, everybody: Sequence[Pace], one: Pace) -> bool:
    """Whether a rank, one of its workers or a program that it started does anything; its tracker does not count."""
    if one.last.state in "Tt":
        return False
    if one.moves:
        return True
    family = Movement.family([one.process.pid], watch.tree.processes) - {one.process.pid}
    family = {pid for pid in family if pid in watch.tree.processes and watch.tree.processes[pid].role != TRACKER}
    if any(other.moves for other in everybody if other.process.pid in family):
        return True
    known = {other.process.pid for other in everybody}
    return _used(watch, family - known)


def _used(watch: Watch, pids: set[int]) -> bool:
    """Whether any of them used the processor over the time of the looks."""
    columns = {row[0]: row for row in watch.looks[0].tables["process"]}
    span = watch.looks[-1].now - watch.looks[0].now
    for row in watch.looks[-1].tables["process"]:
        before = columns.get(row[0])
        if row[0] in pids and before is not None and (row[6] - before[6]) / span > 0.05:  # noqa: PLR2004 - cpu, as Movement has it
            return True
    return False


def _asks(pace: Pace) -> bool:
    """Whether it waits for its user: at a terminal, or at a pipe that somebody was to write into."""
    wait = pace.last.wait
    return at_prompt(pace.process.pid, pace.last.stack.frames) or (wait.call.name == "read" and wait.descriptors == (0,))


def _at_loader(pace: Pace) -> bool:
    return any("/utils/data/" in frame.file for frame in pace.last.stack.frames)


def _odd(ranks: Sequence[Pace], counts: Mapping[int, tuple[float, ...]], works: Mapping[int, bool]) -> Odd | None:
    stopped = [rank for rank in ranks if rank.last.state in "Tt"]
    if stopped and len(ranks) > 1 and len(stopped) < len(ranks):
        return _named(stopped[0], "it is stopped")
    idle = [rank.process.pid for rank in ranks if not works[rank.process.pid]]
    if all(rank.last.stack.frames for rank in ranks):
        return odd_one_out([rank.last.stack for rank in ranks], counts, idle)
    return _odd_by_kernel(ranks, idle)


def _odd_by_kernel(ranks: Sequence[Pace], idle: Sequence[int]) -> Odd | None:
    """The same without stacks: who is not in a collective as far as gloo's threads tell, or does nothing where others spin."""
    if len(ranks) == 1:
        return _named(ranks[0], "it is the only rank")
    absent = [rank for rank in ranks if not rank.collective]
    if len(absent) == 1:
        others = "the other rank waits" if len(ranks) == 2 else "the others wait"  # noqa: PLR2004 - one of two
        return _named(absent[0], f"{others} for it in a collective")
    quiet = [one for one in absent if one.process.pid in idle]
    if len(quiet) == 1 and all(one.spins for one in absent if one is not quiet[0]):
        return _named(quiet[0], "it does nothing, while the others busy-wait for their GPU")
    calls = [rank.last.wait.call.name for rank in ranks]
    lonely = [one for one in quiet if calls.count(one.last.wait.call.name) == 1 and one.last.wait.call.name != "futex"]
    return (
        _named(lonely[0], "it waits for something different from the others")
        if len(lonely) == 1 and len(absent) > 1
        else None
    )


def _named(pace: Pace, why: str) -> Odd:
    frame = place_of(pace.last.stack)
    where = f"{frame.file}:{frame.line} in {frame.function}" if frame is not None else ""
    return Odd(pace.process.rank, pace.process.pid, where, why)
