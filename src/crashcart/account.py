"""What happened, in order: the events of a run, the first abnormal one, and the lines of the log that belong to it.

A recording has clocks, so its events are ordered by time. A log without one is taken in the order of its lines. The cause of a death
is the cause of the first abnormal event: what was printed elsewhere, by a step that the program got over or by a rank that only lost
its connection, explains nothing. So signs on other lines count less (``Account.distance``), and so does what would have gone
wrong later, had the run come that far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.deaths import CHILD, deaths, finished, first, followers, hung, is_second_hand, partners
from crashcart.doubts import emptied
from crashcart.flight import clock, program_of
from crashcart.log import evidence
from crashcart.model import Evidence, StoryEvent
from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.places import (
    in_words,
    never_better,
    of_event,
    of_raised,
    own_place,
    printed_before_leaving,
    shortened,
    words_of,
)
from crashcart.record import record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case
    from crashcart.deaths import Death
    from crashcart.flight import Event, Flight, Process, Stage
    from crashcart.log import Line, Log, Raised
    from crashcart.model import Sign

__all__ = [
    "ELSEWHERE",
    "NOT_FINITE",
    "Account",
    "account_of",
    "is_same_exception",
    "reported",
    "stage_at_fault",
    "thread_deaths",
]

ELSEWHERE = 2
_MOST_EVENTS = 12
_HAPPENED = frozenset({"log", "recorder", "stacks", "kernel", "exit", "nccl", "process", "slurm", "tracker", "checkpoint"})
_MESSAGE = 60
RUN_LOG = Pattern(r"^(?:output|errors|launcher|rank\d+(?:-attempt\d+)?)\.log$")
NOT_FINITE = Pattern(r"(?i)\bnan\b|\binf(?:inity|inite)?\b|finite|diverge|out of range float values")  # the last: json
_MAIN_THREAD = "MainThread"
_WORKER = "loader worker"  # or of a pool, which looks the same from outside
_SHOWN_SAMPLES = 5
_SHOWN_MESSAGE = 120
_LAST_WORDS = 25  # lines
_BEFORE = 10  # lines
_SEVERAL = 2
_TOGETHER = 2.0  # seconds: progress is looked at once a second


@record(frozen=True)
class Account:
    """The story of a run. ``first`` is the first abnormal event; ``lines`` are the places in the log that belong to it, ``before`` those right before."""

    events: tuple[StoryEvent, ...] = ()
    first: StoryEvent | None = None
    lines: frozenset[int] = frozenset()
    before: frozenset[int] = frozenset()
    recorded: bool = False

    def distance(self, sign: Sign) -> int:
        """How far a sign is from the first abnormal event: 0 of its own lines or its record, 1 right before it, 2 elsewhere."""
        if self.is_latent(sign):
            return ELSEWHERE
        if not self.recorded or self.first is None or not {item.source for item in sign.evidence} <= {"log"}:
            return 0
        return 0 if sign.order in self.lines else 1 if sign.order in self.before else ELSEWHERE

    def is_latent(self, sign: Sign) -> bool:
        """Whether a sign only speaks of what stands in code (of a recorded run also: in a config), and not of what happened."""
        sources = {item.source for item in sign.evidence}
        return bool(sources) and not sources & _HAPPENED and (self.recorded or "code" in sources)


def account_of(case: Case) -> Account:
    """The account of a case: from its recording where there is one."""
    flight = case.flight
    if flight is None:
        return _account_of_log(case)
    if finished(case):
        return Account(recorded=True)
    leader = first(case)
    if leader is None and not hung(case):  # of ranks that were all asked to end, the one that ended first
        leader = min(deaths(case), key=_when, default=None)
    abnormal = _first_abnormal(case, flight, leader)
    led_to = []
    if leader is not None and leader.raised is not None and (empty := emptied(flight, leader.raised)) is not None:
        led_to = [_empty_event(empty, flight)]
    elif abnormal is not None and (skipped := _skipped_alone(case, flight, leader)) is not None:
        led_to = [skipped]
    elif abnormal is not None and (written := reported(case)) is not None:
        led_to = [_reported_event(written, folder_of(flight), abnormal)]
    elif (lost := _lost_metric(case)) is not None and abnormal is not None and abnormal.kind == "raised":
        led_to = [
            StoryEvent(
                "loss not finite", f"a loss was printed as NaN: {_cut(lost.text.strip())}", (evidence(lost),), abnormal=True
            )
        ]
    earliest = next((event for event in led_to if event.time is not None), abnormal)
    events = sorted(_normal_events(flight, earliest), key=_moment)
    death = [replace(abnormal, abnormal=not led_to)] if abnormal is not None else []
    following = sorted(_consequences(case, flight, leader, abnormal), key=_moment)
    lines, before = _lines_of(case, leader)
    lines |= {order for event in led_to for order in _lines_behind(case, event)}
    return Account(
        tuple(_shortened([*events, *led_to, *death, *following])),
        led_to[0] if led_to else abnormal,
        lines,
        before,
        recorded=True,
    )


def stage_at_fault(case: Case) -> Stage | None:
    """The program whose code explains the end: that of the first death, or one before it that left no file, or NaN, behind."""
    flight, leader = case.flight, first(case)
    if flight is None or leader is None or leader.raised is None:
        return flight.stage if flight is not None else None
    empty = emptied(flight, leader.raised)
    lost = _bad_losses(flight, leader.raised) if leader.says(NOT_FINITE) else []
    pids = [event.pid for event in ([empty] if empty is not None else lost[:1])]
    return next((stage for stage in flight.stages if stage.pids & {*pids}), flight.stage)


def _lost_metric(case: Case) -> Line | None:
    """The first line with a loss that was NaN, where a file is missing that only a better number would have written."""
    lost = (metric for metric in case.log.metrics if any("loss" in name and value != value for name, value in metric.values))  # noqa: PLR0124 - NaN
    return next((metric.line for metric in lost), None) if never_better(case) else None


def _empty_event(event: Event, flight: Flight) -> StoryEvent:
    place = shortened(str(event.details.get("place", "")).partition(" ")[0], folder_of(flight))
    says = f"the loader of the {event.details.get('role', 'training')} gave no batch" + (f" at {place}" if place else "")
    return StoryEvent("no batch", says, (event.evidence,), event.time, event.rank, _step_of(event), abnormal=True)


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


def reported(case: Case) -> Raised | None:
    """The exception that the program caught and wrote, into a file of its own or on its output, before it ended or stood still."""
    paths = case.flight.facts.get("own_reports", ()) if case.flight is not None else ()
    written = [raised for raised in case.log.raised if raised.kind and _is_in(raised.line, paths)]
    return written[-1] if written else printed_before_leaving(case)


def _is_in(line: Line, paths: Sequence[str]) -> bool:
    return any(path == line.file or path.endswith(f"/{line.file}") for path in paths)


def _reported_event(written: Raised, folder: str, abnormal: StoryEvent) -> StoryEvent:
    """What a program caught and wrote down; it had happened before what came of it."""
    kind, message = written.kind.rpartition(".")[2], written.message.strip().split("\n", 1)[0]
    place = own_place(of_raised(written), folder)
    says = f"the program caught {kind}" + (f" at {place}" if place else "") + (f": {_cut(message)}" if message else "")
    says += f" ({'printed' if RUN_LOG.search(written.line.file) else 'written'} to {written.line.file})"
    return StoryEvent("raised", says, (evidence(written.line),), abnormal.time, abnormal.rank, abnormal=True)


def _lines_behind(case: Case, event: StoryEvent) -> Iterator[int]:
    """The lines of the log that tell what led to a death."""
    if (lost := _lost_metric(case)) is not None and evidence(lost) in event.evidence:
        yield lost.order
    elif event.kind == "batch skipped":
        yield from (line.order for line in case.log.skips)
    elif (written := reported(case)) is not None:
        yield from (line.order for line in case.log.around(written.line, before=2 * len(written.frames) + 2, after=0))


def folder_of(flight: Flight) -> str:
    """The working folder of the job."""
    return str(flight.facts.get("folder") or "")


def _moment(event: StoryEvent) -> float:
    return event.time if event.time is not None else 0.0


def _when(death: Death) -> float:
    return death.time


def _first_abnormal(case: Case, flight: Flight, leader: Death | None) -> StoryEvent | None:
    """The earliest of: the first death, the standstill, and what led to one of them."""
    candidates: list[StoryEvent] = []
    if leader is not None:
        candidates.append(_death_event(leader, folder_of(flight)))
    if hung(case):
        candidates.append(_standstill(flight))
        candidates += [partner] if (partner := _last_partner_lost(case, flight, candidates[-1])) is not None else []
    candidates += _lasting_bad_losses(case, flight, leader)
    return min(candidates, key=_moment, default=None)


def _skipped_alone(case: Case, flight: Flight, leader: Death | None) -> StoryEvent | None:
    """The first batch that one rank left out and another did not, where no error of a rank's own ended the run."""
    if leader is None or (leader.raised is not None and not leader.echo):
        return None
    ranks = {process.rank for process in flight.ranks if process.rank is not None}
    by_rank = {rank: [line for line in case.log.skips if _is_of_rank(line, rank)] for rank in ranks}
    counts = {len(lines) for lines in by_rank.values()}
    if len(ranks) < _SEVERAL or len(counts) == 1:
        return None
    rank, lines = max(by_rank.items(), key=lambda item: len(item[1]))
    fewer = min(len(lines) for lines in by_rank.values())
    line = lines[fewer]
    return StoryEvent(
        "batch skipped",
        f"only rank {rank} skipped a batch: {_cut(line.text.strip())}",
        (evidence(line),),
        rank=rank,
        abnormal=True,
    )


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
    says = f"thread {event.details.get('thread')} of {name} died with {kind}" + (f" at {place}" if place else "")
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
    says = f"no progress since {clock(began)}" + (f"; {who} is at {where}" if where else "")
    return StoryEvent("stood still", says, (event.evidence,), began, rank if isinstance(rank, int) else None, abnormal=True)


