"""A hook of crashcart itself may have caused the crash.

What happens: a process of the job dies while one of crashcart's own functions runs in it: in a hook, or right after a fork.

Why: ``crashcart run`` puts small hooks into Python processes. They are wrapped so that their errors stay theirs, but a crash in
native code that they call cannot be caught.

How it shows: the innermost Python frame of a fatal signal, or of an uncaught exception, is in ``crashcart/inside``.

What to do: run the job with ``crashcart run --no-inject``, which records it from outside only, or with ``CRASHCART=off`` in the
environment, which switches everything off, and report the stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.deaths import finished, order
from crashcart.flight import clock, threads_of
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.flight import Frame

title = "A hook of crashcart was running when the process died"
_HOOKS = "crashcart/inside/"
_FATAL = "a fatal signal"
_HEAD = "current thread "
_SUSPECTED = "crashcart itself may be the reason: "
_WITHOUT = "To run without its hooks: crashcart run --no-inject, or CRASHCART=off in the environment"


def in_recorder(case: Case) -> Iterator[Sign]:
    """Fatal signals and uncaught exceptions whose innermost Python frame is one of our hooks."""
    if case.flight is None or finished(case):
        return
    raised = {event.pid for event in case.flight.of_kind("exception") if event.details.get("thread") == "MainThread"}
    for dump in case.flight.stacks:
        for process in dump.stood if dump.reason == _FATAL else ():
            if (
                process.pid in raised
            ):  # it was about to end by that already: while an interpreter ends, native code often fails
                continue
            frame = _innermost(process.text)
            if frame is not None and _HOOKS in frame.file:
                seen = f"process {process.pid} died with a fatal signal in {frame.function} ({frame.file}:{frame.line})"
                at = clock(dump.time)
                where = Evidence("recorder", seen, f"recorder {at}, stacks/fatal-signal", rank=process.rank, time=at)
                yield Sign("decisive", f"{_SUSPECTED}{seen}. {_WITHOUT}", (where,), order=order(case))
    for event in case.flight.of_kind("exception"):
        if event.details.get("hook"):
            says = f"{_SUSPECTED}its hook {event.details['hook']} raised {event.details.get('type')}. {_WITHOUT}"
            yield Sign("decisive", says, (event.evidence,), order=order(case))


def in_log(case: Case) -> Iterator[Sign]:
    """A stack that Python itself wrote into the log when a fatal signal came."""
    for head in case.log.index.saying((_HEAD,)):
        after = case.log.around(head, before=0, after=1)[1:]
        if after and "most recent call first" in head.lowered and f'file "<{_HOOKS}' in after[0].lowered:
            says = f"{_SUSPECTED}a process died with a fatal signal in one of its hooks. {_WITHOUT}"
            yield Sign("decisive", says, (evidence(after[0]),), order=head.order)


def _innermost(text: str) -> Frame | None:
    """The innermost frame of the thread that died."""
    current = (frames for head, frames in threads_of(text) if head.lower().startswith(_HEAD))
    return next((frames[0] for frames in current if frames), None)


fixes = (
    Fix(
        "Record from outside only: crashcart run --no-inject",
        "exact",
        "no hooks are loaded; memory, processes, logs and the end of the run are recorded as before",
    ),
    Fix("Switch crashcart off", "exact", "the command runs without crashcart", environment={"CRASHCART": "off"}),
)
experiment = Experiment(
    title="Start the same command with crashcart run --no-inject",
    start_from="the beginning",
    stop_after="the failing step",
    confirms="it passes",
    refutes="it fails in the same way: then crashcart was not the reason",
)
