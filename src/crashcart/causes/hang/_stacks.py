"""Stacks of programs that stand still: an interrupt, a debugger's dump, or frames that no error ends.

Besides Python's own form, which the log reader knows, gdb's is read here::

    #4 Frame 0x7f3484000910, for file /lib/python3.8/threading.py, line 302, in wait (self=<Condition(...)>)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.log import Frame, Raised
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line

TRACKERS = r"[/\\](?:wandb|mlflow|tensorboardX?|comet_ml|neptune|clearml|swanlab)[/\\]"
GDB_FRAME = r"Frame 0x[0-9a-f]+, for file (?P<file>[^,]+), line (?P<line>\d+), in (?P<function>[\w<>]+)"
DUMP = (
    r"^\W{0,20}Thread (?:0x)?[0-9a-f]{1,20}|\((?:idle|active)[^)]{0,200}\): \"|most recent call first|py-spy|pystack|py-bt|\(gdb\)|"
    r"^Process \d{1,20}: \S|Traceback for thread|Frame 0x[0-9a-f]{1,20}, for file|^Timeout \(\d{1,20}:\d\d:\d\d|Call graph:"
)
DUMP_WORDS = ("thread", "py-spy", "pystack", "py-bt", "(gdb)", "frame 0x", "recent call first", "timeout (", "call graph")
INTERRUPT = r"\^C|KeyboardInterrupt|SIGINT|signal 2\b"
CUT = r"Traceback \(most recent call last\)"
LINES_PER_FRAME = 3


def standing(case: Case) -> Iterator[Raised]:
    """Stacks that no error ended: a keyboard interrupt, frames without an exception, a debugger's frames."""
    for raised in case.log.raised:
        if raised.frames and (raised.stack_only or raised.kind == "KeyboardInterrupt"):
            yield raised
    yield from _debugged(case)


def _debugged(case: Case) -> Iterator[Raised]:
    frames: list[Frame] = []
    last: Line | None = None
    for line in case.log.lines:
        if "frame 0x" in line.lowered and (match := compiled(GDB_FRAME).search(line.text)):
            frames.insert(0, Frame(match["file"], to_int(match["line"], 0), match["function"]))
            last = line
    if last is not None:
        yield Raised("", "", last, tuple(frames), stack_only=True)


def before(case: Case, raised: Raised, lines: int = 6) -> list[Line]:
    """The lines of the stack and some before it."""
    return case.log.around(raised.line, before=lines + len(raised.frames) * LINES_PER_FRAME)


def dumped(case: Case, raised: Raised) -> bool:
    """Whether a debugger or a watchdog printed the stack: people ask for one when nothing moves."""
    if not raised.stack_only:
        return False
    near = before(case, raised)
    told = any(
        any(word in line.lowered for word in DUMP_WORDS) and compiled(DUMP).search(line.text) for line in near
    ) or any(line.lowered.startswith("process ") and compiled(DUMP).search(line.text) for line in near)
    return told and not any(compiled(CUT).search(line.text) for line in near)


def interrupted(case: Case, raised: Raised) -> bool:
    """Whether a person ended what the stack shows, also where the last line is cut off."""
    if raised.kind == "KeyboardInterrupt" or dumped(case, raised):
        return True
    near = [*before(case, raised), *case.log.around(raised.line, after=LINES_PER_FRAME)]
    return any(
        ("^c" in line.lowered or "interrupt" in line.lowered or "sig" in line.lowered)
        and compiled(INTERRUPT).search(line.text)
        for line in near
    )


def frame_in(raised: Raised, file: str, function: str) -> Frame | None:
    """The first frame whose file and function both match."""
    return next(
        (
            frame
            for frame in raised.frames
            if compiled(file).search(frame.file) and compiled(function).search(frame.function)
        ),
        None,
    )


def in_tracker(raised: Raised) -> bool:
    """Whether a tracker's code is on the stack: then it is the tracker that blocks."""
    return any(compiled(TRACKERS).search(frame.file) for frame in raised.frames)


def moved_before(case: Case, raised: Raised) -> bool:
    """Whether step lines stand right before the stack, as in a run that was stopped while it worked."""
    near = {line.order for line in case.log.around(raised.line, before=30 + len(raised.frames) * 2)}
    return sum(metric.line.order in near for metric in case.log.metrics if metric.step is not None) > 1
