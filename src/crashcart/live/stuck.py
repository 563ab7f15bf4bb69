"""A recorded run that has stood still for a while, and of which the supervisor has not yet said that it hangs.

The stacks that it took when it became suspicious are on disk, and its samples tell since when nothing was counted and whether
anybody works: enough to say where the run stands, without waiting for the alarm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.flight import Event, took
from crashcart.readers.standing import call_of, source_line
from crashcart.run.hangs import odd_one_out, place_of, waits_for_others
from crashcart.run.stacks import Stack
from crashcart.run.suspending import process_state

if TYPE_CHECKING:
    from crashcart.flight import Flight

__all__ = ["note_standstill"]

_COUNTED = ("steps", "train_batches", "eval_batches", "checkpoints", "last_progress")
_STILL = 5.0  # seconds without progress: less is a slow step
_WORKS = 0.05  # of a core
_MOST_TOLD = 8


def note_standstill(flight: Flight) -> None:
    """Add what the supervisor would say now, where a run that is still there makes no progress and stacks of it were taken."""
    stopped = [rank.pid for rank in flight.ranks if rank.ended is None and process_state(rank.pid) in "Tt"]
    if flight.alive and stopped and len(stopped) == len([rank for rank in flight.ranks if rank.ended is None]):
        numbers = " ".join(map(str, stopped[:_MOST_TOLD]))
        flight.says = f"The job is stopped (SIGSTOP or Ctrl-Z). To continue it: kill -CONT {numbers}."
        return
    told = [event.kind for event in flight.of_kind("hang", "goes-on")]
    if not flight.alive or not flight.stacks or not flight.samples or told[-1:] == ["hang"]:
        return
    dump, since, end = flight.stacks[-1], _last_progress(flight), flight.samples[-1][0]
    if dump.time < since or end - since < _STILL:
        return
    stacks = [Stack(one.pid, one.rank, f"{one.role} {one.rank}", "", one.frames, one.text) for one in dump.stood]
    counts = {rank.pid: tuple(rank.page.get(name, 0.0) for name in _COUNTED[:-1]) for rank in flight.ranks}
    odd = odd_one_out(stacks, counts)
    ranks = [stack for stack in stacks if stack.role.startswith("rank")]
    mine = next((stack for stack in ranks if odd is not None and stack.pid == odd.pid), ranks[0] if ranks else None)
    if mine is None:
        return
    if _works(flight, since, end):
        frame = place_of(mine)
        where = f" at {frame.file}:{frame.line} in {frame.function}" if frame is not None else ""
        flight.says = (
            f"No step, batch or checkpoint for {took(end - since)}, but the job is working; rank {mine.rank} is{where}."
        )
        return
    process = flight.processes.get(mine.pid)
    details: dict[str, Any] = {
        "seconds": round(end - since, 1),
        "phase": process.phase if process is not None else "unknown",
        "since": since,
        "sure": False,
        "tier": "suspicion",
        "waiting": [stack.rank for stack in ranks if waits_for_others(stack)][:_MOST_TOLD],
    }
    if odd is not None:
        call = call_of(odd.pid)
        details |= {"rank": odd.rank, "pid": odd.pid, "where": odd.where, "why": odd.why, "works": False}
        details |= {"line": source_line(place_of(mine)), "call": call.name, "file": call.file, "channel": call.channel}
    flight.events.append(Event(end, "hang", details))


def _last_progress(flight: Flight) -> float:
    """When a rank last counted anything, by the samples."""
    columns = flight.columns.get("page", [])
    if "pid" not in columns:
        return flight.samples[0][0]
    pid_at, counted = columns.index("pid"), [columns.index(name) for name in _COUNTED if name in columns]
    ranks = {rank.pid for rank in flight.ranks}
    before: dict[float, list[str]] = {}
    last = flight.samples[0][0]
    for time, tables in flight.samples:
        for row in tables.get("page", ()):
            numbers = [repr(row[at]) for at in counted]  # as text: NaN is not itself
            if row[pid_at] in ranks and before.get(row[pid_at]) != numbers:
                before[row[pid_at]], last = numbers, time
    return last


def _works(flight: Flight, since: float, end: float) -> bool:
    """Whether a process of the job has used the processor since the last progress."""
    recent = max(since, end - 10 * _STILL)
    for process in flight.processes.values():
        if process.ended is None and process.role not in {"launcher", "shell", "tracker"}:
            used = [value for time, value in flight.series("process", "cpu", process.pid) if time >= recent]
            if len(used) > 1 and used[-1] - used[0] > _WORKS * (end - recent):
                return True
    return False
