"""Programs that are run by Python and followed in thought: what is known in thought is what Python has, else it is unknown.

Each program calls ``show`` with values. Python runs it with a ``show`` that keeps them; the interpreter follows it, and the arguments of
its calls of ``show`` are compared in order. A value may be unknown, never another one. ``exact`` programs may not be unknown either.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crashcart.readers.interpreter import follow
from crashcart.readers.interpreter.launch import Launch
from crashcart.readers.interpreter.modules import Modules
from crashcart.readers.interpreter.values import Choice, Constant, Container, Value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crashcart.readers.interpreter.interpreter import Interpreter

UNKNOWN = object()
PROGRAMS = {
    "annotated, chained, augmented and tuple assignment": """
        x: int = 3
        y = z = x + 1
        (a, b), *rest = (1, 2), 3, 4
        y += 2; z *= 5
        show(x, y, z, a, b, rest)
        first, *middle, last = [1, 2, 3, 4]
        show(first, middle, last)
        if (n := len(middle)) > 1:
            show(n)
    """,
    "functions with defaults, keywords and spread arguments": """
        def f(a, b=2, *args, c=3, **kw):
            return a, b, args, c, kw
        show(f(1)); show(f(1, 5, 6, 7, c=8, d=9)); show(f(*[1, 2], **{"c": 4}))
        def outer(n):
            def inner(m=n):
                return m * k
            k = 10
            return inner
        show(outer(4)(), outer(2)(7))
        show((lambda x, y=2: x ** y)(3))
    """,
    "classes, bases, properties and super": """
        class Base:
            scale = 2
            def __init__(self, x):
                self.x: int = x
            @property
            def doubled(self):
                return self.x * self.scale
            @classmethod
            def make(cls, x):
                return cls(x + 1)
            @staticmethod
            def plain(v):
                return v - 1
            def __len__(self):
                return self.x
        class Child(Base):
            scale = 3
            def __init__(self, x, y=1):
                super().__init__(x)
                self.y = y
            def total(self):
                return self.doubled + self.y
        c = Child(4)
        show(c.total(), c.doubled, Child.make(1).x, Base.plain(7), len(c), isinstance(c, Base))
        setattr(c, "y", 10)
        show(getattr(c, "y"), getattr(c, "nothing", 5), hasattr(c, "x"))
        c.x += 1
        show(c.x)
    """,
    "dataclasses and their fields": """
        from dataclasses import dataclass, field, asdict, replace
        @dataclass
        class Opt:
            lr: float = 0.1
            betas: tuple = (0.9, 0.95)
            names: list = field(default_factory=lambda: ["a"])
        @dataclass
        class Conf(Opt):
            batch: int = 4
            opt: Opt = field(default_factory=Opt)
            def __post_init__(self):
                self.double = self.batch * 2
        c = Conf(batch=8)
        show(c.lr, c.batch, c.double, c.opt.lr, c.names, asdict(c)["lr"], replace(c, lr=0.5).lr, c.betas[1])
    """,
    "branches, conditions and early returns": """
        def pick(x):
            if x > 10:
                return "big"
            elif x < 0:
                return "negative"
            for i in [1, 2, 3]:
                if i == x:
                    return "small"
            return "other"
        show(pick(11), pick(-1), pick(2), pick(7))
        show(1 if [] else 2, 0 or "x", 3 and 4, not "", 1 < 2 < 3, 3 in (1, 2), "a" in {"a": 1}, None is None)
        total = 0
        for i in (1, 2, 3, 4, 5):
            if i == 2:
                continue
            if i == 5:
                break
            total += i
        else:
            total = -1
        show(total)
        match total:
            case 8: show("eight")
            case _: show("other")
    """,
    "containers": """
        items = [1, 2]
        items.append(3); items.extend([4]); items += [5]
        d = {"a": 1, **{"b": 2}}
        d["c"] = 3; d.update(e=5); d.setdefault("f", 6)
        show(items, items[1:3], items[-1], len(items), d.get("a"), d.get("z", 9), d.pop("b"), sorted(d))
        show([x * 2 for x in items if x > 2], {k: v for k, v in d.items()}, [a + b for a, b in zip([1, 2], (3, 4))])
        show(list(enumerate("ab")), max(items), min(3, 1), sum(items), dict(a=1, b=2), tuple([1]), list(map(str, [1, 2])))
        from collections import defaultdict, OrderedDict, namedtuple
        counts = defaultdict(list); counts["x"].append(1)
        P = namedtuple("P", "x y")
        show(counts["x"], OrderedDict(a=1)["a"], P(1, y=2).y)
        nested = {"train": {"lr": 1e-3}}
        nested["train"]["lr"] *= 2
        show(nested["train"]["lr"])
    """,
    "texts and paths": """
        import os
        from pathlib import Path
        name, n = "run", 3
        show(f"{name}-{n}", "%s_%d" % (name, n) if False else "x", "{}/{}".format(name, n), os.path.join("a", name, "b.txt"))
        show("a,b".split(","), " x ".strip(), "A".lower(), "-".join(["x", "y"]), "abc"[1:], "x" * 3, name.replace("r", "R"))
        p = Path("out") / name
        show(str(p / "c.pt"), p.name, (p / "f.tar").suffix, str(p.parent), os.path.basename("a/b.c"), os.path.splitext("b.c")[1])
        show(int("12"), float("1e-4"), str(5), bool("x"), int(3.9), round(2.5), abs(-2), divmod(7, 2), 7 // 2, -7 // 2, 7 % 3, 2 ** 5)
    """,
    "generators and context managers": """
        from contextlib import contextmanager
        events = []
        @contextmanager
        def around(tag):
            events.append("in " + tag)
            yield tag.upper()
            events.append("out " + tag)
        with around("a") as t, around("b") as u:
            events.append(t + u)
        show(events)
        class Manager:
            def __enter__(self):
                self.on = True
                return self
            def __exit__(self, *a):
                self.on = False
        m = Manager()
        with m as inner:
            show(inner.on)
        show(m.on)
    """,
    "decorators and partials": """
        import functools
        def twice(f):
            @functools.wraps(f)
            def wrapper(*args, **kwargs):
                return f(*args, **kwargs) * 2
            return wrapper
        def scaled(by):
            def decorate(f):
                def wrapper(x):
                    return f(x) * by
                return wrapper
            return decorate
        @twice
        def one(x): return x + 1
        @scaled(10)
        def two(x): return x
        add = functools.partial(lambda a, b, c=0: a + b + c, 1, c=5)
        show(one(3), two(4), add(2), functools.reduce(lambda a, b: a * b, [1, 2, 3]))
    """,
    "globals, nonlocal and modules of constants": """
        COUNT = 1
        def bump(by=2):
            global COUNT
            COUNT += by
            return COUNT
        bump(); bump(5)
        show(COUNT)
        def counter():
            n = 0
            def step():
                nonlocal n
                n += 1
                return n
            step(); step()
            return n
        show(counter())
    """,
    "exceptions": """
        def f(x):
            try:
                if x:
                    raise ValueError("no")
                result = "fine"
            except ValueError as e:
                result = "caught"
            finally:
                show("finally")
            return result
        f(0)
        try:
            v = int("7")
        except ValueError:
            v = -1
        show(v)
    """,
    "argparse with types, choices and switches": """
        import argparse
        def yes(text): return text.lower() in ("yes", "true")
        p = argparse.ArgumentParser()
        p.add_argument("--lr", type=float, default=1e-4)
        p.add_argument("-b", "--batch-size", dest="batch", type=int, default=8)
        p.add_argument("--amp", action="store_true")
        p.add_argument("--no-x", action="store_false", dest="x")
        p.add_argument("--flag", type=yes, default="no")
        p.add_argument("--sizes", nargs="+", type=int, default=[1])
        p.add_argument("--mode", choices=["a", "b"], default="a")
        g = p.add_argument_group("more"); g.add_argument("--deep", type=eval if False else str, default="d")
        args = p.parse_args(["--lr", "0.5", "-b", "3", "--amp", "--flag", "YES", "--sizes", "4", "5"])
        show(args.lr, args.batch, args.amp, args.x, args.flag, args.sizes, args.mode, args.deep, vars(args)["lr"])
        args.total = args.batch * len(args.sizes)
        show(args.total)
    """,
}


def executed(text: str, path: Path) -> list[Any]:
    """What Python shows."""
    shown: list[Any] = []
    namespace = {"show": lambda *values: shown.extend(values), "__name__": "__main__", "__file__": str(path)}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text, str(path), "exec"), namespace)  # noqa: S102 - our own program
    return shown


def followed(path: Path) -> list[Any]:
    """What is shown in thought."""
    interpreter = follow(Modules(str(path), [str(path.parent)]), Launch(arguments=[], ranks=1, folders=[str(path.parent)]))
    assert interpreter is not None
    return [plain(interpreter, value) for call in interpreter.trace.named("show") for value in call.arguments]


def plain(interpreter: Interpreter, value: Value) -> Any:
    """A value in thought as Python's own, ``UNKNOWN`` where something of it is not known."""
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Container) and not interpreter.store.get(value, "open"):
        content = interpreter.items(value)
        if isinstance(content, dict):
            return {key: plain(interpreter, item) for key, item in content.items()}
        items = [plain(interpreter, item) for item in content]
        return tuple(items) if value.kind == "tuple" else items
    return UNKNOWN


