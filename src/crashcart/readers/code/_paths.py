"""What a path is called in the end, as far as the code says: ``os.path.join(out, f"last_{name}.pt")`` is ``last_{}.pt``.

Names are followed to what they were given, and a parameter to what its callers hand over, so that the file that is written
and the file that is read can be recognised as the same.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import function_of
from crashcart.readers.code.source import keyword, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code.source import Function, Source

__all__ = ["file_names", "given_to", "opened", "varies"]

UNKNOWN = "{}"
COUNTS = re.compile(r"step|epoch|iter|update|round|(?:^|_)ep(?:$|_)|strftime|timestamp|(?:^|_)now(?:$|_)", re.IGNORECASE)
_DEPTH = 5


def file_names(callers: Callers, source: Source, node: ast.expr, depth: int = _DEPTH) -> set[str]:
    """The last parts that a path may have; ``<name>`` for what is not followed further."""
    if isinstance(node, ast.Constant):
        return {str(node.value).replace("\\", "/").rsplit("/", 1)[-1]}
    if isinstance(node, ast.JoinedStr):
        text = "".join(
            one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else UNKNOWN for one in node.values
        )
        return _of_text(text, node, callers, source, depth)
    if isinstance(node, ast.BinOp):
        return _of_sum(node, callers, source, depth)
    if isinstance(node, ast.Call):
        return _of_call(node, callers, source, depth)
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and depth:
        return _followed(callers, source, node, depth)
    return {UNKNOWN}


def _of_call(node: ast.Call, callers: Callers, source: Source, depth: int) -> set[str]:
    name = name_of(node.func).split(".")[-1]
    if name in {"join", "joinpath"} and node.args and not isinstance(node.args[-1], ast.Starred):
        return file_names(callers, source, node.args[-1], depth)
    if name in {"str", "Path", "PurePath", "expanduser", "abspath", "fspath"} and node.args:
        return file_names(callers, source, node.args[-1], depth)
    if name in {"with_suffix", "with_name"} and len(node.args) == 1:
        return _renamed(callers, source, node, depth)
    if name == "format" and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Constant):
        last = str(node.func.value.value).rsplit("/", 1)[-1]
        alone = last.count("{") == 1 and len(node.args) == 1 and not node.keywords
        return {last.replace(UNKNOWN, _word(callers, source, node.args[0], depth)) if alone else last}
    answers = _answers(callers, source, node, depth)
    return {one for at, value in answers for one in file_names(callers, at, value, depth - 1)} or {UNKNOWN}


def opened(node: ast.expr | None) -> tuple[ast.expr | None, ast.With | None]:
    """The path behind a file that a ``with`` opens, and the ``with``, where it opens nothing else; anything else as it is."""
    if not isinstance(node, ast.Name):
        return node, None
    for above in (one for one in parents(node) if isinstance(one, ast.With)):
        for item in above.items:
            call = item.context_expr
            if (
                name_of(item.optional_vars or node) != node.id
                or item.optional_vars is None
                or not isinstance(call, ast.Call)
            ):
                continue
            if name_of(call.func) == "open" and call.args:
                return call.args[0], above if len(above.items) == 1 else None
            if isinstance(call.func, ast.Attribute) and call.func.attr == "open":
                return call.func.value, None
    return node, None


def _renamed(callers: Callers, source: Source, node: ast.Call, depth: int) -> set[str]:
    """``path.with_suffix(".tmp")`` and ``path.with_name("last.pt")``."""
    new = file_names(callers, source, node.args[0], depth)
    if not isinstance(node.func, ast.Attribute) or node.func.attr == "with_name":
        return new
    old = file_names(callers, source, node.func.value, depth)
    return {one.rpartition(".")[0] + end if "." in one else one + end for one in old for end in new}


def _answers(callers: Callers, source: Source, node: ast.expr, depth: int) -> list[tuple[Source, ast.expr]]:
    """What a function of the program answers with, where it only puts a path together: ``def state_file(): return out / "a.pt"``."""
    meant = callers.meant(source, node) if depth else []
    found: list[tuple[Source, ast.expr]] = []
    for at, function in meant if len(meant) == 1 else ():
        found += [(at, one.value) for one in ast.walk(function) if isinstance(one, ast.Return) and one.value is not None]
    return found


def varies(callers: Callers, source: Source, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether any part of a path counts steps or epochs, so that each save has a file, or a folder, of its own."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and any(
            varies(callers, at, value, depth - 1) for at, value in _answers(callers, source, one, depth)
        ):
            return True
        if not isinstance(one, (ast.Name, ast.Attribute)) or isinstance(getattr(one, "parent", None), ast.Attribute):
            continue
        if COUNTS.search(name_of(one).split(".")[-1]):
            return True
        function = function_of(node)
        values = [(source, value) for value in given_to(source, name_of(one), function)]
        if function is not None and isinstance(one, ast.Name):
            values += _handed(callers, source, function, one.id)  # also where it is only made a Path of itself
        if isinstance(one, ast.Name):
            values += [(source, value) for value in _gone_through(source, one)]
        if depth and any(varies(callers, at, value, depth - 1) for at, value in values):
            return True
    return False


def _of_text(text: str, node: ast.JoinedStr, callers: Callers, source: Source, depth: int) -> set[str]:
    last = text.rsplit("/", 1)[-1]
    if not depth or UNKNOWN not in last:
        return {last}
    inside = [one for one in node.values if isinstance(one, ast.FormattedValue)][-last.count(UNKNOWN) :]
    if last == UNKNOWN:
        return file_names(callers, source, inside[0].value, depth - 1)
    pieces = last.split(UNKNOWN)
    words = [_word(callers, source, one.value, depth) if one.format_spec is None else UNKNOWN for one in inside]
    return {pieces[0] + "".join(word + piece for word, piece in zip(words, pieces[1:], strict=True))}


def _word(callers: Callers, source: Source, node: ast.expr, depth: int) -> str:
    """The one word that a part of a name is, ``{}`` where it may be several or is counted."""
    found = file_names(callers, source, node, depth - 1) if depth else set()
    word = next(iter(found)) if len(found) == 1 else UNKNOWN
    return UNKNOWN if word.isdigit() or "<" in word or "{" in word else word


def _of_sum(node: ast.BinOp, callers: Callers, source: Source, depth: int) -> set[str]:
    if isinstance(node.op, ast.Div):
        return file_names(callers, source, node.right, depth)
    if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        last = str(node.left.value).rsplit("/", 1)[-1]
        alone = last.count("%") == 1 and not isinstance(node.right, ast.Tuple)
        return {last.replace("%s", _word(callers, source, node.right, depth)) if alone else last}
    right = file_names(callers, source, node.right, depth)
    if isinstance(node.right, ast.Constant) and "/" in str(node.right.value):
        return right
    return {_word(callers, source, node.left, depth) + one for one in right} if isinstance(node.op, ast.Add) else {UNKNOWN}


def _followed(callers: Callers, source: Source, node: ast.expr, depth: int) -> set[str]:
    name = name_of(node)
    function = function_of(node)
    given = given_to(source, name, function)
    if given:
        return {one for value in given for one in file_names(callers, source, value, depth - 1)}
    if function is not None and isinstance(node, ast.Name):
        handed = _handed(callers, source, function, node.id)
        if handed:
            return {one for at, value in handed for one in file_names(callers, at, value, depth - 1)}
    if isinstance(node, ast.Attribute) and (answers := _answers(callers, source, node, depth)):
        return {one for at, value in answers for one in file_names(callers, at, value, depth - 1)}  # a property
    return {f"<{name.split('.')[-1]}>"} if name else {UNKNOWN}


def given_to(source: Source, name: str, function: Function | None) -> list[ast.expr]:
    """What a name is assigned: in its own function, for an attribute or a name of the file anywhere in it."""
    found = []
    for one, value in _given(source).get(name, ()):
        home = function_of(one)
        if home is function or home is None or "." in name:
            found.append(value)
    return found


def _given(source: Source) -> dict[str, list[tuple[ast.AST, ast.expr]]]:
    """Every name of a file with what it is assigned, in the order in which it is written; found once."""
    known: dict[str, list[tuple[ast.AST, ast.expr]]] | None = getattr(source, "_names_given", None)
    if known is None:
        known = {}
        for one in source.nodes(ast.Assign):
            for target in one.targets:
                for name, value in _paired(target, one.value):
                    known.setdefault(name, []).append((one, value))
        for noted in source.nodes(ast.AnnAssign):
            if noted.value is not None and not isinstance(noted.target, ast.Subscript):
                known.setdefault(name_of(noted.target), []).append((noted, noted.value))
        for inline in source.nodes(ast.NamedExpr):
            known.setdefault(inline.target.id, []).append((inline, inline.value))
        source._names_given = known  # type: ignore[attr-defined]  # noqa: SLF001 - kept as long as the file
    return known


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """A name with its value; of ``self.path, self.chunk = path, chunk`` each with its own."""
    if isinstance(target, (ast.Tuple, ast.List)):
        same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
        for one, given in (
            zip(target.elts, value.elts, strict=True) if same and isinstance(value, (ast.Tuple, ast.List)) else ()
        ):
            if not isinstance(one, ast.Starred) and not isinstance(given, ast.Starred):
                yield from _paired(one, given)
    elif isinstance(target, (ast.Name, ast.Attribute)) and (name := name_of(target)):
        yield name, value


def _gone_through(source: Source, name: ast.Name) -> Iterator[ast.expr]:
    """What stands in the list of which a loop takes a name: ``names.append(f"step_{step}")``, then ``for name in names``."""
    loops = [one for one in parents(name) if isinstance(one, ast.For) and name_of(one.target) == name.id]
    for loop in loops[:1]:
        if isinstance(loop.iter, ast.Name):
            for call in source.calls("append", "extend"):
                if name_of(call.func) in {f"{loop.iter.id}.append", f"{loop.iter.id}.extend"}:
                    yield from call.args
            yield from given_to(source, loop.iter.id, function_of(loop))


def _handed(callers: Callers, source: Source, function: Function, name: str) -> list[tuple[Source, ast.expr]]:
    """What callers hand over for a parameter, and its default."""
    plain = [*function.args.posonlyargs, *function.args.args]
    names = [one.arg for one in plain]
    if name not in names:
        return []
    at = names.index(name) - (names[:1] in (["self"], ["cls"]))
    found: list[tuple[Source, ast.expr]] = []
    for other, call in callers.calling(source, function):
        value = keyword(call, name, at) if isinstance(call, ast.Call) else None
        if value is not None:
            found.append((other, value))
    behind = names.index(name) - (len(names) - len(function.args.defaults))
    if behind >= 0:
        found.append((source, function.args.defaults[behind]))
    return found
