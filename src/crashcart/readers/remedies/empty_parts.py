"""A separator at the end of a list in a setting: the empty part behind it is in everything.

    freeze: "stem,mid,"        for prefix in freeze.split(","): name.startswith(prefix)      every name starts with ""

Only where the program takes the text apart at that separator, and asks whether names begin with, or hold, the parts.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.errors import CommandError
from crashcart.model import Edit, Span
from crashcart.readers.job.config import read_config_text
from crashcart.readers.job.script_files import text_of
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("silent/not-learning", "silent/nothing-trained", "silent/partial-load", "config/missing-or-wrong")
_CONFIGS = (".json", ".toml", ".yaml", ".yml")
_SEPARATORS = ",;|:+"


def look(scene: Scene) -> Iterator[Fact]:
    """The one setting that ends with what the program splits at."""
    split = {
        str(node.args[0].value)
        for source in scene.sources
        for node in source.nodes(ast.Call)
        if isinstance(node.func, ast.Attribute)
        and node.func.attr == "split"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Constant)
    } & {*_SEPARATORS}
    asks = any(
        isinstance(node, ast.Attribute) and node.attr in {"startswith", "endswith", "match", "search"}
        for source in scene.sources
        for node in source.nodes(ast.Attribute)
    )
    found = (
        [(fact, mark) for fact in _texts(scene) for mark in sorted(split) if _is_open(str(fact.value), mark)]
        if split and asks
        else []
    )
    if len(found) != 1:
        return
    fact, mark = found[0]
    value = str(fact.value)
    span = fact.span
    start = text_of(span.file).find(value, span.start, span.end) if span is not None else -1
    if span is None or start < 0:
        return
    new = mark.join(part for part in value.split(mark) if part.strip())
    why = f"the program splits {value!r} into parts, and one is empty; every name starts with that"
    edits = [Edit(Span(span.file, start, start + len(value), span.line), new)]
    yield from remedy(_CAUSES, f"Write {new} instead of {value}", "changes-training", why, edits, fact.evidence)


def _is_open(value: str, mark: str) -> bool:
    parts = value.split(mark)
    return (
        len(parts) > 1
        and any(part.strip() for part in parts)
        and not all(part.strip() for part in parts)
        and " " not in value.strip()
    )


def _texts(scene: Scene) -> Iterator[Fact]:
    for path in sorted(path for path in scene.plan.files if path.endswith(_CONFIGS)):
        try:
            facts = read_config_text(text_of(path), path)
        except (CommandError, OSError):
            continue
        yield from (fact for fact in facts if isinstance(fact.value, str) and fact.span is not None)