def same(thought: Any, real: Any, *, exact: bool) -> bool:
    """Whether a value in thought is the real one, or unknown where that is allowed."""
    if thought is UNKNOWN:
        return not exact
    if isinstance(real, dict):
        return (
            isinstance(thought, dict)
            and thought.keys() == real.keys()
            and all(same(thought[key], real[key], exact=exact) for key in real)
        )
    if isinstance(real, (list, tuple)):
        return (
            isinstance(thought, (list, tuple))
            and len(thought) == len(real)
            and all(same(one, other, exact=exact) for one, other in zip(thought, real, strict=True))
        )
    return type(thought) is type(real) and thought == real


def written(text: str, folder: Path) -> Path:
    """A program as a file."""
    import textwrap

    path = folder / "program.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", PROGRAMS)
def test_known_programs(name: str, tmp_path: Path) -> None:
    """A program without unknowns has the same values in thought as in Python."""
    path = written(PROGRAMS[name], tmp_path)
    real, thought = executed(path.read_text(encoding="utf-8"), path), followed(path)
    pairs = list(zip(thought, real, strict=False))
    wrong = [(number, one, other) for number, (one, other) in enumerate(pairs) if not same(one, other, exact=True)]
    assert not wrong
    assert len(thought) == len(real)


def test_recursion_without_an_end(tmp_path: Path) -> None:
    """The interpreter gives up sooner than Python: what stood in the ``try`` may have happened in part."""
    text = """
        def f(a):
            return f(a)
        b = 2
        try:
            for b in [1, 2, 3]:
                f(b)
        except RecursionError:
            show(b)
    """
    assert followed(written(text, tmp_path)) == [UNKNOWN]


