"""What happened, in order: the events of a run, the first abnormal one, and the lines of the log that belong to it.

A recording has clocks, so its events are ordered by time. A log without one is taken in the order of its lines. The cause of a death
is the cause of the first abnormal event: what was printed elsewhere, by a step that the program got over or by a rank that only lost
its connection, explains nothing. So signs on other lines count less (``Account.is_about``), and so does what would have gone
wrong later, had the run come that far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.deaths import finished, first, followers, hung
from crashcart.flight import clock
from crashcart.model import Evidence, StoryEvent
from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.places import in_words, of_event, own_place, shortened, words_of
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.deaths import Death
    from crashcart.flight import Event, Flight, Process
    from crashcart.log import Line, Log, Raised
    from crashcart.model import Sign

__all__ = ["Account", "account_of", "thread_deaths"]

_MOST_EVENTS = 12
_MESSAGE = 60
_NOT_FINITE = Pattern(r"(?i)\bnan\b|\binf(?:inity|inite)?\b|finite|diverge")
_MAIN_THREAD = "MainThread"
_SHOWN_SAMPLES = 5
_LAST_WORDS = 25  # lines
_BEFORE = 10  # lines


@record(frozen=True)
class Account:
    """The story of a run. ``first`` is the first abnormal event; ``lines`` are the places in the log that belong to it."""

    events: tuple[StoryEvent, ...] = ()
    first: StoryEvent | None = None
    lines: frozenset[int] = frozenset()
    recorded: bool = False

    def is_about(self, sign: Sign) -> bool:
        """Whether a sign speaks of the first abnormal event: of its lines, or of what was recorded of the end."""
        if not self.recorded or self.first is None:
            return True
        sources = {item.source for item in sign.evidence}
        if sources and sources <= {"log"}:
            return sign.order in self.lines
        return bool(sources & {"recorder", "stacks", "kernel", "exit", "log"})


def account_of(case: Case) -> Account:
    """The account of a case: from its recording where there is one."""
    flight = case.flight
    if flight is None or finished(case):
        return Account()
    leader = first(case)
    abnormal = _first_abnormal(case, flight, leader)
    events = sorted(_normal_events(flight, abnormal), key=_moment)
    following = sorted(_consequences(case, flight, leader, abnormal), key=_moment)
    story = _shortened([*events, *([abnormal] if abnormal is not None else []), *following])
    return Account(tuple(story), abnormal, _lines_of(case, leader), recorded=True)


def thread_deaths(case: Case) -> list[Event]:
    """Exceptions that ended a thread of a rank of the stage in question, first one first."""
    flight = case.flight
    if flight is None:
        return []
    pids = {process.pid for process in flight.ranks}
    return [
        event
        for event in flight.of_kind("exception")
        if event.pid in pids and event.details.get("thread") not in {None, _MAIN_THREAD}
    ]


def folder_of(flight: Flight) -> str:
    """The working folder of the job."""
    return str(flight.facts.get("folder") or "")


def _moment(event: StoryEvent) -> float:
    return event.time if event.time is not None else 0.0


def _first_abnormal(case: Case, flight: Flight, leader: Death | None) -> StoryEvent | None:
    """The earliest of: the first death, the standstill, and what led to one of them."""
    candidates: list[StoryEvent] = []
    if leader is not None:
        candidates.append(_death_event(leader, folder_of(flight)))
    if hung(case):
        candidates.append(_standstill(flight))
        candidates += [_thread_event(flight, event) for event in thread_deaths(case)[:1]]
    candidates += _lasting_bad_losses(flight, leader)
    return min(candidates, key=_moment, default=None)


def _death_event(death: Death, folder: str) -> StoryEvent:
    if death.raised is None:
        return StoryEvent(
            "ended", f"{death.how}.", (death.evidence,), death.time, death.process.rank, _steps(death.process), abnormal=True
        )
    return _raised_event(death.raised, death.process, folder)


def _raised_event(event: Event, process: Process, folder: str) -> StoryEvent:
    place = own_place(of_event(event), folder) or in_words(of_event(event))
    said = words_of(event)
    kind = str(event.details.get("type", "")).rpartition(".")[2]
    says = f"{process.name} raised {kind}" + (f" at {place}" if place else "") + (f": {said}" if said else "")
    return StoryEvent("raised", says, (event.evidence,), event.time, process.rank, _step_of(event), abnormal=True)


def _thread_event(flight: Flight, event: Event) -> StoryEvent:
    process = flight.processes.get(event.pid or 0)
    name = process.name if process is not None else f"pid {event.pid}"
    place = own_place(of_event(event), folder_of(flight))
    kind = str(event.details.get("type", "")).rpartition(".")[2]
    says = f"Thread {event.details.get('thread')} of {name} died of {kind}" + (f" at {place}" if place else "")
    says += f": {words_of(event)}" if words_of(event) else ""
    rank = process.rank if process is not None else None
    return StoryEvent("thread died", says, (event.evidence,), event.time, rank, _step_of(event), abnormal=True)


def _standstill(flight: Flight) -> StoryEvent:
    event = [*flight.of_kind("hang")][-1]
    since = event.details.get("since")
    began = since if isinstance(since, (int, float)) else event.time
    where = shortened(str(event.details.get("where") or ""), folder_of(flight))
    rank = event.details.get("rank")
    who = f"rank {rank}" if isinstance(rank, int) and len(flight.ranks) > 1 else "the program"
    says = f"Nothing has moved since {clock(began)}" + (f"; {who} stands at {where}" if where else "")
    return StoryEvent("stood still", says, (event.evidence,), began, rank if isinstance(rank, int) else None, abnormal=True)


def _lasting_bad_losses(flight: Flight, leader: Death | None) -> list[StoryEvent]:
    """The first loss that was no number, where losses stayed so to the end, or where the death speaks of it."""
    pids = {process.pid: process for process in flight.ranks}
    events = [event for event in flight.of_kind("nonfinite") if event.pid in pids and event.details.get("what") == "loss"]
    if not events:
        return []
    process = pids[events[0].pid or 0]
    last = process.page.get("loss", 0.0)
    stays = last - last != 0
    if not stays and not (leader is not None and leader.says(_NOT_FINITE)):
        return []
    return [_loss_event(events[0], process)]


def _loss_event(event: Event, process: Process) -> StoryEvent:
    details = event.details
    says = f"{process.name}: the loss was {details.get('value', 'not finite')} at step {details.get('step')}"
    indices = details.get("indices")
    if isinstance(indices, list) and indices:
        shown = ", ".join(str(index) for index in indices[:_SHOWN_SAMPLES])
        says += f" (batch of samples {shown}{', …' if len(indices) > _SHOWN_SAMPLES else ''})"
    return StoryEvent("loss not finite", says, (event.evidence,), event.time, process.rank, _step_of(event), abnormal=True)


def _normal_events(flight: Flight, abnormal: StoryEvent | None) -> Iterator[StoryEvent]:
    """What went well before: the start of the stage, its steps, its last checkpoint and evaluation."""
    until = abnormal.time if abnormal is not None and abnormal.time is not None else float("inf")
    stage = flight.stage
    if stage is not None:
        ranks = f" with {stage.ranks} ranks" if stage.ranks > 1 else ""
        says = f"{stage.program} started{ranks}"
        yield StoryEvent("began", says, (_note(says, stage.began),), stage.began)
    pids = {process.pid for process in flight.ranks}
    for kind, words in (("checkpoint", "saved a checkpoint"), ("phase", "")):
        own = [event for event in flight.of_kind(kind) if event.pid in pids and event.time < until]
        if kind == "phase":
            own = [
                one
                for one in own
                if one.details.get("edge") == "begin" and one.details.get("phase") in {"evaluate", "sample"}
            ]
        for event in own[-1:]:
            process = flight.processes[event.pid or 0]
            doing = words or f"began to {event.details.get('phase')}"
            step = _step_of(event)
            says = f"{process.name} {doing}" + (f" after step {step}" if step else "")
            yield StoryEvent(kind, says, (event.evidence,), event.time, process.rank, step)


def _consequences(case: Case, flight: Flight, leader: Death | None, abnormal: StoryEvent | None) -> Iterator[StoryEvent]:
    """What followed: the death that an earlier event led to, the ends of other ranks, and our own stop."""
    if abnormal is None:
        return
    if leader is not None and abnormal.kind not in {"raised", "ended"}:
        yield _death_event(leader, folder_of(flight))
    if hung(case) and abnormal.kind != "stood still":
        yield _standstill(flight)
    for death in followers(case, leader)[:3] if leader is not None else ():
        yield _death_event(death, folder_of(flight))
    for event in flight.of_kind("sent"):
        if event.details.get("why"):
            says = f"crashcart ended the job ({event.details.get('why')})"
            yield StoryEvent("stopped", says, (event.evidence,), event.time)
            break


def _lines_of(case: Case, leader: Death | None) -> frozenset[int]:
    """The lines of the log that belong to the first death: its exception and the lines right before it, else its last words."""
    if leader is None:
        return frozenset()
    own = _lines_of_rank(case.log, leader.process.rank)
    if leader.raised is None:
        return frozenset(line.order for line in own[-_LAST_WORDS:])
    orders: set[int] = set()
    for raised in case.log.raised:
        if is_same_exception(raised, leader.raised):
            printed = case.log.around(raised.line, before=2 * len(raised.frames) + 2, after=raised.message.count("\n"))
            earlier = [line.order for line in own if line.order < printed[0].order]
            orders.update(line.order for line in printed)
            orders.update(earlier[-_BEFORE:])
    return frozenset(orders)


def _lines_of_rank(log: Log, rank: int | None) -> list[Line]:
    """What a rank printed, by its own log or its prefix; where ranks are not told apart, everything."""
    own = [line for line in log.lines if rank is not None and (line.rank == rank or line.file.endswith(f"rank{rank}.log"))]
    return own or log.lines


def is_same_exception(raised: Raised, event: Event) -> bool:
    """Whether a traceback of the log is a recorded exception."""
    message = str(event.details.get("message", "")).split("\n", 1)[0].strip()[:_MESSAGE]
    kind = str(event.details.get("type", "")).rpartition(".")[2]
    return raised.kind.rpartition(".")[2] == kind and message in raised.message


def _shortened(events: list[StoryEvent]) -> list[StoryEvent]:
    unique = [*dict.fromkeys(events)]
    return unique if len(unique) <= _MOST_EVENTS else [*unique[: _MOST_EVENTS - 3], *unique[-3:]]


def _steps(process: Process) -> int | None:
    return to_int(process.page.get("steps", 0.0), 0) or None


def _step_of(event: Event) -> int | None:
    step = event.details.get("step")
    return to_int(step, 0) if isinstance(step, (int, float)) else None


def _note(says: str, time: float) -> Evidence:
    return Evidence("recorder", says, f"recorder {clock(time)}", time=clock(time))
