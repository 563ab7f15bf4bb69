"""Programs that read a command line, run for real and followed in thought: for every value they are equal, or ours is unknown.

A file of ``tests/parsers`` holds programs of one library as users write them. Each section has the files of a program, and words:

    ```words      groups of words, one a line; command lines are drawn from them with a seed
    ```lines      whole command lines
    ```warm       what is imported once, before the processes of the command lines are forked

A program tells its values with ``show(name=value)``. The real one runs in a process of its own that imports the libraries once and
forks for each command line.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from crashcart.model import Evidence, Fact
from crashcart.readers.interpreter import follow
from crashcart.readers.interpreter.launch import Launch
from crashcart.readers.interpreter.modules import Modules
from crashcart.readers.interpreter.values import Class, Constant, Container, Instance, Library, Result, Value

PROGRAMS = Path(__file__).parent.parent / "parsers"
_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHOW = """
def plain(value):
    if hasattr(value, "keys") and hasattr(value, "items"):
        return dict(value)
    return list(value) if type(value).__name__ == "ListConfig" else str(value)

def show(**values):
    import json
    print("SHOWN " + json.dumps(values, default=plain), flush=True)
"""
_UNKNOWN = "(unknown)"


class Program:
    """One section of a file: the files of a program, and the command lines to try."""

    def __init__(self, title: str, text: str) -> None:
        self.title = title
        self.files: dict[str, str] = {}
        self.words: list[list[str]] = []
        self.lines: list[list[str]] = []
        self.warm = ""
        self.count = 12
        for kind, name, body in _FENCE.findall(text):
            if kind == "words":
                self.words = [shlex.split(line) for line in body.splitlines() if line.strip()]
                self.count = int(name) if name else self.count
            elif kind == "warm":
                self.warm = body
            elif kind == "lines":
                self.lines = [shlex.split(line) for line in body.splitlines()]
            else:
                self.files[name] = body

    def command_lines(self, seed: int) -> list[list[str]]:
        """The whole lines, and some drawn from the groups of words."""
        chance = random.Random(f"{self.title} {seed}")
        drawn = list(self.lines)
        if self.words:
            drawn.append([])
            drawn += [group for group in self.words if len(self.words) <= self.count]
            for _ in range(self.count):
                groups = chance.sample(self.words, min(len(self.words), chance.randint(1, 5)))
                once = {group[0].partition("=")[0]: group for group in groups}
                drawn.append([word for group in once.values() for word in group])
        return drawn


def programs(path: Path) -> list[Program]:
    """The programs of one file."""
    sections = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [Program(f"{path.stem}: {section.splitlines()[0]}", section) for section in sections]


def write(program: Program, folder: Path) -> None:
    """Write the files of a program."""
    for name, text in {**program.files, "probe.py": _SHOW}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run_for_real(cases: list[tuple[str, list[list[str]]]], warm: str) -> list[list[dict[str, Any]]]:
    """What each program prints for each command line, and how it ends; one process for all, a fork for each."""
    request = json.dumps({"cases": cases, "warm": warm})
    environment = {
        **os.environ, "HYDRA_FULL_ERROR": "0", "CUDA_VISIBLE_DEVICES": "", "TERM": "dumb", "TRANSFORMERS_VERBOSITY": "error",
        "PYTHONPATH": os.pathsep.join(filter(None, ["", os.environ.get("PYTHONPATH", "")])), "ORACLE_NAME": "from-environment",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, __file__], input=request, capture_output=True, text=True, check=False, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def _serve() -> None:
    """In the process of the real programs: import, then fork for each command line."""
    request = json.load(sys.stdin)
    exec(request["warm"], {})  # noqa: S102 - the imports of the test programs
    answers = []
    for folder, lines in request["cases"]:
        answers.append([_forked(folder, words) for words in lines])
    json.dump(answers, sys.stdout)


def _forked(folder: str, words: list[str]) -> dict[str, Any]:
    read, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os.close(read)
        with os.fdopen(write_end, "w") as pipe:
            json.dump(_run(folder, words), pipe)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    answer = json.loads(text) if text else {"shown": {}, "status": "killed", "says": "took too long"}
    os.waitpid(child, 0)
    return answer


def _run(folder: str, words: list[str]) -> dict[str, Any]:
    import runpy
    import traceback

    os.chdir(folder)
    sys.argv = ["train.py", *words]
    sys.path.insert(0, folder)
    out, err = io.StringIO(), io.StringIO()
    status: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path("train.py", run_name="__main__")
        except SystemExit as ended:
            status = ended.code if ended.code is not None else 0
        except BaseException:  # noqa: BLE001 - how a program of a user ends
            status = "exception"
            err.write(traceback.format_exc())
    shown: dict[str, Any] = {}
    for line in out.getvalue().splitlines():
        if line.startswith("SHOWN "):
            shown.update(json.loads(line[6:]))
    return {"shown": shown, "status": status if isinstance(status, (int, str)) else 1, "says": err.getvalue()[-1500:]}


# ---- the same in thought


def follow_in_thought(folder: Path, words: list[str]) -> dict[str, Any]:
    """What the interpreter says of the same program with the same words."""
    program = Fact("launch.program", "train.py", Evidence("script", "python train.py", "train.sh:1"), "flag")
    environment = {"ORACLE_NAME": Fact("env.ORACLE_NAME", "from-environment", program.evidence, "environment")}
    launch = Launch(
        arguments=[(word, True) for word in words], ranks=1, folders=[str(folder)], program=program, environment=environment
    )
    interpreter = follow(Modules(str(folder / "train.py"), [str(folder)]), launch)
    assert interpreter is not None
    shown: dict[str, Any] = {}
    origins: dict[str, int] = {}
    for call in interpreter.trace.named("show"):
        for name, value in call.keywords.items():
            shown[name] = plain(interpreter, value)
            origins[name] = len(value.origins)
    failures = [f"{failure.error}: {failure.says}" for failure in interpreter.trace.failures if failure.region.is_certain()]
    return {"shown": shown, "failures": failures, "origins": origins}


def plain(interpreter: Any, value: Value, depth: int = 6) -> Any:
    """A value as JSON would show it; unknown parts as such."""
    if isinstance(value, Constant):
        return value.value if isinstance(value.value, (int, float, str, bool, type(None))) else str(value.value)
    if isinstance(value, Container) and depth and not interpreter.store.get(value, "open"):
        items = interpreter.items(value)
        if isinstance(items, dict):
            return {_key(key): plain(interpreter, item, depth - 1) for key, item in items.items()}
        return [plain(interpreter, item, depth - 1) for item in items]
    if isinstance(value, Result) and value.name == "pathlib.Path" and isinstance(value.data, str):
        return str(Path(value.data))
    if isinstance(value, Instance) and value.cls.is_a("Enum"):
        name = interpreter.peek(value, "name")
        return f"{value.cls.name}.{name.value}" if isinstance(name, Constant) else _UNKNOWN
    if isinstance(value, (Class, Library)) and not depth:
        return value.name
    return _UNKNOWN


def _key(key: Any) -> str:
    return (
        {True: "true", False: "false", None: "null"}.get(key, str(key)) if isinstance(key, (bool, type(None))) else str(key)
    )


def compare(real: Any, ours: Any) -> tuple[int, int, int]:
    """How many plain values are equal, unknown, wrong."""
    if ours == _UNKNOWN:
        return 0, 1, 0
    if isinstance(real, dict) and isinstance(ours, dict):
        if set(real) != set(ours):
            return 0, 0, 1
        counts = [compare(real[name], ours[name]) for name in real]
    elif isinstance(real, list) and isinstance(ours, list):
        if len(real) != len(ours):
            return 0, 0, 1
        counts = [compare(one, other) for one, other in zip(real, ours, strict=True)]
    else:
        same = (
            real == ours
            and isinstance(real, bool) == isinstance(ours, bool)
            and isinstance(real, str) == isinstance(ours, str)
        )
        return (1, 0, 0) if same else (0, 0, 1)
    return sum(each[0] for each in counts), sum(each[1] for each in counts), sum(each[2] for each in counts)


class Score:
    """What came of the command lines of one library."""

    def __init__(self) -> None:
        self.equal = self.unknown = self.wrong = 0
        self.refused = self.missed = self.false_alarms = 0
        self.problems: list[str] = []

    def add(self, program: Program, words: list[str], real: dict[str, Any], ours: dict[str, Any]) -> None:
        """Judge one command line."""
        where = f"{program.title}: train.py {shlex.join(words)}"
        if real["status"] != 0:
            if not real["shown"]:
                self.refused += 1
                if not ours["failures"]:
                    self.missed += 1
                    self.problems.append(f"missed refusal: {where}\n    {real['says'].strip()[-300:]}")
                return
        elif ours["failures"]:
            self.false_alarms += 1
            self.problems.append(f"false alarm: {where}\n    {ours['failures']}")
        for name, value in real["shown"].items():
            equal, unknown, wrong = compare(value, ours["shown"].get(name, _UNKNOWN))
            self.equal, self.unknown, self.wrong = self.equal + equal, self.unknown + unknown, self.wrong + wrong
            if wrong or unknown:
                kind = "wrong" if wrong else "unknown"
                self.problems.append(f"{kind}: {where}\n    {name}: really {value!r}, ours {ours['shown'].get(name)!r}")

    def __str__(self) -> str:
        return (
            f"{self.equal} equal, {self.unknown} unknown, {self.wrong} wrong; {self.refused} refused, of these {self.missed} missed; "
            f"{self.false_alarms} false alarms"
        )


def score(path: Path, folder: Path, seed: int = 1) -> Score:
    """Run and follow all programs of one file."""
    found = programs(path)
    cases: list[tuple[str, list[list[str]]]] = []
    for number, program in enumerate(found):
        place = folder / f"{path.stem}{number}"
        write(program, place)
        cases.append((str(place), program.command_lines(seed)))
    answers = run_for_real(cases, "".join(program.warm for program in found))
    result = Score()
    for program, (written, lines), real in zip(found, cases, answers, strict=True):
        for words, answer in zip(lines, real, strict=True):
            result.add(program, words, answer, follow_in_thought(Path(written), words))
    return result


if __name__ == "__main__":
    _serve()
