"""A tracker to be watched, and programs that log to one, for the tests of `nonblocking`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from crashcart.train.tracking.copy import rows
from crashcart.train.tracking.sync import copies

PROGRAM = str(Path(__file__).parent / "programs" / "tracked.py")
LIMIT = 60


class Tracker:
    """Takes rows while its gate is open."""

    def __init__(self, name: str = "plain") -> None:
        self.name = name
        self.gate = threading.Event()
        self.gate.set()
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def log(self, *args: Any, **kwargs: Any) -> None:
        self.gate.wait(20)
        self.calls.append(("log", args, kwargs))

    def add_scalar(self, *args: Any) -> None:
        self.calls.append(("add_scalar", args, {}))

    def start_run(self) -> Tracker:
        return Tracker("run")

    def compute(self, number: int) -> int:
        return number + 1

    def finish(self) -> None:
        self.calls.append(("finish", (), {}))


class Broken(Tracker):
    def log(self, *_args: Any, **_kwargs: Any) -> None:
        raise ConnectionError("no route to host")

    def start_run(self) -> Tracker:
        raise ConnectionError("no route to host")


def run(scenario: str, folder: Path, limit: float = LIMIT, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAM, scenario, str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "WANDB_SILENT": "true", **variables},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )


def kept(folder: Path) -> list[dict[str, Any]]:
    return [row for one in copies(str(folder)) for row in rows(one)]
