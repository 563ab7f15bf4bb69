"""``why --pid``: from one pid to a case that causes can be asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.case import Case
from crashcart.deaths import hung
from crashcart.live.job import find_job
from crashcart.live.judge import observe
from crashcart.live.looks import Watch
from crashcart.live.told import add_to, as_flight
from crashcart.live.words import notes
from crashcart.model import NotLooked
from crashcart.readers.flight import read_flight
from crashcart.readers.gather import Given, gather
from crashcart.record import replace
from crashcart.run.stalls import floor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crashcart.flight import Flight
    from crashcart.live.job import Job
    from crashcart.model import Diagnosis, Evidence

__all__ = ["as_seen", "look_at"]

_COUNTED = ("steps", "train_batches", "eval_batches", "checkpoints")


def look_at(pid: int, progress: Callable[[float], None] | None = None) -> Case:
    """Watch the job of a process for some seconds; the recording of ``crashcart run`` is read too where there is one.

    ``progress`` is told after each look for how many seconds it was looked.
    """
    job = find_job(pid)
    case = _recorded(job)
    watch = Watch(job)
    try:
        floor = floor_of()
        counts = _counts(case.flight)
        verdict = observe(watch, counts, floor, progress)
        if job.folder is not None and _counts(read_flight(job.folder)) != counts:
            verdict = verdict._replace(hung=False)
        if case.flight is None:
            case.flight = as_flight(watch, verdict, floor)
        elif not hung(case):
            add_to(case.flight, watch, verdict, floor)
        case.notes += notes(watch, verdict)
        case.not_looked += _gaps(watch)
    finally:
        watch.close()
    return case


def _recorded(job: Job) -> Case:
    return gather(Given([job.folder])) if job.folder is not None else Case()


def _counts(flight: Flight | None) -> dict[int, tuple[float, ...]]:
    """What each rank has counted, where a recording knows it."""
    if flight is None:
        return {}
    counts = {rank.pid: tuple(rank.page.get(name, 0.0) for name in _COUNTED) for rank in flight.ranks if rank.page}
    return {pid: tuple(0.0 if value != value else value for value in one) for pid, one in counts.items()}  # noqa: PLR0124 - NaN


def _gaps(watch: Watch) -> Iterator[NotLooked]:
    with_stack = [one for one in watch.looks[-1].seen.values() if one.stack.frames]
    if watch.answered:
        pass
    elif not watch.spies:
        how = "`pip install py-spy`, or start the next run with `crashcart run`"
        yield NotLooked("stacks", "py-spy is not installed", how)
    elif watch.refused and not with_stack:
        how = "as root, with `--cap-add SYS_PTRACE` in a container, or `sysctl kernel.yama.ptrace_scope=0`"
        yield NotLooked("stacks", f"py-spy: {watch.refused}", how)
    if any(not one.wait.place and one.state in "SD" for one in watch.looks[-1].seen.values()):
        yield NotLooked("what some processes wait for in the kernel", "/proc/PID/syscall and wchan may not be read here")
    if watch.cards.why and any(watch.ends.on_card(pid) for pid in watch.tree.processes):
        yield NotLooked("GPUs", watch.cards.why)


def as_seen(diagnosis: Diagnosis) -> Diagnosis:
    """The same, with evidence that says that it was seen just now: nothing was recorded."""
    findings = tuple(
        replace(finding, signs=tuple(replace(sign, evidence=tuple(map(_seen, sign.evidence))) for sign in finding.signs))
        for finding in diagnosis.findings
    )
    ruled_out = tuple(replace(one, evidence=tuple(map(_seen, one.evidence))) for one in diagnosis.ruled_out)
    return replace(diagnosis, findings=findings, ruled_out=ruled_out)


def _seen(item: Evidence) -> Evidence:
    if item.source != "recorder":
        return item
    return replace(item, source="live", where=item.where.replace("recorder", "seen", 1))
