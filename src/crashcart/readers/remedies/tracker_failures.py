"""A tracker that raised, in a run that could go on without what it was told.

for step, batch in enumerate(loader):
    ...
    tracker.keep(model, step)        raised within: the row is left out, with a line that says so
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.remedies._left_out import left_out, stands_alone
from crashcart.readers.remedies._scene import remedy, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_TRAINING = frozenset({"backward", "step", "zero_grad"})


def look(scene: Scene) -> Iterator[Fact]:
    """The innermost statement that stands alone; what is around it may be the training."""
    for raised in scene.raises[:1]:
        for spot in reversed(raised.frames):
            source = scene.source(spot.file)
            statement = statement_at(source, spot.line) if source is not None else None
            if source is None or statement is None:
                break
            if stands_alone(source, statement):
                edits = left_out(source, statement, "Exception", "  # a tracker must not end the training")
                why = "what could not be sent to the tracker is reported in the log; the training is the same"
                title = "Go on without the tracker's answer"
                yield from remedy(("tracker/failed",), title, "exact", why, edits, source.evidence(statement))
                break
