"""A call that all ranks must make, taken out of a statement that only the first may carry out.

    writer.add_scalar("val", evaluate(model), epoch)      ->      evaluate_result = evaluate(model)
                                                                  writer.add_scalar("val", evaluate_result, epoch)

The first line can then leave the branch: the other ranks have no writer, and should not print. A call that is made only
sometimes (behind ``and``, in a comprehension) stays where it is.
"""

from __future__ import annotations

import ast

from crashcart.readers.code.source import Source, name_of, parent

__all__ = ["hoisted", "is_nested"]

SOMETIMES = (
    ast.IfExp,
    ast.BoolOp,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.NamedExpr,
    ast.Await,
)
HARMLESS = frozenset(
    {
        "float",
        "int",
        "str",
        "round",
        "dict",
        "tuple",
        "list",
        "len",
        "item",
        "min",
        "max",
        "sum",
        "abs",
        "cpu",
        "get",
        "copy",
    }
)


def hoisted(source: Source, statement: ast.stmt, call: ast.Call) -> tuple[Source, ast.stmt] | None:
    """The file with the call on a line of its own, and that line; None where it cannot be done."""
    span, whole = source.span(call), source.span(statement)
    text, last = source.text, name_of(call.func).split(".")[-1].strip("_")
    start, end = span.start, span.end
    if not _is_call(text[start:end], call):  # within a formatted text older Pythons do not say the place
        written = ast.unparse(call)
        if source.text[whole.start : whole.end].count(written) != 1:
            return None
        start = text.index(written, whole.start)
        end = start + len(written)
    name = next(one for number in range(1, 99) if (one := f"{last}_result{number if number > 1 else ''}") not in text)
    if not last or "\n" in text[start:end] or _sometimes(statement, call):
        return None
    anchor = _anchor(statement, call)
    if anchor is None:
        return None
    at = source.span(anchor).start
    indent = text[text.rfind("\n", 0, at) + 1 : at]
    made = f"{name} = {text[start:end]}\n{indent}{text[at:start]}{name}"
    try:
        now = Source(source.path, text[:at] + made + text[end:])
    except SyntaxError:
        return None
    found = next((node for node in now.nodes(ast.Assign) if node.lineno == anchor.lineno), None)
    return (now, found) if found is not None else None


def _anchor(statement: ast.stmt, call: ast.Call) -> ast.stmt | None:
    """The statement before which the call can be made: around it stands at most what opens something that it does not need."""
    used = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    anchor = statement
    while isinstance(above := parent(anchor), ast.With):
        if any(
            "no_grad" in name_of(item.context_expr) or "inference_mode" in name_of(item.context_expr) for item in above.items
        ):
            return None
        made = {node.id for node in ast.walk(above) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        if made & used:
            return None
        anchor = above
    return anchor


def is_nested(statement: ast.stmt, call: ast.Call) -> bool:
    """Whether a statement does more than the call, so that not every rank may carry it out."""
    if getattr(statement, "value", None) is call:
        return False
    others = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and node is not call]
    outside = [other for other in others if not any(other is inner for inner in ast.walk(call))]
    return not (isinstance(statement, ast.Assign) and all(name_of(one.func).split(".")[-1] in HARMLESS for one in outside))


def _sometimes(statement: ast.stmt, call: ast.Call) -> bool:
    at: ast.AST | None = parent(call)
    while at is not None and at is not statement:
        if isinstance(at, SOMETIMES):
            return True
        at = parent(at)
    return False


def _is_call(text: str, call: ast.Call) -> bool:
    try:
        return ast.dump(ast.parse(text, mode="eval").body) == ast.dump(call)
    except SyntaxError:
        return False
