"""Who of a recorded job ended badly, how and when; who was first, and who only followed.

All of it is about one stage, the one in question (``flight.stage``). The first counts. Ranks that wait for it lose their connection
or are ended by the launcher, often louder than it. Where the end of a process is only known to the second, an exception that speaks of
a broken connection is put after it. A rank that gave up waiting while all others were still there is the first; one that left with
exit code 0 while others went on is the first too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from crashcart.flight import Pid, clock, during
from crashcart.model import Evidence
from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.record import record, replace
from crashcart.stages import ASKING, exit_of, made_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.flight import Event, Flight, Process

__all__ = [
    "CHILD",
    "Death",
    "before",
    "blamed",
    "by_us",
    "deaths",
    "finished",
    "first",
    "followers",
    "hung",
    "is_second_hand",
    "left_early",
    "order",
    "partners",
    "stop",
    "stopped_by_us",
    "stopped_first",
    "swallowed",
    "terminated_alone",
    "terminated_first",
    "timed_out_by",
    "trained_well",
    "whole",
]

CHILD = "child process"
_MAINS = frozenset({"rank", "program"})
_TOGETHER = 0.5  # seconds
_APART = 0.02  # seconds: a launcher ends its ranks at once
_COARSE = 2.0  # seconds by which a look may be late
# Exceptions that carry a signal to a process, or report another one's end.
_SIGNALLED = ("KeyboardInterrupt", "SignalException", "SIGTERMException", "SystemExit")
_SECOND_HAND = (
    "ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError", "DistNetworkError",
    "DistStoreError", "DistBackendError", "HorovodInternalError", "ActorDiedError", "RayActorError", "RayTaskError",
    "ConnectionResetError", "BrokenPipeError", "EOFError", *_SIGNALLED,
)  # fmt: skip
_ECHO = Pattern(
    r"NCCL (?:error|communicator)|Watchdog caught|gloo/transport|connectFullMesh|reset by peer|closed by (?:remote )?peer|"
    r"Broken pipe|Socket Timeout|C10d store|DataLoader worker \(pid|exited unexpectedly|store based barrier|ncclUniqueId|"
    r"Timed out (?:after|waiting)|remote process exited"
)
_OF_WORKER = Pattern(r"DataLoader worker \(pid|exited unexpectedly")
_HANDED_ON = Pattern(
    r"Caught \w+ in (?:DataLoader worker|pin memory thread|replica)"
)  # the error of the rank's own data or model
_GAVE_UP = Pattern(r"(?i)timed out|time-?out|monitoredBarrier")
_SIGNAL = Pattern(r"got signal: (\d+)")
_NUMBERS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 15: "SIGTERM"}


@record(frozen=True)
class Death:
    """The bad end of one process: by an exception, a signal, an exit code, or nobody knows how."""

    process: Process
    time: float
    attempt: int
    signal: str | None = None
    code: int | None = None
    raised: Event | None = None
    gone: float | None = None  # when the kernel told its end; an exception is written down well before

    @property
    def echo(self) -> bool:
        """Whether it only followed from another's end, or from a signal that was to end it."""
        if self.raised is not None:
            message = str(self.raised.details.get("message", ""))
            return is_second_hand(self._kind, message)
        return self.signal in ASKING

    @property
    def _kind(self) -> str:
        """The name of its exception, without the module."""
        return str(self.raised.details.get("type", "")).rpartition(".")[2] if self.raised is not None else ""

    @property
    def of_worker(self) -> bool:
        """Whether it raised since one of its own loader workers had ended."""
        return self.says(_OF_WORKER)

    @property
    def interrupted(self) -> bool:
        """Whether its exception only carries a signal that was to end it."""
        return self._kind in _SIGNALLED

    @property
    def lost(self) -> bool:
        """Whether it raised since its connection to another rank broke, which the kernel may have told before the other's end."""
        return self.raised is not None and self.echo and not self.gave_up and not self.of_worker

    @property
    def gave_up(self) -> bool:
        """Whether it raised since it had waited for the others for too long."""
        return self.raised is not None and self.echo and self.says(_GAVE_UP)

    @property
    def left(self) -> bool:
        """Whether it ended well, though others went on."""
        return self.raised is None and self.signal is None and self.code == 0

    @property
    def how(self) -> str:
        """In words: `rank 1 ended by SIGKILL`."""
        if self.raised is not None:
            return f"{self.process.name} raised {self.raised.details.get('type')}"
        if self.signal:
            return f"{self.process.name} (pid {self.process.pid}) was killed by {self.signal}"
        if self.code is not None:
            return f"{self.process.name} (pid {self.process.pid}) exited with code {self.code}"
        return f"{self.process.name} (pid {self.process.pid}) ended, and it is not known how"

    @property
    def phase(self) -> str | None:
        """What it was doing, as far as it said so."""
        phase = self.raised.details.get("phase") if self.raised is not None else self.process.phase
        return str(phase) if phase not in {None, "unknown", "exit"} else None

    @property
    def evidence(self) -> Evidence:
        """The record of it."""
        if self.raised is not None:
            return self.raised.evidence
        phase = f" {during(self.phase)}" if self.phase else ""
        steps = self.process.page.get("steps", float("nan"))
        after = f" after {steps:.0f} optimizer steps" if steps == steps else ""  # noqa: PLR0124 - NaN is not itself
        at = clock(self.time)
        return Evidence("recorder", f"{self.how}{after}{phase}", f"recorder {at}", rank=self.process.rank, time=at)

    def says(self, pattern: Pattern) -> bool:
        """Whether its exception says this."""
        if self.raised is None:
            return False
        because = " ".join(str(one) for one in self.raised.details.get("because") or ())
        return bool(pattern.search(f"{self.raised.details.get('type')}: {self.raised.details.get('message')} {because}"))


