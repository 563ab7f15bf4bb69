"""A loop that each rank leaves by its own decision: one waits behind it, or has ended, while another still works in it.

    for epoch in ...:
        if patience.update(loss):      rank 1 has left here
            break
        ...
        loss.backward()                rank 0 waits here
    dist.barrier()                     rank 1 is here

Where all ranks come to the test in each round, it is made on what any of them says.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import line_before, missing_imports, own_lines, replaced
from crashcart.readers.code.source import FUNCTIONS
from crashcart.readers.remedies._scene import remedy, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.places import Spot
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("distributed/desync", "distributed/peer-died")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SEVERAL = 2
_DISTRIBUTED = "torch.distributed"
_ALIASES = ("dist", "torch_ranks")  # `import torch.distributed` in a function would hide its `torch`
Loop = ast.For | ast.AsyncFor | ast.While


def look(scene: Scene) -> Iterator[Fact]:
    """The loop in which one rank stands, and out of which another went; and the test by which it went."""
    if scene.ranks < _SEVERAL:
        return
    seen: set[int] = set()
    for spot, others in _standing(scene):
        source = scene.source(spot.file)
        statement = statement_at(source, spot.line) if source is not None else None
        if source is None or statement is None:
            continue
        for loop in (above for above in source.parents(statement) if isinstance(above, _LOOPS)):
            if id(loop) in seen or not _is_left(scene, source, loop, others):
                continue
            seen.add(id(loop))
            exits = [test for test in source.nodes(ast.If) if _leaves(source, test, loop)]
            if len(exits) == 1:
                yield source.fact("code.loop_left_alone", source.written(exits[0].test), exits[0])
                yield from _together(scene, source, exits[0], loop)


def _standing(scene: Scene) -> Iterator[tuple[Spot, list[list[Spot]]]]:
    """Each line in which a rank stood or died, and where the others stood then; an empty list of frames for those that had ended."""
    stacks = scene.stacks or [raised.frames for raised in scene.raises[:1]]
    for number, frames in enumerate(stacks):
        others = [*stacks[:number], *stacks[number + 1 :]]
        for spot in frames:
            yield spot, others if scene.stacks else [[]]


def _is_left(scene: Scene, source: Source, loop: Loop, others: list[list[Spot]]) -> bool:
    """Whether some other rank is no longer in a loop: it stands behind it in the same function, or has ended."""
    last = loop.end_lineno or loop.lineno
    function = source.around(loop, *FUNCTIONS)
    for frames in others:
        for spot in frames:
            if scene.source(spot.file) is not source or spot.line <= last:
                continue
            other = statement_at(source, spot.line)
            if other is not None and source.around(other, *FUNCTIONS) is function:
                return True
    return [] in others


def _leaves(source: Source, test: ast.If, loop: Loop) -> bool:
    """Whether a test ends that very loop, and no loop within it."""
    return bool(test.body) and isinstance(test.body[-1], ast.Break) and source.around(test, *_LOOPS) is loop


def _together(scene: Scene, source: Source, test: ast.If, loop: Loop) -> Iterator[Fact]:
    """The test made on what any rank says, where every rank comes to it in every round."""
    if test not in loop.body or test.orelse or not own_lines(source, test):
        return
    before = loop.body[: loop.body.index(test)]
    if any(isinstance(node, (ast.Continue, ast.Return)) for each in before for node in ast.walk(each)):
        return
    known = next((name for name, module in source.names.items() if module == _DISTRIBUTED), "")
    name = known or next((each for each in _ALIASES if each not in source.text), "torch_distributed_group")
    imports = missing_imports(source, "torch") + ([] if known else [f"import {_DISTRIBUTED} as {name}"])
    device = ', device="cuda"' if scene.is_on_gpu else ""
    lines = (
        *imports,
        f"leaving = torch.tensor(float(bool({source.written(test.test)})){device})",
        f"{name}.all_reduce(leaving, op={name}.ReduceOp.MAX)",
    )
    if "\n" in source.written(test.test):
        return
    edits = [line_before(source, test, *lines), replaced(source, test.test, "leaving.item()")]
    why = "each rank decided by its own numbers, and the one that went on waited for the other; now all leave when one would"
    yield from remedy(
        _CAUSES, "Let all ranks leave the loop together", "changes-training", why, edits, source.evidence(test)
    )
