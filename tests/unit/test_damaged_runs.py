"""Run folders that were damaged or are hostile: a sentence and an exit code, never a traceback."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

ODD = {
    "job": "x",
    "folder": 5,
    "command": 7,
    "before": [1],
    "live": 3,
    "started": "soon",
    "ended": [],
    "signal": {},
    "code": "no",
}
EVENTS = (
    '{"t": "a"}', "null", "[]", "7", '{"t": 1, "kind": "process", "pid": [1]}', '{"t": 1, "kind": "stacks", "folder": "../../etc"}',
    '{"t": 2, "kind": "exception", "pid": 1, "frames": 5, "message": 3, "type": null}', '{"t": 3, "kind": "hang", "rank": "x"}',
    '{"t": 4, "kind": "signal", "signal": 5}', '{"t": 5, "kind": "gone", "pid": "q"}', '{"t": 6, "kind": "phase", "seconds": []}',
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / "damaged"
    for name in ("recording/inside", "logs", "stacks", "nccl"):
        (run / name).mkdir(parents=True)
    noise = random.Random(3).randbytes(4000)
    (run / "run.json").write_text(json.dumps(ODD))
    (run / "exit.json").write_text("[]")
    (run / "findings.json").write_text('{"findings": [3]}')
    for name in ("recording/samples-1", "recording/samples-2.z", "recording/samples-x", "nccl/rank_0", "kernel.log"):
        (run / name).write_bytes(noise)
    (run / "recording/events.jsonl").write_text("\n".join(EVENTS) + "\n")
    (run / "recording/inside/1-2.events").write_bytes(noise + "\n".join(EVENTS).encode())
    return run


@pytest.mark.parametrize("verb", [["why"], ["why", "--json"], ["runs"], ["runs", "--json"]])
def test_a_damaged_run_is_answered(folder: Path, verb: list[str]) -> None:
    paths = [str(folder)] if verb[0] == "why" else []
    done = subprocess.run(
        [sys.executable, "-m", "crashcart", *verb, *paths],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "CRASHCART_RUNS": str(folder.parent)},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert done.stdout.strip()


@pytest.mark.parametrize(
    "flags", [["--grace", "abc"], ["--grace", "-5"], ["--grace", "nan"], ["--on-hang", "dance"], ["--no-such"]]
)
def test_a_wrong_flag_of_run_is_our_own_failure(tmp_path: Path, flags: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "crashcart", "run", *flags, "--", "true"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 125
    assert "error:" in done.stderr
    assert list(tmp_path.iterdir()) == []
