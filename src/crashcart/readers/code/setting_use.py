"""Where the program calculates with a setting: ``AdamW(model.parameters(), lr=cfg["optim"]["lr"])`` needs a number.

A value is followed through plain names (``lr = cfg["lr"]``), attributes (``self.lr = cfg.lr``) and the parameters of the
program's own functions. ``cfg.optim.lr`` and ``opt["lr"]`` are one key; the section is told too where the code names it.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from crashcart.readers.code._optimizers import NUMBERS, is_optimizer, options_of, spread_names
from crashcart.readers.code._settings import readings_of
from crashcart.readers.code.source import keyword, name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._settings import Reading
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

ARGUMENTS = re.compile(r"(?:TrainingArguments|(?:SFT|DPO|PPO|ORPO|KTO|Reward|GRPO|CPO)Config)$")
SCHEDULE = re.compile(r"lr_scheduler\.\w{1,60}$|get_\w{0,40}sched\w{0,40}$|(?:LR|Restarts|Annealing\w{0,40})$")
TRAINING = {
    "learning_rate", "weight_decay", "adam_epsilon", "max_grad_norm", "max_steps", "num_train_epochs", "warmup_steps",
    "per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps", "save_steps", "logging_steps",
}  # fmt: skip
LAYER = {"eps", "p", "dropout", "momentum", "negative_slope", "alpha", "label_smoothing", "margin", "beta"}
WHOLE = {"batch_size", "num_workers", "prefetch_factor"}
FORMAT = re.compile(r"[eEfFgGd%]$")
GROUP = re.compile(r"(?i)(?:^|\.|_)(?:g|pg|group|groups|param_groups?)$")
SCALE = re.compile(r"(?:^|\.)(?:linspace|logspace|geomspace|arange|clamp|clip)$")
TEXTS = re.compile(
    r"(?i)(?:^|[._])(?:dir|path|root|folder|fmt|format|template|msg|message|out|output|home|cwd|parent|save_to)$|Path$"
)
FAILS = (ast.Sub, ast.Div, ast.FloorDiv, ast.Pow)
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
Numeric = tuple[ast.expr, str, bool]


def look(program: Program) -> Iterator[Fact]:
    """``code.setting_number`` with the key, the section where it is known, and what needs the number."""
    spread = spread_names(program)
    for reading in readings_of(program):
        yield from _Uses(reading).facts(spread)


class _Uses:
    """One file: where its settings are used."""

    def __init__(self, reading: Reading) -> None:
        self.reading, self.source, self.key = reading, reading.source, reading.key

    def facts(self, spread: set[str]) -> Iterator[Fact]:
        source = self.source
        for value, how, whole in numbers_in(source, spread):
            if (key := self.key(value)) and not self.from_environment(value):
                told = {"key": key, "above": self.reading.above(value), "how": how, "whole": whole}
                yield source.fact("code.setting_number", told, value)
        for call in source.nodes(ast.Call):
            for one in call.keywords:
                if one.arg is None and (found := self.spread(call, one.value)) is not None:
                    yield source.fact("code.setting_number", {**found, "whole": False}, call)

    def spread(self, call: ast.Call, value: ast.expr) -> dict[str, object] | None:
        """``AdamW(params, **cfg["optim"])``: every number below a key; for a trainer also those at the top of a file."""
        name, key = self.source.called(call.func), self.key(value)
        if is_optimizer(self.source, call) and key:
            return {"below": key, "how": "the optimizer", "names": sorted(NUMBERS)}
        if ARGUMENTS.search(name) and (key or isinstance(value, ast.Name)):
            return {"below": key, "how": "the trainer", "names": sorted(TRAINING)}
        return None

    def from_environment(self, value: ast.expr) -> bool:
        """A variable of the environment is no setting of a file, whatever it is called."""
        values = self.reading.values.get(self.reading.place(value), []) if isinstance(value, ast.Name) else [value]
        return any("environ" in name_of(one) or "getenv" in name_of(one) for one in values)


def numbers_in(source: Source, spread: set[str]) -> list[Numeric]:
    """Expressions that must be numbers, what for, and whether only a whole one will do; ``spread``: see `spread_names`."""
    known: list[Numeric] | None = getattr(source, "numbers", None)
    if known is None:
        known = source.numbers = list(_numbers_in(source, spread))  # type: ignore[attr-defined]
    return known


def _numbers_in(source: Source, spread: set[str]) -> Iterator[Numeric]:
    for call in source.nodes(ast.Call):
        yield from _call(source, call, source.called(call.func))
    yield from ((value, "the optimizer", False) for _, value in options_of(source, spread))
    for node in source.nodes(ast.BinOp):
        if isinstance(node.op, FAILS) and not any(_is_text(one) for one in (node.left, node.right)):
            yield from ((one, "arithmetic", False) for one in (node.left, node.right))
        elif isinstance(node.op, ast.Mod) and not _is_text(node.left):
            yield node.right, "a remainder", False
        elif isinstance(node.op, ast.Mult):
            yield from ((one, "a product", False) for one in (node.left, node.right))
    yield from _changed(source)
    for test in source.nodes(ast.Compare):
        if isinstance(test.ops[0], ORDERED) and not any(_is_text(one) for one in (test.left, *test.comparators)):
            yield from ((one, "a comparison", False) for one in (test.left, *test.comparators))
    for shown in source.nodes(ast.FormattedValue):
        spec = shown.format_spec
        parts = spec.values if isinstance(spec, ast.JoinedStr) else []
        if parts and isinstance(parts[-1], ast.Constant) and FORMAT.search(str(parts[-1].value)):
            yield shown.value, "a number in a text", False


def _changed(source: Source) -> Iterator[Numeric]:
    """``rate *= cfg.scale``, ``-cfg.shift``, ``group["lr"] = cfg.lr``."""
    for node in source.nodes(ast.AugAssign):
        if isinstance(node.op, (*FAILS, ast.Mult)):
            yield node.value, "arithmetic", False
    for one in source.nodes(ast.UnaryOp):
        if isinstance(one.op, (ast.USub, ast.UAdd)):
            yield one.operand, "arithmetic", False
    for target in source.nodes(ast.Subscript):
        above, name = parent(target), target.slice
        is_set = isinstance(above, ast.Assign) and isinstance(target.ctx, ast.Store) and isinstance(name, ast.Constant)
        if is_set and isinstance(name, ast.Constant) and name.value in NUMBERS and GROUP.search(name_of(target.value)):
            yield above.value, "the optimizer", False  # type: ignore[union-attr]


def _is_text(node: ast.expr) -> bool:
    """A text or a path: ``"lr %s" % cfg.lr``, ``out_dir / cfg.name``, ``cfg.version >= "2.0"`` calculate with no number."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.BinOp):
        return _is_text(node.left)
    return isinstance(node, ast.JoinedStr) or bool(TEXTS.search(name_of(node)))


