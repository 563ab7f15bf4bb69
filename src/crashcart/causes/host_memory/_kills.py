"""How a run out of host memory ends: a SIGKILL that nobody explains, a limit that is named, a refused allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.causes.host_memory._recorded import ample, killed_by_guard, no_kill
from crashcart.deaths import first
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line, Raised

# Exceptions that processes raise because another one died: they stand before the launcher's report of the first death.
ECHOES = frozenset({
    "ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError", "SystemExit", "Empty",
    "SignalException", "DistNetworkError", "DistStoreError", "DistBackendError", "ConnectionResetError", "BrokenPipeError",
    "EOFError", "ConnectionRefusedError", "RayActorError", "ActorDiedError", "WorkerCrashedError", "KeyboardInterrupt",
    "BrokenProcessPool", "RemoteDisconnected", "NotFound",
})  # fmt: skip
_ECHO_WORDS = (
    r"connection (?:closed|reset|refused)|broken pipe|DataLoader worker|worker\(?s?\)? .{0,40}exited "
    r"unexpectedly|NCCL|gloo"
)
# A scheduler, a person or a launcher that clears up sends SIGKILL too; then the signal tells nothing about memory.
_SENT = (
    r"due to time limit|due to preemption|due to job requeue|due to node failure|walltime .{0,40}exceeded|TERM_RUNLIMIT|"
    r"exceeded wallclock|forcefully exiting via SIGKILL|via Signals\.SIGKILL|death signal, shutting down|kill -9|"
    r"preempted|GPU has fallen|missed too many heartbeats|watchdog caught collective|scancel|"
    r"docker (?:kill|stop)|^Gracefully stopping"
)
_LIMIT = (
    r"(?<!\d)[1-9]\d{0,20} oom[-_]kill event|reason\W{1,4}OOMKilled|OOMKilled\W{1,4}true|tasks? [\d,\-]{1,80}: Out Of Memory|memory "
    r"limit at some point|"
    r"exceeded (?:job |step )?memory limit|TERM_MEMLIMIT|Memory cgroup out of memory"
)
_REFUSED = (
    r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|CPUAllocator.{0,60}(?:can't|cannot) allocate|"
    r"Errno 12\] Cannot allocate memory|Cannot allocate memory \(12\)|paging file is too small|os error 1455|WinError 1455|"
    r"(?:^|[\s.])(?:_Array)?MemoryError(?::|\s*$)|Unable to allocate [\d.]+ [KMGTP]iB for an array|"
    r"Error code 12 \(Cannot allocate|not enough memory: you tried to allocate"
)
# Reports of a SIGKILL that the log reader does not take for a death: glued to a bar, or in a supervisor's words.
_KILL = (
    r"\bline \d{1,20}:\s{1,20}\d{1,20} Killed\b|^(?:\[\d{1,20}\])?\s{0,20}[+-]?\s{0,20}\d{3,20} killed\s{2,20}|(?:terminated|exited|ended|died|failed|finished|crashed|stopped)\b.{0,40}(?:\bcode|status|signal|with)"
    r"\W{0,12}(?:-9\b|137\b|SIGKILL|9 ?\(?(?:SIGKILL|Killed))|\bterminated by signal (?:9\b|SIGKILL)|was sent SIGKILL|"
    r"(?:rc|return_?code|exit_?code|exit status|retcode)\W{0,4}(?:-9|137)\b|signal: (?:killed|9)\b|\{SIGKILL\(-9\)|"
    r"killed by (?:the )?(?:system|OS|kernel|operating system)\b|\bEXIT CODE: 9\b|KILLED BY SIGNAL: 9"
)
_KILL_WORDS = ("killed", "sigkill", "137", "-9", "signal 9", "exit code: 9", "signal: 9")
_STEPS_BACK = 3
_NEAR = 20_000  # bytes of log
_BAD_ALLOC = r"std::bad_alloc"
_ON_DEVICE = r"cuda|device|thrust|</torch_"


@record(frozen=True)
class End:
    """A place where host memory, as far as the line tells, ended a process."""

    line: Line
    says: str
    raised: Raised | None = None


def kills(case: Case) -> Iterator[End]:
    """The first SIGKILL of the log, unless something before it says who sent it and why."""
    if not_for_memory(case):
        return
    found = [(death.line, death.by) for death in case.log.deaths if death.signal == "SIGKILL"] + [
        (line, "launcher") for line in case.log.index.saying(_KILL_WORDS) if compiled(_KILL).search(line.text)
    ]
    found = sorted((one for one in found if not over(case, one[0])), key=lambda one: one[0].order)
    if not found or explained(case, found[0][0]):
        return
    line, by = found[0]
    who = "a shell" if by == "shell" else "the launcher" if by == "launcher" else "another process"
    yield End(line, f"{who} reports a process killed by SIGKILL, and nothing before it explains why")


def not_for_memory(case: Case) -> bool:
    """Whether a recording proves that nobody was killed for memory: it was not short, and no counter of kills moved."""
    leader = first(case)
    if leader is None or leader.signal != "SIGKILL":
        return False
    if killed_by_guard(case, leader) is not None:
        return False
    return no_kill(case, leader) is not None and ample(case, leader.time)


def over(case: Case, line: Line) -> bool:
    """Whether training was done before the line: then it is about another container or a helper process."""
    log = case.log
    return log.finished is not None and _last_step(case, line, 1) <= log.finished.order < line.order


def _last_step(case: Case, line: Line, count: int) -> int:
    """Where the last but so many step line before the line stands: nothing before it ended what came after."""
    steps = [
        metric.line.order for metric in case.log.metrics if metric.line.order < line.order and "loss" in metric.line.lowered
    ]
    return steps[-count] if len(steps) >= count else -1


def explained(case: Case, line: Line) -> bool:
    """Whether an error of the program itself, another death or a scheduler's word stands before the kill."""
    log, since = case.log, _last_step(case, line, _STEPS_BACK)
    if any(since < one.line.order < line.order and _own(one) for one in log.raised):
        return True
    if any(
        since < collective.line.order < line.order
        for collective in log.collectives
        if collective.timeout_seconds is not None
    ):
        return True
    others = (death for death in log.deaths if since < death.line.order < line.order and death.exit_code)
    if any(one.signal not in {"SIGKILL", "SIGTERM"} for one in others):
        return True
    near = (other for other in log.lines if other.order > since and abs(other.order - line.order) < _NEAR)
    return any(compiled(_SENT).search(other.text) for other in near)


