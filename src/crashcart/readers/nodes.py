"""The recordings of several machines as one flight: ranks are the job's own, pids and times are not, and are told apart.

Times are brought to the clock of the file system, which every node compared with its own when it began. What is known of a machine
as a whole (memory, cards, limits) is that of the node in question: where the first rank failed or stands, else the first to end.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from crashcart.case import Case
from crashcart.deaths import deaths, first
from crashcart.flight import Event, Flight, Node, Pid, StackDump, clock
from crashcart.model import Evidence
from crashcart.numbers import to_float, to_int
from crashcart.readers.flight import read_flight
from crashcart.record import replace
from crashcart.stages import choose_deciding, join_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.deaths import Death
    from crashcart.flight import Stood

__all__ = ["clock_notes", "read_nodes", "same_group"]

_OF_PROCESSES = ("process", "page")  # tables whose rows name their process
_TOGETHER = 0.5  # seconds by which clocks that were compared may still differ
_APART = 5.0  # and those that were not
_LATE = 5.0  # seconds that a rank may have stood before it was killed for that, or the other way round


def same_group(facts: Sequence[dict[str, Any]]) -> bool:
    """Whether these are nodes of one job."""
    groups = {str(_node(fact).get("group")) for fact in facts}
    return len(facts) > 1 and len(groups) == 1 and groups != {"None"}


def read_nodes(folders: Sequence[str], name: str) -> Flight:
    """One flight of all nodes."""
    flights = [read_flight(folder, len(folders)) for folder in folders]
    places = sorted(range(len(flights)), key=lambda at: (_number(_node(flights[at].facts).get("rank"), at), folders[at]))
    flights, folders = [flights[at] for at in places], [folders[at] for at in places]
    _tell_ranks(flights)
    nodes = [_brought(flight, folder, at) for at, (flight, folder) in enumerate(zip(flights, folders, strict=True))]
    whole = Flight(name=name, nodes=nodes, alive=any(flight.alive for flight in flights))
    for flight in flights:
        whole.events += flight.events
        whole.processes |= flight.processes
        whole.collectives += flight.collectives
        whole.columns = {**flight.columns, **whole.columns}
    whole.events.sort(key=lambda event: event.time)
    whole.ending = _ending(flights)
    whole.stages = join_nodes(flights)
    whole.stage = choose_deciding(whole)
    whole.stacks = sorted((dump for flight in flights for dump in flight.stacks), key=lambda dump: dump.time)
    _one_hang(whole, flights)
    subject = _subject(whole, flights)
    whole.alive = whole.alive and not whole.ending
    whole.waits = subject.waits
    whole.facts = {**subject.facts, **_facts(flights, nodes)}
    if whole.ending.get("code") != 0 and subject.ending.get("code", 0) != 0:
        whole.ending = subject.ending
    for flight in flights:
        whole.samples += [(time, _tables(flight, whole, tables, flight is subject)) for time, tables in flight.samples]
    whole.samples.sort(key=lambda sample: sample[0])
    return whole


def clock_notes(case: Case) -> list[Evidence]:
    """Where the clocks of the nodes leave it open who ended first, and how far they are apart."""
    flight = case.flight
    if flight is None or not flight.nodes:
        return []
    told = []
    ahead = [seconds for one in flight.facts.get("clocks") or () if (seconds := to_float(one)) is not None]
    if ahead and max(ahead) - min(ahead) > _TOGETHER:
        says = f"the clocks of the nodes differ by {max(ahead) - min(ahead):.1f} s; times are those of the file system"
        told.append(Evidence("recorder", says, "run.json"))
    leader = first(case)
    if leader is not None:
        doubt = _TOGETHER if len(ahead) == len(flight.nodes) else _APART
        near = [
            death
            for death in deaths(case)
            if not death.echo and _elsewhere(death, leader) and abs(death.time - leader.time) < doubt
        ]
        for one in near[:1]:
            says = f"{one.how} {abs(one.time - leader.time):.1f} s apart from {leader.process.name}, on another node"
            says += ": their clocks may differ by more, so that it may have been the first"
            told.append(Evidence("recorder", says, f"recorder {clock(one.time)}"))
    return told


def _elsewhere(one: Death, leader: Death) -> bool:
    return _of(one.process.pid) != _of(leader.process.pid)


def _tell_ranks(flights: list[Flight]) -> None:
    """A single process that was never told its rank is taken for rank 0 on every node: there the number of its task counts."""
    claims = [{one.rank for one in flight.ranks} for flight in flights]
    for flight, claimed in zip(flights, claims, strict=True):
        rank = _node(flight.facts).get("rank")
        if claimed == {0} and sum(0 in other for other in claims) > 1 and isinstance(rank, int):
            for process in flight.processes.values():
                process.rank = rank if process.rank == 0 else process.rank
            flight.events = [replace(event, rank=rank) if event.rank == 0 else event for event in flight.events]
            flight.stacks = [
                replace(dump, stood=tuple(replace(one, rank=rank) if one.rank == 0 else one for one in dump.stood))
                for dump in flight.stacks
            ]


def _brought(flight: Flight, folder: str, place: int) -> Node:
    """Give processes and times of one node the names and the clock that all share; what is to be known of the node itself."""
    name, ahead = (
        str(_node(flight.facts).get("name") or os.path.basename(folder)),
        _number(_node(flight.facts).get("clock"), 0.0),
    )

    def known(pid: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
        return Pid(pid, name, place) if isinstance(pid, int) and not isinstance(pid, bool) else pid

    def event(one: Event) -> Event:
        details = {key: known(value) if key in {"pid", "parent", "job"} else value for key, value in one.details.items()}
        if isinstance(details.get("since"), (int, float)):
            details["since"] += ahead
        return Event(one.time + ahead, one.kind, details, known(one.pid), one.rank)

    flight.events = [event(one) for one in flight.events]
    for process in flight.processes.values():
        process.pid, process.parent, process.born = known(process.pid), known(process.parent), process.born + ahead
        process.ended = None if process.ended is None else process.ended + ahead
    flight.processes = {process.pid: process for process in flight.processes.values()}
    for stage in flight.stages:
        stage.head, stage.pids = known(stage.head), {known(pid) for pid in stage.pids}
        stage.mains, stage.wrappers = [known(pid) for pid in stage.mains], [known(pid) for pid in stage.wrappers]
        stage.began, stage.ended = stage.began + ahead, None if stage.ended is None else stage.ended + ahead
    flight.samples = [(time + ahead, tables) for time, tables in flight.samples]
    for table in _OF_PROCESSES:
        columns = flight.columns.get(table, [])
        at = columns.index("pid") if "pid" in columns else 0
        for row in (row for _, tables in flight.samples for row in tables.get(table, ()) if "pid" in columns):
            pid = to_int(row[at])
            row[at] = row[at] if pid is None else float(Pid(pid, name, place))
    flight.stacks = [
        StackDump(dump.time + ahead, dump.reason, tuple(replace(one, pid=known(one.pid)) for one in dump.stood))
        for dump in flight.stacks
    ]
    if isinstance(flight.ending.get("time"), (int, float)):
        flight.ending["time"] += ahead
    last = max([time for time, _ in flight.samples[-1:]] + [one.time for one in flight.events[-1:]], default=0.0)
    ranks = tuple(sorted({rank.rank for rank in flight.ranks if rank.rank is not None}))
    return Node(name, folder, str(flight.facts.get("host")), ranks, last, flight.ending, flight.alive)


def _ending(flights: list[Flight]) -> dict[str, Any]:
    """How the job ended: well if it did everywhere, else as it did where it first ended badly."""
    ended = sorted((flight.ending for flight in flights if flight.ending), key=lambda one: _number(one.get("time"), 0.0))
    bad = [one for one in ended if one.get("code") != 0]
    if bad:
        return bad[0]
    return ended[-1] if ended and len(ended) == len(flights) else {}


def _one_hang(whole: Flight, flights: list[Flight]) -> None:
    """Every node says that its ranks stand; the one that stands outside a collective keeps the others waiting."""
    from crashcart.causes.hang._recorded import in_collective

    told = [event for event in whole.events if event.kind == "hang"]
    if told and _waits_for_the_dead(whole, told[0]):
        whole.events = [event for event in whole.events if event.kind != "hang"]
        return
    taken = [dump for flight in flights if told and (dump := _at(flight, told[0].time)) is not None]
    stood: tuple[Stood, ...] = tuple(one for dump in taken for one in dump.stood)
    waiting = {one.pid for one in stood if in_collective(one)}
    alone = [event for event in told if event.details.get("pid") not in waiting]
    if not told or len(taken) < 2:  # noqa: PLR2004 - one node alone has told it already
        return
    kept = (alone or told)[0]
    whole.events = [event for event in whole.events if event.kind != "hang" or event is kept]
    if not alone:  # nobody stands out: all wait, each in its own place
        at = whole.events.index(kept)
        details = {**kept.details, "rank": None, "pid": None}
        whole.events[at] = Event(kept.time, "hang", details)
    whole.stacks = [dump for dump in whole.stacks if dump.time <= kept.time]
    whole.stacks.append(StackDump(kept.time, "all nodes together", stood))


def _at(flight: Flight, time: float) -> StackDump | None:
    """The stacks of a node that were taken nearest to a moment; those of ranks that are being ended tell nothing."""
    dumps = [dump for dump in flight.stacks if dump.stood and dump.reason != "before it is killed"]
    return min(dumps, key=lambda dump: abs(dump.time - time), default=None)


def _waits_for_the_dead(whole: Flight, hang: Event) -> bool:
    """Whether a rank had ended, or a node was lost, on which a node then waited: that hang is an echo."""
    moving = replace(whole, events=[event for event in whole.events if event.kind != "hang"])
    leader = first(Case(flight=moving))
    ends = [node.last for node in whole.nodes if node.lost] + ([leader.time] if leader is not None else [])
    since = _number(hang.details.get("since"), hang.time)
    return any(end < since + _LATE for end in ends)


def _subject(whole: Flight, flights: list[Flight]) -> Flight:
    """The node in question."""
    leader = first(Case(flight=whole))
    hang = next((event for event in whole.of_kind("hang")), None)
    pid = leader.process.pid if leader is not None else hang.details.get("pid") if hang is not None else None
    for flight in flights:
        if pid in flight.processes:
            return flight
    failed = [flight for flight in flights if flight.ending and flight.ending.get("code") != 0]
    return min(failed, key=lambda one: _number(one.ending.get("time"), 0.0), default=flights[0])


def _facts(flights: list[Flight], nodes: list[Node]) -> dict[str, Any]:
    """What is to be said of all nodes together."""
    started = [_number(flight.facts.get("started"), 0.0) for flight in flights]
    ended = [_number(flight.facts.get("ended"), 0.0) for flight in flights]
    clocks = [_node(flight.facts).get("clock") for flight in flights]
    return {
        "host": ", ".join(node.name for node in nodes),
        "started": min([one for one in started if one], default=0.0),
        **({"ended": max(ended)} if all(ended) else {}),
        "clocks": [one for one in clocks if one is not None],
        "least": max(to_int(_node(flight.facts).get("least"), 1) for flight in flights),
    }


def _tables(flight: Flight, whole: Flight, tables: dict[str, list[list[float]]], everything: bool) -> dict[str, Any]:  # noqa: FBT001
    """The tables of one sample with the columns of the whole; those of the machine only of the node in question."""
    return {
        table: _rows(rows, flight.columns.get(table, []), whole.columns.get(table, []))
        for table, rows in tables.items()
        if everything or table in _OF_PROCESSES
    }


def _rows(rows: list[list[float]], columns: list[str], wanted: list[str]) -> list[list[float]]:
    if columns == wanted:
        return rows
    at = [columns.index(name) if name in columns else -1 for name in wanted]
    return [[row[one] if 0 <= one < len(row) else math.nan for one in at] for row in rows]


def _node(facts: dict[str, Any]) -> dict[str, Any]:
    node = facts.get("node")
    return node if isinstance(node, dict) else {}


def _of(pid: int) -> str:
    return pid.node if isinstance(pid, Pid) else ""


def _number(value: object, otherwise: float) -> float:
    return to_float(value, otherwise)
