"""Small real programs under `crashcart run --on-hang stop`, and what was recorded of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

CRASHCART = [sys.executable, "-m", "crashcart.cli", "run", "--quiet", "--on-hang", "stop", "--grace", "2", "--"]


FLOOR = 6.0


TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")


LOOP = """
import os, sys, threading, time, torch
def step(model, optimizer, x, seconds=0.05):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    time.sleep(seconds)
    return loss.detach()
model = torch.nn.Linear(8, 8)
"""


RANKS = (
    LOOP
    + """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(model)
"""
)


OPTIMIZER = "\noptimizer = torch.optim.SGD(model.parameters(), 0.01)\n"


def prepared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder in which the runs are kept too, and a hang that is called one soon."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CRASHCART_RUNS", raising=False)
    monkeypatch.setenv("CRASHCART_HANG_SECONDS", str(FLOOR))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return folder


def run(folder: Path, head: str, code: str, *launcher: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    (folder / "train.py").write_text(head + OPTIMIZER + textwrap.dedent(code))
    command = [*CRASHCART, *(launcher or (sys.executable,)), "train.py"]
    # A worker that is locked up outlives its job, and would keep a pipe open.
    done = subprocess.run(command, timeout=100, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    for one in events(folder, "end")[0]["left"] if len(list((folder / "crashcart_runs").glob("2*"))) == 1 else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(one["pid"], signal.SIGKILL)
    return done


def the_run(folder: Path) -> str:
    (found,) = [path for path in (folder / "crashcart_runs").iterdir() if path.is_dir()]
    return str(found)


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (Path(the_run(folder)) / "recording" / "events.jsonl").read_text().splitlines()
    return [event for line in lines if (event := json.loads(line))["kind"] == kind]
