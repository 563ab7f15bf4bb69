"""`crashcart runs`: every outcome has its word, a line fits a narrow terminal, and damage costs its own row at most."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

NOW = time.time()
BUG = {"findings": [{"cause": "code/bug", "role": "cause"}], "ending": {"state": "crashed"}}
HANG = {"findings": [{"cause": "distributed/unused-parameters", "role": "cause"}], "ending": {"state": "hung"}}
NOTE = {"findings": [{"cause": "slow/data", "role": "contributing"}], "ending": {"state": "finished"}}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CRASHCART_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path / "runs"


HANGS = time.strftime("hangs since %H:%M", time.localtime(1))


def made(
    path: Path,
    age: float,
    state: str,
    findings: dict[str, Any] | None = None,
    exit_json: dict[str, Any] | None = None,
    **facts: Any,
) -> None:
    path.mkdir(parents=True)
    told = {
        "state": state,
        "started": NOW - age,
        "host": platform.node(),
        "user": "me",
        "command": "python train.py",
        **facts,
    }
    (path / "run.json").write_text(json.dumps(told))
    if findings is not None:
        (path / "findings.json").write_text(json.dumps(findings))
    if exit_json is not None:
        (path / "exit.json").write_text(json.dumps(exit_json))


def crashcart(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "crashcart", *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_every_outcome_has_its_word(root: Path) -> None:
    made(root / "a-finished", 10, "finished", NOTE, {"code": 0}, code=0, ended=NOW)
    made(root / "b-failed", 20, "failed", BUG, {"code": 1}, code=1, ended=NOW)
    made(root / "c-hung", 30, "stopped", HANG, {"signal": "SIGTERM"}, signal="SIGTERM", ended=NOW)
    made(root / "d-running", 40, "running", job=os.getpid())
    made(root / "e-hangs", 50, "running", job=os.getpid())
    (root / "e-hangs" / "recording").mkdir()
    (root / "e-hangs" / "recording" / "events.jsonl").write_text('{"t": 1, "kind": "hang"}\n')
    made(root / "f-lost", 60, "running", job=2**22 - 1)
    made(root / "g-alone", 70, "running", None, {"signal": "SIGKILL", "time": NOW}, job=2**22 - 1)
    made(
        root / "h-elsewhere",
        80,
        "failed",
        BUG,
        {"code": 1},
        code=1,
        ended=NOW,
        host="a-host-with-a-very-long-name.example.org",
    )
    made(root / "i-not-started", 90, "not started", code=127)
    for node, cause in (("a-0", "distributed/peer-died"), ("b-1", "code/bug")):
        told = {"findings": [{"cause": cause, "role": "cause"}]}
        made(root / "j-nodes" / "nodes" / node, 100, "failed", told, {"code": 1}, code=1, ended=NOW - (node == "b-1"))
    (root / "k-damaged").mkdir()
    (root / "k-damaged" / "run.json").write_bytes(b"\xff{")
    made(root / "l-a-name-that-is-much-longer-than-any-column-could-be", 120, "failed", HANG, {"code": 1}, code=1, ended=NOW)
    rows = {row["run"][0]: row for row in json.loads(crashcart("runs", "--json"))["runs"]}
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "a": "finished", "b": "failed (1)", "c": "hung", "d": "running", "e": HANGS, "f": "lost", "g": "killed (SIGKILL)",
        "h": "failed (1)", "i": "not started (127)", "j": "failed (1)", "k": "damaged", "l": "hung",
    }  # fmt: skip
    assert "".join(rows) == "abcdefghijlk"  # newest first, what cannot be told last
    assert (rows["a"]["cause"], rows["j"]["cause"], rows["j"]["nodes"]) == (None, "code/bug", 2)
    shown = crashcart("runs")
    assert max(map(len, shown.splitlines())) <= 80
    assert all(word in shown for word in ("on 2 nodes", "on a-host-with", "distributed/unused-parameters"))


def test_a_copy_is_no_newer_than_its_run(root: Path) -> None:
    made(root / "old", 5000, "failed", BUG, {"code": 1}, code=1)
    made(root / "new", 10, "finished", NOTE, {"code": 0}, code=0)
    (root / "old" / "command").write_text("python train.py\n")
    told = crashcart("why", "--json")
    assert json.loads(told)["run"] == "new"
    notes = crashcart("why", "--long")
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(NOW - 10))
    assert all(word in " ".join(notes.split()) for word in ("run new of me on", platform.node(), when))


def test_without_runs_it_says_where_it_looked(root: Path) -> None:
    assert str(root) in crashcart("runs")