def is_second_hand(kind: str, message: str) -> bool:
    """Whether an exception only reports another process's end, or carries a signal."""
    if _HANDED_ON.match(message):
        return False
    return kind in _SECOND_HAND or bool(_ECHO.search(message))


def finished(case: Case) -> bool:
    """Whether the work came to its end: then nothing that happened in it was its death.

    A script's 0 alone does not say so. Neither does its 1 say the opposite, where the training ended well and only a command
    after it (`cp`, `rsync`) failed.
    """
    flight = case.flight
    if flight is None or (flight.stage is not None and flight.stage.failed):
        return False
    return flight.ending.get("code") == 0 or (bool(flight.ending) and trained_well(flight))


def trained_well(flight: Flight) -> bool:
    """Whether the program that decided trained, and all of it ended with 0."""
    stage = flight.stage
    return stage is not None and stage.trained and stage.ended is not None and exit_of(flight, stage) == (0, None)


def hung(case: Case) -> bool:
    """Whether it stood still at the end: then those that die are not those to blame."""
    flight = case.flight
    told = (
        [event.kind for event in flight.of_kind("hang", "goes-on") if _in_stage(flight, event)] if flight is not None else []
    )
    return bool(told) and told[-1] == "hang"


def _in_stage(flight: Flight, event: Event) -> bool:
    """Whether something was noticed of the stage in question: by the process that it names, else by its time."""
    stage, pid = flight.stage, event.details.get("pid")
    if stage is None or pid in stage.pids:
        return True
    if pid in flight.processes:
        return False
    return stage.began <= event.time and (stage.ended is None or event.time <= stage.ended + _COARSE)


def order(case: Case) -> int:
    """Where signs of the recording stand among those of the log: in the last attempt, before its lines."""
    return case.log.attempts[-1] + 1 if case.log.attempts else 0


