"""A target that stands for no class, and a loss that was not told so.

    F.cross_entropy(output, target)        IndexError: Target -1 is out of bounds: ignore_index=-1

-1 and 255 are what data sets of labels use for it; any other number may be a class.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.readers.remedies._scene import remedy
from crashcart.readers.remedies.unanswered_waits import with_argument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_SAID = Pattern(r"Target (-?\d{1,9}) is out of bounds")
_MARKS = frozenset({-1, 255})
_LOSSES = frozenset({
    "torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss", "torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss",
})  # fmt: skip


def look(scene: Scene) -> Iterator[Fact]:
    """The losses of the files in which it was raised."""
    for raised in scene.raises[:2]:
        match = _SAID.search(raised.words)
        if match is None or to_int(match[1], 0) not in _MARKS:
            continue
        calls = [
            (source, call)
            for source in scene.sources
            for call in source.nodes(ast.Call)
            if source.called(call.func) in _LOSSES and not any(each.arg in {"ignore_index", None} for each in call.keywords)
        ]
        edits = [with_argument(source, call, f"ignore_index={match[1]}") for source, call in calls]
        for source, call in calls[:1]:
            why = f"{match[1]} is not a class; if it comes from a mistake, repair the labels instead"
            yield from remedy(
                ("data/label-range",),
                f"Ignore targets of {match[1]} in the loss",
                "changes-training",
                why,
                edits,
                source.evidence(call),
            )
        return
