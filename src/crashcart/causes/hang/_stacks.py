"""Stacks of programs that stood still: interrupted by hand, dumped by faulthandler or py-spy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Frame, Raised

TRACKERS = r"[/\\](?:wandb|mlflow|tensorboardX?|comet_ml|neptune|clearml|swanlab)[/\\]"


def standing(case: Case) -> Iterator[Raised]:
    """Stacks that no error ended: a keyboard interrupt, or frames without an exception."""
    for raised in case.log.raised:
        if raised.frames and (raised.stack_only or raised.kind == "KeyboardInterrupt"):
            yield raised


def frame_in(raised: Raised, file: str, function: str) -> Frame | None:
    """The first frame whose file and function both match."""
    return next(
        (one for one in raised.frames if compiled(file).search(one.file) and compiled(function).search(one.function)), None
    )


def in_tracker(raised: Raised) -> bool:
    """Whether a tracker's code is on the stack: then it is the tracker that blocks."""
    return any(compiled(TRACKERS).search(frame.file) for frame in raised.frames)


def moved_before(case: Case, raised: Raised, lines: int = 30) -> bool:
    """Whether step lines stand right before the stack, as in a run that was stopped while it worked."""
    near = {line.order for line in case.log.around(raised.line, before=lines + len(raised.frames) * 2)}
    return sum(one.line.order in near for one in case.log.metrics if one.step is not None) > 1
