"""What must hold for any input: an input is written into a folder, the verbs are called on it, and each failure gets a key.

A key names the kind of failure (``error:ValueError@readers/kernel/lines.py:88``, ``secret``, ``differs:crlf``), so that a
thousand inputs that fail in one place are one finding.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import gc
import gzip
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]

from answer_schema import problems_of  # noqa: E402 - the folder of the tests is on the path from here on
from extreme_fields import SECRETS  # noqa: E402
from generated_folders import Fifo, Link  # noqa: E402

from crashcart.cli import main  # noqa: E402
from crashcart.errors import place_of  # noqa: E402
from crashcart.readers.logs import read_logs  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["CPU_SECONDS", "GROWTH_BYTES", "Failure", "Input", "Report", "examine", "load", "save", "spellings"]

CPU_SECONDS = 5.0
GROWTH_BYTES = 100 << 20  # of the 150 MB that a process may take, 50 are Python and ourselves
CODES = {"why": {0, 2}, "check": {0, 1, 2}, "runs": {0}}
VICTIM = b"somebody else's file\n"
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_INVISIBLE = re.compile(r"[\xad\u034f\u200b-\u200f\u2028\u2029\u2060-\u206f\ufe00-\ufe0f\ufeff]")
_CLOCK = re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_RANKS = re.compile(rb"rank|nccl|gloo|c10d|collective|torchrun|elastic|worker|pid=|node", re.IGNORECASE)
_LOOK_BACK, _LOOK_AHEAD = 60, 5
_FEW_LINES = 2
_HIDDEN = "[hidden]"


@dataclass(frozen=True)
class Input:
    """Files by name, and the calls that are made in their folder; ``spelled`` names other spellings of the log to compare."""

    kind: str
    files: dict[str, bytes | Link | Fifo]
    calls: list[list[str]]
    environment: dict[str, str] = field(default_factory=dict)
    spelled: list[str] = field(default_factory=list)


class Failure(NamedTuple):
    """One property that does not hold."""

    key: str
    detail: str


class Report(NamedTuple):
    """What came of one input."""

    failures: list[Failure]
    seconds: float
    growth: int


class _TimeIsUp(BaseException):
    """Not an Exception, so that nothing on the way takes it for an error of its own."""


class _Outcome(NamedTuple):
    code: object
    out: str
    err: str
    problem: BaseException | None


def save(tried: Input, path: Path) -> None:
    """Write an input down, in one file, so that it can be tried again."""
    files = {name: _told(content) for name, content in tried.files.items()}
    told = {**vars(tried), "files": files}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> Input:
    """The input that was written down."""
    told = json.loads(path.read_text(encoding="utf-8"))
    files = {name: _content(content) for name, content in told["files"].items()}
    return Input(**{**told, "files": files})


def _told(content: bytes | Link | Fifo) -> dict[str, Any]:
    if isinstance(content, Link):
        return {"link": content.target}
    if isinstance(content, Fifo):
        return {"pipe": True}
    try:
        return {"text": content.decode("utf-8", "surrogatepass")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _content(told: dict[str, Any]) -> bytes | Link | Fifo:
    if "link" in told:
        return Link(told["link"])
    if "pipe" in told:
        return Fifo()
    return told["text"].encode("utf-8", "surrogatepass") if "text" in told else base64.b64decode(told["base64"])


def _write(files: dict[str, bytes | Link | Fifo], root: Path) -> None:
    for name, content in files.items():
        path = os.path.join(os.fsencode(root), name.encode("utf-8", "surrogatepass"))
        with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):  # a file where a folder would be
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if isinstance(content, Link):
                os.symlink(content.target, path)
            elif isinstance(content, Fifo):
                os.mkfifo(path)
            else:
                Path(os.fsdecode(path)).write_bytes(content)


def _stop(*_: object) -> None:
    raise _TimeIsUp


def _call(arguments: Sequence[str]) -> _Outcome:
    """One verb in this process, with what it printed."""
    if "CAMPAIGN_ALIVE" in os.environ:
        Path(os.environ["CAMPAIGN_ALIVE"]).touch()
    out, err = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", errors="replace"),
        io.TextIOWrapper(io.BytesIO(), "utf-8", errors="replace"),
    )
    problem: BaseException | None = None
    code: object = None
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([os.fsdecode(word.encode("utf-8", "surrogatepass")) for word in arguments])
    except SystemExit as ended:
        code = ended.code
    except BaseException as raised:  # noqa: BLE001 - whatever it is, it is the answer
        problem = raised
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        gc.unfreeze()  # `check` freezes what it leaves, since its process ends
        gc.enable()
    return _Outcome(code, _written(out), _written(err), problem)


def _written(stream: io.TextIOWrapper) -> str:
    if stream.closed:
        return ""
    stream.flush()
    buffer = stream.buffer
    return buffer.getvalue().decode("utf-8", "replace") if isinstance(buffer, io.BytesIO) else ""


def examine(tried: Input, folder: Path) -> Report:
    """Everything that does not hold for an input, with the time of the slowest call and the memory that it took."""
    before_folder, before_environment = os.getcwd(), dict(os.environ)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "files").mkdir(parents=True)
    _write(tried.files, folder / "files")
    (folder / "victim").write_bytes(VICTIM)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _memory("VmRSS")
    failures: list[Failure] = []
    slowest = 0.0
    os.environ.update(tried.environment)
    os.environ.setdefault("CRASHCART_RUNS", str(folder / "no-runs"))
    try:
        os.chdir(folder / "files")
        for arguments in tried.calls:
            begun = time.process_time()
            outcome = _call(arguments)
            slowest = max(slowest, time.process_time() - begun)
            failures += _failures(arguments, outcome, tried, folder)
        growth = _memory("VmHWM") - before
        failures += PROPERTIES.get(tried.kind, _no_more)(tried, folder)
    finally:
        os.chdir(before_folder)
        os.environ.clear()
        os.environ.update(before_environment)
    if growth > GROWTH_BYTES:
        failures.append(Failure("memory", f"{growth >> 20} MB"))
    if (folder / "victim").read_bytes() != VICTIM:
        failures.append(Failure("overwritten", "a file outside of the run folder"))
    return Report(list(dict.fromkeys(failures)), slowest, growth)


def _memory(name: str) -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name))


def _no_more(_tried: Input, _folder: Path) -> Iterator[Failure]:
    return iter(())


def _failures(arguments: Sequence[str], outcome: _Outcome, tried: Input, folder: Path) -> Iterator[Failure]:
    if isinstance(outcome.problem, _TimeIsUp):
        yield Failure(f"slow@{_innermost(outcome.problem)}", f"more than {CPU_SECONDS} s in {' '.join(arguments)[:200]}")
    elif outcome.problem is not None:
        yield Failure(f"error:{place_of(outcome.problem).replace(' at ', '@')}", _traceback(outcome.problem))
    elif outcome.code not in CODES[arguments[0]]:
        yield Failure(f"exit:{outcome.code}", outcome.err[-500:])
    page = folder / "files" / "page.html"
    html = page.read_text(encoding="utf-8", errors="replace") if page.is_file() else ""
    shown = {"terminal" if "--json" not in arguments else "json": outcome.out, "stderr": outcome.err, "html": html}
    planted = _planted(tried)
    for where, text in shown.items():
        for secret in planted:
            if secret.hidden in text:
                yield Failure(f"secret:{secret.text.replace(secret.hidden, '@@')}", where)
        if where != "json" and (control := _CONTROLS.search(text)):
            yield Failure(f"control:{where}", repr(text[max(0, control.start() - 60) : control.end() + 20]))
    if "Traceback (most recent call last)" in outcome.err:
        yield Failure("traceback", outcome.err[-1500:])
    if outcome.problem is None and "--json" in arguments and outcome.code in {0, 1}:
        for problem in problems_of(outcome.out)[:3]:
            yield Failure(f"schema:{re.sub('[0-9]+', 'N', problem)[:80]}", problem)


def _planted(tried: Input) -> list[Any]:
    everything = b"\n".join(content for content in tried.files.values() if isinstance(content, bytes))
    everything += "\n".join(word for call in tried.calls for word in call).encode("utf-8", "replace")
    return [secret for secret in SECRETS if secret.hidden.encode() in everything]


def _innermost(problem: BaseException) -> str:
    return place_of(problem).partition(" at ")[2].partition(":")[0]


def _traceback(problem: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(problem)[-6:])[-1500:]


class _Answer(NamedTuple):
    """The first finding of a log, the lines that it quotes, and all findings with the end of the run."""

    cause: str
    lines: list[int]
    whole: list[str] = []  # noqa: RUF012 - nobody changes it


def _answer(paths: Sequence[str]) -> _Answer:
    outcome = _call(["why", "--json", *paths])
    if outcome.problem is not None or outcome.code != 0:
        return _Answer(f"code {outcome.code}", [])
    told = json.loads(outcome.out)
    findings = told["findings"]
    whole = [f"{told['ending']['state']} at {told['ending']['step']}"]
    whole += [f"{finding['cause']} ({finding['role']})" for finding in findings]
    if not findings:
        return _Answer("nothing", [], whole)
    quoted = [item["where"].rpartition(":")[2] for item in findings[0]["evidence"]]
    lines = [int(line) for line in quoted if line.isdigit()]
    return _Answer(f"{findings[0]['cause']} ({findings[0]['role']})", lines, whole)


def _cut(text: bytes, quoted: list[int]) -> list[bytes]:
    """In two, as by logrotate, but not among the lines that belong to the answer: readers look up to 60 lines back.

    Nor where a log starts anew: of two files nobody knows that they are one after the other.
    """
    lines = text.splitlines(keepends=True)
    far = [
        at for at in range(1, len(lines)) if not quoted or at < min(quoted) - _LOOK_BACK or at > max(quoted) + _LOOK_AHEAD
    ]
    places = [
        at for at in far if lines[at][:1] not in b" \t|+}]" and not lines[at - 1].startswith((b" ", b"Traceback", b"\n"))
    ]
    if not places or read_logs(["train.log"]).attempts:
        return [text]
    at = places[len(places) // 2]
    return [b"".join(lines[:at]), b"".join(lines[at:])]


def _each_line(text: bytes, before: bytes, after: bytes = b"") -> list[bytes]:
    return [b"".join(before + line + after + b"\n" for line in text.removesuffix(b"\n").split(b"\n"))]


def _with_rank(text: bytes, prefix: bytes, fewest: int = 0) -> list[bytes]:
    """Lines of one rank; where the log itself speaks of ranks, that would be news."""
    return [text] if _RANKS.search(text) or text.count(b"\n") < fewest else _each_line(text, prefix)


def _with_header(text: bytes, _quoted: list[int], header: bytes) -> list[bytes]:
    """What is carried line by line; in a log of one line a level may be the line's own."""
    return [text] if text.count(b"\n") < _FEW_LINES else _each_line(text, header)


