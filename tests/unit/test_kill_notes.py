"""What whoever killed a process wrote about it: the sender and the reason of a SIGKILL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from history import START, History

from crashcart.engine import examine
from crashcart.readers.kill_notes import GUARD_STARTED, KILL_NOTE, SCRIPT_KILLS, guards_started, kill_notes
from crashcart.stages import programs_beside

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.case import Case


def _case(folder: Path, **files: str) -> Case:
    """A rank that was killed after a minute on a machine that had memory, beside a program of the script, and what the job wrote."""
    history = History(code=137)
    history.process(5, 1, "program", "python watcher.py --every 1", born=0)
    history.process(4711, 1, "rank", "python train.py", born=1, rank=0, steps=50)
    history.gone(4711, 60, signal="SIGKILL")
    history.gone(5, 61, signal="SIGTERM")
    history.flight.facts["folder"] = str(folder)
    history.flight.columns = {"host": ["memory_total", "memory_available", "oom_kills"], "process": ["pid", "rss"]}
    for second in range(1, 62):
        rows = {"host": [[64e9, 50e9, 3.0]], "process": [[4711.0, 5e8]]}
        history.flight.samples.append((START + second, rows))
    case = history.case()
    for name, text in files.items():
        path = folder / f"{name}.log"
        path.write_text(text)
        os.utime(path, (START + 60.5, START + 60.5))
    case.seen[KILL_NOTE] = kill_notes(case)
    return case


@pytest.mark.parametrize(
    "note",
    [
        "agent: killed 4711 (python), anon-rss 426 MB",
        "2026-11-19 WARNING kill -9 4711: memory 9.1 of 8.0 GiB",
        "[reaper] sending SIGKILL to pid=4711 user=ann rss=8123M limit=8000M",
        "2026-11-19 19:12:40 pid 4711 rss 622 MB, share 600 MB: ended",
    ],
)
def test_a_kill_for_memory_that_its_sender_wrote_down(tmp_path: Path, note: str) -> None:
    finding = examine(_case(tmp_path, agent=f"started\n{note}\n")).findings[0]
    assert (finding.cause, finding.strength) == ("host-memory/oom-kill", "decisive")
    assert any(item.where.endswith("agent.log:2") for sign in finding.signs for item in sign.evidence)


def test_what_we_found_ourselves_is_no_note(tmp_path: Path) -> None:
    (tmp_path / "mine" / "recording").mkdir(parents=True)
    (tmp_path / "mine" / "run.json").write_text("{}")
    found = tmp_path / "mine" / "findings.json"
    found.write_text('"says": "rank 0 (pid 4711) ended by SIGKILL, rss 400 MB",')
    os.utime(found, (START + 60.5, START + 60.5))
    assert not _case(tmp_path).all(KILL_NOTE)


def test_who_writes_of_memory_again_and_again_only_watches(tmp_path: Path) -> None:
    watched = "".join(f"{second} pid 4711 rss {400 + second} MB\n" for second in range(3))
    assert examine(_case(tmp_path, watch=watched)).findings[0].cause == "outside/user"


@pytest.mark.parametrize("note", ["killed 4711: idle for 900 s", "kill 4711 (lease is over)"])
def test_a_kill_for_another_reason_is_one_from_outside(tmp_path: Path, note: str) -> None:
    finding = examine(_case(tmp_path, agent=note)).findings[0]
    assert finding.cause == "outside/user"
    assert any(note in item.quote for sign in finding.signs for item in sign.evidence)


@pytest.mark.parametrize(
    "text",
    [
        "killed 47110 for its memory",
        "4711 samples, 300 MB of memory",
        "train.sh: line 3:  4711 Killed                  python train.py --memory 5 GB",
        "worker (pid 4711) is killed by signal: Killed. It used memory",
    ],
)
def test_other_words_are_no_note(tmp_path: Path, text: str) -> None:
    assert not _case(tmp_path, agent=text).all(KILL_NOTE)


def test_what_was_written_before_is_no_note(tmp_path: Path) -> None:
    case = _case(tmp_path, agent="killed 4711 for its memory")
    os.utime(tmp_path / "agent.log", (START + 10, START + 10))
    assert not kill_notes(case)


def test_the_line_that_starts_a_guard(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("# watcher.py\npython tools/watcher.py --limit 420 &\npython train.py\n")
    case = _case(tmp_path)
    assert [stage.role for stage in case.flight.stages] == ["service", "training"]  # type: ignore[union-attr]
    assert [(fact.name, fact.evidence.where) for fact in guards_started(case, [str(script)])] == [
        (GUARD_STARTED, f"{script}:2")
    ]


def test_a_worker_that_was_killed_before_anybody_saw_it(tmp_path: Path) -> None:
    history = History(code=1)
    history.process(4711, 1, "rank", "python train.py", born=1, rank=0, steps=50)
    history.raised(4711, 60, "RuntimeError", "DataLoader worker (pid(s) 5001) exited unexpectedly")
    history.gone(4711, 61, code=1)
    history.flight.facts["folder"] = str(tmp_path)
    path = tmp_path / "guard.txt"
    path.write_text("kill 5001: rss 431 MB, limit 420 MB\n")
    os.utime(path, (START + 60, START + 60))
    case = history.case()
    case.seen[KILL_NOTE] = kill_notes(case)
    assert examine(case).findings[0].cause == "host-memory/oom-kill"


def test_a_script_that_kills_by_memory_may_have_been_it(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        "rss=$(awk '/VmRSS/ {print $2}' /proc/$p/status)\nif [ $rss -gt 9 ]; then kill -9 $p; fi\nkill $guard\n"
    )
    (fact,) = (one for one in guards_started(_case(tmp_path), [str(script)]) if one.name == SCRIPT_KILLS)
    assert fact.evidence.where == f"{script}:2"
    assert fact.value["of_memory"]


def test_a_program_that_was_started_after_the_training_is_beside_it_too() -> None:
    history = History(code=137)
    history.process(4711, 1, "rank", "python train.py", born=1, rank=0, steps=50)
    history.process(6, 1, "program", "python watcher.py", born=2)
    history.process(7, 1, "program", "python prepare.py", born=0)
    history.gone(7, 1, code=0)
    history.gone(4711, 60, signal="SIGKILL")
    history.gone(6, 61, signal="SIGTERM")
    flight = history.case().flight
    assert flight is not None
    assert programs_beside(flight) == ["watcher.py"]
