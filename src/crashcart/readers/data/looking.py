"""Data files looked at in a process of their own, evenly sampled, within a time for the whole check."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from crashcart.readers.data.bar import Bar
from crashcart.readers.data.files import listed
from crashcart.readers.data.first_bytes import stand_in
from crashcart.readers.data.tables import spread
from crashcart.record import field, record

__all__ = ["Found", "Looking"]

_SECONDS = 10.0
_FILES = 200
_ONE = 5.0  # for one file
_HEADS = 20_000
# Each thread of a library takes memory of its own, and a look needs one.
# Not `-m`, which looks for modules in the present folder first.
_START = "import sys; sys.path[:] = sys.argv[1:]; from crashcart.readers.data.child import main; main()"
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@record
class Found:
    """What one path of the job holds: how many files, those that are no data, and what was seen in the rest."""

    path: str
    files: int = 0
    looked: int = 0
    bytes: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    stand_ins: list[tuple[str, str]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)
    complete: bool = True
    others: int = 0


class Looking:
    """Keeps the time, the child process and the answers: several jobs of a project name the same data."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self.left = seconds
        self.progress = Bar()
        self._known: dict[str, Found] = {}
        self._child: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def at(self, path: str) -> Found:
        """What lies at a path, from memory where it was asked for before."""
        real = os.path.realpath(path)
        if real not in self._known:
            begun = time.monotonic()
            self._known[real] = self._look(path)
            self.left -= time.monotonic() - begun
        return self._known[real]

    def close(self) -> None:
        """End the child, and take the bar off the screen."""
        self.progress.close()
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _look(self, path: str) -> Found:
        until = time.monotonic() + max(0.5, self.left)
        below = listed(path, max(0.3, self.left / 3))
        every = below.files
        found = Found(path, len(every), 0, sum(size for *_, size in every), folders=below.folders, others=below.others)
        found.kinds = {kind: len(group) for kind, group in below.kinds.items()}
        found.complete = below.complete
        for _, file, size in every[:_HEADS]:
            if os.path.isfile(file) and (kind := stand_in(file, size)):
                found.stand_ins.append((file, kind))
            if time.monotonic() > until:
                break
        bad = {file for file, _ in found.stand_ins}
        wanted = [(kind, file) for kind, file, _ in every if file not in bad and kind != "other"]
        chosen = [wanted[at] for at in spread(len(wanted), _FILES)]
        for number, (kind, file) in enumerate(chosen):
            if time.monotonic() > until:
                break
            self.progress(path, number, len(chosen))
            found.answers.append(self._asked(kind, file, min(_ONE, max(0.5, until - time.monotonic()))))
            found.looked += 1
        self.progress(path, len(chosen), len(chosen))
        return found

    def _asked(self, kind: str, path: str, seconds: float) -> dict[str, Any]:
        try:
            child = self._started()
            if child.stdin is not None:
                child.stdin.write(json.dumps([kind, path]) + "\n")
                child.stdin.flush()
            answer = self._lines.get(timeout=seconds + 3.0)
        except queue.Empty:
            self.close()
            return {"path": path, "kind": kind, "not_looked": f"it did not open within {seconds:.0f} s"}
        except OSError as problem:
            self.close()
            return {"path": path, "kind": kind, "not_looked": str(problem)}
        if not answer:
            return self._died(kind, path)
        told: dict[str, Any] = json.loads(answer)
        return told

    def _died(self, kind: str, path: str) -> dict[str, Any]:
        code = self._child.wait() if self._child is not None else 0
        self.close()
        died = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        key = "problem" if code in {-signal.SIGBUS, -signal.SIGSEGV, -signal.SIGABRT} else "not_looked"
        return {"path": path, "kind": kind, key: f"the library that reads it dies of it ({died})"}

    def _started(self) -> subprocess.Popen[str]:
        if self._child is None:
            self._lines = queue.Queue()
            self._child = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-c", _START, *_own_path()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**_without_python_path(), "HDF5_USE_FILE_LOCKING": "FALSE", **_ONE_THREAD},
            )
            threading.Thread(target=_passed, args=(self._child, self._lines), daemon=True).start()
        return self._child


def _own_path() -> list[str]:
    """Where we find modules ourselves, without the folder that we are in: a project may have a `random.py`, and none of it is run."""
    here = os.path.realpath(os.getcwd())
    return [path for path in sys.path if path and os.path.realpath(path) != here]


def _without_python_path() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _passed(child: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Hand the child's lines over; an empty one when it ended."""
    if child.stdout is not None:
        for line in child.stdout:
            lines.put(line)
    lines.put("")
