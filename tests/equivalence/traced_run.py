"""Runs the program of a plan with stand-ins for the libraries that it imports, and tells what it asked of them.

Every module that is not of the standard library or of the job is a `StandIn`: whatever is looked up in it, called or computed
with it is another one, and each call is written down with its arguments. Two programs that behave alike leave the same trace.
Keywords are not told apart from positions, and a stand-in is named after how it came to be, so that the trace does not depend
on names in the program. The program runs in a process of its own, for a limited time and number of calls.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.abc
import importlib.machinery
import io
import json
import os
import re
import runpy
import shlex
import signal
import sys
import tempfile
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_EVENTS = 4000
CPU_SECONDS = 5
PATIENCE = 120  # seconds for a program that waits; a busy machine delays those that do not
# Of the standard library, what starts something or goes outside; and yaml is real, since the plans' files are.
_REPLACED = frozenset(
    {"subprocess", "multiprocessing", "socket", "urllib", "threading", "asyncio", "concurrent", "signal", "http", "queue"}
)
_REAL = frozenset({"yaml", "_yaml"})

_events: list[str] = []


class Enough(BaseException):
    """The trace is long enough."""


def _note(event: str) -> None:
    _events.append(event)
    if len(_events) >= MOST_EVENTS:
        raise Enough


def _shown(value: object) -> str:
    if isinstance(value, StandIn):
        return str(value._label)
    if isinstance(value, str | int | float | bool | bytes | None):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_shown(key)}: {_shown(part)}" for key, part in list(value.items())[:8]) + "}"
    if isinstance(value, list | tuple | set | frozenset):
        return "[" + ", ".join([_shown(part) for part in value][:8]) + "]"
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    return "function" if callable(value) else "object"


class StandIn:
    """Anything of a library."""

    def __init__(self, label: object, *values: object, **named: object) -> None:
        if isinstance(label, Inherited):  # `nn.Module.__init__(self)`, as one writes for `super().__init__()`
            Inherited.__init__(label, *values, **named)
        else:
            self.__dict__["_label"] = str(label)[-80:]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self._label}.{name}")

    def __call__(self, *values: Any, **named: Any) -> Any:
        given = sorted([_shown(value) for value in [*values, *named.values()]])
        _note(f"{self._label}({', '.join(given)})"[:400])
        decorates = len(values) == 1 and not named and isinstance(values[0], types.FunctionType | type)
        if decorates:
            return values[0]
        for value in [*values, *named.values()]:
            if isinstance(value, types.FunctionType) and self._label.endswith(("spawn", "run", "map", "submit", "Thread")):
                with contextlib.suppress(TypeError):
                    value()
        return StandIn(f"{self._label}()")

    def __mro_entries__(self, _bases: tuple[object, ...]) -> tuple[type, ...]:
        return (Inherited,)

    def __iter__(self) -> Iterator[StandIn]:
        _note(f"iter {self._label}")
        return iter([StandIn(f"{self._label}[0]"), StandIn(f"{self._label}[1]")])

    def __next__(self) -> StandIn:
        _note(f"next {self._label}")
        return StandIn(f"{self._label}[next]")

    def __getitem__(self, key: object) -> StandIn:
        return StandIn(f"{self._label}[{_shown(key)}]")

    def __setitem__(self, key: object, value: object) -> None:
        _note(f"{self._label}[{_shown(key)}] = {_shown(value)}")

    def __setattr__(self, name: str, value: object) -> None:
        _note(f"{self._label}.{name} = {_shown(value)}")
        self.__dict__[name] = value

    def __enter__(self) -> Any:
        _note(f"enter {self._label}")
        return StandIn(f"{self._label}.entered")

    def __exit__(self, *_: object) -> None:
        _note(f"exit {self._label}")

    def __len__(self) -> int:
        return 3

    def __bool__(self) -> bool:
        return True

    def __hash__(self) -> int:
        return hash(self._label)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StandIn) and other._label == self._label

    def __index__(self) -> int:
        return 3

    __int__ = __index__

    def __float__(self) -> float:
        return 3.0

    def __str__(self) -> str:
        return f"<{self._label}>"

    __repr__ = __str__

    def __format__(self, specification: str) -> str:
        return f"<{self._label}:{specification}>" if specification else str(self)

    def __fspath__(self) -> str:
        return "standin/" + re.sub(r"\W", "_", self._label)


def _operator(name: str) -> Any:
    def operate(self: StandIn, *others: object) -> StandIn:
        return StandIn(f"{name}({self._label}, {', '.join(_shown(other) for other in others)})")

    return operate


def _comparison(self: StandIn, other: object) -> bool:
    _note(f"compare {self._label} {_shown(other)}")
    return False


for _name in [
    "add",
    "radd",
    "sub",
    "rsub",
    "mul",
    "rmul",
    "truediv",
    "rtruediv",
    "floordiv",
    "rfloordiv",
    "mod",
    "rmod",
    "pow",
    "matmul",
    "neg",
    "pos",
    "abs",
    "and",
    "or",
    "invert",
]:
    setattr(StandIn, f"__{_name}__", _operator(_name))
for _name in ["lt", "le", "gt", "ge"]:
    setattr(StandIn, f"__{_name}__", _comparison)


class Inherited:
    """What a class of the program gets from a class of a library."""

    def __init__(self, *values: object, **named: object) -> None:
        _note(f"super().__init__({', '.join(sorted(_shown(value) for value in [*values, *named.values()]))})")

    def __init_subclass__(cls, **_: object) -> None:
        return

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return StandIn(f"self.{name}")

    def __call__(self, *values: Any, **named: Any) -> Any:
        return self.forward(*values, **named)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a stand-in for every module that is not the job's own."""

    def __init__(self, own: set[str]) -> None:
        self.own = own

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        root = name.split(".", maxsplit=1)[0]
        standard = root in sys.stdlib_module_names and root not in _REPLACED
        if standard or root in _REAL or root in self.own:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        class Module(types.ModuleType):
            def __getattr__(self, name: str) -> Any:
                if name.startswith("__") and name.endswith("__"):
                    raise AttributeError(name)
                return StandIn(f"{self.__name__}.{name}")

        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        del module