def deaths(case: Case) -> list[Death]:
    """All bad ends of ranks, of their loader workers and of processes that they started for work of their own, in the order of time; those that follow another come after it."""
    flight = case.flight
    if flight is None:
        return []
    began = _attempts(flight)
    own: dict[int | None, list[Event]] = {}
    for event in flight.of_kind("exception", "exit"):
        own.setdefault(event.pid, []).append(event)
    gone: dict[int, Event] = {}
    for event in flight.of_kind("gone"):
        pid = event.details.get("pid")
        if isinstance(pid, int):
            gone.setdefault(pid, event)
    found = [
        death
        for process in flight.members
        if process.role in {*_MAINS, "loader worker", CHILD}
        and (death := _death(case, flight, process, began, own.get(process.pid, []), gone.get(process.pid))) is not None
    ]
    return sorted(found, key=lambda death: death.time + (_COARSE if death.lost else 0.0))


def first(case: Case) -> Death | None:
    """The end from which the others of the last attempt followed; none where all only followed something, or all stood still."""
    if case.flight is None or finished(case) or hung(case):
        return None
    last = len(_attempts(case.flight)) - 1
    watchdog = bool(case.log.collectives)  # then it aborts those that waited
    ends = [death for death in deaths(case) if death.attempt == last]
    workers = any(end.process.role == "loader worker" for end in ends)  # else one ended before anybody looked
    faults = (end for end in ends if not end.echo or (end.of_worker and not workers))
    own = next((fault for fault in faults if not (watchdog and fault.signal == "SIGABRT")), None)
    own = _killed_with(own, ends) if own is not None else None
    lost = min((end for end in ends if end.raised is not None and end.echo), key=lambda one: one.time, default=None)
    if lost is None or (own is not None and own.time <= lost.time):
        return own
    left = left_early(case, lost, last)
    if left is not None and (own is None or left.time < own.time):
        return left
    if lost.gave_up and not any(end.time < lost.time for end in ends):
        together = [end for end in ends if end.gave_up and end.time < lost.time + _TOGETHER]
        return min(together, key=_progress_made)  # of those that gave up together, the one that was behind
    return own


def _killed_with(death: Death, ends: list[Death]) -> Death:
    """The rank itself, where somebody killed it and its loader workers at once: they only went first in the list."""
    if death.process.role != "loader worker" or death.signal != "SIGKILL":
        return death
    ranks = (end for end in ends if end.process.role in _MAINS and end.process.rank == death.process.rank)
    together = (end for end in ranks if end.signal == "SIGKILL" and end.raised is None and end.time <= death.time + _COARSE)
    return next(together, death)


def _progress_made(death: Death) -> tuple[float, float, float]:
    """How far a rank had come."""
    page = death.process.page
    return page.get("backwards", 0.0), page.get("steps", 0.0), death.time


def left_early(case: Case, lost: Death, attempt: int) -> Death | None:
    """A rank that had ended well before another lost its connection to it, or gave up waiting."""
    flight = case.flight
    if flight is None or len({rank.rank for rank in flight.ranks}) < 2:  # noqa: PLR2004 - nobody else is there to be left
        return None
    began = _attempts(flight)
    found = []
    for process in flight.ranks:
        end = _ended_well(flight, process)
        if end is None or process.pid == lost.process.pid or _attempt(process, began) != attempt:
            continue
        # The others learn of a closed connection a moment before the end of a process is told.
        if end < lost.time or (end < lost.time + _TOGETHER and _reported(case, flight) and not _told_to_end(case, process)):
            found.append(Death(process, min(end, lost.time), attempt, code=0))
    return min(found, key=lambda one: one.time, default=None)


def _told_to_end(case: Case, process: Process) -> bool:
    """Whether a launcher says that it ended this process, which was then still there."""
    number = process.pid.number if isinstance(process.pid, Pid) else process.pid
    return any("closing signal" in line.lowered and f"process {number} " in line.lowered for line in case.log.lines)