def _last_partner_lost(case: Case, flight: Flight, standstill: StoryEvent) -> StoryEvent | None:
    """The last thread or child process of a rank that ended before all stood still: what is waited for is mostly one of them."""
    ranks = {process.pid for process in flight.ranks}
    started = {process.pid: process.role for process in partners(flight, ranks)}
    lost = [_thread_event(flight, event) for event in thread_deaths(case)]
    for event in flight.of_kind("gone"):
        role = started.get(event.details.get("pid", 0))
        if role in {"other", CHILD} or (role == _WORKER and event.details.get("code")):
            process = flight.processes[event.details["pid"]]
            died_by = event.details.get("signal")
            how = f"was killed by {died_by}" if died_by else f"exited with code {event.details.get('code')}"
            says = f"child process {process.pid} of {flight.processes[process.parent or 0].name} {how}"
            lost.append(StoryEvent("child ended", says, (event.evidence,), event.time, process.rank, abnormal=True))
    before = [event for event in lost if _moment(event) <= _moment(standstill) + _TOGETHER]
    return max(before, key=_moment, default=None)


def _lasting_bad_losses(case: Case, flight: Flight, leader: Death | None) -> list[StoryEvent]:
    """The first loss that was no number, where losses stayed so to the end, or where the death speaks of it."""
    is_about_it = leader is not None and (leader.says(NOT_FINITE) or never_better(case))
    events = _bad_losses(flight, leader.raised if leader is not None and is_about_it else None)
    process = flight.processes[events[0].pid or 0] if events else None
    last = process.page.get("loss", 0.0) if process is not None else 0.0
    if process is None or not (is_about_it or last - last != 0):
        return []
    return [_loss_event(events[0], process.name if process in flight.ranks else program_of(process.command), process)]


