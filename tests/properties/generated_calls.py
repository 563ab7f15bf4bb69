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

__all__ = ["MODELS", "call_programs", "large_programs"]

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
_OFTEN = 0.5
LARGE = (
    "'a' * 19_000", "'a ' * 9_000", "[0] * 4000", "[[1] * 60] * 60", "{n: n for n in range(12)}", "{'a': {'b': [1]}}", "(1,) * 4000", "function", "record", "config", "unknown",
    "Path('a')", "own_list", "own_dict", "rank", "number", "b'a' * 10_000", "{'k%d' % n: n for n in (1, 2, 3)}", "lambda x: x", "'%s%s'", "'{0}{0}'", "10**29", "range(60)", "model",
)  # fmt: skip
GROWING = (
    "x + x", "[*x, *x]", "x * 3", "f'{x}{x}'", "x.upper()", "x[1:]", "x.split()", "sorted(x)", "{**x}", "dict(x)", "x.copy()", "functools.partial(x, x)", "list(x)", "str(x)",
    "functools.partial(x, *[1] * 4000)", "[x, x]", "(x, x)", "{'a': x, 'b': x}", "lambda: x", "x.join([x, x])", "x.replace('a', x)", "'%s%s' % (x, x)", "'{0}{0}'.format(x)", "set(x)",
    "list(zip(x, x))", "[y for y in x for z in x]", "os.path.join(x, x)", "x / 'a'", "x.append(x)", "x.update(a=x)", "vars(record)", "json.dumps(x)", "x if unknown else [x]", "x or x",
    "x.merge(x)", "OmegaConf.merge(config, x)", "function(*x)", "function(x, x)", "print(*x, *x)", "{y: x for y in x}", "x == x", "x in [x]", "max(x, x)", "sum([x, x])", "x(x)", "x.a.b",
    "dataclasses.replace(record, third=x)", "getattr(x, 'a', x)", "enumerate(x)", "map(str, x)", "int(rank) + x", "-x", "x % 7", "x.split('a')", "x.encode()", "round(x, 2)", "torch.cat([x, x])",
)  # fmt: skip
REPEATED = (
    "x = LARGE\n{x = GROWING\n}", "x = LARGE\ny = [{GROWING, }]\n", "x = LARGE\ny = {{GROWING: 1, }}\n", "x = LARGE\ny = f({GROWING, })\n", "x = LARGE\nfor i in range(99):\n    x = GROWING\n",
    "def f(x): return GROWING\nx = LARGE\n{x = f(f(f(x)))\n}", "x = LARGE\nwhile unknown: x = GROWING\n", "x = LARGE\n{if unknown: x = GROWING\n}", "class A:\n    x = LARGE\n{    x = GROWING\n}",
    "x = LARGE\n{x, y = GROWING, x\n}", "x = LARGE\nown_dict = {{'k': GROWING, }}\n", "x = LARGE\n{own_list.append(GROWING)\n}", "x = LARGE\n{own_dict[GROWING] = x\n}",
)  # fmt: skip


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


def _large(draw: random.Random) -> str:
    """A program in which something that may grow is done thousands of times: in one statement, in many, in loops and calls."""
    text = draw.choice(REPEATED[1:4] if draw.random() < _OFTEN else REPEATED)
    large = draw.choice(LARGE[:4] if draw.random() < _OFTEN else LARGE)
    before, opening, rest = text.partition("{")
    if opening and rest.startswith("{"):  # a dictionary
        before, rest = f"{before}{{", rest[1:]
    repeated, _, after = rest.partition("}")
    forms = [draw.choice(GROWING) for _ in range(draw.choice((1, 1, 2, 5)))]
    pieces = [repeated.replace("GROWING", form) for form in forms]
    rounds = draw.choice((60, 1000, 9000, 9000)) // len(pieces)
    whole = (before + "".join(pieces) * max(rounds, 1) + after).replace("GROWING", forms[0]) if opening else text
    return f"{HEAD}{whole}\n".replace("LARGE", large).replace("GROWING", forms[0])


large_programs = st.randoms(use_true_random=False).map(_large)
call_programs = st.randoms(use_true_random=False).map(_program)
