"""Where the fields of a data set's samples are made, and where its samples go into a loader.

    return self.x[i], self.y[i]       the fields 0 and 1 of a sample; `self.y` was set in line 23
    DataLoader(Records(path), 16)     here single samples can be left out

A recording knows which field of which sample was no number; this is the line behind it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.readers.code.edits import alone
from crashcart.readers.interpreter.values import Instance
from crashcart.readers.rules._statements import free_name, function_of, know_parents, statement_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Evidence, Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.execution import Execution, Loader

_SIMPLE = (ast.Name, ast.Attribute)


def look(execution: Execution) -> Iterator[Fact]:
    """``code.sample_fields``: the lines of the fields by name, and what an edit at the loader needs."""
    for loader in execution.loaders:
        dataset = loader.argument(0, "dataset")
        if loader.feeds != "train" or loader.is_alternative:
            continue
        fields = dict(_fields(execution, dataset)) if isinstance(dataset, Instance) else {}
        is_stream = isinstance(dataset, Instance) and dataset.cls.is_a("IterableDataset")  # its samples have no numbers
        yield loader.call.fact("code.sample_fields", {"fields": fields, "samples": None if is_stream else _samples(loader)})


def _fields(execution: Execution, dataset: Instance) -> Iterator[tuple[str, Evidence]]:
    """Each field that ``__getitem__`` returns, with the line where its attribute was set, or else that of the return."""
    method = next(
        (each for each in dataset.cls.node.body if isinstance(each, ast.FunctionDef) and each.name == "__getitem__"), None
    )
    source = dataset.cls.source
    for node in ast.walk(method) if method is not None else ():
        if not isinstance(node, ast.Return) or node.value is None:
            continue
        for name, part in _parts(node.value):
            attributes = [
                each.attr
                for each in ast.walk(part)
                if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self"
            ]
            written = [
                write
                for write in execution.trace.writes
                if write.owner is dataset and attributes and write.name == attributes[0]
            ]
            yield name, written[-1].evidence if written else source.evidence(node)


def _parts(value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(value, ast.Tuple):
        yield from ((str(place), part) for place, part in enumerate(value.elts))
    elif isinstance(value, ast.Dict):
        names = (key.value if isinstance(key, ast.Constant) else None for key in value.keys)
        yield from ((name, part) for name, part in zip(names, value.values, strict=True) if isinstance(name, str))
    else:
        yield "", value


def _samples(loader: Loader) -> dict[str, Any] | None:
    """The data set as it is handed over, and the statement around; None where no line can be put before it."""
    call, node = loader.call, loader.call.node
    if not isinstance(node, ast.Call) or call.source.names.get("torch") != "torch":
        return None
    know_parents([call])
    given = next(
        (keyword.value for keyword in node.keywords if keyword.arg == "dataset"), node.args[0] if node.args else None
    )
    statement = statement_of(node)
    if (
        given is None
        or isinstance(given, ast.Starred)
        or {"sampler", "batch_sampler"} & {each.arg for each in node.keywords}
    ):
        return None
    around: ast.AST = statement.iter if isinstance(statement, ast.For) else statement
    if any(isinstance(each, (ast.Lambda, ast.comprehension)) for each in ast.walk(around)) or not _begins_line(
        call.source, statement
    ):
        return None
    function = function_of(node)
    start = call.source.offset(statement.lineno, 0)
    line = call.source.line(statement.lineno)
    return {
        "text": call.source.written(given),
        "is_name": isinstance(given, _SIMPLE),
        "span": call.source.span(given),
        "start": start,
        "line": statement.lineno,
        "indent": line[: len(line) - len(line.lstrip())],
        "names": (free_name(function, "samples"), free_name(function, "finite")),
    }


def _begins_line(source: Source, statement: ast.stmt) -> bool:
    """Whether lines can be put before a statement."""
    if isinstance(statement, ast.For):
        return not source.line(statement.lineno)[: statement.col_offset].strip()
    return isinstance(statement, (ast.Assign, ast.Return, ast.Expr)) and alone(source, statement)
