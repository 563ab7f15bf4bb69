"""Who sent the signal that ended a recorded job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.deaths import terminated_alone
from crashcart.flight import clock
from crashcart.model import Evidence, Sign
from crashcart.numbers import to_float
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.flight import Event, Flight

_SCHEDULERS = {
    "slurmstepd": "Slurm", "slurmd": "Slurm", "pbs_mom": "PBS", "sge_shepherd": "Grid Engine", "res": "LSF", "sbatchd": "LSF",
    "condor_starter": "HTCondor", "containerd-shim": "the container runtime", "dockerd": "Docker", "conmon": "Podman",
    "tini": "the container's init", "dumb-init": "the container's init", "systemd": "systemd", "timeout": "the timeout command",
}  # fmt: skip
_MEANINGS = {
    "DUE TO TIME LIMIT": "its time limit was reached", "DUE TO PREEMPTION": "it was preempted", "DUE TO JOB REQUEUE": "it was requeued",
    "NODE FAIL": "a node failed", "DUE TO JOB NOT RUNNING": "the job was no longer known",
}  # fmt: skip
_EARLY, _OVERDUE = 60.0, 600.0  # seconds around the end that Slurm named; it looks about once a minute


def sent_by(signal: str, event: Event) -> str:
    """A sentence: which signal reached the job, and from whom."""
    if event.kind != "signal":
        who = f"rank {event.rank}" if event.rank is not None else "the launcher"
        by_whom = (
            "Ctrl-C on a terminal, or kill" if signal == "SIGINT" else "from a person or a script, and not to the whole job"
        )
        return f"{signal} reached {who} before anything else failed: {by_whom}"
    sender, name = event.details.get("sender"), str(event.details.get("name") or "")
    known = next((full for short, full in _SCHEDULERS.items() if name.startswith(short)), None)
    if not sender:
        whom = "the terminal, or somebody outside the container"
    elif name:
        whom = f"{known} ({name}, pid {sender})" if known else f"the process {name} (pid {sender})"
    else:
        whom = f"process {sender}, which was already gone when crashcart looked for it"
    return f"{signal} was sent to the job by {whom} before anything else failed"


def at_its_limit(flight: Flight, event: Event) -> str:
    """What Slurm had said beforehand about the end of the job, where the signal came then: `, at the end ...`."""
    environment = flight.facts.get("environment")
    end = to_float(environment.get("SLURM_JOB_END_TIME")) if isinstance(environment, dict) else None
    if end is None or not -_EARLY < event.time - end < _OVERDUE:
        return ""
    return f", at the end of its Slurm time limit ({clock(end)})"


def scheduler_said(flight: Flight) -> Iterator[tuple[str, Evidence]]:
    """The scheduler's own words about the end of the job, and what they mean."""
    for event in flight.of_kind("scheduler"):
        words = str(event.details.get("words"))
        why = next((meaning for part, meaning in _MEANINGS.items() if part in words), "")
        yield why, Evidence("log", words, str(event.details.get("where")), time=clock(event.time))


def unranked(seen: Evidence) -> Evidence:
    """The same without a rank: none is to blame."""
    return replace(seen, rank=None)


def started_by_script(case: Case) -> Iterator[Sign]:
    """What the launch script starts around or beside a program that somebody ended: it may have sent the signal."""
    if case.before or case.flight is None or terminated_alone(case) is None:
        return
    for fact in case.all("launch.kills")[:1]:
        yield Sign("weak", "the launch script sends signals here", (fact.evidence,), fatal=False)
    for fact in case.all("launch.service")[:1]:
        says = f"the launch script starts {fact.value} here, which may have sent the signal"
        yield Sign("weak", says, (fact.evidence,), fatal=False)