def _bad_losses(flight: Flight, raised: Event | None) -> list[Event]:
    """Losses that were no number, of the ranks in question; before an exception that may come of them, of any program."""
    pids = {process.pid for process in flight.ranks}
    events = [event for event in flight.of_kind("nonfinite") if event.details.get("what") == "loss"]
    return [
        event
        for event in events
        if event.pid in pids or (raised is not None and event.time <= raised.time and event.pid in flight.processes)
    ]


def _loss_event(event: Event, who: str, process: Process) -> StoryEvent:
    details = event.details
    says = f"{who}: the loss was {details.get('value', 'not finite')} at step {details.get('step')}"
    indices = details.get("indices")
    if isinstance(indices, list) and indices:
        shown = ", ".join(str(index) for index in indices[:_SHOWN_SAMPLES])
        says += f" (batch of samples {shown}{', …' if len(indices) > _SHOWN_SAMPLES else ''})"
    return StoryEvent("loss not finite", says, (event.evidence,), event.time, process.rank, _step_of(event), abnormal=True)


def _normal_events(flight: Flight, abnormal: StoryEvent | None) -> Iterator[StoryEvent]:
    """What went well before: the start of the stage, its steps, its last checkpoint and evaluation."""
    until = abnormal.time if abnormal is not None and abnormal.time is not None else float("inf")
    stage = flight.stage
    if stage is not None and stage.began <= until:
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
            doing = words or f"started to {event.details.get('phase')}"
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
            says = f"crashcart stopped the job ({event.details.get('why')})"
            yield StoryEvent("stopped", says, (event.evidence,), event.time)
            break