def _ended_well(flight: Flight, process: Process) -> float | None:
    """When a process left its program, where it raised nothing and ended with 0."""
    left = [event.time for event in flight.events if event.kind == "exit" and event.pid == process.pid]
    gone = next((event for event in flight.of_kind("gone") if event.details.get("pid") == process.pid), None)
    raised = any(
        event.pid == process.pid and event.details.get("thread") == "MainThread" for event in flight.of_kind("exception")
    )
    if raised or (gone is not None and (gone.details.get("code") or gone.details.get("signal"))):
        return None
    return left[0] if left else gone.time if gone is not None else None


def timed_out_by(case: Case) -> Event | None:
    """The end of a ``timeout`` around the program that had used up its time: it says so by exit code 124, or 137 after SIGKILL."""
    flight = case.flight
    if flight is None or flight.stage is None:
        return None
    wrappers = [flight.processes[pid] for pid in flight.stage.wrappers]
    pids = {wrapper.pid for wrapper in wrappers if wrapper.command.split(" ", 1)[0].rpartition("/")[2] == "timeout"}
    for event in flight.of_kind("gone"):
        if event.details.get("pid") in pids and (
            event.details.get("code") in {124, 137} or event.details.get("signal") == "SIGKILL"
        ):
            return event
    return None


def blamed(case: Case) -> int | None:
    """The rank that ended first and by itself, where there are several."""
    leader = first(case)
    if leader is None or case.flight is None or whole(case) is not None or stopped_first(case) is not None:
        return None
    return leader.process.rank if len({rank.rank for rank in case.flight.ranks}) > 1 else None


def terminated_first(case: Case) -> Death | None:
    """A rank that SIGTERM ended before anything else of the job had ended: a launcher sends it only to those that are left."""
    flight = case.flight
    if flight is None or finished(case) or hung(case) or first(case) is not None or timed_out_by(case) is not None:
        return None
    last = len(_attempts(flight)) - 1
    ends = sorted((death for death in deaths(case) if death.attempt == last and death.gone), key=lambda one: one.gone or 0.0)
    alone = len(ends) > 1 and (ends[1].gone or 0.0) - (ends[0].gone or 0.0) > _APART
    return ends[0] if alone and ends[0].signal == "SIGTERM" and ends[0].raised is None else None


def terminated_alone(case: Case) -> Death | None:
    """The end by SIGTERM of a program, where the recorder around the job got no such signal: a scheduler would have sent it to all."""
    flight = case.flight
    if flight is None or finished(case) or hung(case) or stopped_by_us(case) or timed_out_by(case) is not None:
        return None
    if first(case) is not None or any(event.details.get("signal") == "SIGTERM" for event in flight.of_kind("signal")):
        return None
    if flight.stage is not None and _any_raised(flight, flight.stage.pids):  # a pool ends its workers when its program fails
        return None
    ended = [death for death in deaths(case) if death.signal == "SIGTERM"]
    return min(ended, key=lambda death: death.time, default=None)


def _any_raised(flight: Flight, pids: set[int]) -> bool:
    kinds = (
        str(event.details.get("type", "")).rpartition(".")[2]
        for event in flight.of_kind("exception")
        if event.pid in pids and event.details.get("thread") == "MainThread"
    )
    return any(kind not in _SIGNALLED for kind in kinds)


def whole(case: Case) -> Event | None:
    """The end of a launcher by a signal that it cannot have got from its ranks: somebody killed the job, not a rank of it."""
    if case.flight is None or finished(case):
        return None
    launchers = {member.pid for member in case.flight.members if member.role == "launcher"}
    for event in case.flight.of_kind("gone"):
        if event.details.get("pid") in launchers and event.details.get("signal") == "SIGKILL":
            ends = [death.time for death in deaths(case)]
            return event if event.time < min(ends, default=event.time) + _TOGETHER else None
    return None


def by_us(case: Case, time: float) -> bool:
    """Whether crashcart itself had killed the job by then."""
    sent = case.flight.of_kind("sent") if case.flight is not None else ()
    return any(event.details.get("signal") == "SIGKILL" and event.time < time + 1 for event in sent)