@lru_cache(maxsize=4096)
def _takes_numbers(name: str) -> bool:
    """Whether a call of that name may be one of those below."""
    return bool(
        ARGUMENTS.search(name)
        or SCHEDULE.search(name)
        or SCALE.search(name)
        or name in {"range", "torch.tensor", "abs", "round", "min", "max"}
        or name.endswith(("itertools.islice", "DataLoader"))
        or name.startswith(("torch.nn.", "nn.", "math."))
    )


def _call(source: Source, call: ast.Call, name: str) -> Iterator[Numeric]:
    if is_optimizer(source, call):
        yield from ((one.value, "the optimizer", False) for one in call.keywords if one.arg in NUMBERS)
        if len(call.args) > 1 and keyword(call, "lr") is None:
            yield call.args[1], "the optimizer", False
    elif not _takes_numbers(name):
        if any(one.arg == "lr" for one in call.keywords) and any("param" in name_of(one).lower() for one in call.args):
            yield from ((one.value, "the optimizer", False) for one in call.keywords if one.arg in NUMBERS)
    elif ARGUMENTS.search(name):
        yield from ((one.value, "the trainer", False) for one in call.keywords if one.arg in TRAINING)
    elif SCHEDULE.search(name):
        yield from (
            (one.value, "the schedule", False)
            for one in call.keywords
            if one.arg and one.arg not in {"name", "mode", "optimizer"}
        )
        yield from ((one, "the schedule", False) for one in call.args[1:])
    elif name == "range" or name.endswith("itertools.islice"):
        yield from ((one, "a count of steps", True) for one in (call.args if name == "range" else call.args[1:]))
    elif name.endswith("DataLoader"):
        yield from ((one.value, "the loader", True) for one in call.keywords if one.arg in WHOLE)
    elif name.startswith(("torch.nn.", "nn.")) and name.rpartition(".")[2][:1].isupper():  # clip_grad_norm_ calls float()
        yield from (
            (one, "a layer", False) for one in (*call.args, *(one.value for one in call.keywords if one.arg in LAYER))
        )
    else:
        yield from _calculated(call, name)


def _calculated(call: ast.Call, name: str) -> Iterator[Numeric]:
    if SCALE.search(name):
        yield from ((one, "arithmetic", False) for one in call.args)
    elif name in {"min", "max"} and len(call.args) > 1 and not any(_is_text(one) for one in call.args):
        yield from ((one, "a comparison", False) for one in call.args)
    elif name.startswith("math.") or name in {"torch.tensor", "abs", "round"}:
        yield from ((one, "arithmetic", False) for one in call.args[:1])