def _lines_of(case: Case, leader: Death | None) -> tuple[frozenset[int], frozenset[int]]:
    """The lines of the log that belong to the first death, its exception or else its last words; and those right before."""
    if leader is None:
        return frozenset(), frozenset()
    own = _lines_of_rank(case.log, leader.process.rank)
    if leader.raised is None:
        return frozenset(line.order for line in own[-_LAST_WORDS:]), frozenset()
    orders: set[int] = set()
    before: set[int] = set()
    for raised in case.log.raised:
        if is_same_exception(raised, leader.raised):
            printed = case.log.around(raised.line, before=2 * len(raised.frames) + 2, after=raised.message.count("\n"))
            earlier = [line.order for line in own if line.order < printed[0].order]
            orders.update(line.order for line in printed)
            before.update(earlier[-_BEFORE:])
    return frozenset(orders), frozenset(before)


def _lines_of_rank(log: Log, rank: int | None) -> list[Line]:
    """What a rank printed, by its own log or its prefix; where ranks are not told apart, everything."""
    own = [line for line in log.lines if _is_of_rank(line, rank)]
    return own or log.lines


def _is_of_rank(line: Line, rank: int | None) -> bool:
    return rank is not None and (line.rank == rank or line.file.endswith(f"rank{rank}.log"))


def is_same_exception(raised: Raised, event: Event) -> bool:
    """Whether a traceback of the log is a recorded exception, or the one of a loader worker that it carries over."""
    told = str(event.details.get("message", ""))
    kind = str(event.details.get("type", "")).rpartition(".")[2]
    own = raised.kind.rpartition(".")[2]
    begins = raised.message.split("\n", 1)[0].strip()
    carried = bool(begins) and f"{own}: {begins}" in told
    return carried or (own == kind and told.split("\n", 1)[0].strip()[:_MESSAGE] in raised.message)


def _account_of_log(case: Case) -> Account:
    """What a log alone tells, in the order of its lines: it has no clock that all of its writers share."""
    log = case.log
    ends = [*_exceptions(log), *_reported_deaths(log), *_timed_out_collectives(log)]
    events = [*(event for event in ends if not log.goes_on_after(event.line)), *_lasting_bad_metrics(log)]
    events.sort(key=_line_number)
    if not events:
        return Account()
    first = next((event for event in events if not event.is_echo), events[0])
    before = _progress_before(log, first.line)
    said: dict[tuple[str, int | None], _LogEvent] = {}
    for event in events:
        said.setdefault((event.says, event.line.rank), event)
    story = [*([before] if before is not None else []), *(event.told(abnormal=event is first) for event in said.values())]
    story += _kernel_kills(case)
    return Account(tuple(_shortened(story)), first.told(abnormal=True))