def _own(raised: Raised) -> bool:
    if not raised.kind or raised.survivable or raised.kind in ECHOES:
        return False
    return not compiled(_ECHO_WORDS).search(raised.message) and not compiled(_REFUSED).search(raised.line.text)


def refused(case: Case) -> Iterator[End]:
    """Allocations in host memory that the system did not grant."""
    by_order = {one.line.order: one for one in case.log.raised}
    for line in case.log.index.saying(("alloc", "memory", "1455")):
        raised = by_order.get(line.order)
        if raised is not None and raised.survivable:
            continue
        if compiled(_REFUSED).search(line.text) and not over(case, line):
            yield End(line, "a host memory allocation failed", raised)
        elif compiled(_BAD_ALLOC).search(line.text) and not compiled(_ON_DEVICE).search(line.text) and not over(case, line):
            yield End(line, "C++ code ran out of host memory (std::bad_alloc)", raised)


def limits(case: Case) -> Iterator[End]:
    """Lines in which a scheduler or a control group names the memory limit as the reason."""
    for line in case.log.index.saying(("oom", "memory", "memlimit")):
        if compiled(_LIMIT).search(line.text) and not over(case, line):
            yield End(line, "the job exceeded its memory limit")


def ends(case: Case) -> Iterator[End]:
    """Every end that host memory may explain, first one first."""
    yield from sorted([*kills(case), *refused(case), *limits(case)], key=lambda end: end.line.order)
