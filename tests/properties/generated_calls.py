"""Programs that call every modelled function and method with arguments of any kind and number, and use what comes back in any way.

A name is drawn from the tables of the models themselves, so a new model is tried as soon as it is there.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from crashcart.readers.interpreter import libraries

if TYPE_CHECKING:
    import random

__all__ = ["MODELS", "call_programs"]

for _family in pkgutil.iter_modules(libraries.__path__):
    importlib.import_module(f"{libraries.__name__}.{_family.name}")
MODELS = sorted(
    name
    for name in libraries._MODELS
    if not name.startswith(("@", "in ")) and all(part.isidentifier() for part in name.replace("?", "x").split("."))
)
ATTRIBUTES = sorted(libraries._ATTRIBUTES)
HEAD = """import argparse, dataclasses, enum, functools, itertools, json, math, os, random, re, sys, typing
import numpy, torch
from pathlib import Path
from omegaconf import OmegaConf
class Echo:
    def __getitem__(self, key): return key
    def __call__(self, *values): return self
echo, unknown, rank = Echo(), os.environ['UNKNOWN'], os.environ['RANK']
number = random.randint(1, 10**30)
def function(*values, **named): return values
def generator():
    yield 1
    yield echo
@dataclasses.dataclass
class Record:
    first: int = 1
    second: 'Record' = None
    third: typing.List[int] = dataclasses.field(default_factory=list)
record = Record()
class Kind(enum.Enum):
    A = 1
    B = (2,)
