"""Where the program calculates with a setting, and where it makes a number of one first.

``AdamW(model.parameters(), lr=cfg["optim"]["lr"])`` needs a number; ``float(cfg["optim"]["lr"])`` takes text as well. A value
is followed through plain names (``lr = cfg["lr"]``), attributes (``self.lr = cfg.lr``) and the parameters of the program's own
functions. Only the last part of a setting's name is known here, so that ``cfg.optim.lr`` and ``opt["lr"]`` are one key.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code.source import FUNCTIONS, inside, keyword, name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

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
SETTINGS = re.compile(
    r"(?i)(?:^|[._])(?:c|cfg|conf|config|args?|opts?|options?|hparams?|hps?|params?|settings?|flags|hyper\w*|hyp)(?:$|[._])|(?:cfg|conf|config|args|params|opts)(?:$|\.)"
)
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
    functions = _functions(program)
    readings = [_Reading(source) for source in program.sources]
    for _ in range(2):
        for reading in readings:
            reading.pass_on(functions)
    for reading in readings:
        yield from reading.facts()


def _functions(program: Program) -> dict[str, Function]:
    """The program's own functions by name, where the name means one; a class is called by its ``__init__``."""
    found: dict[str, list[Function]] = {}
    for source in program.sources:
        nodes: list[Function] = [*source.nodes(ast.FunctionDef), *source.nodes(ast.AsyncFunctionDef)]
        for node in nodes:
            above = parent(node)
            name = above.name if node.name == "__init__" and isinstance(above, ast.ClassDef) else node.name
            found.setdefault(name, []).append(node)
    return {name: nodes[0] for name, nodes in found.items() if len(nodes) == 1}


class _Reading:
    """One file: which names and attributes stand for which setting."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.attributes: dict[str, str] = {}
        self.names: dict[tuple[ast.AST, str], str] = {}
        for _ in range(2):
            for node in source.nodes(ast.Assign):
                key = self.key(node.value)
                for target in node.targets if key else ():
                    if isinstance(target, ast.Name):
                        self.names[self.scope(node), target.id] = key
                    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                        self.attributes[target.attr] = key

    def scope(self, node: ast.AST) -> ast.AST:
        return inside(node, *FUNCTIONS) or self.source.tree

    def key(self, node: ast.AST) -> str:
        """The setting that an expression reads; empty where it reads none."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return node.slice.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"get", "pop"}:
            first = node.args[0] if node.args else None
            return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        if isinstance(node, ast.Attribute):
            written = name_of(node.value)
            if written == "self":
                return self.attributes.get(node.attr, "")
            return node.attr if SETTINGS.search(written) else ""
        if isinstance(node, ast.Name):
            return self.names.get((self.scope(node), node.id)) or self.names.get((self.source.tree, node.id), "")
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Add)):
            return self.key(node.left) or self.key(node.right)
        return ""

    def pass_on(self, functions: dict[str, Function]) -> None:
        """Give the parameters of our own functions the keys that a call passes them."""
        for call in self.source.nodes(ast.Call):
            target = functions.get(name_of(call.func).rpartition(".")[2])
            if target is None:
                continue
            names = [one.arg for one in target.args.args]
            names = names[1:] if names[:1] == ["self"] else names
            for name, value in [*zip(names, call.args, strict=False), *((one.arg, one.value) for one in call.keywords)]:
                if name and (key := self.key(value)):
                    self.names[target, name] = key

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
                if one.arg is None and OPTIMIZER.search(source.called(call.func)) and (key := self.key(one.value)):
                    yield source.fact("code.setting_number", {"below": key, "how": "the optimizer", "whole": False}, call)

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
