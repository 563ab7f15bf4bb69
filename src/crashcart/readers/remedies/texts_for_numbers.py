"""A number that the program holds as text, and calculates with later: written, or made, as a number where it comes in.

min_lr: 1e-5                         text for PyYAML: 1.0e-5
def cast(text, old):                 overrides become what the default is, but for floats
    if isinstance(old, int): return int(text)
    return text
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.causes.config._spelling import as_number
from crashcart.errors import CommandError
from crashcart.model import Edit
from crashcart.pattern import Pattern
from crashcart.readers.code.edits import line_before, own_lines, step_of
from crashcart.readers.job.config import read_config_text
from crashcart.readers.job.script_files import text_of
from crashcart.readers.remedies._scene import remedy, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Raise, Scene

_OF_TEXT = Pattern(r"'str'|\bstr\b|must be real number|can't multiply sequence|numeric|Unknown format code")
_LIKE_NUMBER = Pattern(r"^[+-]?(?:\d{1,20}\.?\d{0,20}|\.\d{1,20})[eE][+-]?\d{1,4}$")
_CAUSES = ("config/type", "code/bug", "code/shape-or-dtype")


def look(scene: Scene) -> Iterator[Fact]:
    """Only where a calculation was refused for a text."""
    for raised in scene.raises[:1]:
        if raised.kind in {"TypeError", "ValueError", "AttributeError"} and _OF_TEXT.search(raised.words):
            yield from _in_yaml(scene, raised)
            yield from _in_cast(scene)


def _in_yaml(scene: Scene, raised: Raise) -> Iterator[Fact]:
    """The texts of the configs that were meant as numbers; those that the failing lines name, where they name any."""
    texts: list[Fact] = []
    for path in sorted(path for path in scene.plan.files if path.endswith((".yaml", ".yml"))):
        try:
            facts = read_config_text(text_of(path), path)
        except (CommandError, OSError):
            continue
        texts += [
            fact
            for fact in facts
            if isinstance(fact.value, str) and fact.span is not None and _LIKE_NUMBER.search(fact.value)
        ]
    named = [fact for fact in texts if fact.spelling.rpartition(".")[2] in _words_of(scene, raised)]
    edits = []
    for fact in named or (texts if len(texts) == 1 else []):
        number = as_number(str(fact.value))
        if (
            fact.span is not None
            and number is not None
            and text_of(fact.span.file)[fact.span.start : fact.span.end] == fact.value
        ):
            edits.append(Edit(fact.span, number))
    if edits:
        why = "YAML 1.1 needs a decimal point and a signed exponent; without them the program gets text"
        seen = (named or texts)[0].evidence
        yield from remedy(_CAUSES, "Write the value as a number", "exact", why, edits, seen)


def _words_of(scene: Scene, raised: Raise) -> set[str]:
    """The attributes and keys in the lines that failed."""
    words: set[str] = set()
    for spot in raised.frames[-2:]:
        source = scene.source(spot.file)
        statement = statement_at(source, spot.line) if source is not None else None
        for node in ast.walk(statement) if statement is not None else ():
            if isinstance(node, ast.Attribute):
                words.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.add(node.value)
            elif isinstance(node, ast.Name):
                words.add(node.id)
    return words


def _in_cast(scene: Scene) -> Iterator[Fact]:
    """A function that gives a text the type of what it replaces, and knows whole numbers only."""
    for source in scene.sources:
        for function in source.nodes(ast.FunctionDef):
            last = function.body[-1]
            if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Name) or not own_lines(source, last):
                continue
            text = last.value.id
            tests = {
                kind: ast.unparse(owner)
                for node in ast.walk(function)
                if isinstance(node, ast.If)
                for kind, owner in [_type_test(node.test)]
            }
            converts = {
                node.func.id
                for node in ast.walk(function)
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and len(node.args) == 1
                and ast.unparse(node.args[0]) == text
            }
            if "int" in tests and "float" not in tests and "int" in converts and "float" not in converts:
                test = f"if isinstance({tests['int']}, float):"
                edits = [line_before(source, last, test, f"{step_of(source)}return float({text})")]
                why = "it converts text to the type of the value it replaces, but kept it as text if that is a float"
                yield from remedy(
                    _CAUSES, "Convert text that replaces a float to a float", "exact", why, edits, source.evidence(last)
                )
                return


def _type_test(node: ast.expr) -> tuple[str, ast.expr]:
    """The name of the type that ``isinstance(old, int)`` asks for, and what it asks about."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        owner, kind = [*node.args, None, None][:2]
        if owner is not None and isinstance(kind, ast.Name):
            return kind.id, owner
    return "", node
