"""Who sent the signal that ended a recorded job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.record import replace

if TYPE_CHECKING:
    from crashcart.flight import Event
    from crashcart.model import Evidence

_SCHEDULERS = {
    "slurmstepd": "Slurm", "slurmd": "Slurm", "pbs_mom": "PBS", "sge_shepherd": "Grid Engine", "res": "LSF", "sbatchd": "LSF",
    "condor_starter": "HTCondor", "containerd-shim": "the container runtime", "dockerd": "Docker", "conmon": "Podman",
    "tini": "the container's init", "dumb-init": "the container's init", "systemd": "systemd", "timeout": "the timeout command",
}  # fmt: skip


def sent_by(signal: str, event: Event) -> str:
    """A sentence: which signal reached the job, and from whom."""
    if event.kind != "signal":
        who = f"rank {event.rank}" if event.rank is not None else "the launcher"
        return f"{signal} reached {who} before anything had failed: Ctrl-C on a terminal, or kill"
    sender, name = event.details.get("sender"), str(event.details.get("name") or "")
    known = next((full for short, full in _SCHEDULERS.items() if name.startswith(short)), None)
    if not sender:
        whom = "the terminal, or somebody outside the container"
    elif name:
        whom = f"{known} ({name}, pid {sender})" if known else f"the process {name} (pid {sender})"
    else:
        whom = f"process {sender}, which had ended when it was looked for"
    return f"{signal} was sent to the job by {whom} before anything had failed"


def unranked(seen: Evidence) -> Evidence:
    """The same without a rank: none is to blame."""
    return replace(seen, rank=None)
