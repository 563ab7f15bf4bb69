"""A scheduler ended the job: time limit, preemption, requeue, or a SIGTERM from outside.

What happens: healthy ranks are told to stop, and are killed if they do not.

Why: the time asked for is used up, a job of higher priority wants the node, a spot machine is taken back, a container
is moved.

How it shows: ``CANCELLED AT ... DUE TO TIME LIMIT`` or ``PREEMPTION``, ``this job is preempted``, ``walltime ...
exceeded limit``, a spot notice; or the launcher itself received SIGTERM (``Received 15 death signal``) before any rank
failed. The other way round, ``Sending process ... closing signal SIGTERM`` after a rank failed, is only the launcher
clearing up. A recording names the sender of the signal (``slurmstepd``, a container runtime, a shell), knows the end
that Slurm had named beforehand, and finds Slurm's last words in the file that its output went to.

What to do: save on the signal and more often, ask for a warning before the end (``#SBATCH --signal=B:USR1@300``),
requeue and resume automatically, ask for more time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, weak
from crashcart.causes.outside._recorded import at_its_limit, scheduler_said, sent_by, started_by_script, unranked
from crashcart.causes.outside._signals import failed_before
from crashcart.deaths import (
    finished,
    first,
    hung,
    order,
    stopped_by_us,
    stopped_first,
    terminated_alone,
    terminated_first,
    timed_out_by,
)
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line

title = "The job was stopped by a scheduler: time limit, preemption or SIGTERM from outside"
alike = ("outside/node-lost", "outside/user")
phrases = (
    decisive("due to time limit", "host ec2", "spot instance interruption", "instance-terminated-no-capacity", "job deleted at request", "exceeded limit walltime", "job exceeded its walltime", "due to preemption", "due to job requeue", "this job is preempted",
             "this job is timed-out",
             "exceeded wallclock limit", "term_runlimit", "wall clock time limit", "job time limit", "term_preempt", "term_owner",
             "hard wallclock time", "hard run time limit", "exceeded the maximum execution time", "longer than specified deadline",
             "deadlineexceeded: job", "maximum run time", "maximum runtime exceeded", "hit its timeout of", "out of requested",
             "job was evicted", "stopped: exceeded max", "reached its time limit", "exceeded its time limit", "time limit exceeded",
             says="the scheduler reports that it ended the job", any_level=True,
             unless=r"out of requested(?! \d+ min)|request(?:ed|s)? (?:a )?maximum run ?time"),
    decisive("job killed: walltime", "job killed: ncpus", "exceeded limit", says="PBS ended the job at its wall time",
             pattern=r"(?:walltime|cput)\b.{0,60}exceeded limit"),
    decisive("runner has received a shutdown signal", says="the runner was told to shut down", any_level=True),
    decisive("preempted by", "preempted to accommodate", "cluster is preempted", "has been preempted", "was preempted",
             "got preempted", "instance preempted", "is preempted or failed", "been evicted", "was evicted", "due to worker preemption",
             "preempting job", "preempted in order to", "was requested to terminate", "was requested to stop", "node preempted",
             "being preempted", "vm preempted", "job preempted", "are evicted", "is evicted", "jobevicted", "reason: evicted",
             says="the job was preempted", any_level=True,
             unless=r"resum|if (?:the|this|your)|when |was preempted, had a hardware|cache|request\(s\)|"
                    r"sequence group|KV|low on resource: memory"),
    decisive("termination is imminent", "spot interruption", "spot instance interruption", "instance-action",
             "spot termination",
             "preemption notice", "maxruntimeexceeded", "rebalance recommendation",
             says="the machine was about to be reclaimed, or the job reached its time limit", any_level=True,
             unless=r"polling|watch(?:ing|er)|listen|handler|check(?:ing)? for|enabled|monitor"),
    decisive(" timeout  ", " preempted  ", "state=timeout", "state: timeout",
             "state=preempted", says="the scheduler's job state shows it",
             pattern=r"^\s{0,20}\d{1,20}(?:[_.]\w{1,60})?\s{1,20}.{0,200}\s(?:TIMEOUT|PREEMPTED)\s{1,20}\d{1,20}:\d{1,20}|\bState\W{1,20}(?:TIMEOUT|PREEMPTED)\b"),
    weak("death signal, shutting down", "got signal: 15", "received sigterm", "receiving sigterm", "sigtermexception",
         "auto-requeue signal", "preemption signal", "got termination signal", "caught sigterm", "sigterm received",
         "terminationbykubelet", "preemption detected", says="a process was told to stop", any_level=True, fatal=False),
    weak("cancelled at", says="the scheduler cancelled the job or step", fatal=False),
)  # fmt: skip
_TOLD = (
    r"Received 15 death signal|got signal: 15\b|Got termination signal: 15|(?:received|receiving|caught|got) (?:a )?SIGTERM|"
    r"SIGTERM received|auto-requeue signal|preemption signal|Preemption detected|TerminationByKubelet"
)
_SHELL = (
    r"^\W{0,20}(?:Terminated|已终止|Beendet|Complété|Terminado|Завершено|終了しました)\W{0,20}(?:$|\s{2,20}\S|python|bash|torchrun)|"
    r"(?:line|Zeile|ligne|línea|行|第)? ?(?<!\d)\d{1,20}:?\s{1,20}\d{1,20} (?:Terminated|已终止|Beendet)\b|^(?:zsh|sh): terminated\s"
)
_AT_END = 12
_SPARED = r"bypassing|scheduling shutdown|ignor|if |will |handler (?:installed|registered)|register"
_MEMORY = r"oom|out of memory|out-of-memory|memory limit"


def in_log(case: Case) -> Iterator[Sign]:
    """The launcher or a rank was told to stop before anything failed."""
    if hung(case) or stopped_by_us(case):
        return
    for line in case.log.lines:
        if not _told(line):
            continue
        if not failed_before(case, line):
            yield Sign(
                "strong", "it was asked to stop from outside before any rank failed", (evidence(line),), order=line.order
            )
        return
    yield from _cancelled(case)
    yield from _shell(case)
    death = next(iter(case.log.deaths), None)
    if death is not None and death.signal == "SIGTERM" and not failed_before(case, death.line) and _all_terminated(case):
        yield Sign(
            "strong", "the first process to end was killed by SIGTERM", (evidence(death.line),), order=death.line.order
        )


def _told(line: Line) -> bool:
    if not any(word in line.lowered for word in ("signal", "sigterm", "preempt", "terminationbykubelet")):
        return False
    return bool(compiled(_TOLD).search(line.text)) and not compiled(_SPARED).search(line.text)


def _cancelled(case: Case) -> Iterator[Sign]:
    for line in case.log.lines:
        if "cancelled at" in line.lowered and "due to" not in line.lowered:
            memory = any(compiled(_MEMORY).search(other.text) for other in case.log.around(line, 40, 10))
            if not memory and not failed_before(case, line):
                says = "the job or step was cancelled before any task failed"
                yield Sign("strong", says, (evidence(line),), order=line.order)
            return


def _shell(case: Case) -> Iterator[Sign]:
    """A shell that saw its command end by SIGTERM."""
    for line in case.log.lines[-_AT_END:]:
        if compiled(_SHELL).search(line.text) and not failed_before(case, line):
            yield Sign(
                "strong", "a shell reports that the command was killed by SIGTERM", (evidence(line),), order=line.order
            )
            return


def _all_terminated(case: Case) -> bool:
    return all(death.signal == "SIGTERM" for death in case.log.deaths) and not case.log.collectives


def in_machine(case: Case) -> Iterator[Sign]:
    """An exit status of SIGTERM with a clean log."""
    status = case.exit
    if hung(case) or stopped_by_us(case) or first(case) is not None:  # somebody ended what stood still, or had failed
        return
    if terminated_alone(case) is not None:
        return
    if status is not None and status.signal == "SIGTERM" and not any(one.top for one in case.log.raised):
        yield Sign("strong", "the command was killed by SIGTERM", (status.evidence,))


def in_config(case: Case) -> Iterator[Sign]:
    """After a run: what the launch script starts that may end the program."""
    yield from started_by_script(case)


def in_recorder(case: Case) -> Iterator[Sign]:
    """SIGTERM and its sender; or a rank that it ended well before the others."""
    asked, leader = stopped_first(case), first(case)
    if case.flight is not None and (asked or leader is None) and not (finished(case) or hung(case)):
        for why, seen in scheduler_said(case.flight):
            if why != "a node failed":
                yield Sign("decisive", f"Slurm cancelled the job: {why or 'scancel'}", (seen,), order=order(case))
    if asked is not None and case.flight is not None:
        if asked[0] == "SIGTERM" and asked[1].kind == "signal":  # else it came to a process of the job alone
            says = sent_by(*asked) + at_its_limit(case.flight, asked[1])
            yield Sign("decisive", says, (unranked(asked[1].evidence),), order=order(case))
        return
    if (over := timed_out_by(case)) is not None and not hung(case):
        says = "the `timeout` command around the program ended it when the time was up"
        yield Sign("decisive", says, (unranked(over.evidence),), order=order(case))
        return
    if case.flight is not None and hung(case):
        hang = next(iter(case.flight.of_kind("hang")))
        yield Sign("against", "it was stopped because it hung", (unranked(hang.evidence),), order=order(case))
    alone = terminated_alone(case)
    if alone is not None:
        says = f"{alone.how}, but the rest of the job got no signal; a scheduler signals all of it"
        yield Sign("against", says, (alone.evidence,), order=order(case))
    elif (ended := terminated_first(case)) is not None:
        says = f"{ended.how} before any other process ended"
        yield Sign("strong", says, (ended.evidence,), order=order(case))


fixes = (
    Fix(
        "Save on the signal and resume automatically",
        "by-hand",
        "use #SBATCH --signal=B:USR1@300 and --requeue; let a handler set a flag, and save at the next step that all "
        "ranks agree on",
    ),
    Fix(
        "Request more time",
        "exact",
        "raise --time, or run fewer steps per job; the speed in the log shows how long the rest takes",
    ),
)
experiment = Experiment(
    title="Ask the scheduler: sacct -j JOB -o State,ExitCode,Elapsed,Timelimit, or kubectl describe pod",
    start_from="nothing: no training is needed",
    stop_after="the answer",
    confirms="the state is TIMEOUT, PREEMPTED or REQUEUED, or Elapsed equals Timelimit",
    refutes="the state is FAILED, OUT_OF_MEMORY or NODE_FAIL: then the signal was a consequence",
)
