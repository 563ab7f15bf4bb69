"""Who of a recorded job ended badly, how and when; who was first, and who only followed.

The first counts. Ranks that wait for it lose their connection or are ended by the launcher, often louder than it. Where the end
of a process is only known to the second, an exception that speaks of a broken connection is put after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.flight import Pid, clock
from crashcart.model import Evidence
from crashcart.pattern import Pattern
from crashcart.record import record

if TYPE_CHECKING:
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
    "order",
    "stop",
    "stopped_first",
    "swallowed",
    "whole",
]

_ASKING = frozenset({"SIGTERM", "SIGINT", "SIGHUP"})
CHILD = "child process"
_TOGETHER = 0.5  # seconds
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

    @property
    def echo(self) -> bool:
        """Whether it only followed from another's end, or from a signal that was to end it."""
        if self.raised is not None:
            kind = str(self.raised.details.get("type", "")).rpartition(".")[2]
            return kind in _SECOND_HAND or bool(_ECHO.search(str(self.raised.details.get("message", ""))))
        return self.signal in _ASKING

    @property
    def how(self) -> str:
        """In words: `rank 1 ended by SIGKILL`."""
        if self.raised is not None:
            return f"{self.process.name} raised {self.raised.details.get('type')}"
        if self.signal:
            return f"{self.process.name} (pid {self.process.pid}) ended by {self.signal}"
        if self.code:
            return f"{self.process.name} (pid {self.process.pid}) ended with exit code {self.code}"
        return f"{self.process.name} (pid {self.process.pid}) ended without a word"

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
        phase = f" in the phase '{self.phase}'" if self.phase else ""
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


def finished(case: Case) -> bool:
    """Whether the job ended with 0: then nothing that happened in it was its death."""
    return case.flight is not None and case.flight.ending.get("code") == 0


def hung(case: Case) -> bool:
    """Whether it stood still at the end: then those that die are not those to blame."""
    told = [event.kind for event in case.flight.of_kind("hang", "goes-on")] if case.flight is not None else []
    return bool(told) and told[-1] == "hang"


def order(case: Case) -> int:
    """Where signs of the recording stand among those of the log: in the last attempt, before its lines."""
    return case.log.attempts[-1] + 1 if case.log.attempts else 0


def deaths(case: Case) -> list[Death]:
    """All bad ends of ranks, of their loader workers and of processes that they started for work of their own, in the order of time; those that follow another come after it."""
    flight = case.flight
    if flight is None:
        return []
    began = _attempts(flight)
    found = [
        death
        for process in flight.processes.values()
        if process.role in {"rank", "loader worker", CHILD} and (death := _death(case, flight, process, began)) is not None
    ]
    return sorted(found, key=lambda death: death.time + (_COARSE if death.echo and death.raised is not None else 0.0))


def first(case: Case) -> Death | None:
    """The end from which the others of the last attempt followed; none where all only followed something, or all stood still."""
    if case.flight is None or finished(case) or hung(case):
        return None
    last = len(_attempts(case.flight)) - 1
    gave_up = bool(case.log.collectives)  # then the watchdog aborts those that waited
    own = (one for one in deaths(case) if one.attempt == last and not one.echo)
    return next((one for one in own if not (gave_up and one.signal == "SIGABRT")), None)


def blamed(case: Case) -> int | None:
    """The rank that ended first and by itself, where there are several."""
    leader = first(case)
    if leader is None or case.flight is None or whole(case) is not None or stopped_first(case) is not None:
        return None
    return leader.process.rank if len({one.rank for one in case.flight.ranks}) > 1 else None


def whole(case: Case) -> Event | None:
    """The end of a launcher by a signal that it cannot have got from its ranks: somebody killed the job, not a rank of it."""
    if case.flight is None or finished(case):
        return None
    launchers = {one.pid for one in case.flight.processes.values() if one.role == "launcher"}
    for event in case.flight.of_kind("gone"):
        if event.details.get("pid") in launchers and event.details.get("signal") == "SIGKILL":
            ends = [one.time for one in deaths(case)]
            return event if event.time < min(ends, default=event.time) + _TOGETHER else None
    return None


