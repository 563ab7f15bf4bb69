"""A file that is not there: one beside it has almost the same name, nobody made its folder, or the line that writes it was not reached.

No such file or directory: 'data/trian.jsonl'        data/train.jsonl
open(os.path.join(out, "log.txt"), "w")               os.makedirs(os.path.dirname(...), exist_ok=True) before it
if error < best: torch.save(model, "best.pt")         the line, and the condition, of which NaN makes every comparison false
"""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING

from crashcart.model import Edit, Fact
from crashcart.pattern import Pattern
from crashcart.places import UNWRITTEN
from crashcart.readers.code.edits import line_before, own_lines
from crashcart.readers.code.source import FUNCTIONS, name_of
from crashcart.readers.remedies._scene import remedy, statement_at
from crashcart.readers.remedies.near_words import nearest, places_of
from crashcart.readers.rules._lazy_handles import add_imports
from crashcart.regular_files import names_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Raise, Scene

_NOT_THERE = Pattern(
    r"No such file or directory: ['\"]([^'\"\n]{1,300})['\"]|Parent directory ([^\s'\"]{1,300}) does not exist|Cannot save file into a non-existent directory: ['\"]([^'\"\n]{1,300})['\"]"
)
_CAUSES = (
    "config/missing-or-wrong",
    "data/corrupt-or-missing",
    "checkpoint/save-failed",
    "code/bug",
    "checkpoint/corrupt",
    "checkpoint/incompatible",
)
_FOLDER = ("config/missing-or-wrong", "data/corrupt-or-missing", "checkpoint/save-failed", "code/bug")
_MOST_NAMES = 2000
_WRITERS = {
    "torch.save": 1, "numpy.save": 0, "numpy.savez": 0, "numpy.savez_compressed": 0, "numpy.savetxt": 0, "joblib.dump": 1, "open": 0, "io.open": 0,
    "safetensors.torch.save_file": 1, "h5py.File": 0, "logging.FileHandler": 0,
}  # fmt: skip
_METHODS = frozenset({"to_csv", "to_parquet", "to_json", "to_pickle", "savefig", "imsave", "save", "save_model", "save_pretrained", "save_checkpoint"})  # fmt: skip
_DEEPEST, _LONGEST = 2, 60
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def look(scene: Scene) -> Iterator[Fact]:
    """Only for the first exception: what comes after it looks for what it did not write."""
    for raised in scene.raises[:1]:
        match = _NOT_THERE.search(raised.words)
        if match is None or raised.kind not in {"FileNotFoundError", "RuntimeError", "OSError"}:
            continue
        path = match[1] or match[2] or match[3]
        folder = os.path.dirname(path)
        is_folder = match[1] is None
        if not is_folder and os.path.isdir(folder or "."):
            yield from _nearly(scene, path)
        elif (is_folder or not os.path.isdir(folder)) and not scene.case.all(
            "code.folder_not_made"
        ):  # whose cause has the patch
            yield from _folder(scene, raised)
        if not is_folder:
            yield from _unwritten(scene, os.path.basename(path))


def _unwritten(scene: Scene, name: str) -> Iterator[Fact]:
    """Where the program would have written a file of that name, and on which condition; none where one was saved elsewhere."""
    saves = scene.case.flight.of_kind("checkpoint") if scene.case.flight is not None else ()
    if any(os.path.basename(str(save.details.get("path"))) == name for save in saves):
        return
    writers = [
        (source, call)
        for source in scene.project_sources(name)
        for call in source.nodes(ast.Call)
        if (target := _target(source, call)) is not None and _is_called(source, target, name)
    ]
    test = _condition(scene, *writers[0], 0) if len(writers) == 1 else None
    if test is not None:
        (source, call), (place, condition) = writers[0], test
        compares = any(isinstance(node, ast.Compare) and isinstance(node.ops[0], _ORDERS) for node in ast.walk(condition))
        written = " ".join(place.written(condition).split())[:_LONGEST]
        value = {"file": name, "condition": written, "compares": compares, "place": source.evidence(call)}
        yield Fact(UNWRITTEN, value, place.evidence(condition), "code")