def _docker_entry(line: str) -> bytes:
    entry = {"log": f"{line}\n", "stream": "stderr", "time": "2026-11-15T07:12:01.123456789Z"}
    return json.dumps(entry, ensure_ascii=len(line) % 2 == 0, separators=(",", ":")).encode() + b"\n"


def _rotated(text: bytes, _quoted: list[int]) -> list[bytes]:
    """In two within its last traceback, the newer part first."""
    lines = text.splitlines(keepends=True)
    frames = [place for place, line in enumerate(lines) if b'  File "' in line]
    clocks = _CLOCK.findall(text)
    if not frames or frames[-1] + 1 >= len(lines) or _RANKS.search(text) or clocks != sorted(clocks):
        return [
            text
        ]  # files are put in order by their clocks: where a clock goes back, one file and two say different things
    at = frames[-1] + 1
    return [b"".join(lines[at:]), b"".join(lines[:at])]


spellings: dict[str, Callable[[bytes, list[int]], list[bytes]]] = {
    "crlf": lambda text, _: [text.replace(b"\n", b"\r\n")],
    "bom": lambda text, _: [b"\xef\xbb\xbf" + text],
    "ansi": lambda text, _: _each_line(text, b"\x1b[32m", b"\x1b[0m"),
    "rank prefix": lambda text, _: _with_rank(text, b"[rank0]: "),
    "tee prefix": lambda text, _: _with_rank(text, b"[default0]:"),
    "gz": lambda text, _: [gzip.compress(text)],
    "utf-16": lambda text, _: [text.decode().encode("utf-16")],
    "cut": _cut,
    "no last newline": lambda text, _: [text.rstrip(b"\n")],
    **{
        name: partial(_with_header, header=header.encode())
        for name, header in {
            "github actions": "2026-11-15T07:12:01.1234567Z ",
            "bracketed time": "[2026-11-15 07:12:01] ",
            "time of day": "[07:12:01] ",
            "journald": "Nov 15 07:12:01 n1 python[4711]: ",
            "kubectl": "[pod/train-0/main] ",
            "container file": "2026-11-15T07:12:01.123456789Z stderr F ",
            "pdsh": "node01: ",
            "compose": "trainer  | ",
            "loguru": "2026-11-15 07:12:01.000 | INFO     | train:main:12 - ",
            "logging": "2026-11-15 07:12:01,000 - INFO - train - ",
            "name and level": "2026-11-15 07:12:01,000 - train.loop - INFO - ",
            "basic logging": "INFO:root:",
            "airflow": "[2026-11-15, 07:12:01 UTC] {subprocess.py:93} INFO - ",
        }.items()
    },
    "mpirun": lambda text, _: _with_rank(text, b"[1,0]<stderr>:"),
    "deepspeed": lambda text, _: _with_rank(
        text, b"[2026-11-15 07:12:01,000] [INFO] [logging.py:96:log_dist] [Rank 0] ", fewest=_FEW_LINES
    ),
    "docker": lambda text, _: [b"".join(map(_docker_entry, text.decode().removesuffix("\n").split("\n")))],
    "rotated": _rotated,
    "parts": lambda text, quoted: _rotated(text, quoted)[::-1],
    "twice": lambda text, _: [text, text],
}
# Parts are given in this order.
_NAMES = {"rotated": ("train.log", "train.log.1"), "parts": ("train_1.log", "train_2.log")}