def stopped_by_us(case: Case) -> bool:
    """Whether crashcart ended the job of its own accord: nobody outside did."""
    sent = case.flight.of_kind("sent") if case.flight is not None else ()
    asked = case.flight.of_kind("signal") if case.flight is not None else ()
    return any(True for _ in sent) and not any(True for _ in asked)


def before(case: Case) -> list[Death]:
    """What ended earlier attempts, after which the job was started again: of processes that had begun to train."""
    if case.flight is None:
        return []
    last = len(_attempts(case.flight)) - 1
    found: dict[int, Death] = {}
    for death in deaths(case):
        trained = death.process.page.get("steps", 0.0) > 0 or death.process.role not in _MAINS
        if death.attempt < last and not death.echo and trained:
            found.setdefault(death.attempt, death)
    return [*_in_earlier_stages(case), *found.values()]


def _in_earlier_stages(case: Case) -> Iterator[Death]:
    """What ended the same command when the script started it before."""
    flight = case.flight
    stage = flight.stage if flight is not None else None
    if flight is None or stage is None:
        return
    for number, one in enumerate(earlier for earlier in flight.stages if earlier.command == stage.command):
        leader = first(replace(case, flight=replace(flight, stage=one))) if one.failed and one.began < stage.began else None
        if leader is not None and leader.process.trained:
            yield replace(leader, attempt=number)


def swallowed(case: Case) -> Death | None:
    """The uncaught exception of a program that the script got over, where the job ended with 0: `| tee` or `|| true` hid it."""
    flight = case.flight
    if flight is None or not finished(case):
        return None
    for stage in reversed(flight.stages):
        if not stage.failed or stage is flight.stage or made_up(stage, flight.stages):
            continue
        leader = first(replace(case, flight=replace(flight, stage=stage)))
        if leader is not None and leader.raised is not None:
            return leader
    return None


def partners(flight: Flight, pids: set[int]) -> list[Process]:
    """The processes that these started for themselves: not those of a shell that became one of them later, by ``exec``."""
    began = {event.pid: event.time for event in flight.of_kind("hello") if event.details.get("how") == "start"}
    ended = {event.details.get("pid"): event.time for event in flight.of_kind("gone")}
    return [
        process
        for process in flight.processes.values()
        if process.parent in pids and ended.get(process.pid, math.inf) > began.get(process.parent, 0.0)
    ]


def followers(case: Case, leader: Death) -> list[Death]:
    """Ranks of the same attempt that ended after the first."""
    return [
        death
        for death in deaths(case)
        if death.attempt == leader.attempt and death.process.role in _MAINS and death.process.pid != leader.process.pid
    ]


def stop(case: Case) -> tuple[str, Event] | None:
    """The signal that asked the job to stop, and the event that shows it: at the supervisor, or at a rank or its launcher."""
    flight = case.flight
    if flight is None:
        return None
    if timed_out_by(case) is not None:
        return None
    asked = [(str(event.details.get("signal")), event) for event in flight.of_kind("signal")]
    sent = min(
        (event.time for event in flight.of_kind("sent")), default=float("inf")
    )  # by crashcart: what follows is its doing
    carried = ((_carried(flight, event), event) for event in flight.of_kind("exception") if event.time < sent)
    told = [(name, event) for name, event in carried if name is not None]
    passed_on = [one for one in asked if one[0] in {"SIGINT", "SIGTERM"}]
    return min((*passed_on, *told), key=lambda one: one[1].time, default=None)


def stopped_first(case: Case) -> tuple[str, Event] | None:
    """The same, if nothing of the job had failed by itself before, and it was not a hang that somebody ended."""
    asked, leader = stop(case), first(case)
    if asked is None or finished(case) or hung(case) or (leader is not None and leader.time < asked[1].time):
        return None
    return asked


