"""Sizes that the program calculates from its settings, and the checks that it makes of them, as trees of plain tuples.

    batch_size = cfg.max_img_per_gpu // cfg.images_per_sequence      ("//", ("key", "max_img_per_gpu"), ("key", "images_per_sequence"))
    assert args.global_batch % (args.micro_batch * world_size) == 0

Whether a size comes out as zero or a check fails depends on this job's numbers: the cause puts them in. An expression with
anything but settings, constants, the number of ranks and ``max``/``min``/``int`` in it is not told.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from crashcart.names import canonical
from crashcart.readers.code._settings import readings_of
from crashcart.readers.code.source import FUNCTIONS, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._settings import Reading
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

RANKS = re.compile(
    r"(?i)(?:^|[._])(?:ddp_)?(?:world_size|get_world_size|n_?gpus?|num_gpus|num_processes|num_replicas|nproc|num_devices|"
    r"device_count|data_parallel_size|dp_size|ngpus_per_node|world)$"
)
SIZES = re.compile(r"(?i)batch|accum|micro|chunk|per_(?:gpu|device|rank)|samples_per|^bs$|_bs$")
RATE = re.compile(r"(?i)(?:^|_)(?:lr|learning_rate)$")
NO_SIZES = re.compile(r"(?i)idx|index|rank|offset|start|resume|epoch|iter\b|seen|id$|num_batches|n_batches|total")
OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
CALLS = {"max", "min", "int", "math.ceil", "math.floor", "numpy.floor", "numpy.ceil", "round", "abs"}
Tree = tuple[Any, ...]
DEEPEST = 8


def look(program: Program) -> Iterator[Fact]:
    """``code.size`` and ``code.size_check``: the tree, as written, and whether it stands under a condition; ``code.rate``."""
    for reading in readings_of(program):
        yield from _sizes(reading)
        yield from _checks(reading)


@cache
def _is_size(name: str) -> bool:
    return SIZES.search(name) is not None and NO_SIZES.search(name) is None


def _sizes(reading: Reading) -> Iterator[Fact]:
    source = reading.source
    for name, value in _named(source):
        if (
            isinstance(value, ast.BinOp)
            and RATE.search(name)
            and (rate := tree_of(value, reading)) is not None
            and "*" in str(rate)
        ):
            yield source.fact("code.rate", {"tree": rate, "text": source.written(value)}, value)
        if isinstance(value, ast.Constant) or not _is_size(name):
            continue
        if isinstance(value, (ast.Name, ast.Attribute, ast.Call)) and (told_by := _property(value, reading)) is not None:
            value, source, tree = told_by  # noqa: PLW2901 - the expression behind it
        elif isinstance(value, (ast.Name, ast.Attribute)):
            continue
        else:
            source, tree = reading.source, tree_of(value, reading)
        if tree is not None and _divides(tree):
            told = {"tree": tree, "text": source.written(value), "target": name, "if": _conditional(value)}
            yield source.fact("code.size", told, value)


def _property(node: ast.expr, reading: Reading) -> tuple[ast.expr, Source, Tree | None] | None:
    """``plan.sequences`` and ``plan.sequences()``: the one property or method of that name that only calculates."""
    name = name_of(node.func if isinstance(node, ast.Call) else node).rpartition(".")
    if (isinstance(node, ast.Call) and (node.args or node.keywords)) or not name[1]:
        return None
    found = reading.methods.get(name[2], [])
    if len(found) != 1 or isinstance(node, ast.Call) == any(
        "property" in name_of(one) for one in found[0][1].decorator_list
    ):
        return None
    source, function = found[0]
    last = function.body[-1]
    plain = len([one for one in function.body if not isinstance(one, ast.Expr)]) == 1
    if not plain or not isinstance(last, ast.Return) or last.value is None:
        return None
    own = next((one for one in reading.others if one.source is source), reading)
    return last.value, source, tree_of(last.value, own)


def _named(source: Source) -> Iterator[tuple[str, ast.expr]]:
    """Expressions with the name under which they are kept or passed on."""
    for node in source.nodes(ast.Assign):
        yield from ((name_of(target).rpartition(".")[2], node.value) for target in node.targets[:1])
    for given in source.nodes(ast.keyword):
        if given.arg:
            yield given.arg, given.value


def _checks(reading: Reading) -> Iterator[Fact]:
    source = reading.source
    for check in source.nodes(ast.Assert):
        tree = tree_of(check.test, reading)
        if tree is not None and "%" in str(tree):
            yield source.fact(
                "code.size_check", {"tree": tree, "text": source.written(check.test), "if": _conditional(check)}, check
            )
    for test in source.nodes(ast.If):
        if test.body and isinstance(test.body[0], ast.Raise):
            tree = tree_of(test.test, reading)
            if tree is not None and "%" in str(tree):
                told = {"tree": ("not", tree), "text": source.written(test.test), "if": _conditional(test)}
                yield source.fact("code.size_check", told, test.body[0])


def _divides(tree: Tree) -> bool:
    return isinstance(tree, tuple) and (
        tree[0] == "//"
        or (tree[0] in {"int", "floor", "round"} and isinstance(tree[1], tuple) and tree[1][0] in {"/", "floor"})
        or (tree[0] in {"max", "min", "int", "ceil"} and any(_divides(one) for one in tree[1:] if isinstance(one, tuple)))
    )


def _conditional(node: ast.AST) -> bool:
    """Whether it stands under a condition other than that the file is started."""
    for above in parents(node):
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, (ast.If, ast.Try, ast.While, ast.IfExp)) and "__name__" not in ast.dump(
            getattr(above, "test", above)
        ):
            return True
    return False


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