@record(frozen=True)
class _LogEvent:
    """Something abnormal that a log tells; an echo only follows from another process's end."""

    kind: str
    says: str
    line: Line
    rank: int | None = None
    is_echo: bool = False

    def told(self, *, abnormal: bool) -> StoryEvent:
        rank = self.rank if self.rank is not None else self.line.rank
        return StoryEvent(self.kind, self.says, (evidence(self.line),), rank=rank, abnormal=abnormal)


def _line_number(event: _LogEvent) -> int:
    return event.line.order


def _of_rank(rank: int | None, otherwise: str) -> str:
    return f"rank {rank}" if rank is not None else otherwise


def _exceptions(log: Log) -> Iterator[_LogEvent]:
    for raised in log.uncaught():
        place = own_place(of_raised(raised))
        message = raised.message.strip().split("\n", 1)[0]
        who = _of_rank(raised.line.rank, "a loader worker" if raised.worker else "the program")
        kind = raised.kind.rpartition(".")[2]
        says = f"{who} raised {kind}" + (f" at {place}" if place else "") + (f": {_cut(message)}" if message else "")
        yield _LogEvent("raised", says, raised.line, is_echo=is_second_hand(kind, raised.message))


def _reported_deaths(log: Log) -> Iterator[_LogEvent]:
    for death in log.deaths:
        how = f"was killed by {death.signal}" if death.signal else f"exited with code {death.exit_code}"
        rank = death.rank if death.rank is not None else death.line.rank
        asked_to_end = death.signal == "SIGTERM" or (death.signal is None and death.exit_code == 1)
        yield _LogEvent("ended", f"{_of_rank(rank, 'a process')} {how}", death.line, rank, is_echo=asked_to_end)


def _timed_out_collectives(log: Log) -> Iterator[_LogEvent]:
    for waited in log.collectives:
        limit = f" after {waited.timeout_seconds:.0f} s" if waited.timeout_seconds else ""
        number = f" number {waited.sequence}" if waited.sequence is not None else ""
        operation = waited.operation or "a collective"
        says = f"{_of_rank(waited.rank, 'a rank')} timed out in {operation}{number}{limit}"
        yield _LogEvent("collective", says, waited.line, waited.rank)


def _lasting_bad_metrics(log: Log) -> Iterator[_LogEvent]:
    """The first loss that was no number, where the losses of that name stayed so."""
    first: dict[str, _LogEvent] = {}
    for metrics in log.metrics:
        for name, value in metrics.values:
            if "loss" not in name.lower():
                continue
            if value - value == 0:
                first.pop(name, None)
            elif name not in first:
                step = f" at step {metrics.step}" if metrics.step is not None else ""
                first[name] = _LogEvent("loss not finite", f"{name} was {value}{step}", metrics.line)
    yield from sorted(first.values(), key=_line_number)[:1]


def _progress_before(log: Log, line: Line) -> StoryEvent | None:
    """The last step that was printed before a line."""
    last = next(
        (metric for metric in reversed(log.metrics) if metric.step is not None and metric.line.order < line.order), None
    )
    if last is None:
        return None
    return StoryEvent(
        "step",
        f"step {last.step} was the last one printed before this",
        (evidence(last.line),),
        rank=last.line.rank,
        step=last.step,
    )


def _kernel_kills(case: Case) -> Iterator[StoryEvent]:
    for event in case.kernel:
        if event.ours is not False and event.kind in {"oom-kill", "xid"}:
            says = (
                "the kernel killed a process because memory ran out"
                if event.kind == "oom-kill"
                else "the GPU driver reported an error"
            )
            yield StoryEvent("kernel", says, (event.evidence,), event.seconds, abnormal=event.ours is True)


def _cut(message: str) -> str:
    return message if len(message) <= _SHOWN_MESSAGE else message[: _SHOWN_MESSAGE - 1] + "…"


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
