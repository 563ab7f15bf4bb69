"""How a run ended, told from its log and exit status."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.attribution import of_stage
from crashcart.deaths import blamed, finished, first, hung, stopped_first, timed_out_by, whole
from crashcart.model import Ending, StageReport
from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.record import replace
from crashcart.stages import distinguishing_arguments, exit_of

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.flight import Flight, Stage
    from crashcart.log import Line, Log, Raised
    from crashcart.model import State

__all__ = ["died_after", "ending_of", "stage_reports"]

# A debugger or faulthandler was asked where the program stands.
_DUMPED = Pattern(r"\((?:idle|active)[^)]{0,200}\)|py-bt|most recent call first|^Timeout \(\d", re.MULTILINE)
_CONTAINER = " exited with code "
_STOPPED = ("due to time limit", "due to preemption", "death signal", "cancelled at", "due to node failure")


def died_after(case: Case, line: Line) -> bool:
    """Whether a process ended badly after a line: a launcher or a main program says so, or a watchdog gave up."""
    log = case.log
    if case.exit is not None:
        return case.exit.code != 0
    return (
        any(death.line.order > line.order and not _neighbour(death.line, line) for death in log.deaths)
        or any(collective.line.order > line.order for collective in log.collectives)
        or any(_ended(one) and one.line.order > line.order for one in log.raised)
    )


def _neighbour(death: Line, finished: Line) -> bool:
    """Another container of a composition that is taken down after ours has ended well."""
    return _CONTAINER in finished.lowered and _CONTAINER in death.lowered


def _first_rank(log: Log, raised: list[Raised]) -> int | None:
    """Who ended first: a rank that a signal killed before those that noticed, else the first that raised."""
    killed = [death.rank for death in log.deaths if death.signal not in {None, "SIGTERM"} and death.rank is not None]
    own = [one.line.rank for one in raised if one.line.rank is not None]
    return next(iter([*killed, *own]), None)


def _ended(raised: Raised) -> bool:
    """Whether an exception ended the main program, or a person looked where it stood."""
    return (
        raised.top
        or raised.kind == "KeyboardInterrupt"
        or (raised.stack_only and not raised.survivable and not raised.worker)
    )


def ending_of(case: Case) -> Ending:
    """State, exit code, signal, step and phase at the end."""
    log = case.log
    state, code, signal = _state(case)
    raised = log.uncaught()
    progress = of_stage(case).log.progress
    step = progress.step if progress.step is not None else case.step
    told = Ending(
        state=state,
        exit_code=code,
        signal=signal,
        step=step,
        phase=next((one.phase for one in raised if one.phase), log.phase),
        first_rank=_first_rank(log, raised),
    )
    return told if case.flight is None else _as_recorded(case, told)


def stage_reports(case: Case, ending: Ending) -> tuple[StageReport, ...]:
    """The programs of a recorded run, each with its own end; ``ending`` is that of the one that decided."""
    flight = case.flight
    if flight is None:
        return ()
    ends = [ending if stage is flight.stage else _ending_of_stage(case, flight, stage) for stage in flight.stages]
    return tuple(
        StageReport(
            stage.program,
            stage.role,
            stage.ranks,
            end,
            decided=stage is flight.stage,
            arguments=distinguishing_arguments(stage, flight.stages),
        )
        for stage, end in zip(flight.stages, ends, strict=True)
    )


def _ending_of_stage(case: Case, flight: Flight, stage: Stage) -> Ending:
    """How one of the other programs ended."""
    code, signal = exit_of(flight, stage)
    focused = replace(case, flight=replace(flight, stage=stage))
    ranks = focused.flight.ranks if focused.flight is not None else []
    leader = first(focused) if stage.failed else None
    steps = to_int(max((rank.page.get("steps", 0.0) for rank in ranks), default=0.0), 0)
    return Ending(
        state=_state_of_stage(focused, stage, signal),
        exit_code=code,
        signal=signal,
        optimizer_steps=steps or None,
        phase=leader.phase if leader is not None else None,
        first_rank=leader.process.rank if leader is not None and stage.ranks > 1 else None,
    )


def _state_of_stage(case: Case, stage: Stage, signal: str | None) -> State:
    if hung(case) and stage.failed:
        return "hung"
    if stage.role == "service" and signal is not None:  # the script ends it when the work is done
        return "stopped"
    if stage.failed:
        return "killed" if signal else "crashed"
    if stage.ended is None:
        return "running" if case.flight is not None and case.flight.alive else "unknown"
    return "finished"


def _as_recorded(case: Case, told: Ending) -> Ending:
    """The same where a recording knows better: who ended first and in which phase, and that somebody asked it to stop."""
    steps = [rank.page.get("steps", 0.0) for rank in case.flight.ranks] if case.flight is not None else []
    told = replace(told, optimizer_steps=to_int(max((step for step in steps if step > 0), default=0)) or None)
    if stopped_first(case) is not None or (timed_out_by(case) is not None and first(case) is None):
        return replace(told, state="stopped", first_rank=None)
    if case.flight is not None and case.flight.alive and not hung(case):
        return replace(told, state="running", first_rank=None)
    if hung(case) and not finished(case):
        return replace(told, state="hung", first_rank=None)  # who was in the way follows from the cause
    leader = first(case)
    if leader is None:
        return replace(told, first_rank=None) if whole(case) is not None else told
    return replace(told, first_rank=blamed(case), phase=leader.phase or told.phase)


def _state(case: Case) -> tuple[State, int | None, str | None]:
    log = case.log
    if case.exit is not None:
        state: State = "killed" if case.exit.signal else "finished" if case.exit.code == 0 else "crashed"
        return state, case.exit.code, case.exit.signal
    deaths = [death for death in log.deaths if not log.goes_on_after(death.line)]
    signal = next((death.signal for death in deaths if death.signal and death.signal != "SIGTERM"), None)
    code = next((death.exit_code for death in deaths if death.exit_code), None)
    errors = log.uncaught()
    if log.finished is not None:
        if not died_after(case, log.finished):
            return "finished", None, None
        errors = [error for error in errors if error.line.order > log.finished.order]
    if errors and log.goes_on_after(errors[-1].line):
        return "running", None, None
    if any("oom-kill" in line.lowered or "oom_kill" in line.lowered for line in log.lines[-400:]):
        return "killed", None, signal or "SIGKILL"
    if any(words in line.lowered for line in log.lines[-400:] for words in _STOPPED):
        return "stopped", code, signal
    if signal:
        return "killed", None if signal else code, signal
    if log.collectives or (not errors and any(one.stack_only and _DUMPED.search(_above(log, one)) for one in log.raised)):
        return "hung", code, signal
    if any(error.kind == "KeyboardInterrupt" for error in errors):
        return "stopped", code, signal
    if errors or code or any(one.cut and not one.survivable for one in log.raised):
        return "crashed", code, signal
    return "unknown", None, None


def _above(log: Log, raised: Raised) -> str:
    return "\n".join(line.text for line in log.around(raised.line, before=len(raised.frames) + 4))
