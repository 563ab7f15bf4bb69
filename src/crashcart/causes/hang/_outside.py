"""A job that was looked at from outside while it stood still: what the kernel says where no stack tells it.

A process that was stopped, or waits for its user, says so whatever its stack is. Without stacks the system call and the other end
of what it is about tell what the odd rank waits for, and gloo's threads who is inside a collective.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.cause import compiled

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.model import Strength

REMOTE = r"\((?:nfs|cifs|smb|fuse|lustre|ceph|gpfs|beegfs|9p|virtiofs|afs|glusterfs)[^)]{0,200}\)$"
LOADER_PIPE = r"from [^;]{0,200}\bloader worker\b"


def asks(case: Case) -> bool:
    """Whether the job stands still because it waits for its user."""
    hangs = [*case.flight.of_kind("hang")] if case.flight is not None else []
    return bool(hangs) and hangs[-1].details.get("prompt") is True


def between_threads(case: Case) -> bool:
    """Whether it was proven that the job stands still because its own threads or processes wait for each other."""
    hangs = [*case.flight.of_kind("hang")] if case.flight is not None else []
    return bool(hangs) and bool(hangs[-1].details.get("proof"))


def from_outside(details: dict[str, Any], who: str, long: str, waiting: str) -> tuple[str, str, Strength] | None:
    """Cause, sentence and strength; ``waiting`` says which ranks wait for this one, and may be empty."""
    rest = f", and {waiting} for it in a collective" if waiting else ""
    where = f" at {details['where']}" if details.get("where") else ""
    if details.get("state") in {"T", "t"}:
        stopped = details.get("stopped") or ()
        name = "every rank" if len(stopped) > 1 and len(stopped) == details.get("ranks") else who
        by = "by a signal (SIGSTOP, Ctrl-Z)" if details["state"] == "T" else "by a debugger"
        pid = f" (pid {details['pid']})" if details.get("pid") else ""
        return (
            "outside/stopped",
            f"{name}{pid} has been stopped {by} for {long} and does nothing until it is continued{rest}",
            "decisive",
        )
    if details.get("prompt"):
        line = f" ({details['line']})" if details.get("line") else ""
        return "hang/lock-or-io", f"{who} has waited {long} for keyboard input{where}{line}{rest}", "decisive"
    if details.get("meets"):
        whom = ", ".join(map(str, [*details.get("missing", ())][:4]))
        absent = f"rank {whom}, which is not among these processes" if whom else "other ranks that are missing"
        name = "the launcher" if not details.get("ranks") else "every rank here" if details["ranks"] > 1 else who
        return "distributed/rendezvous", f"{name} has waited {long} at the start of the job for {absent}", "strong"
    if details.get("stacks") is False:
        return _without_stack(details, who, long, rest)
    return None


def _without_stack(details: dict[str, Any], who: str, long: str, rest: str) -> tuple[str, str, Strength] | None:
    workers = [str(worker) for worker in details.get("workers") or ()]
    file, words = str(details.get("file") or ""), str(details.get("words") or "waits")
    if workers and (not file or compiled(LOADER_PIPE).search(file)):  # what a poll waits for may not always be looked at
        return "hang/dataloader", f"{who} has waited {long} for its loader, and {workers[0]}{rest}", "strong"
    if details.get("tracker"):
        return "tracker/blocked", f"{who} has waited {long} for its tracker's process: it {words}{rest}", "strong"
    if details.get("call") == "nanosleep" and rest:
        return "distributed/slow-rank", f"{who} has been sleeping{rest} for {long}", "strong"
    if details.get("state") == "D" or details.get("call") == "flock" or compiled(REMOTE).search(file):
        return "hang/lock-or-io", f"{who} has waited {long} for a file or its lock: it {words}{rest}", "decisive"
    if not details.get("words") or (details.get("call") in {"futex", ""} and not rest):
        return None  # a lock, a thread, a collective of another kind: only a stack can tell
    return "hang/lock-or-io", f"{who} has made no progress for {long}: it {words}{rest}", "strong"