def _differences(tried: Input, folder: Path) -> Iterator[Failure]:
    """The same log in other spellings has the same findings and the same end."""
    text = tried.files.get("train.log")
    if not isinstance(text, bytes) or not text.strip():
        return
    expected = _answer(["train.log"])
    for name in tried.spelled if not expected.cause.startswith("code") else ():
        inner = folder / "files" / name.replace(" ", "-")
        inner.mkdir(exist_ok=True)
        paths = []
        for number, part in enumerate(spellings[name](text, expected.lines)):
            names = _NAMES.get(name, ("train-part-a.log", "train-part-b.log"))
            path = inner / f"{names[number]}{'.gz' if name == 'gz' else ''}"
            path.write_bytes(part)
            paths.append(str(path))
        found = _answer(paths)
        if found.cause != expected.cause or (name != "cut" and found.whole != expected.whole):
            yield Failure(f"differs:{name}", f"{expected.whole} became {found.whole}")


def _patches(tried: Input, folder: Path) -> Iterator[Failure]:
    """Diffs apply with git, and what --fix leaves parses where it parsed before."""
    asked = tried.calls[0]
    outcome = _call(asked)
    if outcome.problem is not None or outcome.code not in {0, 1}:
        return
    diffs = [fix["diff"] for finding in json.loads(outcome.out)["findings"] for fix in finding["fixes"] if fix["diff"]]
    texts = [content.decode("utf-8", "replace") for content in tried.files.values() if isinstance(content, bytes)]
    shown_whole = not any(_CONTROLS.search(text) or _INVISIBLE.search(text) or "\ufffd" in text for text in texts)
    for diff in dict.fromkeys(diffs):
        if shown_whole and _HIDDEN not in diff:  # what is left out of every output is left out of a diff
            done = subprocess.run(
                ["git", "apply", "--check", "-p1", "-"], input=diff.encode("utf-8", "surrogateescape"), capture_output=True, check=False, cwd=folder / "files",
                env={**os.environ, "GIT_DIR": "/nowhere", "GIT_CEILING_DIRECTORIES": str(folder)},
            )  # fmt: skip
            if done.returncode:
                yield Failure("patch does not apply", done.stderr.decode()[-300:] + diff[-500:])
    before = {path: _parses(path) for path in (folder / "files").rglob("*") if path.is_file()}
    fixed = _call(["check", "--fix-all", *(word for word in asked[1:] if word not in {"--json", "--show-job"})])
    yield from _failures(["check"], fixed, tried, folder)
    for path, well in before.items():
        if well and not _parses(path):
            yield Failure(f"fix broke {path.suffix}", path.read_text(encoding="utf-8", errors="replace")[:800])


def _parses(path: Path) -> bool:
    try:
        text = path.read_bytes()
        if path.suffix == ".py":
            ast.parse(text)
        elif path.suffix == ".json":
            json.loads(text)
        elif path.suffix == ".sh":
            return subprocess.run(["bash", "-n", str(path)], capture_output=True, check=False, timeout=20).returncode == 0
        elif path.suffix == ".yaml" and text.count(b"[") + text.count(b"{") < 500:
            import yaml

            yaml.safe_load(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, OverflowError, OSError, subprocess.TimeoutExpired):
        return False
    except Exception as problem:  # noqa: BLE001 - of YAML
        return "yaml" not in type(problem).__module__
    return True


PROPERTIES: dict[str, Callable[[Input, Path], Iterator[Failure]]] = {
    "spelling": _differences,
    "job": _patches,
    "plan": _patches,
}


def limit_memory(more_bytes: int = 4 << 30) -> None:
    """A bomb becomes a MemoryError here rather than a burden to the machine."""
    limit = _memory("VmSize") + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
