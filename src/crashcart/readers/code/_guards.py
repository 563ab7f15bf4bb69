"""Which ranks come to a place of the code: all, only the first, only the others, or only a job of one process.

``if rank == 0``, ``if accelerator.is_main_process``, ``if not is_main_process(): return``, ``if args.local_rank in (-1, 0)``,
``@rank_zero_only``: people write the same thing in many ways, so a test is taken apart and each part classed by what it names.
A test that also allows something else (``is_main_process or use_fsdp``) is not known to keep anybody out.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Literal

from crashcart.numbers import to_count, to_float
from crashcart.readers.code._answers import answer
from crashcart.readers.code._environment import GETTERS
from crashcart.readers.code.source import FUNCTIONS, name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.source import Source

__all__ = ["Guard", "Side", "ends", "guards", "is_plain", "side_at", "side_of"]

Side = Literal["first", "others", "alone", "many"]
RANKS = frozenset({
    "rank", "global_rank", "local_rank", "world_rank", "get_rank", "get_local_rank", "get_global_rank", "proc_id", "process_index",
    "local_process_index", "process_rank", "ddp_rank", "ddp_local_rank", "dist_rank", "my_rank", "myrank", "rank_id", "gpu",
    "world_process_index", "get_world_rank",
})  # fmt: skip
SIZES = frozenset(
    {"world_size", "get_world_size", "num_processes", "ddp_world_size", "n_gpu", "num_gpus", "ngpus", "num_ranks"}
)
FIRST = re.compile(
    r"_?(?:is_?|am_?i_?|i_am_)(?:the_)?(?:local_|global_|world_|dist_)?"
    r"(?:main|master|chief|primary|rank_?0|rank_?zero|global_zero|zero(?=_?(?:proc|rank|worker))|root_rank|first_rank|zero_rank|process_zero|world_process_zero"
    r"|main_rank)(?:_?(?:process|proc|rank|worker|gpu|node_process))?(?:_zero)?|(?:main|master)_(?:process|rank|proc)|rank_?(?:0|zero)"
)
SEVERAL = frozenset({
    "is_distributed", "distributed", "is_initialized", "is_dist_avail_and_initialized", "use_ddp", "ddp", "is_dist", "multi_gpu",
    "is_ddp", "use_distributed", "multiprocessing_distributed", "is_dist_initialized", "is_parallel", "dist_initialized",
})  # fmt: skip
ONLY_FIRST = re.compile(
    r"rank_?(?:zero|0)_?only|main_process_only|master_only|on_(?:local_)?main_process|is_main_process_only"
)
FOLLOWED = 3
_TWO = 2
Known = tuple[Side, bool]  # the side, and whether the test is true on all of it
OPPOSITE: dict[Side, Side] = {"first": "others", "others": "first", "alone": "many", "many": "alone"}


class Guard:
    """A statement that lets only some ranks through: an ``if`` around a place, or one before it that sends the others away."""

    __slots__ = ("leaves", "node", "side")

    def __init__(self, node: ast.AST, side: Side, *, leaves: bool = False) -> None:
        self.node = node
        self.side = side
        self.leaves = leaves


def side_at(node: ast.AST, source: Source) -> Side | None:
    """Who comes to a place within its function; None where all may."""
    found = list(guards(node, source))
    if any(one.side == "alone" for one in found):
        return "alone"
    return next((one.side for one in found if one.side != "many"), None)


def guards(node: ast.AST, source: Source) -> Iterator[Guard]:
    """What keeps ranks away from a place, from the nearest, up to the function in which it stands."""
    at, above = node, parent(node)
    while above is not None:
        if isinstance(above, (ast.If, ast.IfExp)) and at is not above.test:
            known = side_of(above.test, source)
            if known is not None and not (at is above.orelse or (isinstance(above, ast.If) and at in above.orelse)):
                yield Guard(above, known[0])
            elif known is not None and known[1]:
                yield Guard(above, OPPOSITE[known[0]])
        if isinstance(at, ast.stmt):
            yield from _sent_away(at, above, source)
        if isinstance(above, FUNCTIONS):
            if any(ONLY_FIRST.fullmatch(name_of(one).split(".")[-1]) for one in above.decorator_list):
                yield Guard(above, "first")
            return
        at, above = above, parent(above)


def _sent_away(node: ast.stmt, above: ast.AST, source: Source) -> Iterator[Guard]:
    """``if rank != 0: return`` before a statement of the same block."""
    for part in ("body", "orelse", "finalbody"):
        block = getattr(above, part, None)
        if not isinstance(block, list) or node not in block:
            continue
        for one in block[: block.index(node)]:
            if isinstance(one, ast.If) and not one.orelse and ends(one.body):
                known = side_of(one.test, source)
                if known is not None and known[1]:
                    yield Guard(one, OPPOSITE[known[0]], leaves=True)


def ends(body: list[ast.stmt]) -> bool:
    """Whether a block is left at its end."""
    last = body[-1]
    if isinstance(last, (ast.With, ast.AsyncWith)):
        return ends(last.body)
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return name_of(last.value.func) in {"sys.exit", "exit", "quit", "os._exit"}
    return isinstance(last, (ast.Return, ast.Continue, ast.Break, ast.Raise))


def side_of(test: ast.expr, source: Source, depth: int = FOLLOWED) -> Known | None:
    """On whose side a test is true, and whether it is true for all of them; kept with the node, since every rule on ranks asks."""
    known: Known | str | None = getattr(test, "crashcart_side", "")
    if isinstance(known, str):
        known = _side_of(test, source, depth)
        if depth == FOLLOWED:
            test.crashcart_side = known  # type: ignore[attr-defined]
    return known


def _side_of(test: ast.expr, source: Source, depth: int) -> Known | None:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        known = side_of(test.operand, source, depth)
        if known is not None:
            return (OPPOSITE[known[0]], True) if known[1] else None
        return ("first", True) if _is_rank(test.operand) else None
    if isinstance(test, ast.BoolOp):
        return _together(test, source, depth)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(test)
    return _named(test, source, depth)


def _together(test: ast.BoolOp, source: Source, depth: int) -> Known | None:
    known = [side_of(one, source, depth) for one in test.values]
    sides = {one[0] for one in known if one is not None}
    exact = all(one is not None and one[1] for one in known)
    if isinstance(test.op, ast.And):
        order: tuple[Side, ...] = ("alone", "first", "others", "many")
        found = next((side for side in order if side in sides), None)
        return (found, exact) if found else None
    if any(one is None for one in known):
        return None
    if sides <= {"first", "alone"}:
        return ("first" if "first" in sides else "alone"), exact
    return (next(iter(sides)), exact) if len(sides) == 1 else None


def _compared(test: ast.Compare) -> Known | None:
    left, operator, right = test.left, test.ops[0], test.comparators[0]
    if isinstance(left, ast.Constant):
        left, right = right, left
        operator = {ast.Lt: ast.Gt(), ast.Gt: ast.Lt(), ast.LtE: ast.GtE(), ast.GtE: ast.LtE()}.get(type(operator), operator)
    number = _number(right)
    if _is_rank(left):
        return _of_rank(operator, right, number)
    if _last(left) in SIZES and number is not None:
        kind = type(operator)
        if (kind in {ast.Eq, ast.LtE} and number == 1) or (kind is ast.Lt and number == _TWO):
            return "alone", True
        if (kind in {ast.Gt, ast.NotEq} and number == 1) or (kind is ast.GtE and number == _TWO):
            return "many", True
    return None


def _of_rank(operator: ast.cmpop, right: ast.expr, number: float | None) -> Known | None:
    kind = type(operator)
    if isinstance(right, (ast.List, ast.Tuple, ast.Set)) and kind in {ast.In, ast.NotIn}:
        members = {_number(one) for one in right.elts}
        if members in ({0.0, -1.0}, {0.0}):
            return ("first" if kind is ast.In else "others"), True
    if number == 0 and kind in {ast.Eq, ast.Is, ast.LtE}:
        return "first", True
    if (number == 0 and kind in {ast.NotEq, ast.IsNot, ast.Gt}) or (number == 1 and kind is ast.GtE):
        return "others", True
    if number == 1 and kind is ast.Lt:
        return "first", True
    if kind is ast.Eq and number is not None and number >= 1:
        return "others", False
    return ("alone", True) if number == -1 and kind in {ast.Eq, ast.Is} else None


def _named(test: ast.expr, source: Source, depth: int) -> Known | None:
    """A name or a call that says it: ``is_main_process()``, ``self.is_main``, or a name that was given such a test once."""
    last = _last(test).lower()
    if FIRST.fullmatch(last):
        return "first", True
    if last in SEVERAL:
        return "many", True
    if depth and isinstance(test, (ast.Name, ast.Attribute)):
        given = _given(source).get(name_of(test), [])
        if len(given) == 1 and isinstance(
            given[0], (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Call, ast.Name, ast.Attribute)
        ):
            return side_of(given[0], source, depth - 1)
    if _is_rank(test):
        return "others", True
    told = answer(test, source) if depth and isinstance(test, (ast.Call, ast.Attribute)) else None
    return side_of(told[1], told[0], depth - 1) if told is not None else None


def _given(source: Source) -> dict[str, list[ast.expr]]:
    """What each name of a file is assigned."""
    found: dict[str, list[ast.expr]] | None = getattr(source, "_given", None)
    if found is None:
        found = {}
        for node in source.nodes(ast.Assign):
            for target in node.targets:
                found.setdefault(name_of(target), []).append(node.value)
        source._given = found  # type: ignore[attr-defined]  # noqa: SLF001 - kept with the file that it describes
    return found


def _is_rank(node: ast.expr) -> bool:
    """A rank by its name; one of a group (``dp_rank``, ``get_rank(group)``) is something else."""
    if isinstance(node, ast.Call):
        name = name_of(node.func)
        if name == "int" and len(node.args) == 1:
            return _is_rank(node.args[0])
        if name in GETTERS and node.args:
            return _text(node.args[0]) in {"RANK", "LOCAL_RANK", "SLURM_PROCID", "SLURM_LOCALID"}
        return name.split(".")[-1] in RANKS and not node.args and not node.keywords
    if isinstance(node, ast.Subscript):
        return _text(node.slice) in {"RANK", "LOCAL_RANK", "rank", "local_rank", "SLURM_PROCID", "SLURM_LOCALID"}
    return _last(node).lower() in RANKS


def _last(node: ast.AST) -> str:
    return name_of(node).split(".")[-1]


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return to_float(to_count(node.value))  # os.environ["RANK"] == "0"
    return to_float(node.value) if isinstance(node, ast.Constant) else None


def is_plain(test: ast.expr, source: Source) -> bool:
    """Whether a test is sure to be true at some time: a period, a best value so far, ranks, ``__name__``."""
    if isinstance(test, ast.BoolOp):
        return all(is_plain(one, source) for one in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return side_of(test, source) is not None
    if any(isinstance(one, ast.Mod) for one in ast.walk(test)) or side_of(test, source) is not None:
        return True
    words = " ".join(name_of(one) for one in ast.walk(test) if isinstance(one, (ast.Name, ast.Attribute)))
    return isinstance(test, ast.Compare) and bool(re.search(r"__name__|best|sync_gradients", words))
