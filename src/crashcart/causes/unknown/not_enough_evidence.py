"""There is not enough evidence to say why the run ended.

What happens: the log is lost, cut, or shows only that something ended: ``exitcode: 1`` with ``error_file: <N/A>``, a last
progress bar, ``Aborted``. Several causes fit, none is shown.

Why: the launcher's table says which rank exited first, not why; the rank's own traceback is elsewhere or was never written.

How it shows: no exception, no kernel event, no numbers: only echoes.

What to do: do not change three settings at once. Collect what is missing (below), and keep every rank's output and the exit
status of the next run. Candidates are listed with level ``may``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.flight import clock
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "There is not enough evidence to say why the run ended"
breadth = 2


def in_log(case: Case) -> Iterator[Sign]:
    """What is there: the last sign of life, and how the end was seen from outside."""
    log = case.log
    for death in log.deaths[:2]:
        how = death.signal or f"exit code {death.exit_code}"
        yield Sign(
            "weak", f"a process ended with {how}, and nothing says why", (evidence(death.line),), order=death.line.order
        )
    for raised in log.raised:
        if raised.stack_only and raised.frames:
            frame = raised.frames[-1]
            says = f"a stack was printed; it ends in {frame.function} ({frame.file}:{frame.line})"
            yield Sign("weak", says, (evidence(raised.line),), order=raised.line.order)
            break
    if log.lines and not log.deaths:
        last = log.lines[-1]
        yield Sign("weak", "the last line of the log", (evidence(last),), fatal=False, order=last.order)


def in_recorder(case: Case) -> Iterator[Sign]:
    """A job that was looked at while it stood still, where no cause fits: who waits for whom."""
    hangs = [*case.flight.of_kind("hang")] if case.flight is not None else []
    if hangs and isinstance(hangs[-1].details.get("says"), str):
        seen = Evidence(
            "recorder", hangs[-1].details["says"], f"recorder {clock(hangs[-1].time)}", time=clock(hangs[-1].time)
        )
        yield Sign("weak", hangs[-1].details["says"], (seen,))


fixes = (
    Fix(
        "Collect more evidence",
        "by-hand",
        "collect each rank's own output (`torchrun --log-dir logs --tee 3`), the exit status (`echo $?`), the kernel log "
        "(`dmesg -T | tail -100`, `journalctl -k`), `sacct -j JOB --format=State,ExitCode,MaxRSS,ReqMem`; then "
        "`crashcart why` on all of them together",
    ),
)
experiment = Experiment(
    title="Run the same command once more with each rank's output and the exit status kept",
    start_from="the newest complete checkpoint before the failure",
    stop_after="the failing step, and as long again",
    confirms="it fails again, and the output of the first failing rank shows the cause",
    refutes="it passes: then look for differences outside the job (node, other jobs, file system)",
)
