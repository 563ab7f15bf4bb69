"""What was seen of a job, as a ``Flight``: processes, samples, stacks, and where it stands still the ``hang`` event of the supervisor."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from crashcart.flight import Event, Flight, Process, StackDump, Stood
from crashcart.live.pace import meets
from crashcart.live.words import IDLE, missing, moving, waiting_words
from crashcart.numbers import to_float
from crashcart.readers.standing import source_line
from crashcart.recording.tables import TABLES
from crashcart.run.hangs import place_of
from crashcart.run.outside.files import once
from crashcart.run.outside.roles import LOADER

if TYPE_CHECKING:
    from crashcart.live.judge import Verdict
    from crashcart.live.looks import Watch
    from crashcart.live.pace import Pace

__all__ = ["add_to", "as_flight"]

_MOST_TOLD = 8


def as_flight(watch: Watch, verdict: Verdict, floor: float) -> Flight:
    """The recording that these few seconds make."""
    flight = Flight(alive=True, columns={name: list(columns) for name, columns in TABLES.items()})
    flight.samples = [(look.time, look.tables) for look in watch.looks]
    flight.waits = list(watch.sampler.waits)
    boot = time.time() - to_float(once("/proc/uptime", 64).split()[0], 0.0)
    for process in watch.tree.processes.values():
        known = Process(process.pid, process.role, process.rank, process.parent_pid, process.command)
        known.born = boot + process.start / os.sysconf("SC_CLK_TCK")
        flight.processes[process.pid] = known
    add_to(flight, watch, verdict, floor)
    return flight


def add_to(flight: Flight, watch: Watch, verdict: Verdict, floor: float) -> None:
    """Put stacks and verdict at the end of a recording."""
    look = watch.looks[-1]
    stood = []
    for pid, seen in look.seen.items():
        process = watch.tree.processes.get(pid)
        if process is not None:
            stood.append(Stood(pid, process.role, process.rank, seen.stack.frames, seen.stack.text))
    flight.stacks.append(StackDump(look.time, "why --pid", tuple(stood)))
    if verdict.hung:
        flight.events.append(_hang(watch, verdict, floor))
    else:
        flight.says = moving(watch, verdict)


def _hang(watch: Watch, verdict: Verdict, floor: float) -> Event:
    """The event that the supervisor writes, with what only a look from outside can add."""
    look = watch.looks[-1]
    ranks = [pace for pace in verdict.paces if pace.process in watch.ranks]
    details: dict[str, Any] = {
        "seconds": round(verdict.seconds, 1),
        "phase": "unknown",
        "since": look.time - verdict.seconds,
        "sure": verdict.seconds >= floor,
        "waiting": [rank.process.rank for rank in ranks if rank.collective][:_MOST_TOLD],
        "stopped": [rank.process.rank for rank in ranks if rank.last.state in "Tt"],
        "ranks": len(ranks),
        "alone": len(ranks) == 1 and ranks[0].process.assumed,
        "says": waiting_words(watch, verdict),
        "missing": missing(watch)[:_MOST_TOLD],
        "meets": bool(ranks or verdict.paces) and all(meets(rank.last) for rank in ranks or verdict.paces),
    }
    odd = verdict.odd
    mine = next((pace for pace in verdict.paces if odd is not None and pace.process.pid == odd.pid), None)
    if odd is not None and mine is not None:
        wait = mine.last.wait
        details |= {"rank": odd.rank, "pid": odd.pid, "where": odd.where, "why": odd.why, "works": verdict.works}
        details |= {"call": wait.call.name, "file": wait.about or wait.call.file, "channel": wait.call.channel}
        details |= {"line": source_line(place_of(mine.last.stack)), "prompt": verdict.prompt, "words": wait.words}
        details |= {"state": mine.last.state, "stacks": bool(mine.last.stack.frames), "workers": _workers(verdict, mine)}
        details["tracker"] = any(watch.ends.tracker(mine.process.pid, descriptor) for descriptor in wait.descriptors)
    return Event(look.time, "hang", details)


def _workers(verdict: Verdict, mine: Pace) -> list[str]:
    """Loader workers of the rank that stand still and do not wait for their next order, in words."""
    found = []
    for pace in verdict.paces:
        if pace.process.role == LOADER and pace.process.rank == mine.process.rank and not pace.moves:
            if pace.last.state in "Tt":
                found.append(f"worker {pace.process.pid} is stopped")
            elif pace.last.wait.call.name not in IDLE:
                found.append(f"worker {pace.process.pid} {pace.last.wait.words}")
    return found[:_MOST_TOLD]
