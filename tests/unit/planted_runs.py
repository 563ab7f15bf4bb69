"""Run folders that somebody planted: any of their files replaced by a pipe, a link, a device, garbage or something endless.

``python tests/unit/planted_runs.py 500`` makes 500 of them, asks `why`, `runs` and `why --html` about each, and checks that nothing
outside was read or changed. Everything outside that could be read through a link holds the word CANARY, in the form that the reader
of the file would understand, and is watched by the kernel (inotify).
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import io
import json
import os
import pickle
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from crashcart.cli import main
from crashcart.recording.frames import Sample, pack_header, pack_sample
from crashcart.recording.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["examine"]

NOW = 1_700_000_000.0
SECONDS = 60  # for each question, on a busy machine
CPU_SECONDS = 10
CANARY = "CANARY"
OTHER_USER = 54321
_OPENED = 0x20  # IN_OPEN


def contents(word: str) -> dict[str, bytes]:
    """The files of a run that failed; ``word`` stands in each."""
    failed = {
        "type": "ValueError",
        "message": f"{word} in a message",
        "frames": [f"/a/{word}.py:3 main"],
        "thread": "MainThread",
    }
    events: list[dict[str, Any]] = [
        {"kind": "process", "pid": 10, "parent": 2, "role": "rank", "rank": 0, "command": f"python {word}.py"},
        {"kind": "stacks", "reason": word, "folder": "stacks/001", "processes": 1},
        {
            "kind": "hang",
            "seconds": 70.0,
            "since": NOW,
            "phase": "train",
            "rank": 0,
            "pid": 10,
            "where": f"{word}.py:3 in f",
        },
        {"kind": "signal", "signal": "SIGTERM", "sender": 3, "name": word},
        {"kind": "gone", "pid": 10, "code": 1},
    ]
    inside: list[dict[str, Any]] = [
        {"kind": "hello", "how": "start", "argv": [f"{word}.py"], "parent": 2},
        {"kind": "exception", **failed},
    ]
    facts = {
        "job": 2, "command": f"python {word}.py", "folder": "/", "started": NOW, "user": word, "host": word, "state": "failed",
        "code": 1, "logs": ["output.log"], "before": [], "live": f"/nowhere/crashcart-{word}",
    }  # fmt: skip
    samples = pack_header(TABLES) + pack_sample(Sample(NOW, 1.0, {}), list(TABLES))
    findings = {"findings": [{"cause": f"outside/{word}", "title": word, "role": "cause"}], "ending": {"state": "failed"}}
    dump = {"entries": [{"collective_seq_id": 1, "process_group": [word], "profiling_name": f"nccl:{word}", "state": word}]}
    log = f'step 1 loss 0.5\nTraceback (most recent call last):\n  File "{word}.py", line 1, in f\nRuntimeError: {word}\n'
    kernel = f"[Mon Nov 15 07:02:11 2026] Out of memory: Killed process 10 ({word}) total-vm:1kB, anon-rss:1kB\n"
    return {
        "run.json": json.dumps(facts).encode(),
        "exit.json": json.dumps({"code": 1, "signal": None, "time": NOW + 9, "reason": word}).encode(),
        "findings.json": json.dumps(findings).encode(),
        "command": f"python {word}.py\n".encode(),
        "git.diff": word.encode(),
        "kernel.log": kernel.encode(),
        "logs/output.log": log.encode(),
        "logs/rank0.log": log.encode(),
        "logs/launcher.log": log.encode(),
        "recording/events.jsonl": _lines(events),
        "recording/samples-1": samples,
        "recording/samples-2.z": zlib.compress(samples),
        "recording/inside/10-1.events": _lines(inside),
        "stacks/001/rank-0-10.txt": f'Thread 0x1 (most recent call first):\n  File "{word}.py", line 3 in f\n'.encode(),
        "nccl/rank_0": pickle.dumps(dump, protocol=2),
    }


def _lines(events: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps({"t": NOW + at, **event}).encode() + b"\n" for at, event in enumerate(events))


def write_run(folder: Path, word: str, *, left_out: tuple[str, ...] = ()) -> None:
    for name, content in contents(word).items():
        if name not in left_out:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


class Plant:
    """One planted run in ``crashcart_runs``, and beside it the victims that nothing may reach."""

    def __init__(self, top: Path, chance: random.Random) -> None:
        self.top, self.chance = top, chance
        self.victims = top / "victims"
        self.run = top / "crashcart_runs" / "2026-11-15T07-02-11-planted"
        self.planted: list[str] = []
        write_run(self.victims, CANARY)
        write_run(self.victims / "nodes" / "x", CANARY)
        os.mkfifo(self.victims / "pipe")
        several = chance.random() < 0.25
        unwritten = ("findings.json",) if chance.random() < 0.6 else ()
        self.parts = [self.run / "nodes" / name for name in ("a", "b")] if several else [self.run]
        for part in self.parts:
            write_run(part, "honest", left_out=unwritten)
        for _ in range(chance.choice([1, 1, 2, 3, 5])):
            self.replace_one()
        self.others = os.geteuid() == 0 and chance.random() < 0.3
        if self.others:
            for folder, folders, files in os.walk(self.run):
                for name in (".", *folders, *files):
                    os.lchown(os.path.join(folder, name), OTHER_USER, OTHER_USER)
        if chance.random() < 0.2:  # what users do themselves must go on working
            (self.run.parent / "latest").symlink_to(self.run.name)

    def replace_one(self) -> None:
        part = self.chance.choice(self.parts)
        names = [
            *contents("honest"),
            "findings.json.new",
            "logs",
            "recording",
            "recording/inside",
            "stacks",
            "nccl",
            "nodes",
        ]
        if part != self.run:
            names += ["../../nodes", "../x", "../a", "../../findings.json", "../../findings.json.new", "../../run.json"]
        name = self.chance.choice(names)
        path = Path(os.path.normpath(part / name))
        kind = self.chance.choice(list(_KINDS))
        if not path.parent.is_dir() or path.parent.is_symlink() or self.run not in path.parents:
            return
        _remove(path)
        with contextlib.suppress(OSError):  # a name that is too long for a socket
            _KINDS[kind](self, path)
            self.planted.append(f"{path.relative_to(self.run)}: {kind}")

    def victim(self, path: Path) -> Path:
        """What the reader of this path would take for the real thing."""
        parts = path.relative_to(self.run).parts
        inner = parts[2:] if parts[0] == "nodes" and len(parts) > 2 else parts
        found = self.victims / "/".join(inner).removesuffix(".new")
        return found if found.exists() else self.victims / "nodes" / "x"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _socket(_: Plant, path: Path) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(path))


def _sparse(_: Plant, path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


_KINDS: dict[str, Callable[[Plant, Path], object]] = {
    "pipe": lambda _, path: os.mkfifo(path),
    "socket": _socket,
    "link to a victim": lambda plant, path: path.symlink_to(plant.victim(path)),
    "relative link to a victim": lambda plant, path: path.symlink_to(os.path.relpath(plant.victim(path), path.parent)),
    "hidden link to a victim": lambda plant, path: path.symlink_to(plant.victim(path)),
    "link to all victims": lambda plant, path: path.symlink_to(plant.victims),
    "link to a pipe": lambda plant, path: path.symlink_to(plant.victims / "pipe"),
    "link to what is not there": lambda plant, path: path.symlink_to(plant.victims / "made by us"),
    "link to zeros": lambda _, path: path.symlink_to("/dev/zero"),
    "link to the kernel's messages": lambda _, path: path.symlink_to("/proc/kmsg"),
    "link upwards": lambda _, path: path.symlink_to(".."),
    "link to itself": lambda _, path: path.symlink_to(path.name),
    "folder": lambda _, path: path.mkdir(),
    "deep folder": lambda _, path: os.makedirs(path / "/".join(["d"] * 600)),
    "garbage": lambda plant, path: path.write_bytes(plant.chance.randbytes(5000)),
    "nothing": lambda _, path: path.touch(),
    "terabyte": _sparse,
    "endless line": lambda _, path: path.write_bytes(b'{"t": 1, "kind": "' + b"x" * (9 << 20)),
    "wide JSON": lambda _, path: path.write_bytes(b"[" + b"{}," * (2 << 20) + b"{}]"),
    "deep JSON": lambda _, path: path.write_bytes(b'{"a":' * 60_000),
    "many lines": lambda _, path: path.write_bytes(b'{"t": 1, "kind": "x", "z": [[],[],[]]}\n' * 200_000),
    "frames": lambda _, path: path.write_bytes(b"\xc7\xa5S\xff\xff\x1f\x00\0\0\0\0" * 400_000),
    "bomb": lambda _, path: path.write_bytes(zlib.compress(b"\xc7\xa5" * (40 << 20), 9)),
    "unreadable": lambda _, path: path.touch(mode=0),
}


class _Watch:
    """Tells whether any file below a folder was opened."""

    def __init__(self, top: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._handle = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for path in [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in (".", *names)]:
            self._libc.inotify_add_watch(self._handle, os.fsencode(path), _OPENED)

    def opened(self) -> bool:
        try:
            return bool(os.read(self._handle, 4096))
        except BlockingIOError:
            return False
        finally:
            os.close(self._handle)


def _snapshot(top: Path) -> dict[str, tuple[int, int, int, bytes]]:
    found = {}
    for folder, folders, names in os.walk(top):
        for name in (".", *folders, *names):
            path = Path(folder, name)
            status = path.lstat()
            small = path.is_file() and not path.is_symlink() and status.st_size < 1 << 20
            content = path.read_bytes() if small else os.fsencode(os.readlink(path)) if path.is_symlink() else b""
            found[str(path)] = status.st_mode, status.st_mtime_ns, status.st_size, content
    return found


def _asked(words: list[str]) -> tuple[int, str, float]:
    """Exit code, all that was printed, seconds of CPU; a question that is not answered in time ends the process by an alarm."""
    out, err = io.StringIO(), io.StringIO()
    begun = time.process_time()
    faulthandler.dump_traceback_later(SECONDS - 1, file=sys.__stderr__ or 2)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
    return code, out.getvalue() + err.getvalue(), time.process_time() - begun


def _problems(plant: Plant) -> Iterator[str]:
    page = plant.top / "why.html"
    questions = [["why", str(plant.run)], ["why"], ["why", "--json", str(plant.run)], ["runs"], ["runs", "--json"]]
    questions.append(["why", str(plant.run), "--html", str(page)])
    before, inside = _snapshot(plant.victims), _snapshot(plant.run)
    watch = _Watch(plant.victims)
    for words in questions:
        code, said, seconds = _asked(words)
        if code != 0:
            yield f"{words[0]} ended with {code}: {said[-300:]}"
        if CANARY in said:
            yield f"{words} told what a link leads to"
        if seconds > CPU_SECONDS:
            yield f"{words} took {seconds:.0f} s"
    if watch.opened():
        yield "a victim was opened"
    if _snapshot(plant.victims) != before:
        yield "a victim was changed"
    if CANARY in page.read_text():
        yield "the page tells what a link leads to"
    after = _snapshot(plant.run)
    changed = {path for path in {*inside, *after} if inside.get(path) != after.get(path) and not path.endswith("/.")}
    allowed = {str(plant.run / "findings.json")} if not plant.others else set()
    yield from (f"{path} was changed" for path in changed - allowed if path != str(plant.run))
    if changed & allowed and os.path.islink(plant.run / "findings.json"):
        yield "findings.json is a link"


def examine(top: Path, seed: int) -> list[str]:
    """What went wrong with one planted run; each with what was planted."""
    plant = Plant(top, random.Random(seed))
    environment = {"HOME": str(top), "XDG_STATE_HOME": str(top / "state"), "CRASHCART_RUNS": str(plant.run.parent)}
    before, here = os.getcwd(), top / "here"
    here.mkdir()
    os.chdir(here)
    try:
        with mock.patch.dict(os.environ, environment):
            return [f"{problem} ({', '.join(plant.planted)}; seed {seed})" for problem in _problems(plant)]
    finally:
        os.chdir(before)


def campaign(count: int) -> int:
    """Examine many; the number of problems."""
    total = 0
    for seed in range(count):
        folder = Path(tempfile.mkdtemp(prefix="planted-"))
        try:
            for problem in examine(folder, seed):
                total += 1
                sys.stdout.write(problem + "\n")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(f"{count} planted run folders, {total} problems\n")
    return total


if __name__ == "__main__":
    sys.exit(bool(campaign(int(sys.argv[1]))))
