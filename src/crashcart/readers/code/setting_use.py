"""Where the program calculates with a setting, and where it makes a number of one first.

``AdamW(model.parameters(), lr=cfg["optim"]["lr"])`` needs a number; ``float(cfg["optim"]["lr"])`` takes text as well. A value
is followed through plain names (``lr = cfg["lr"]``), attributes (``self.lr = cfg.lr``) and the parameters of the program's own
functions. Only the last part of a setting's name is known here, so that ``cfg.optim.lr`` and ``opt["lr"]`` are one key.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._settings import readings_of
from crashcart.readers.code.source import FUNCTIONS, inside, keyword, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._settings import Reading
    from crashcart.readers.code.program import Program

CONVERTING = {
    "float", "int", "eval", "ast.literal_eval", "decimal.Decimal", "numpy.float32", "numpy.float64", "literal_eval",
    "isinstance", "str2float", "parse_float", "to_float", "yaml.safe_load",
}  # fmt: skip
OPTIMIZER = re.compile(
    r"(?:^|\.)(?:optim\.\w+|Adam\w*|SGD|RMSprop|Adagrad|Adadelta|Adafactor|Lion\w*|LAMB|Lamb|LARS|NAdam|RAdam|ASGD|Rprop|"
    r"FusedAdam|FusedLAMB|DeepSpeedCPUAdam|Muon|Prodigy|DAdapt\w+)(?:8bit)?$"
)
ARGUMENTS = re.compile(r"(?:TrainingArguments|(?:SFT|DPO|PPO|ORPO|KTO|Reward|GRPO|CPO)Config)$")
SCHEDULE = re.compile(r"lr_scheduler\.\w+$|get_\w*sched\w*$|(?:LR|Restarts|Annealing\w*)$")
NUMBERS = {"lr", "weight_decay", "eps", "momentum", "alpha", "rho", "betas", "max_lr", "base_lr", "initial_lr", "lr_decay"}
TRAINING = {
    "learning_rate", "weight_decay", "adam_epsilon", "max_grad_norm", "max_steps", "num_train_epochs", "warmup_steps",
    "per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps", "save_steps", "logging_steps",
}  # fmt: skip
LAYER = {"eps", "p", "dropout", "momentum", "negative_slope", "alpha", "label_smoothing", "margin", "beta"}
WHOLE = {"batch_size", "num_workers", "prefetch_factor"}
FORMAT = re.compile(r"[eEfFgGd%]$")
FAILS = (ast.Sub, ast.Div, ast.FloorDiv, ast.Pow)
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
Numeric = tuple[ast.expr, str, bool]


def look(program: Program) -> Iterator[Fact]:
    """``code.setting_number`` and ``code.setting_converted``, each with the key; ``code.setting_keys``: all that are read."""
    for reading in readings_of(program):
        yield from _Uses(reading).facts()


class _Uses:
    """One file: where its settings are used."""

    def __init__(self, reading: Reading) -> None:
        self.reading, self.source, self.key = reading, reading.source, reading.key

    def facts(self) -> Iterator[Fact]:
        source = self.source
        for call in source.nodes(ast.Call):
            if source.called(call.func) in CONVERTING and call.args:
                yield from self.converted(call)
        for value, how, whole in self.numeric():
            if key := self.key(value):
                yield source.fact("code.setting_number", {"key": key, "how": how, "whole": whole}, value)
        for call in source.nodes(ast.Call):
            for one in call.keywords:
                if one.arg is None and (found := self.spread(call, one.value)) is not None:
                    yield source.fact("code.setting_number", {**found, "whole": False}, call)

    def spread(self, call: ast.Call, value: ast.expr) -> dict[str, object] | None:
        """``AdamW(params, **cfg["optim"])``: every number below a key; for a trainer also those at the top of a file."""
        name, key = self.source.called(call.func), self.key(value)
        if OPTIMIZER.search(name) and key:
            return {"below": key, "how": "the optimizer", "names": sorted(NUMBERS)}
        if ARGUMENTS.search(name) and (key or isinstance(value, ast.Name)):
            return {"below": key, "how": "the trainer", "names": sorted(TRAINING)}
        return None

    def converted(self, call: ast.Call) -> Iterator[Fact]:
        """The key that a call makes a number of; ``*`` where a loop or a function does it for every value."""
        first = call.args[0]
        if key := self.key(first):
            yield self.source.fact("code.setting_converted", {"key": key, "by": name_of(call.func)}, call)
        elif isinstance(first, ast.Name) and name_of(call.func) in {"float", "int", "eval", "literal_eval"}:
            function = inside(call, *FUNCTIONS)
            guarded = function is not None and inside(call, ast.Try) is not None
            strings = function is not None and "str" in {one.id for one in ast.walk(function) if isinstance(one, ast.Name)}
            if (guarded or strings) and "yaml" in self.source.text:
                yield self.source.fact("code.setting_converted", {"key": "*", "by": name_of(call.func)}, call)

    def numeric(self) -> Iterator[Numeric]:
        """Expressions that must be numbers, what for, and whether only a whole one will do."""
        source = self.source
        for call in source.nodes(ast.Call):
            yield from _call(call, source.called(call.func))
        for node in source.nodes(ast.BinOp):
            if isinstance(node.op, FAILS):
                yield from ((one, "arithmetic", False) for one in (node.left, node.right))
            elif isinstance(node.op, ast.Mod):
                yield node.right, "a remainder", False
            elif isinstance(node.op, ast.Mult):
                yield from ((one, "a product", False) for one in (node.left, node.right))
        for test in source.nodes(ast.Compare):
            if isinstance(test.ops[0], ORDERED):
                yield from ((one, "a comparison", False) for one in (test.left, *test.comparators))
        for shown in source.nodes(ast.FormattedValue):
            spec = shown.format_spec
            parts = spec.values if isinstance(spec, ast.JoinedStr) else []
            if parts and isinstance(parts[-1], ast.Constant) and FORMAT.search(str(parts[-1].value)):
                yield shown.value, "a number in a text", False
        for group in source.nodes(ast.Dict):
            named = {
                one.value: value
                for one, value in zip(group.keys, group.values, strict=True)
                if isinstance(one, ast.Constant)
            }
            if "params" in named:
                yield from ((value, "the optimizer", False) for name, value in named.items() if name in NUMBERS)


def _call(call: ast.Call, name: str) -> Iterator[Numeric]:
    if OPTIMIZER.search(name):
        yield from ((one.value, "the optimizer", False) for one in call.keywords if one.arg in NUMBERS)
        if len(call.args) > 1 and keyword(call, "lr") is None:
            yield call.args[1], "the optimizer", False
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
    elif name.startswith(("torch.nn.", "nn.")):
        yield from (
            (one, "a layer", False) for one in (*call.args, *(one.value for one in call.keywords if one.arg in LAYER))
        )
    elif name.startswith("math.") or name in {"torch.tensor", "abs", "round"}:
        yield from ((one, "arithmetic", False) for one in call.args[:1])
    elif any(one.arg == "lr" for one in call.keywords) and any("param" in name_of(one).lower() for one in call.args):
        yield from ((one.value, "the optimizer", False) for one in call.keywords if one.arg in NUMBERS)
