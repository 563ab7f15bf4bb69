r"""Patterns by which a program looks for its own files, compared with the names that it gave them.

    re.compile(r"step_(\d+)\.pt")                 looks for step_120.pt
    torch.save(state, f"step-{step:06d}.pt")        writes step-000120.pt

A program that finds none begins anew, and says nothing. Where one other sign between the parts of the name would match every file,
that is the edit.
"""

from __future__ import annotations

import ast
import fnmatch
import os
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.interpreter.values import constant_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call

__all__ = ["unmatched_names"]

_EXPRESSIONS = ("compile", "match", "fullmatch", "search", "findall")
_GLOBS = ("glob", "iglob", "rglob")
_LONGEST = 200
_WILD = (".*?", ".+?", ".*", ".+", r"\d+", r"\d*", "[0-9]+", r"\w+")


def unmatched_names(execution: Execution, names: Sequence[str]) -> Fact | None:
    """``code.unmatched_names``: the pattern that matches none of these names and would with one other sign, and the edit."""
    endings = {os.path.splitext(name)[1].lstrip(".") for name in names} - {""}
    for call, pattern, is_glob in _patterns(execution):
        if not any(ending in pattern for ending in endings) or any(
            _matches(pattern, name, is_glob=is_glob) for name in names
        ):
            continue
        meant = next(
            (
                other
                for other in _alike(pattern, is_glob=is_glob)
                if all(_matches(other, name, is_glob=is_glob) for name in names)
            ),
            None,
        )
        if meant is not None:
            return call.fact(
                "code.unmatched_names", {"pattern": pattern, "name": names[-1], "edits": _edits(call, pattern, meant)}
            )
    return None


def _patterns(execution: Execution) -> Iterator[tuple[Call, str, bool]]:
    for call in execution.trace.calls:
        is_glob = call.method in _GLOBS and call.function is None
        if not is_glob and not (call.name.startswith("re.") and call.method in _EXPRESSIONS):
            continue
        pattern = constant_of(call.argument(0, "pattern"))
        if isinstance(pattern, str) and 0 < len(pattern) <= _LONGEST:
            yield call, pattern, is_glob


def _matches(pattern: str, name: str, *, is_glob: bool) -> bool:
    """Whether a pattern finds a name; one that says more than where digits or any signs stand is taken to."""
    glob = os.path.basename(pattern) if is_glob else _as_glob(pattern)
    return glob is None or fnmatch.fnmatchcase(name, glob)


def _as_glob(expression: str) -> str | None:
    """A plain expression as a glob that finds at least as much; None where it has more than digits, any signs and groups."""
    text = expression.replace(r"\.", "\0")
    for wild in _WILD:
        text = text.replace(wild, "*")
    text = text.replace("(", "").replace(")", "").removeprefix("^").removesuffix("$")
    if any(sign in text for sign in r"\[]{}|+?"):
        return None
    return f"*{text.replace('.', '?')}*".replace("\0", ".")


def _alike(pattern: str, *, is_glob: bool) -> Iterator[str]:
    """The pattern with another sign where it has one of those that stand between the parts of a name."""
    dot = "." if is_glob else r"\."
    for place in range(len(pattern)):
        sign = next((sign for sign in (dot, "-", "_") if pattern.startswith(sign, place)), None)
        if sign is not None:
            for other in (dot, "-", "_", ""):
                if other != sign:
                    yield pattern[:place] + other + pattern[place + len(sign) :]


def _edits(call: Call, pattern: str, meant: str) -> tuple[Edit, ...]:
    """The pattern written so, where it stands in one piece in the call."""
    parts = call.node.args[:1] if isinstance(call.node, ast.Call) else []
    for part in parts:
        span = call.source.span(part)
        text = call.source.text[span.start : span.end]
        if isinstance(part, ast.Constant) and text.count(pattern) == 1:
            return (Edit(Span(span.file, span.start, span.end, span.line), text.replace(pattern, meant)),)
        tail = os.path.basename(pattern)
        if text.count(tail) == 1:  # behind a folder that is put before it
            return (Edit(Span(span.file, span.start, span.end, span.line), text.replace(tail, os.path.basename(meant))),)
    return ()