def trace(files: dict[str, str], command: str) -> list[str]:
    """What the program of a job prints and asks of libraries, and how it ends; nothing where no command names it."""
    words = shlex.split(command)
    started = next((number for number, word in enumerate(words) if word in files and word.endswith(".py")), None)
    if started is None:
        return []
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            with os.fdopen(writing, "w") as pipe, tempfile.TemporaryDirectory() as folder:
                pipe.write(json.dumps(_traced(files, words[started:], folder)))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    answer = json.loads(text or '["no answer"]')
    return [str(event) for event in answer]


def _traced(files: dict[str, str], words: list[str], folder: str) -> list[str]:
    os.chdir(folder)
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    own = {name.split("/")[0].removesuffix(".py") for name in files}
    for name in list(sys.modules):
        root = name.split(".")[0]
        if (
            root not in _REAL
            and (root in _REPLACED or root in own or root not in sys.stdlib_module_names)
            and root != "__main__"
        ):
            del sys.modules[name]
    sys.meta_path.insert(0, _Finder(own))
    sys.path[:0] = [str(Path(words[0]).parent), folder]
    sys.argv = words
    os.environ.clear()
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(PATIENCE)
    output = io.StringIO()
    sys.stdin = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        end = _run(words[0])
    return [*_events, *output.getvalue().replace(folder, "FOLDER").splitlines(), end]


def _too_long(*_: object) -> None:
    raise Enough


def _run(path: str) -> str:
    import time

    os.getpid = lambda: 4242
    time.sleep = lambda _seconds: _note("sleep")
    time.time = time.perf_counter = time.monotonic = lambda: 1.0
    original = builtins.open

    def opened(file: Any, *values: Any, **named: Any) -> Any:
        if not isinstance(file, int) and not str(file).startswith(sys.prefix) and "/lib/python" not in str(file):
            _note(f"open({_shown(file)}, {', '.join(sorted(_shown(value) for value in [*values, *named.values()]))})")
        return original(file, *values, **named)

    builtins.open = opened
    try:
        runpy.run_path(path, run_name="__main__")
    except Enough:
        return "enough"
    except SystemExit as end:
        return f"exit {end.code}"
    except NameError:  # of a module or of a function, by where the code stands
        return "NameError"
    except BaseException as error:  # noqa: BLE001 - the end of a program, whatever it is
        return f"{type(error).__name__}"
    return "end"