def _is_called(source: Source, target: ast.expr, name: str) -> bool:
    """Whether a path ends in this name, as it is written or as the names in it were made."""
    values = [target]
    for own in {name_of(node) for node in ast.walk(target) if isinstance(node, (ast.Name, ast.Attribute))}:
        values += (value for node in source.nodes(ast.Assign) for value in _assigned(node, own))
    texts = (node.value for value in values for node in ast.walk(value) if isinstance(node, ast.Constant))
    return any(isinstance(text, str) and os.path.basename(text) == name for text in texts)


def _assigned(statement: ast.Assign, name: str) -> Iterator[ast.expr]:
    """What a statement gives a name: of ``a, b = x, y`` its own part."""
    for target in statement.targets:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
        yield from (value for part, value in zip(parts, values, strict=False) if name_of(part) == name)


def _condition(scene: Scene, source: Source, call: ast.AST, depth: int) -> tuple[Source, ast.expr] | None:
    """The test above a call in its function, or above the only call of that function."""
    below = call
    for above in source.parents(call):
        if isinstance(above, ast.If) and below in above.body:
            return source, above.test
        if isinstance(above, FUNCTIONS):
            name, callers = above.name, dict.fromkeys([source, *scene.sources])
            calls = [(caller, node) for caller in callers for node in caller.nodes(ast.Call) if name_of(node.func).rpartition(".")[2] == name]  # fmt: skip
            return _condition(scene, *calls[0], depth + 1) if len(calls) == 1 and depth < _DEEPEST else None
        below = above
    return None


def _nearly(scene: Scene, path: str) -> Iterator[Fact]:
    name = os.path.basename(path)
    right = nearest(name, names_in(os.path.dirname(path) or ".", _MOST_NAMES))
    if right is None:
        return
    found = [(span, quote) for span, quote in places_of(scene, path)] or [
        (span, quote) for span, quote in places_of(scene, name)
    ]
    if len(found) != 1:
        return
    span, quote = found[0]
    text = right if span.end - span.start == len(name) else os.path.join(os.path.dirname(path), right)
    why = f"{path} is not there, and {right} lies in the same folder"
    yield from remedy(_CAUSES, f"Write {right} instead of {name}", "changes-training", why, [Edit(span, text)], quote)


def _folder(scene: Scene, raised: Raise) -> Iterator[Fact]:
    """A line that makes the folder before the innermost own statement that writes."""
    spot = raised.frames[-1] if raised.frames else None
    source = scene.source(spot.file) if spot is not None else None
    statement = statement_at(source, spot.line) if source is not None and spot is not None else None
    if source is None or statement is None:
        return
    heads: list[ast.AST] = (
        [item.context_expr for item in statement.items] if isinstance(statement, ast.With) else [statement]
    )
    written = [
        target
        for head in heads
        for node in ast.walk(head)
        if isinstance(node, ast.Call) and (target := _target(source, node)) is not None
    ]
    is_whole = isinstance(statement, ast.With) or own_lines(source, statement)
    if (
        len(written) != 1
        or not is_whole
        or any(isinstance(node, (ast.NamedExpr, ast.Await)) for node in ast.walk(written[0]))
    ):
        return
    text = source.written(written[0])
    line = f'os.makedirs(os.path.dirname({text}) or ".", exist_ok=True)'
    edits = [line_before(source, statement, line), *add_imports(source, "os")]
    why = "this does nothing if the folder already exists"
    yield from remedy(_FOLDER, "Create the folder before writing the file", "exact", why, edits, source.evidence(statement))


def _target(source: Source, call: ast.Call) -> ast.expr | None:
    """The path that a call writes."""
    name = source.called(call.func)
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name in {"open", "io.open"}:
        mode = next(
            (keyword.value for keyword in call.keywords if keyword.arg == "mode"),
            call.args[1] if len(call.args) > 1 else None,
        )
        if not (isinstance(mode, ast.Constant) and isinstance(mode.value, str) and {*mode.value} & {*"wax"}):
            return None
    position = _WRITERS.get(name, 0 if method in _METHODS else None)
    return call.args[position] if position is not None and position < len(call.args) else None
