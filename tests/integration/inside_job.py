"""Runs a program with the inside part in it, as `crashcart run` does, and reads what each of its processes left behind."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crashcart.inside import layout

SITE = Path(layout.__file__).resolve().parent / "site"
SIGNAL = 44
OWN = ("PYTHONPATH", "CRASHCART_LIVE", "CRASHCART_SIGNAL")


@dataclass(frozen=True)
class Process:
    """One Python process of a job."""

    pid: int
    page: dict[str, float]
    events: list[dict[str, object]]
    stacks: str

    def of(self, kind: str, **wanted: object) -> list[dict[str, Any]]:
        """Its events of a kind, with these values in them."""
        return [e for e in self.events if e["kind"] == kind and all(e.get(k) == v for k, v in wanted.items())]

    @property
    def phase(self) -> str:
        """The phase its page shows."""
        return layout.PHASES[int(self.page["phase"])]


@dataclass(frozen=True)
class Job:
    """A program that has run, and all of its processes in the order of their start."""

    code: int
    out: str
    err: str
    processes: list[Process] = field(default_factory=list)

    @property
    def first(self) -> Process:
        """The process that was started."""
        return self.processes[0]


def environment(live: Path | None, **more: str) -> dict[str, str]:
    """The variables of a job, with the inside part or without."""
    plain = {name: value for name, value in os.environ.items() if name not in OWN}
    plain.update({"OMP_NUM_THREADS": "1", **more})
    if live is None:
        return plain
    live.mkdir(exist_ok=True)
    path = os.pathsep.join(filter(None, [str(SITE), more.get("PYTHONPATH", "")]))
    return {**plain, "PYTHONPATH": path, "CRASHCART_LIVE": str(live), "CRASHCART_SIGNAL": str(SIGNAL)}


def script(folder: Path, code: str, name: str = "train.py") -> Path:
    """The program as a file."""
    path = folder / name
    path.write_text(textwrap.dedent(code))
    return path


def run(folder: Path, code: str, *before: str, inside: bool = True, **more: str) -> Job:
    """Run a program to its end; our own errors in any process of it fail the test."""
    live = folder / "live"
    command = [sys.executable, *before, str(script(folder, code))]
    done = subprocess.run(
        command,
        env=environment(live if inside else None, **more),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return Job(done.returncode, done.stdout, done.stderr, processes(live) if inside else [])


def processes(live: Path) -> list[Process]:
    """Every process that left a page."""
    found = []
    for path in live.glob("*.page"):
        numbers = struct.unpack("64d", path.read_bytes())
        page = dict(zip(layout.FIELDS, numbers, strict=False))
        lines = path.with_suffix(".events").read_text().splitlines() if path.with_suffix(".events").exists() else []
        stacks = path.with_suffix(".stacks")
        events = [json.loads(line) for line in lines]
        found.append(Process(int(page["pid"]), page, events, stacks.read_text() if stacks.exists() else ""))
        assert page["own_errors"] == 0, found[-1].of("error")
        assert path.name.startswith(f"{found[-1].pid}-")
    return sorted(found, key=lambda process: process.page["started"])


# A model, a loader and a step of it, for programs to go on from.
SET_UP = """
import os, sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(36, 4), torch.randn(36, 1))

def step(inputs, targets):
    optimizer.zero_grad()
    loss = (model(inputs) - targets).square().mean()
    loss.backward()
    optimizer.step()
    return loss

def evaluate(loader):
    model.eval()
    with torch.no_grad():
        for inputs, _ in loader:
            model(inputs)
    model.train()
"""
