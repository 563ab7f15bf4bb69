"""A window that no recording of the data is long enough for: the data set is empty.

    horizon: 96                 the longest array of the named folder has 95 rows, the shortest 40

The one setting that is longer than all of them becomes what the shortest has room for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.pattern import Pattern
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_SAID = Pattern(
    r"num_samples=0|random_ expects 'from' to be less than 'to'|num_samples should be a positive|empty (?:dataset|sequence|range)|(?i:data ?set is empty|no (?:samples|windows|episodes|batches))"
)
_NAMED = Pattern(r"(?i)horizon|chunk|window|length|seq|context|block|span|history|look_?back|frames|clip")
_FARTHEST = 4  # times the longest recording, beyond which a number means something else


def look(scene: Scene) -> Iterator[Fact]:
    """The settings of the job against the lengths that the headers of its data tell."""
    if not any(_SAID.search(raised.words) for raised in scene.raises[:2]):
        return
    lengths = sorted(_lengths(scene))
    if not lengths:
        return
    longest, shortest = lengths[-1], lengths[0]
    too_long = [
        fact
        for name, fact in scene.plan.case.facts.items()
        if type(fact.value) is int
        and longest <= fact.value <= _FARTHEST * longest
        and fact.span is not None
        and _NAMED.search(name)
    ]
    if len({fact.span for fact in too_long}) == 1 and shortest > 2:  # noqa: PLR2004 - else no window is left
        fact, new = too_long[0], shortest - 1
        name = fact.spelling or fact.name
        why = f"the longest of {len(lengths)} recordings has {longest} rows, the shortest {shortest}; a shorter window changes the training, and so would padding"
        assert fact.span is not None  # noqa: S101 - asked above
        yield from remedy(
            ("data/empty-or-short",),
            f"Set {name} to {new}, which fits into every recording",
            "changes-training",
            why,
            [Edit(fact.span, str(new))],
            fact.evidence,
        )


def _lengths(scene: Scene) -> Iterator[int]:
    """The rows of each array in the folders that the job names."""
    for fact in scene.plan.case.seen.get("data.tables", []):
        for table in fact.value["tables"].values():
            yield from (shape[0] for shape, _ in table["tables"] if shape)
