"""The kernel log that a run keeps is that of the whole machine: what happened to others is no reason of ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from crashcart.verbs.why import why

if TYPE_CHECKING:
    from pathlib import Path

START = 1_790_000_000
KILL = (
    "2026-09-21T14:14:20,000000+00:00 Memory cgroup out of memory: Killed process 4242 (python) total-vm:1552840kB, "
    "anon-rss:834064kB, file-rss:91772kB, shmem-rss:0kB, UID:0 pgtables:2148kB oom_score_adj:0\n"
)


@pytest.mark.parametrize(
    ("pids", "killed", "blamed"),
    [("the machine's", 4242, True), ("the machine's", 7, False), ("a container's", 7, True)],
)
def test_a_kill_of_a_process_that_the_recording_does_not_know_is_not_blamed(
    tmp_path: Path, pids: str, killed: int, *, blamed: bool
) -> None:
    run = tmp_path / "run"
    (run / "recording").mkdir(parents=True)
    facts = {"state": "failed", "code": 3, "job": 4242, "started": START, "ended": START + 120, "machine": {"pids": pids}}
    (run / "run.json").write_text(json.dumps(facts))
    (run / "exit.json").write_text(json.dumps({"code": 3, "time": START + 120}))
    event = {"t": START + 1, "kind": "process", "pid": 4242, "role": "shell", "command": "bash train.sh"}
    (run / "recording" / "events.jsonl").write_text(json.dumps(event) + "\n")
    (run / "kernel.log").write_text(KILL.replace("4242", str(killed)))
    told = [one.cause for one in why([str(run)]).findings]
    assert ("host-memory/oom-kill" in told) == blamed