own_list = [1]; own_list.append(own_list)
own_dict = {}; own_dict['a'] = own_dict
parser = argparse.ArgumentParser(); parser.add_argument('--a')
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader([1] * 64, batch_size=4)
tensor = torch.zeros(3, 4)
config = OmegaConf.create({'a': {'b': 1}, 'c': '${a.b}'})
"""
VALUES = (
    "1", "0", "-1", "10**29", "10**400", "float('nan')", "-float('inf')", "5e-324", "True", "None", "...", "1j", "''", "\"a'\"", "'²'", "'1__0'", "'\\x00'",
    "'\\ud800'", "'{}'", "'%s%d'", "'../..'", "'/dev/zero'", "b'\\xff'", "[]", "()", "{}", "set()", "[1, 'a', None]", "{'a': 1, 2: [3]}", "{1: {1: {1: 1}}}", "[[1, 2], [3]]",
    "(1,)", "slice(1, 2)", "echo[1:2]", "echo[1:2, 0]", "echo['a':'b']", "unknown", "unknown or 5", "rank", "echo", "Echo", "function", "generator()", "lambda *a, **k: a",
    "lambda: 1 / 0", "print", "int", "os", "os.environ", "own_list", "own_dict", "number", "range(10**30)", "range(3)", "map(int, [1])", "open('x')", "Path('a')", "parser", "model",
    "optimizer", "loader", "tensor", "record", "Record", "Kind.A", "Kind", "config", "['--a', '1']", "['a.b=[1,{c:2}]', 'x=${y}']", "'${a:${b}}'", "NotImplemented", "type", "not_there",
    "*[1, 2]", "*unknown", "**{'a': 1}", "**unknown",
)  # fmt: skip
OWNERS = (
    "echo", "unknown", "tensor", "model", "loader", "config", "record", "parser", "own_list", "own_dict", "optimizer", "'abc'", "5", "1.5", "b'a'", "[1, 2]", "{'a': 1}", "{1}",
    "(1, 2)", "Path('a')", "open('f')", "Kind", "Record", "os.environ", "generator()", "function", "range(4)", "number", "1j", "...", "None", "rank",
)  # fmt: skip
NAMES = (
    "file", "dtype", "default", "nargs", "type", "choices", "key", "start", "sep", "dest", "action", "iterable", "name", "func", "args", "config_name", "lr", "batch_size",
    "num_workers", "dataset", "obj", "path", "size", "dim", "lengths", "step", "mode", "version_base", "context_settings", "trainer_defaults", "options",
)  # fmt: skip
SIGNS = ("+", "-", "*", "/", "//", "%", "**", "<<", "|", "&", "@", "<", "==", "in", "not in", "is", "and", "or")
MADE = {
    "str": "'abc {}'", "list": "[1, 2]", "dict": "{'a': 1}", "set": "{1}", "tuple": "(1, 2)", "config": "config", "namespace": "parser.parse_args()", "file": "open('f')",
    "argparse.ArgumentParser": "parser", "pathlib.Path": "Path('a')",
}  # fmt: skip
USES = (
    "for x in got: y = x", "y = [x for x in got]", "len(got)", "y = got[VALUE]", "y = got + OWNER", "a, *b = got", "str(got)", "f'{got:>5}{got!r}'", "with got as x: pass",
    "next(iter(got))", "got.x.y(1)", "y = int(got)", "y = {got: 1}", "y = set([got])", "if got: y = 1", "got()", "y = sorted([got, 1])", "y = got SIGN OWNER", "y = OWNER SIGN got",
    "y = OWNER[got]", "y = OWNER[got:]", "OWNER[got] = 1", "del own_dict[got]", "y = isinstance(1, got)", "y = getattr(got, 'a', got)", "setattr(got, 'a', 1)", "y = not got", "y = -got",
    "y = OWNER[got, 1:2]", "own_dict.update(got)", "own_list.extend(got)", "config.merge_from_other_cfg(got)",
    "match got:\n    case [1, *x]: pass\n    case {'a': x}: pass\n    case 'x' | 5: pass",
)  # fmt: skip
_PAIRS = 24


def _arguments(draw: random.Random) -> str:
    positional: list[str] = []
    named: dict[str, str] = {}
    spread: list[str] = []
    for _ in range(draw.choice((0, 1, 1, 2, 2, 3, 4))):
        value = draw.choice(VALUES)
        if value.startswith("**"):
            spread.append(value)
        elif draw.random() < 0.15 and not value.startswith("*"):
            named[draw.choice(NAMES)] = value
        else:
            positional.append(value)
    return ", ".join([*positional, *(f"{name}={value}" for name, value in named.items()), *spread])


def _call(draw: random.Random, name: str) -> str:
    owner, _, method = name.rpartition(".")
    if owner == "?":
        return f"{draw.choice(OWNERS)}.{method}({_arguments(draw)})"
    if owner in MADE:
        return f"{MADE[owner]}.{method}({_arguments(draw)})"
    if owner.rpartition(".")[2][:1].isupper():
        return f"{owner}({_arguments(draw)}).{method}({_arguments(draw)})"
    return f"{name}({_arguments(draw)})"


def _statement(draw: random.Random) -> str:
    chance = draw.random()
    if chance < 0.7:
        return f"got = {_call(draw, draw.choice(MODELS))}"
    if chance < 0.8:
        owner, _, attribute = draw.choice(ATTRIBUTES).rpartition(".")
        return f"got = {owner}({_arguments(draw)}).{attribute}"
    return f"got = {draw.choice(OWNERS)} {draw.choice(SIGNS)} {draw.choice(OWNERS)}"


def _use(draw: random.Random) -> str:
    text = draw.choice(USES)
    for word, choices in (("OWNER", OWNERS), ("SIGN", SIGNS), ("VALUE", VALUES)):
        text = text.replace(word, draw.choice(choices).lstrip("*"))
    return text


def _program(draw: random.Random) -> str:
    lines: list[str] = []
    while len(lines) < 2 * _PAIRS:
        pair = [_statement(draw), _use(draw)]
        try:
            ast.parse("\n".join(pair))
        except (SyntaxError, ValueError):
            continue
        lines += pair
    return HEAD + "\n".join(lines) + "\n"


call_programs = st.randoms(use_true_random=False).map(_program)
