"""Exceptions that only report what another process, a time-out or a signal did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Raised

KINDS = frozenset(
    {"ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError", "SystemExit",
    "SignalException",
     "KeyboardInterrupt", "DistNetworkError", "DistStoreError", "DistBackendError", "HorovodInternalError", "ActorDiedError",
     "RayActorError", "RayTaskError", "SIGTERMException"}
)  # fmt: skip
STEPS = 3
MESSAGES = (
    r"out of memory|"
    r"NCCL (?:error|communicator)|Watchdog caught|gloo/transport|connectFullMesh|reset by peer|closed by peer|"
    r"Broken pipe|Socket Timeout|"
    r"C10d store|DataLoader worker \(pid|exited unexpectedly|store based barrier|ncclUniqueId|"
    r"Engine core initialization failed"
)


def own(case: Case) -> Iterator[Raised]:
    """Exceptions that nobody caught and that say something themselves, first one first."""
    for raised in case.log.raised:
        if not raised.kind or raised.survivable or raised.kind in KINDS:
            continue
        if not compiled(MESSAGES).search(raised.message.split("\n")[0]) and not _went_on(case, raised):
            yield raised


def _went_on(case: Case, raised: Raised) -> bool:
    """Whether steps follow a line without a stack, and nobody saw a process end: caught, or text that a model wrote."""
    if raised.frames or case.log.deaths or case.log.restarts:
        return False
    steps = [metric for metric in case.log.metrics if metric.line.order > raised.line.order and metric.step is not None]
    return len(steps) >= STEPS
