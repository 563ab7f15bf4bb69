"""Which program of a script printed a line, by the times at which its output came and at which programs began and ended.

    -- does the sampler work at all?
    no EMA weights in the checkpoint, using the raw ones       sample.py, before train.py began
    step 100 loss 1.93                                         train.py

A warning of a program that does not train says nothing about the training. Where two programs ran side by side, or nobody noted the
times, a line may be of either. Pure functions of a case.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from crashcart.log import Progress
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.case import Case
    from crashcart.flight import Flight, Stage
    from crashcart.log import Line, Log

__all__ = ["of_stage", "of_training"]

_LATE = 0.3  # seconds that the last words of a program may take to the log
_LOOK = 1.5  # seconds after its start at which a process is seen that does not speak for itself


def of_training(case: Case) -> Case:
    """The case with the lines alone that the programs which train can have printed."""
    flight = case.flight
    return _of(case, [stage for stage in flight.stages if stage.role == "training"]) if flight is not None else case


def of_stage(case: Case) -> Case:
    """The case with the lines alone that the program in question can have printed."""
    stage = case.flight.stage if case.flight is not None else None
    return _of(case, [stage]) if stage is not None else case


def _of(case: Case, stages: list[Stage]) -> Case:
    foreign = _printed_elsewhere(case, stages)
    if not foreign:
        return case
    log = case.log
    own = replace(
        log,
        lines=[line for line in log.lines if line.order not in foreign],
        raised=[raised for raised in log.raised if raised.line.order not in foreign],
        deaths=[death for death in log.deaths if death.line.order not in foreign],
        memory=[memory for memory in log.memory if memory.line.order not in foreign],
        metrics=[metrics for metrics in log.metrics if metrics.line.order not in foreign],
        skips=[line for line in log.skips if line.order not in foreign],
        progress=_progress(log, foreign),
        _index=None,
        _steps=None,
        _by_place=None,
    )
    return replace(case, log=own, derived={})


def _progress(log: Log, foreign: frozenset[int]) -> Progress:
    """The last step that was printed, where another program printed a later one."""
    if log.progress.line is None or log.progress.line.order not in foreign:
        return log.progress
    own = [metrics for metrics in log.metrics if metrics.step is not None and metrics.line.order not in foreign]
    return Progress(own[-1].step, None, own[-1].line) if own else Progress()


def _printed_elsewhere(case: Case, stages: list[Stage]) -> frozenset[int]:
    """The places of the lines that were printed while another program ran, and none of these."""
    flight = case.flight
    if flight is None or not stages:
        return frozenset()
    own = [_lifetime(flight, stage) for stage in stages]
    others = [_lifetime(flight, stage) for stage in flight.stages if stage not in stages]
    if not others:
        return frozenset()
    return frozenset(line.order for line in case.log.lines if _within(line, others) and not _within(line, own))


def _within(line: Line, lifetimes: Iterable[tuple[float, float]]) -> bool:
    """Whether a line was printed while one of them ran."""
    if line.printed is None:
        return False
    earliest, latest = line.printed
    return any(began <= latest and earliest <= ended + _LATE for began, ended in lifetimes)


def _lifetime(flight: Flight, stage: Stage) -> tuple[float, float]:
    """From when to when the processes of a program ran: by their own words and the kernel's, else as they were seen."""
    own = stage.pids - set(stage.wrappers)
    spoke = [event.time for event in flight.of_kind("hello") if event.pid in own]
    ended = {event.details.get("pid"): event.time for event in flight.of_kind("gone")}
    ends = [ended.get(pid, flight.processes[pid].ended) for pid in own]
    known = [end for end in ends if end is not None]
    return min(spoke, default=stage.began - _LOOK), max(known) if len(known) == len(ends) else math.inf
