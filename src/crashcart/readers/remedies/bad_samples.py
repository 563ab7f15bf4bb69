"""A few samples that cannot be read, or have another shape than the rest, in a run that had trained on the others.

    stack expects each tensor to be equal size      the samples of the usual shape are handed to the loader
    BadZipFile, UnidentifiedImageError, EOFError    `__getitem__` takes the next sample; a loop over files the next file

Before the first step nothing is offered for a sample: then it may be all of them. Data whose length differs by nature never came to
a second step.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.pattern import Pattern
from crashcart.readers.code.edits import own_lines, tried
from crashcart.readers.code.source import FUNCTIONS
from crashcart.readers.remedies._scene import remedy, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.places import Spot
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Raise, Scene

_UNEQUAL = Pattern(
    r"stack expects each tensor to be equal size|each element in list of batch should be of equal size|Trying to resize storage"
)
_UNREADABLE = frozenset({
    "EOFError", "BadZipFile", "UnidentifiedImageError", "UnpicklingError", "JSONDecodeError", "error", "ReadError", "BadGzipFile",
    "LZMAError", "ArrowInvalid", "UnicodeDecodeError", "SyntaxError",
})  # fmt: skip
_CUT = Pattern(
    r"(?i)truncat|corrupt|unexpected end|cannot identify image|not a (?:zip|gzip|png|jpe?g)|is not a file in the archive|cannot reshape array|buffer size must be|unreadable|bad magic"
)
_OF_SOME = frozenset(
    {
        "KeyError",
        "ValueError",
        "IndexError",
        "TypeError",
        "ZeroDivisionError",
        "OSError",
        "FileNotFoundError",
        "RuntimeError",
    }
)
_NO_NUMBER = Pattern(r"could not convert string to float|invalid literal for int\(\)")
_FILES = ("open(", "reader", "csv", "lines", "rows", "path", "file", "glob", "records", "listdir", "shards")
_CAUSES = (
    "data/shape",
    "data/corrupt-or-missing",
    "code/shape-or-dtype",
    "data/placeholder-file",
    "numerics/bad-data",
    "code/bug",
)


def look(scene: Scene) -> Iterator[Fact]:
    """By what was raised, and where."""
    for raised in scene.raises[:2]:
        if _UNEQUAL.search(raised.words):
            yield from _of_usual_shape(scene)
            return
        of_sample = (
            scene.has_trained and raised.kind in _OF_SOME and any(spot.function == "__getitem__" for spot in raised.frames)
        )
        if raised.kind in _UNREADABLE or of_sample or _CUT.search(raised.words) or _NO_NUMBER.search(raised.words):
            yield from _next_one(scene, raised)
            return


def _of_usual_shape(scene: Scene) -> Iterator[Fact]:
    known = scene.plan.case.seen.get("code.sample_fields", [])
    parts = known[0].value["samples"] if len(known) == 1 else None
    if parts is None or not scene.has_trained:
        return
    samples, lines = parts["text"], []
    if not parts["is_name"]:
        samples = parts["names"][0]
        lines = [f"{samples} = {parts['text']}"]
    fields = known[0].value["fields"]
    item = f"{samples}[i]" if all(name.isdigit() for name in fields) else f"{samples}[i].values()"
    shape = f"{samples}[i].shape" if "" in fields else f'tuple(getattr(part, "shape", None) for part in {item})'
    lines += [
        f"shapes = [{shape} for i in range(len({samples}))]",
        "usual_shape = max(set(shapes), key=shapes.count)",
        "usual = [i for i, shape in enumerate(shapes) if shape == usual_shape]",
    ]
    span: Span = parts["span"]
    text = "".join(f"{parts['indent']}{line}\n" for line in lines)
    edits = [
        Edit(Span(span.file, parts["start"], parts["start"], parts["line"]), text),
        Edit(span, f"torch.utils.data.Subset({samples}, usual)"),
    ]
    why = "all samples are read once at the start; inspect the ones that are left out, because the error is where they were made"
    yield from remedy(_CAUSES, "Leave out samples with a different shape", "changes-training", why, edits, known[0].evidence)


def _next_one(scene: Scene, raised: Raise) -> Iterator[Fact]:
    """The next sample, or the next file, in place of one that cannot be read."""
    for spot in raised.frames:
        source = scene.source(spot.file)
        if source is None:
            continue
        if spot.function == "__getitem__" and scene.has_trained:
            edits = _another_sample(source, spot)
            title = "Use the next sample if one cannot be read"
        else:
            edits = _another_file(source, spot)
            title = "Skip files that cannot be read"
        if edits:
            why = "each one is named in the log; inspect them, because the error is where they were made"
            statement = statement_at(source, spot.line)
            yield from (
                remedy(_CAUSES, title, "changes-training", why, edits, source.evidence(statement))
                if statement is not None
                else ()
            )
            return


def _another_sample(source: Source, spot: Spot) -> list[Edit]:
    statement = statement_at(source, spot.line)
    function = source.around(statement, ast.FunctionDef) if statement is not None else None
    if function is None or function.name != "__getitem__" or len(function.args.args) != 2:  # noqa: PLR2004 - self and the index
        return []
    index = function.args.args[1].arg
    body = [each for each in function.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    owner = source.around(function, ast.ClassDef)
    if (
        not body
        or owner is None
        or not any(isinstance(each, ast.FunctionDef) and each.name == "__len__" for each in owner.body)
    ):
        return []
    lines = (
        f'print(f"sample {{{index}}} was left out: {{problem!r}}", flush=True)',
        f"return self[({index} + 1) % len(self)]",
    )
    return tried(source, body[0], body[-1], "except Exception as problem:", *lines)


def _another_file(source: Source, spot: Spot) -> list[Edit]:
    """The body of a loop over files, when one of them cannot be read."""
    statement = statement_at(source, spot.line)
    loop = source.around(statement, ast.For) if statement is not None else None
    if statement is None or loop is None or source.around(loop, *FUNCTIONS) is not source.around(statement, *FUNCTIONS):
        return []
    is_training = any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"backward", "zero_grad", "train"}
        for node in ast.walk(loop)
    )
    reads = any(word in source.written(loop.iter).lower() for word in _FILES)
    if is_training or not reads or not isinstance(loop.target, ast.Name) or not own_lines(source, loop.body[-1]):
        return []
    line = f'print(f"{{{loop.target.id}}} was left out: {{problem!r}}", flush=True)'
    return tried(source, loop.body[0], loop.body[-1], "except Exception as problem:", line)
