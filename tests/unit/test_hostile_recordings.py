"""Recordings whose events and numbers are damaged or hostile: every cause still looks at them without an error of ours."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from crashcart.engine import examine
from crashcart.inside.layout import FIELDS
from crashcart.readers.gather import Given, gather
from crashcart.recording.frames import Sample, pack_header, pack_sample
from crashcart.recording.tables import TABLES
from crashcart.report.data import plain
from crashcart.report.terminal import text

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000.0
HOSTILE: list[Any] = [
    None, True, -1, 0, 1, 10**30, 10**400, 1e308, float("nan"), float("inf"), -float("inf"), "", "x" * 20_000, "\x1b[31m", "nan", [], {},
    [None], [[]], [1, "a", None], {"a": []}, {"pid": "x"}, [{"field": [], "samples": "x"}], ['File "a", line 3, in b'] * 3,
]  # fmt: skip
FAILED = {
    "type": "torch.OutOfMemoryError", "message": "CUDA out of memory. Tried to allocate 2.00 GiB", "because": ["OSError: [Errno 28]"],
    "frames": ["/a/train.py:3 main", "/x/site-packages/wandb/a.py:5 log"], "thread": "MainThread", "phase": "checkpoint", "step": 7,
    "locals": [],
}  # fmt: skip
# What processes say about themselves, then what the supervisor says.
INSIDE: list[dict[str, Any]] = [
    {"kind": "hello", "how": "start", "python": "3.11", "argv": ["train.py"], "parent": 2},
    {"kind": "optimizer", "class": "SGD", "groups": 1, "tensors": 2, "parameters": 9},
    {"kind": "lr", "step": 1, "before": [], "rates": [0.1], "groups": 1},
    {"kind": "phase", "phase": "load", "edge": "end", "seconds": 2.0, "path": "a.pt", "lr": 0.1, "step": 0},
    {"kind": "phase", "phase": "evaluate", "edge": "end", "seconds": 0.1, "batches": 0, "step": 5},
    {"kind": "phase", "phase": "evaluate", "edge": "empty loader", "step": 6},
    {"kind": "nonfinite", "step": 3, "what": "loss", "value": "nan", "batch": 4, "fields": [{"field": "x", "values": 1, "samples": [2]}]},
    {"kind": "inputs", "step": 4, "batch": 5, "fields": []},
    {"kind": "checkpoint", "path": "b.pt", "bytes": 5, "seconds": 3.0, "how": "torch.save", "step": 5},
    {"kind": "save-failed", "path": "c.pt", "bytes": 5, "free": 0, "total": 9, "inodes": 3, "mount": "/"},
    {"kind": "tracker", "call": "log", "seconds": 99.0, "library": "wandb"},
    {"kind": "compile", "seconds": 9.0, "recompiles": 3, "frame": "f"},
    {"kind": "oom", "device": 0, "phase": "train", "allocated": 5, "reserved": 9, "free": 1, "total": 10, "largest": 3},
    {"kind": "exception", **FAILED},
    {"kind": "exit", "step": 7},
]  # fmt: skip
OUTSIDE: list[dict[str, Any]] = [
    {"kind": "started", "job": 2, "command": "torchrun"},
    {"kind": "process", "pid": 2, "parent": 1, "role": "launcher", "rank": None, "command": "torchrun"},
    {"kind": "process", "pid": 10, "parent": 2, "role": "rank", "rank": 0, "command": "python train.py"},
    {"kind": "process", "pid": 11, "parent": 2, "role": "rank", "rank": 1, "command": "python train.py"},
    {"kind": "process", "pid": 12, "parent": 10, "role": "loader worker", "rank": 0, "command": "python"},
    {"kind": "stacks", "reason": "suspicion", "folder": "stacks/001", "processes": 3},
    {"kind": "hang", "seconds": 70.0, "since": NOW, "phase": "train", "rank": 1, "pid": 11, "where": "a.py:3 in f", "why": "it is",
     "works": False, "line": "x", "call": "futex", "file": "/a", "waiting": [0], "channel": "futex_wait"},
    {"kind": "goes-on"}, {"kind": "signal", "signal": "SIGTERM", "sender": 3, "name": "slurmstepd"}, {"kind": "sent", "signal": "SIGKILL"},
    {"kind": "alarm", "alarm": "spike", "says": "a word"}, {"kind": "xid", "card": 0, "number": 79},
    {"kind": "gone", "pid": 12, "signal": "SIGKILL"}, {"kind": "gone", "pid": 10, "code": 1}, {"kind": "ended", "pid": 11},
    {"kind": "end", "code": 1, "signal": None, "left": []},
]  # fmt: skip


def spoilt(chance: random.Random, events: list[dict[str, Any]]) -> str:
    """The events as lines, some values replaced, some left out, some lines twice or in another order."""
    lines = []
    for at, event in enumerate(events):
        told: dict[str, Any] = {"t": NOW + at, "m": 5.0, **event}
        for name in list(told):
            if chance.random() < 0.15:
                told[name] = chance.choice(HOSTILE)
            elif chance.random() < 0.05:
                del told[name]
        lines += [json.dumps(told)] * chance.choice([0, 1, 1, 1, 1, 2])
    if chance.random() < 0.3:
        chance.shuffle(lines)
    return "\n".join(lines) + "\n"


def numbers(chance: random.Random) -> bytes:
    """Samples whose numbers are anything that a double can be."""
    odd = [float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1.0, 1e300, 10.0, 11.0]
    columns = {**TABLES, "page": FIELDS}
    order = list(columns)
    data = pack_header(columns)
    for second in range(12):
        tables = {
            name: [[chance.choice([*odd, 10.0, 11.0, float(second)]) for _ in names] for _ in range(2)]
            for name, names in columns.items()
        }
        if chance.random() < 0.2:
            tables["page"] = [row[:3] for row in tables["page"]]
        data += pack_sample(Sample(chance.choice([NOW + second, *odd]), float(second), tables), order)
    return data


@pytest.mark.parametrize("seed", range(60))
def test_every_cause_looks_at_it_without_an_error_of_ours(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    inside = tmp_path / "recording" / "inside"
    inside.mkdir(parents=True)
    stacks = tmp_path / "stacks" / "001"
    stacks.mkdir(parents=True)
    (stacks / "rank-0-10.txt").write_text('Current thread 0x1 (most recent call first):\n  File "a.py", line 3 in f\n')
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "output.log").write_text("step 1 loss 0.5\nstep 2 loss nan\nRuntimeError: CUDA out of memory\n")
    (tmp_path / "recording" / "events.jsonl").write_text(spoilt(chance, OUTSIDE))
    for pid in (10, 11, 12):
        (inside / f"{pid}-1.events").write_text(spoilt(chance, INSIDE))
    (tmp_path / "recording" / "samples-1").write_bytes(numbers(chance))
    facts = {
        "job": 2,
        "command": "torchrun train.py",
        "folder": "/",
        "started": NOW,
        "user": "me",
        "host": "here",
        "before": [],
    }
    for name, told in (("run.json", facts), ("exit.json", {"code": 1, "signal": None, "time": NOW + 30})):
        (tmp_path / name).write_text(
            json.dumps({key: chance.choice([value, value, *HOSTILE[:12]]) for key, value in told.items()})
        )
    diagnosis = examine(gather(Given([str(tmp_path)])))
    assert text(diagnosis)
    assert json.dumps(plain(diagnosis))
    assert not [gap for gap in diagnosis.not_looked if "internal error" in gap.why]
