"""What must not stand before a signal from outside, if the signal is to be the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.log import Line, Raised

# Exceptions that only carry the signal or another process's death.
CARRIERS = frozenset({
    "SignalException", "KeyboardInterrupt", "SystemExit", "ChildFailedError", "CalledProcessError", "ProcessExitedException",
    "ProcessRaisedException", "SIGTERMException", "Empty", "CancelledError", "BrokenPipeError", "ConnectionResetError",
    "EOFError", "DistNetworkError", "DistStoreError", "Interrupt", "KeyboardInterruptException", "TaskCancelled",
})  # fmt: skip
_WENT_ON = 3
_ASKED = frozenset({"SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"})
_SECONDHAND = r"DataLoader worker|killed by signal|got signal|death signal|connection (?:closed|reset)|broken pipe"


def failed_before(case: Case, line: Line) -> bool:
    """Whether a rank failed by itself, a collective timed out or the work was done before the line."""
    log = case.log
    steps = [metric.line.order for metric in log.metrics if metric.line.order < line.order and "loss" in metric.line.lowered]
    since = steps[-_WENT_ON] if len(steps) >= _WENT_ON else -1  # what stands before it did not end the run
    later = (metric.line for metric in log.metrics if metric.line.order > line.order and metric.line.rank == line.rank)
    if sum("loss" in step.lowered and step.log == line.log for step in later) >= _WENT_ON:
        return True
    if log.finished is not None and since < log.finished.order < line.order:
        return True
    if any(since < one.line.order < line.order and _own(one) for one in log.raised):
        return True
    if any(
        since < collective.line.order < line.order and collective.timeout_seconds is not None
        for collective in log.collectives
    ):
        return True
    deaths = (death for death in log.deaths if since < death.line.order < line.order)
    return any(death.exit_code or death.signal not in _ASKED for death in deaths)


def _own(raised: Raised) -> bool:
    if not raised.kind or raised.survivable or raised.kind in CARRIERS:
        return False
    return not compiled(_SECONDHAND).search(f"{raised.line.text} {raised.message[:200]}")
