"""The kernel log that a run keeps is that of the whole machine: what happened to others is no reason of ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from crashcart.case import KernelEvent
from crashcart.model import Evidence
from crashcart.readers.kernel.tie import RecordedJob, tie
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from pathlib import Path

START = 1_790_000_000
KILL = (
    "2026-09-21T14:14:20,000000+00:00 Memory cgroup out of memory: Killed process 4242 (python) total-vm:1552840kB, "
    "anon-rss:834064kB, file-rss:91772kB, shmem-rss:0kB, UID:0 pgtables:2148kB oom_score_adj:0\n"
)


OTHERS = "".join(
    f"2026-09-21T14:14:{second:02},000000+00:00 Memory cgroup out of memory: Killed process {pid} (python) total-vm:1kB, "
    "anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0\n"
    for second, pid in enumerate((7, 8, 9, 10, 11))
)


def recorded(
    folder: Path, kernel: str, *, pids: str = "the machine's", killed_at: float | None = None, **facts: object
) -> Path:
    """A run of one script, pid 4242, that ended with 3; where it says so, its only child was killed."""
    run = folder / "run"
    (run / "recording").mkdir(parents=True)
    machine = {"pids": pids, "group": "/jobs/ours"}
    told = {"state": "failed", "code": 3, "job": 4242, "started": START, "ended": START + 120, "machine": machine, **facts}
    (run / "run.json").write_text(json.dumps(told))
    (run / "exit.json").write_text(json.dumps({"code": 3, "time": START + 120}))
    events = [{"t": START + 1, "kind": "process", "pid": 4242, "role": "shell", "command": "bash train.sh"}]
    if killed_at is not None:
        child = {"pid": 4243, "parent": 4242, "role": "program", "rank": 0, "command": "python train.py"}
        events += [
            {"t": START + 1, "kind": "process", **child},
            {"t": killed_at, "kind": "gone", "pid": 4243, "signal": "SIGKILL"},
        ]
    (run / "recording" / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (run / "kernel.log").write_text(kernel)
    return run


@pytest.mark.parametrize(
    ("pids", "killed", "died", "blamed"),
    [
        ("the machine's", 4242, None, True),
        ("the machine's", 7, None, False),
        ("the machine's", 7, START + 60.5, False),
        ("a container's", 7, None, False),
        ("a container's", 7, START + 60.5, True),
        ("a container's", 7, START + 100.0, False),
    ],
)
def test_a_kill_counts_where_it_names_the_job_or_came_when_the_job_was_killed(
    tmp_path: Path, pids: str, killed: int, died: float | None, *, blamed: bool
) -> None:
    run = recorded(tmp_path, KILL.replace("4242", str(killed)), pids=pids, killed_at=died)
    told = [one.cause for one in why([str(run)]).findings if one.level == "did" or one.strength == "decisive"]
    assert ("host-memory/oom-kill" in told) == blamed


def test_of_many_kills_only_the_jobs_own_is_quoted(tmp_path: Path) -> None:
    """Also where the kernel log is given by hand."""
    for kernel_log in (None, str(tmp_path / "dmesg.txt")):
        folder = tmp_path / str(kernel_log is None)
        folder.mkdir()
        (tmp_path / "dmesg.txt").write_text(OTHERS + KILL)
        run = recorded(folder, OTHERS + KILL)
        found = why([str(run)], kernel_log=kernel_log).findings
        kill = next(one for one in found if one.cause == "host-memory/oom-kill")
        quotes = [item.quote for sign in kill.signs for item in sign.evidence if item.source == "kernel"]
        assert len(quotes) == 1
        assert "process 4242" in quotes[0]


def test_a_kill_before_the_run_began_is_none_of_its_own(tmp_path: Path) -> None:
    run = recorded(
        tmp_path, KILL.replace("4242", "7").replace("14:14:20", "14:11:50"), pids="a container's", killed_at=START + 1.0
    )
    supporting = [sign for one in why([str(run)]).findings for sign in one.signs if sign.strength != "against"]
    assert not [item for sign in supporting for item in sign.evidence if item.source == "kernel"]


@pytest.mark.parametrize(("seconds", "ours"), [(START - 600, False), (START + 60, True), (START + 900, False)])
def test_a_number_that_another_process_had_at_another_time_proves_nothing(seconds: float, *, ours: bool) -> None:
    job = RecordedJob(START, START + 120, frozenset({4242}), True, "", frozenset(), ())
    kill = KernelEvent("oom-kill", Evidence("kernel", KILL, "dmesg.txt:1"), seconds, {"pid": 4242})
    assert [event.ours for event in tie([kill], job)] == [ours]


@pytest.mark.parametrize(
    ("group", "pids", "blamed"),
    [("ours", "a container's", True), ("theirs", "a container's", False), ("ours", "the machine's", False)],
)
def test_a_control_group_speaks_where_numbers_of_processes_do_not(
    tmp_path: Path, group: str, pids: str, *, blamed: bool
) -> None:
    """Several jobs may share a group, so that a number that is known not to be the job's goes before it."""
    summary = f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/jobs/{group}/inner,task=python,pid=7,uid=0"
    kernel = f"2026-09-21T14:14:20,000000+00:00 {summary}\n" + KILL.replace("4242", "7")
    found = why([str(recorded(tmp_path, kernel, pids=pids, killed_at=START + 60.5))]).findings
    told = [one.cause for one in found if one.strength == "decisive"]
    assert ("host-memory/oom-kill" in told) == blamed
