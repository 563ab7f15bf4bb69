"""A time-out of the program's own that was over before the work was: ten times as long.

    DataLoader(data, 16, num_workers=2, timeout=5)      RuntimeError: DataLoader timed out after 5 seconds
    batch = self.ready.get(timeout=2)                   queue.Empty
    subprocess.run(command, timeout=30)                 TimeoutExpired: ... timed out after 30 seconds

The number is changed where it is written: in the call, in the constant that the call names, or in the flag's default or the config where
the program was seen to take it from there.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.pattern import Pattern
from crashcart.readers.code.edits import replaced
from crashcart.readers.interpreter.values import Constant
from crashcart.readers.remedies._scene import remedy, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Evidence, Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Raise, Scene

_KINDS = frozenset({
    "Empty", "Full", "TimeoutError", "TimeoutExpired", "Timeout", "ReadTimeout", "ConnectTimeout", "BrokenBarrierError", "timeout",
    "DistStoreError", "DistBackendError",
})  # fmt: skip
_SAID = Pattern(r"DataLoader timed out after|timed out after [\d.]{1,12} seconds|(?i:\btimed? ?out\b)")
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_NAMES = frozenset(
    {"timeout", "timeout_s", "timeout_sec", "timeout_seconds", "time_out", "max_wait", "wait_seconds", "patience_seconds"}
)
_POSITIONS = {"get": 1, "put": 2, "wait": 0, "join": 0, "result": 0, "poll": 0, "settimeout": 0, "communicate": 1}
_CAUSES = (
    "hang/dataloader", "hang/dead-thread", "hang/lock-or-io", "slow/data", "slow/storage", "data/download", "tracker/failed",
    "config/hidden-timeout", "code/bug", "distributed/slow-rank", "distributed/rendezvous", "distributed/network",
)  # fmt: skip
_MORE = 10
_LONGEST = 3600.0  # seconds: what is longer was not too short by ten times


def look(scene: Scene) -> Iterator[Fact]:
    """The call at the innermost own line that gave up, or the loader's."""
    for raised in scene.raises[:1]:
        if "DataLoader timed out" in raised.words:
            calls = [
                (source, call)
                for source in scene.sources
                for call in source.nodes(ast.Call)
                if source.called(call.func) in _LOADERS
            ]
        elif raised.kind in _KINDS and (
            raised.kind in {"Empty", "Full", "BrokenBarrierError", "timeout"}
            or _SAID.search(raised.words)
            or not raised.words
        ):
            calls = list(_calls_at(scene, raised))
        else:
            return
        found = [each for source, call in calls for each in _numbers(scene, source, call)]
        if len({edit for edit, _, _ in found}) == 1:
            edit, old, seen = found[0]
            why = f"it was over after {old:g} s; what is waited for then comes, or the wait ends later"
            title = f"Wait {old * _MORE:g} seconds instead of {old:g}"
            yield from remedy(_CAUSES, title, "exact", why, [edit], seen)


def _calls_at(scene: Scene, raised: Raise) -> Iterator[tuple[Source, ast.Call]]:
    spot = raised.frames[-1] if raised.frames else None
    source = scene.source(spot.file) if spot is not None else None
    statement = statement_at(source, spot.line) if source is not None and spot is not None else None
    if source is None or statement is None:
        return
    heads: list[ast.AST] = [statement]
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        heads = [item.context_expr for item in statement.items]
    elif isinstance(statement, (ast.For, ast.While, ast.If)):
        heads = [statement.iter if isinstance(statement, ast.For) else statement.test]
    yield from ((source, node) for head in heads for node in ast.walk(head) if isinstance(node, ast.Call))


def _numbers(scene: Scene, source: Source, call: ast.Call) -> Iterator[tuple[Edit, float, Evidence]]:
    """The number of a call's time-out, with the edit that makes it longer."""
    given = [keyword.value for keyword in call.keywords if keyword.arg in _NAMES]
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    position = _POSITIONS.get(method)
    if not given and position is not None and position < len(call.args):
        given = [call.args[position]]
    for node in given:
        yield from _written(scene, source, call, node)


def _written(scene: Scene, source: Source, call: ast.Call, node: ast.expr) -> Iterator[tuple[Edit, float, Evidence]]:
    if _is_seconds(node):
        yield replaced(source, node, _longer(node)), node.value, source.evidence(node)  # type: ignore[attr-defined]
        return
    if isinstance(node, ast.Name):
        named = [
            assign.value
            for assign in source.nodes(ast.Assign)
            if any(isinstance(target, ast.Name) and target.id == node.id for target in assign.targets)
        ]
        if len(named) == 1 and _is_seconds(named[0]):
            yield replaced(source, named[0], _longer(named[0])), named[0].value, source.evidence(named[0])  # type: ignore[attr-defined]
            return
    for made in scene.execution.trace.calls if scene.execution is not None else ():
        if made.node is not call:
            continue
        value = next(
            (
                each
                for each in (*made.keywords.values(), *made.arguments)
                if isinstance(each, Constant) and each.origins and each.node is node
            ),
            None,
        )
        value = value or next(
            (each for name, each in made.keywords.items() if name in _NAMES and isinstance(each, Constant) and each.origins),
            None,
        )
        for fact in value.origins[:1] if value is not None else ():
            if fact.span is not None and isinstance(fact.value, (int, float)) and 0 < fact.value <= _LONGEST:
                yield Edit(fact.span, f"{fact.value * _MORE:g}"), fact.value, fact.evidence
                return


def _is_seconds(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in {int, float} and 0 < node.value <= _LONGEST  # type: ignore[operator]


def _longer(node: ast.expr) -> str:
    return f"{node.value * _MORE:g}"  # type: ignore[attr-defined]
