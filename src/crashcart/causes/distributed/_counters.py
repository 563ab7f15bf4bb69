"""Ranks of one group whose counters differ although each of them waits, or has ended well: they took different paths.

In a healthy job every rank makes the same backward passes and optimizer steps. A rank that leaves one out goes on, one pass behind
the others, until it reaches its end or another collective; then the others wait for it, lose their connection, or time out. Ranks
with groups of their own (pipelines, experts, learners and actors) differ by design and are not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes.hang._recorded import in_collective, own_frame, stood_at_hang
from crashcart.deaths import deaths, finished, first
from crashcart.flight import clock
from crashcart.model import Evidence, Sign
from crashcart.numbers import to_int
from crashcart.record import record

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.flight import Flight, Process

__all__ = ["counters_differ"]

_COUNTERS = (("backwards", "backward passes"), ("steps", "optimizer steps"), ("train_batches", "batches"))
_DECIDING = ("backwards", "steps")
_IN_FORWARD = frozenset({"forward", "_call_impl", "_wrapped_call_impl", "_pre_forward"})
_NOT_OWN = ("-packages/", "/lib/python3", "crashcart/inside/")


@record(frozen=True)
class _Position:
    """How a rank stands: it ended well, or waits (or gave up waiting) at a place, with these functions around it."""

    rank: int
    ended: bool
    place: str
    functions: frozenset[str]
    counters: dict[str, int]
    time: float


def counters_differ(case: Case) -> Sign | None:
    """The sign that the ranks of the job made different numbers of passes, if that is why they wait."""
    flight = case.flight
    if flight is None or finished(case):
        return None
    leader = first(case)
    if leader is not None and not (leader.echo or leader.left):  # what it died of is the reason why its counters stopped
        return None
    ranks = _newest(flight)
    sizes = {rank.page.get("world_size", 0.0) for rank in ranks}
    if len(ranks) < 2 or sizes != {float(len(ranks))} or any(rank.page.get("subgroups", 0.0) > 0 for rank in ranks):
        return None
    ended_by_launcher = {death.process.pid for death in deaths(case) if death.raised is None and death.signal == "SIGTERM"}
    found = [_position(case, flight, rank) for rank in ranks if rank.pid not in ended_by_launcher]
    positions = [one for one in found if one is not None]
    if len(positions) < max(2, len(found)) or all(position.ended for position in positions):
        return None
    name = next((name for name in _DECIDING if len({position.counters.get(name) for position in positions}) > 1), None)
    if name is None or any(name not in position.counters for position in positions):
        return None
    behind = min(positions, key=lambda one: one.counters[name])
    ahead = max(positions, key=lambda one: one.counters[name])
    if not behind.ended and ahead.counters[name] - behind.counters[name] == 1 and behind.functions & _IN_FORWARD:
        return None  # it was on its way to the same backward pass
    says = f"the ranks did not make the same calls: {_told(behind, name)}; {_told(ahead, name)}"
    return Sign("decisive", says, tuple(_evidence(one) for one in (behind, ahead)))


def _newest(flight: Flight) -> list[Process]:
    """The last process of each rank."""
    newest: dict[int, Process] = {}
    for process in sorted(flight.ranks, key=lambda one: one.born):
        if process.rank is not None and process.page:
            newest[process.rank] = process
    return [newest[rank] for rank in sorted(newest)]


def _position(case: Case, flight: Flight, process: Process) -> _Position | None:
    """Where a rank waits, gave up or ended; nothing where it did something else, or nobody knows."""
    counters = {name: to_int(value, 0) for name, _ in _COUNTERS if (value := process.page.get(name, -1.0)) >= 0}
    rank = process.rank or 0
    death = next((one for one in deaths(case) if one.process.pid == process.pid), None)
    stood = next((one for one in stood_at_hang(flight) if one.pid == process.pid), None)
    if stood is not None:  # where it stood says more than what it raised when somebody ended it
        if not in_collective(stood):
            return None
        place = own_frame(stood.frames) or stood.frames[0]
        functions = frozenset(frame.function for frame in stood.frames)
        return _Position(rank, False, f"{place.file}:{place.line}", functions, counters, process.born)
    if death is not None and death.raised is not None and (death.lost or death.gave_up) and not death.interrupted:
        frames = [str(one) for one in death.raised.details.get("frames") or ()]
        own = next((one for one in reversed(frames) if not any(part in one for part in _NOT_OWN)), "")
        names = frozenset(one.rpartition(" ")[2].rpartition(".")[2] for one in frames)
        return _Position(rank, False, own.partition(" ")[0], names, counters, death.time)
    if death is None and stood is None and _ended_well(flight, process):
        return _Position(rank, True, "", frozenset(), counters, process.ended or process.born)
    return None


def _ended_well(flight: Flight, process: Process) -> bool:
    gone = next((event for event in flight.of_kind("gone") if event.details.get("pid") == process.pid), None)
    if gone is not None and (gone.details.get("code") or gone.details.get("signal")):
        return False
    told = any(event.pid == process.pid for event in flight.of_kind("exit"))
    return (gone is not None or process.ended is not None) and (told or (gone is not None and gone.details.get("code") == 0))


def _told(position: _Position, name: str) -> str:
    made = f"{position.counters[name]} {dict(_COUNTERS)[name]}"
    if position.ended:
        return f"rank {position.rank} made {made} and ended"
    return f"rank {position.rank} waited after {made}" + (
        f" at {position.place.rsplit('/', 1)[-1]}" if position.place else ""
    )


def _evidence(position: _Position) -> Evidence:
    counted = ", ".join(f"{position.counters[name]} {words}" for name, words in _COUNTERS if name in position.counters)
    state = "ended by itself" if position.ended else f"waited at {position.place or 'an unknown place'}"
    at = clock(position.time)
    return Evidence("recorder", f"rank {position.rank}: {counted}; {state}", f"recorder {at}", position.rank, at)
