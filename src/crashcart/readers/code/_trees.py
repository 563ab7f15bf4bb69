"""Expressions of settings, constants and the number of ranks as trees of plain tuples.

    cfg.max_img_per_gpu // cfg.images_per_sequence      ("//", ("key", "max_img_per_gpu"), ("key", "images_per_sequence"))

An expression with anything else in it but ``max``, ``min``, ``int`` and their like is not told.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from crashcart.names import canonical
from crashcart.readers.code.source import name_of

if TYPE_CHECKING:
    from crashcart.readers.code._settings import Reading

__all__ = ["tree_of"]

RANKS = re.compile(
    r"(?i)(?:^|[._])(?:ddp_)?(?:world_size|get_world_size|n_?gpus?|num_gpus|num_processes|num_replicas|nproc|num_devices|"
    r"device_count|data_parallel_size|dp_size|ngpus_per_node|world)$"
)
OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
CALLS = {"max", "min", "int", "math.ceil", "math.floor", "numpy.floor", "numpy.ceil", "round", "abs"}
Tree = tuple[Any, ...]
DEEPEST = 8


def tree_of(node: ast.expr, reading: Reading, deep: int = 0) -> Tree | None:
    """The expression as tuples; None where something in it is neither a setting nor a number."""
    if deep > DEEPEST:
        return None
    if isinstance(node, ast.Constant):
        return ("number", node.value) if type(node.value) in {int, float} else None
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return _pair(OPERATORS[type(node.op)], node.left, node.right, reading, deep)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPERATORS:
        return _pair(OPERATORS[type(node.ops[0])], node.left, node.comparators[0], reading, deep)
    if isinstance(node, ast.Call) and (name := reading.source.called(node.func)) in CALLS and not node.keywords:
        inner = [tree_of(one, reading, deep + 1) for one in node.args]
        return (name.rpartition(".")[2], *inner) if inner and None not in inner else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        below = tree_of(node.operand, reading, deep + 1)
        return ("not", below) if below is not None else None
    return _leaf(node, reading, deep)


def _pair(operator: str, left: ast.expr, right: ast.expr, reading: Reading, deep: int) -> Tree | None:
    one, other = tree_of(left, reading, deep + 1), tree_of(right, reading, deep + 1)
    return (operator, one, other) if one is not None and other is not None else None


def _leaf(node: ast.expr, reading: Reading, deep: int) -> Tree | None:
    name = name_of(node)
    if name and RANKS.search(name):
        return ("ranks", name)
    if isinstance(node, ast.Name):
        if "configurator" in reading.source.text and canonical(node.id):
            return ("key", node.id)  # nanoGPT's way: every name at the top is a setting
        found = _assigned(node, reading)
        if found is not None:
            return tree_of(found, reading, deep + 1)
    if key := reading.key(node):
        return ("key", key)
    return None


def _assigned(node: ast.Name, reading: Reading) -> ast.expr | None:
    """What a name of this function was set to, where it is set once."""
    values = reading.values.get((reading.scope(node), node.id), [])
    return values[0] if len(values) == 1 and not any(node is below for below in ast.walk(values[0])) else None
