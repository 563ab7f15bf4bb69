"""What a value in the code is called in the settings, or its number where the code itself says it.

``self.accum_steps`` leads through ``self.accum_steps = cfg.train.accum_steps`` to the setting ``accum_steps``; a parameter
leads to what the callers give. The answer is ``{"name": ..., "number": ...}``, both empty where nothing is known; a product
or quotient (``batch_size = images // length``) has its two sides under ``"of"``. It is the cause that looks the names up in
this job's settings.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.readers.code._loops import last_name
from crashcart.readers.code.source import FUNCTIONS, keyword, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code._loops import Frame, Loops

__all__ = ["operand"]

_DEEPEST = 6
_OPERATORS: dict[type, str] = {ast.FloorDiv: "//", ast.Mult: "*"}
_WRAPPERS = {"int", "float", "bool"}


def operand(loops: Loops, frame: Frame, node: ast.expr, depth: int = _DEEPEST) -> dict[str, Any]:
    """The name of the setting behind an expression, and its value where the code holds it."""
    if isinstance(node, ast.Constant):
        return {"name": "", "number": node.value}
    if depth == 0:
        return {"name": last_name(node), "number": None}
    if isinstance(node, ast.Call):
        return _called(loops, frame, node, depth)
    if isinstance(node, ast.Subscript):
        key = node.slice
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            return {"name": key.value, "number": None}
        return {"name": "", "number": None}
    if isinstance(node, ast.Attribute):
        return _attribute(loops, frame, node, depth)
    if isinstance(node, ast.Name):
        return _local(loops, frame, node, depth)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        sides = [operand(loops, frame, side, depth - 1) for side in (node.left, node.right)]
        return {"name": "", "number": None, "of": (_OPERATORS[type(node.op)], *sides)}
    return {"name": "", "number": None}


def _called(loops: Loops, frame: Frame, node: ast.Call, depth: int) -> dict[str, Any]:
    """``int(x)``, ``cfg.get("x", 1)``, ``getattr(cfg, "x", 1)``."""
    name = last_name(node.func)
    if name in _WRAPPERS and len(node.args) == 1:
        return operand(loops, frame, node.args[0], depth - 1)
    place = {"get": 0, "getattr": 1}.get(name)
    key = node.args[place] if place is not None and len(node.args) > place else None
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        default = node.args[place + 1] if place is not None and len(node.args) > place + 1 else None
        return {"name": key.value, "number": default.value if isinstance(default, ast.Constant) else None}
    return {"name": "", "number": None}


def _attribute(loops: Loops, frame: Frame, node: ast.Attribute, depth: int) -> dict[str, Any]:
    """``self.x`` is what the class assigns; ``cfg.x`` is the setting x."""
    if name_of(node.value) == "self" and frame.owner is not None:
        for method in loops.frames:
            if method.owner is frame.owner:
                for value in _assigned(method, ast.unparse(node)):
                    return operand(loops, method, value, depth - 1)
    elif isinstance(node.value, ast.Name) and node.value.id[:1].isupper():
        given = list(_class_value(frame, node.value.id, node.attr))
        if given:
            return operand(loops, frame, given[0], depth - 1)
    return {"name": node.attr, "number": None}


def _class_value(frame: Frame, name: str, attribute: str) -> Iterator[ast.expr]:
    """``Config.x`` of a class in the same file."""
    for node in frame.source.nodes(ast.ClassDef):
        if node.name == name:
            for one in node.body:
                if isinstance(one, ast.Assign) and any(last_name(target) == attribute for target in one.targets):
                    yield one.value
                if isinstance(one, ast.AnnAssign) and last_name(one.target) == attribute and one.value is not None:
                    yield one.value


def _local(loops: Loops, frame: Frame, node: ast.Name, depth: int) -> dict[str, Any]:
    """A local variable, a parameter, or a constant of the file."""
    values = [value for value in _assigned(frame, node.id) if not _mentions(value, node.id)]
    if values:
        return operand(loops, frame, values[0], depth - 1) if len(values) == 1 else {"name": node.id, "number": None}
    if isinstance(frame.node, FUNCTIONS):
        found = _parameter(loops, frame, node.id, depth)
        if found is not None:
            return found
        for above in parents(frame.node):
            if isinstance(above, FUNCTIONS):
                return operand(loops, loops.frame(frame.node), node, depth - 1)
    whole = next((one for one in loops.frames if one.source is frame.source and isinstance(one.node, ast.Module)), None)
    values = list(_assigned(whole, node.id)) if whole is not None and whole is not frame else []
    if len(values) == 1 and whole is not None:
        found = operand(loops, whole, values[0], depth - 1)
        return found if found["name"] or found["number"] is not None else {"name": node.id, "number": None}
    return {"name": node.id, "number": None}


def _parameter(loops: Loops, frame: Frame, name: str, depth: int) -> dict[str, Any] | None:
    """What the callers give for a parameter; where they disagree or none is seen, the parameter's own name."""
    if not isinstance(frame.node, FUNCTIONS):
        return None
    arguments = frame.node.args
    listed = [*arguments.posonlyargs, *arguments.args]
    names = [one.arg for one in listed]
    if name not in names and name not in [one.arg for one in arguments.kwonlyargs]:
        return None
    place = names.index(name) - (names[:1] in (["self"], ["cls"])) if name in names else None
    found: list[dict[str, Any]] = []
    for other, call in loops.callers(frame):
        given = keyword(call, name, place)
        if given is not None and other is not frame:
            found.append(operand(loops, other, given, depth - 1))
    different = [one for number, one in enumerate(found) if one not in found[:number]]
    if not found and not any(one.arg is None for _, call in loops.callers(frame) for one in call.keywords):
        return {"name": name, "number": _default(arguments, name)}
    return different[0] if len(different) == 1 else {"name": name, "number": None}


def _default(arguments: ast.arguments, name: str) -> Any:  # noqa: ANN401 - a value of any type
    """The value that a parameter has where nobody gives one."""
    listed = [*arguments.posonlyargs, *arguments.args]
    given = dict(zip([one.arg for one in listed[len(listed) - len(arguments.defaults) :]], arguments.defaults, strict=True))
    given.update({one.arg: value for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value})
    value = given.get(name)
    return value.value if isinstance(value, ast.Constant) else None


def _assigned(frame: Frame, name: str) -> Iterator[ast.expr]:
    """The values that a name or an attribute gets in a function."""
    for node in frame.source.nodes(ast.Assign):
        if any(_same(target, name) for target in node.targets) and _stands_in(node, frame):
            yield node.value
    for one in frame.source.nodes(ast.AnnAssign):
        if one.value is not None and _same(one.target, name) and _stands_in(one, frame):
            yield one.value


def _same(target: ast.expr, name: str) -> bool:
    return (isinstance(target, ast.Name) and target.id == name) or (
        isinstance(target, ast.Attribute) and "." in name and ast.unparse(target) == name
    )


def _stands_in(node: ast.AST, frame: Frame) -> bool:
    nearest = next((one for one in parents(node) if isinstance(one, (*FUNCTIONS, ast.ClassDef, ast.Module))), None)
    return nearest is frame.node


def _mentions(value: ast.expr, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(value))