NAMES = st.sampled_from(["a", "b", "c", "d"])
ATOMS = st.one_of(NAMES, st.integers(-5, 20).map(str), st.sampled_from(["True", "None", "1.5", "'x'", "[]", "[1, 2]"]))


def expressions(depth: int = 2) -> st.SearchStrategy[str]:
    """Expressions over a few names; some of them raise."""
    inner = ATOMS if depth == 0 else expressions(depth - 1)
    return st.one_of(
        ATOMS,
        st.tuples(inner, st.sampled_from(["+", "-", "//", "%", "==", "<", "and", "or", "!="]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} if {parts[1]} else {parts[2]})"),
        inner.map(lambda part: f"(not {part})"),
        inner.map(lambda part: f"f({part})"),
        st.tuples(inner, inner).map(lambda parts: f"[{parts[0]}, {parts[1]}]"),
    )


def statements(depth: int = 2) -> st.SearchStrategy[list[str]]:
    """Blocks of assignments, branches and loops."""
    simple = st.one_of(
        st.tuples(NAMES, expressions()).map(lambda parts: [f"{parts[0]} = {parts[1]}"]),
        st.tuples(NAMES, st.sampled_from(["+=", "-="]), expressions(1)).map(lambda parts: [" ".join(parts)]),
        expressions(1).map(lambda part: [f"show({part})"]),
        st.tuples(NAMES, NAMES).map(lambda parts: [f"{parts[0]}, {parts[1]} = {parts[1]}, {parts[0]}"]),
    )
    if depth == 0:
        return st.lists(simple, min_size=1, max_size=3).map(lambda blocks: [line for block in blocks for line in block])
    inner = statements(depth - 1).map(lambda lines: [f"    {line}" for line in lines])
    compound = st.one_of(
        st.tuples(expressions(1), inner, inner).map(lambda parts: [f"if {parts[0]}:", *parts[1], "else:", *parts[2]]),
        st.tuples(NAMES, inner).map(lambda parts: [f"for {parts[0]} in [1, 2, 3]:", *parts[1]]),
        st.tuples(NAMES, inner).map(lambda parts: [f"for {parts[0]} in range(4):", *parts[1]]),
        st.tuples(inner, inner).map(lambda parts: ["try:", *parts[0], "except Exception:", *parts[1]]),
        inner.map(lambda lines: ["def f(a, b=2):", *lines, "    return a"]),
    )
    return st.lists(st.one_of(simple, compound), min_size=1, max_size=4).map(
        lambda blocks: [line for block in blocks for line in block]
    )


class TooManyCalls(BaseException):
    """No error: the program must not catch it."""


@contextlib.contextmanager
def few_calls() -> Iterator[None]:
    """A function that calls itself twice and catches what comes of it would not end in a lifetime."""
    calls = itertools.count()

    def count(*_event: object) -> None:
        if next(calls) > MOST_CALLS:
            raise TooManyCalls

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


MOST_CALLS = 20_000
HEAD = ["a, b, c, d = 1, 2, 3, 4", "def f(a, b=3):", "    return [a, b]"]


@given(statements())
def test_generated_programs(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    """Whatever is known in thought is what Python has, up to the first error that nothing catches."""
    text = "\n".join([*HEAD, *lines])
    path = written(text, tmp_path_factory.mktemp("program"))
    namespace: dict[str, Any] = {"show": lambda *_values: None}
    try:
        with few_calls():
            exec(compile(text, str(path), "exec"), namespace)  # noqa: S102 - our own program
    except (Exception, TooManyCalls):  # noqa: BLE001 - whatever it raises, what was shown before it counts
        return
    final = {name: namespace[name] for name in "abcd"}
    interpreter = follow(Modules(str(path), [str(path.parent)]), Launch(arguments=[], ranks=1))
    assert interpreter is not None
    module = interpreter.loaded[str(path)]
    for name, real in final.items():
        value = interpreter.store.get(module, name)
        options = value.options if isinstance(value, Choice) else (value,)
        known = [plain(interpreter, option) for option in options]
        if callable(real) or any(
            option is UNKNOWN or (isinstance(option, (list, tuple)) and UNKNOWN in option) for option in known
        ):
            continue
        assert any(same(option, real, exact=False) for option in known), (name, known, real)
