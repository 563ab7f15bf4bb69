"""A person, or another program, ended the run: Ctrl-C, a closed terminal, a cancelled job, ``kill -9``.

What happens: the launcher or the program receives SIGINT, SIGHUP, SIGTERM or SIGKILL while everything was healthy.

Why: someone pressed Ctrl-C; or the terminal or SSH session was closed. ``nohup`` does not protect ``torchrun``: it
installs its own handler for SIGHUP and passes the signal on.

How it shows: ``Received 1 death signal`` (SIGHUP) or ``2`` (SIGINT), ``closing signal SIGHUP``, ``Hangup``,
``KeyboardInterrupt``, ``^C``, exit 129 or 130. A ``KeyboardInterrupt`` is often only how a person got out of a hang:
then the interrupted frame (a queue, a lock, a barrier) and the silence before it tell the cause. A recording tells who sent
the signal. A SIGTERM that reached one process, and not the recorder around the job, is put here: a scheduler signals the
whole job. A SIGKILL has no sender, and is put here when the kernel killed nobody for memory, memory was not short, no other
rank had failed and crashcart did not send it.

What to do: resume from the last checkpoint; after a hang-up run under ``tmux``, ``screen``, ``systemd-run`` or the scheduler
instead of ``nohup`` with a terminal; after a SIGKILL find its sender.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes.host_memory._recorded import ample, climbed, grown, killed_by_guard, no_kill, note_of_kill
from crashcart.causes.outside._recorded import sent_by, started_by_script, unranked
from crashcart.causes.outside._signals import failed_before
from crashcart.deaths import (
    by_us,
    deaths,
    finished,
    first,
    hung,
    order,
    stopped_first,
    terminated_alone,
    timed_out_by,
    whole,
)
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.deaths import Death
    from crashcart.log import Raised
    from crashcart.model import Strength

title = "The run was stopped from outside (Ctrl-C, a closed terminal, kill)"
breadth = 1
alike = ("outside/preempted", "hang/dataloader")
phrases = (
    decisive("received 1 death signal", "closing signal sighup", "via signal sighup", "killed by signal: hangup",
             "got signal: 1", "got sigval:1", "got signal : 1", "signals.sighup",
             says="the launcher got SIGHUP: the terminal was closed", any_level=True, unless=r"got (?:signal ?|sigval): ?1\d|ignor"),
    decisive("received 2 death signal", "closing signal sigint", "via signal sigint", says="the launcher got SIGINT",
             any_level=True),
    decisive("interrupted by user", "canceled by user", "cancelled by user", "stopped by user", "aborted by user",
             "interrupted by the user", says="the program reports that a user stopped it", any_level=True),
    strong("client_loop: send disconnect", "packet_write_wait: connection to", "write failed: broken pipe",
           "closed by remote host", says="the SSH session of the run was closed", any_level=True,
           pattern=r"client_loop: send disconnect|packet_write_wait: Connection to|^Write failed: Broken pipe|"
                   r"^Connection to \S+ closed by remote host"),
    weak("keyboardinterrupt", "keyboard interrupt", "keyboard interruption", says="someone pressed Ctrl-C", any_level=True),
    weak("hangup", "^c", "got signal: 2", says="a hang-up or an interrupt", any_level=True,
         pattern=r"^\W*Hangup\W*$|\d Hangup\b|^\W*\^C|\^C\s*$|got signal: 2\b"),
    weak("cancelled by", says="the scheduler's state is cancelled by a user", pattern=r"CANCELLED by \d+"),
)  # fmt: skip
# Where a person interrupts what did not move on; causes of the hang family read these stacks.
_WAITING = frozenset({
    "_try_get_data", "_get_data", "_next_data", "_recv_bytes", "_recv", "get", "acquire", "wait", "wait_for", "poll",
    "select",
    "barrier", "all_reduce", "all_gather", "broadcast", "monitored_barrier", "flock", "_shutdown", "_exit_function", "join",
    "_wait_for_tstate_lock", "destroy_process_group", "init_process_group", "synchronize", "_verify_params_across_processes",
    "recv", "recv_into", "read", "finish", "_store_based_barrier", "rendezvous", "communicate", "_shutdown_workers",
})  # fmt: skip
# A launcher always waits for its children, so these frames tell nothing.
_LAUNCHER = r"torchrun|elastic|/launch\.py|/launcher|spawn\.py|subprocess\.py|popen_fork|accelerate/commands"


def in_log(case: Case) -> Iterator[Sign]:
    """An interrupt of ordinary work, with nothing failed before it."""
    for raised in case.log.raised:
        if raised.kind == "KeyboardInterrupt" and not raised.worker and not failed_before(case, raised.line):
            stuck = _stuck(case)
            says = "someone pressed Ctrl-C" + (" while the program was waiting, perhaps because it hung" if stuck else "")
            yield Sign("weak" if stuck else "strong", says, (evidence(raised.line),), order=raised.line.order)
            break
    for line in case.log.lines:
        told = compiled(
            r"Detected KeyboardInterrupt|^\W*Hangup\W*$|\d Hangup\b|CANCELLED by [1-9]\d*|interrupted "
            r"by signal 2"
        )
        if ("interrupt" in line.lowered or "hangup" in line.lowered or "cancelled by" in line.lowered) and (
            told.search(line.text) and not failed_before(case, line)
        ):
            yield Sign("strong", "an interrupt or hang-up reached a healthy run", (evidence(line),), order=line.order)
            break
    for death in case.log.deaths:
        if death.signal in {"SIGINT", "SIGHUP"} and not failed_before(case, death.line) and not _stuck(case):
            yield Sign("strong", f"a process was killed by {death.signal}", (evidence(death.line),), order=death.line.order)
            break


def _stuck(case: Case) -> bool:
    interrupts = [one for one in case.log.raised if one.kind == "KeyboardInterrupt" or one.stack_only]
    return any(_waits(interrupt) for interrupt in interrupts)


def _waits(raised: Raised) -> bool:
    frames = [frame for frame in raised.frames if not compiled(_LAUNCHER).search(frame.file)]
    return bool(frames) and bool({frame.function for frame in frames[-4:]} & _WAITING)


def in_machine(case: Case) -> Iterator[Sign]:
    """An exit status of SIGINT or SIGHUP."""
    status = case.exit
    if status is not None and status.signal in {"SIGINT", "SIGHUP"} and not _stuck(case):
        yield Sign("strong", f"the command was killed by {status.signal}", (status.evidence,))


def in_config(case: Case) -> Iterator[Sign]:
    """After a run: what the launch script starts that may end the program."""
    yield from started_by_script(case)


def in_recorder(case: Case) -> Iterator[Sign]:
    """Who interrupted the job; or a SIGKILL that none of those who send it for a reason sent."""
    asked = stopped_first(case)
    if asked is not None:
        if asked[0] != "SIGTERM" or asked[1].kind != "signal":
            yield Sign(
                "decisive", f"the run was stopped: {sent_by(*asked)}", (unranked(asked[1].evidence),), order=order(case)
            )
        return
    leader = first(case)
    if leader is not None and leader.signal == "SIGKILL" and not (by_us(case, leader.time) or timed_out_by(case)):
        yield from _by_exclusion(case, leader)
    if (alone := terminated_alone(case)) is not None:
        says = f"{alone.how}; the rest of the job got no signal, so a person, a script or a memory guard ended this process"
        several = case.flight is not None and len(case.flight.ranks) > 1
        yield Sign("decisive", says, (alone.evidence if several else unranked(alone.evidence),), order=order(case))
    ends = deaths(case)
    if leader is None and ends and ends[0].signal in {"SIGHUP", "SIGINT"} and not (finished(case) or hung(case)):
        says = f"{ends[0].how} before anything else failed"
        yield Sign("decisive", says, (unranked(ends[0].evidence),), order=order(case))


def _by_exclusion(case: Case, leader: Death) -> Iterator[Sign]:
    counted, launcher = no_kill(case, leader), whole(case)
    if counted is None or not ample(case, leader.time):
        return
    who = "the whole job, including its launcher," if launcher is not None else leader.process.name
    grew = grown(case, leader)
    though = ", though it had grown" if grew is not None else ""
    note = note_of_kill(case, leader)
    wrote = "; its killer wrote so" if note is not None else ""
    says = f"{who} was killed by SIGKILL from outside: memory was not short{though}, and nothing in the job had failed before{wrote}"
    seen = leader.evidence if launcher is None else unranked(leader.evidence)
    sure: Strength = (
        "weak" if killed_by_guard(case, leader) is not None else "strong" if climbed(case, leader) else "decisive"
    )
    yield Sign(
        sure,
        says,
        (seen, counted.evidence, *((grew,) if grew else ()), *((note.evidence,) if note else ())),
        order=order(case),
    )


TERMINAL = Fix(
    "Run it independently of a terminal",
    "exact",
    "use tmux, screen, systemd-run --user, or a batch job; nohup is not enough for torchrun",
)
SENDER = Fix(
    "Find who sends SIGKILL, and resume from the last complete checkpoint",
    "by-hand",
    "SIGKILL has no recorded sender and cannot be caught: check the events of scheduler and container, and watchdogs for memory or idle "
    "CPUs (systemd-oomd, earlyoom, a cluster's reaper), and ask who else may kill processes on this machine",
)

ENDED = Fix(
    "Find what kills the process, and resume from the last complete checkpoint",
    "by-hand",
    "look for `kill`, `pkill` or a time limit in the launch script and its helpers, and for watchdogs on this machine (earlyoom, a "
    "cluster's reaper of idle jobs); a SIGTERM handler can save before the end",
)


def fix(case: Case) -> tuple[Fix, ...]:
    """By the signal: a kill has a sender to be found, a hang-up a terminal."""
    signal = _signal(case)
    if signal == "SIGTERM":
        return (ENDED,)
    return (SENDER,) if signal == "SIGKILL" else () if signal == "SIGINT" else (TERMINAL,)


def _signal(case: Case) -> str | None:
    asked, leader = stopped_first(case), first(case)
    if asked is not None:
        return asked[0]
    if leader is not None and leader.signal:
        return leader.signal
    ends = [death.signal for death in deaths(case) if death.signal] + [
        death.signal for death in case.log.deaths if death.signal
    ]
    if ends or case.exit is not None:
        return ends[0] if ends else case.exit.signal if case.exit is not None else None
    return "SIGINT" if any(one.kind == "KeyboardInterrupt" for one in case.log.raised) else None


experiment = Experiment(
    title="Start it in tmux, detach, close the terminal and look again after some minutes",
    start_from="the newest complete checkpoint",
    stop_after="the time it ran before it was killed",
    confirms="it continues after the terminal is closed",
    refutes="it receives the signal again in tmux: then something else on the machine sends it",
)
WATCH = Experiment(
    title="Let the kernel record who sends it (auditctl -a always,exit -F arch=b64 -S kill -F a1=9, or perf trace of "
    "signal:signal_generate), and run again",
    start_from="the newest complete checkpoint",
    stop_after="the time it ran before it was killed",
    confirms="the record names a process that sent signal 9 to the rank",
    refutes="nobody sent it, and the kernel's OOM kill counter increased (host-memory/oom-kill)",
)


def settle(case: Case) -> Experiment | None:
    """What would show it; an interrupt by hand needs no proof."""
    signal = _signal(case)
    return WATCH if signal == "SIGKILL" else None if signal == "SIGINT" else experiment