def by_us(case: Case, time: float) -> bool:
    """Whether crashcart itself had killed the job by then."""
    sent = case.flight.of_kind("sent") if case.flight is not None else ()
    return any(event.details.get("signal") == "SIGKILL" and event.time < time + 1 for event in sent)


def before(case: Case) -> list[Death]:
    """What ended earlier attempts, after which the job was started again: of processes that had begun to train."""
    if case.flight is None:
        return []
    last = len(_attempts(case.flight)) - 1
    found: dict[int, Death] = {}
    for death in deaths(case):
        trained = death.process.page.get("steps", 0.0) > 0 or death.process.role != "rank"
        if death.attempt < last and not death.echo and trained:
            found.setdefault(death.attempt, death)
    return [*found.values()]


def swallowed(case: Case) -> Death | None:
    """The uncaught exception of the last program that was started, where the job ended with 0: `| tee` or `|| true` hid it."""
    if case.flight is None or not finished(case):
        return None
    last, root = len(_attempts(case.flight)) - 1, case.flight.facts.get("job")
    own = (one for one in deaths(case) if one.attempt == last and one.process.role == "rank" and one.process.pid != root)
    return next((one for one in own if one.raised is not None and not one.echo), None)


def followers(case: Case, leader: Death) -> list[Death]:
    """Ranks of the same attempt that ended after the first."""
    return [
        death
        for death in deaths(case)
        if death.attempt == leader.attempt and death.process.role == "rank" and death.process.pid != leader.process.pid
    ]


def stop(case: Case) -> tuple[str, Event] | None:
    """The signal that asked the job to stop, and the event that shows it: at the supervisor, or at a rank or its launcher."""
    flight = case.flight
    if flight is None:
        return None
    asked = [(str(event.details.get("signal")), event) for event in flight.of_kind("signal")]
    told = [(name, event) for event in flight.of_kind("exception") if (name := _carried(flight, event)) is not None]
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


def _carried(flight: Flight, event: Event) -> str | None:
    """The signal that an exception stands for."""
    process = flight.processes.get(event.pid or 0)
    kind = str(event.details.get("type", "")).rpartition(".")[2]
    if process is None or process.role not in {"rank", "launcher"} or event.details.get("thread") != "MainThread":
        return None
    if kind == "KeyboardInterrupt":
        return "SIGINT"
    match = _SIGNAL.search(str(event.details.get("message", ""))) if kind in _SIGNALLED else None
    return _NUMBERS.get(int(match[1])) if match else None


def _death(case: Case, flight: Flight, process: Process, began: list[float]) -> Death | None:
    attempt = max(0, sum(process.born >= time for time in began) - 1)
    own = [event for event in flight.events if event.pid == process.pid and event.kind in {"exception", "exit"}]
    gone = next((event for event in flight.of_kind("gone") if event.details.get("pid") == process.pid), None)
    signal = gone.details.get("signal") if gone is not None else None
    code = gone.details.get("code") if gone is not None else None
    ended = gone.time if gone is not None else process.ended
    raised = next((one for one in own if one.kind == "exception" and one.details.get("thread") == "MainThread"), None)
    if process.role == CHILD:
        told = raised is not None and not _caught(flight, process)
        return Death(process, raised.time, attempt, signal, code, raised) if told and raised is not None else None
    if (
        process.role != "rank"
    ):  # workers are ended by TERM when an epoch is over, and what they raise is raised in their rank
        sudden = isinstance(signal, str) and signal not in _ASKING
        return Death(process, ended, attempt, signal) if sudden and ended is not None else None
    if raised is not None:
        return Death(process, raised.time, attempt, signal, code, raised)
    if ended is None or code == 0:
        return None
    if signal is None and code is None and not finished(case):
        signal, code = _in_log(case, process.pid)
        vanished = process.reached and not own and bool(flight.ending)
        return Death(process, ended, attempt, signal, code) if vanished or signal or code else None
    return Death(process, ended, attempt, signal, code)


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


def _in_log(case: Case, pid: int) -> tuple[str | None, int | None]:
    """What the launcher says of the process, where the kernel did not tell us."""
    number = pid.number if isinstance(pid, Pid) else pid
    for death in case.log.deaths:
        if f"pid: {number}" in death.line.text:
            return death.signal, None if death.signal else death.exit_code
    return None, None