def _attempts(flight: Flight) -> list[float]:
    """When each attempt began: a rank that is born again begins another one."""
    began: list[float] = []
    seen: set[int | None] = set()
    for process in sorted(flight.ranks, key=lambda one: one.born):
        if not began or process.rank in seen:
            began.append(process.born)
            seen = set()
        seen.add(process.rank)
    return began


def _attempt(process: Process, began: list[float]) -> int:
    return max(0, sum(process.born >= time for time in began) - 1)


def _carried(flight: Flight, event: Event) -> str | None:
    """The signal that an exception stands for."""
    process = flight.processes.get(event.pid or 0)
    kind = str(event.details.get("type", "")).rpartition(".")[2]
    own = process is not None and (flight.stage is None or process.pid in flight.stage.pids)
    if (
        process is None
        or not own
        or process.role not in {*_MAINS, "launcher"}
        or event.details.get("thread") != "MainThread"
    ):
        return None
    if kind == "KeyboardInterrupt":
        return "SIGINT"
    match = _SIGNAL.search(str(event.details.get("message", ""))) if kind in _SIGNALLED else None
    return _NUMBERS.get(to_int(match[1], 0)) if match else None


def _death(
    case: Case, flight: Flight, process: Process, began: list[float], own: list[Event], gone: Event | None
) -> Death | None:
    attempt = _attempt(process, began)
    signal = gone.details.get("signal") if gone is not None else None
    code = gone.details.get("code") if gone is not None else None
    ended = gone.time if gone is not None else process.ended
    raised = next((one for one in own if one.kind == "exception" and one.details.get("thread") == "MainThread"), None)
    if process.role == CHILD:
        told = raised is not None and not _caught(flight, process)
        return Death(process, raised.time, attempt, signal, code, raised, ended) if told and raised is not None else None
    if (
        process.role not in _MAINS
    ):  # workers are ended by TERM when an epoch is over, and what they raise is raised in their rank
        sudden = (isinstance(signal, str) and signal not in ASKING) or bool(code)
        return Death(process, ended, attempt, signal, code, gone=ended) if sudden and ended is not None else None
    if raised is not None:
        return Death(process, raised.time, attempt, signal, code, raised, ended)
    if ended is None or code == 0:
        return None
    if signal is None and code is None and not finished(case):
        signal, code = _in_log(case, process.pid)
        if signal is None and code is None and _reported(case, flight):
            return None  # a launcher names all that failed; this one left with 0
        vanished = process.reached and not own and bool(flight.ending)
        return Death(process, ended, attempt, signal, code, gone=ended) if vanished or signal or code else None
    return Death(process, ended, attempt, signal, code, gone=ended)


def _caught(flight: Flight, child: Process) -> bool:
    """Whether the process that started it ended by an error of its own, or well: then it had got over the child's."""
    pid = child.parent or 0
    gone = next((event for event in flight.of_kind("gone") if event.details.get("pid") == pid), None)
    if gone is not None and gone.details.get("code") == 0:
        return True
    kinds = [
        str(event.details.get("type", "")).rpartition(".")[2]
        for event in flight.of_kind("exception")
        if event.pid == pid and event.details.get("thread") == "MainThread"
    ]
    return bool(kinds) and kinds[0] not in _SECOND_HAND


def _reported(case: Case, flight: Flight) -> bool:
    """Whether a launcher has named by their numbers the ranks of this stage that failed."""
    numbers = {pid.number if isinstance(pid, Pid) else pid for pid in (rank.pid for rank in flight.ranks)}
    return any(f"pid: {number}" in death.line.text for number in numbers for death in case.log.deaths)


def _in_log(case: Case, pid: int) -> tuple[str | None, int | None]:
    """What the launcher says of the process, where the kernel did not tell us."""
    number = pid.number if isinstance(pid, Pid) else pid
    for death in case.log.deaths:
        if f"pid: {number}" in death.line.text:
            return death.signal, None if death.signal else death.exit_code
    return None, None
