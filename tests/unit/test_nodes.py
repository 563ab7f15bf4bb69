"""Recordings of several machines become one: pids are told apart, clocks are brought together, and doubt is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from crashcart.case import Case
from crashcart.deaths import first
from crashcart.readers.nodes import read_nodes
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from pathlib import Path

START = 1_790_000_000.0


def node(run: Path, name: str, rank: int, raised: float, clock: float | None, kind: str = "ValueError") -> str:
    """A node whose only rank, pid 100 everywhere, raised so many seconds after the start, as its own clock has it."""
    folder = run / "nodes" / name
    (folder / "recording" / "inside").mkdir(parents=True)
    own = {"group": "g", "rank": rank, "least": 2, "name": name, **({} if clock is None else {"clock": clock})}
    facts = {"state": "failed", "code": 1, "job": 100, "host": name, "started": START, "command": "python x.py", "node": own}
    (folder / "run.json").write_text(json.dumps(facts))
    (folder / "exit.json").write_text(json.dumps({"code": 1, "time": START + raised + 1}))
    events: list[dict[str, Any]] = [
        {"t": START + raised - 9, "kind": "process", "pid": 100, "role": "rank", "rank": rank, "command": "python x.py"},
        {"t": START + raised + 1, "kind": "gone", "pid": 100, "code": 1},
    ]
    (folder / "recording" / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    told = {"t": START + raised, "kind": "exception", "type": kind, "message": "no", "thread": "MainThread", "rank": rank}
    (folder / "recording" / "inside" / "100-1.events").write_text(json.dumps(told) + "\n")
    return str(folder)


def test_clocks_that_differ_do_not_change_who_was_first(tmp_path: Path) -> None:
    run = tmp_path / "r"
    folders = [node(run, "a", 0, 10.0, 0.0), node(run, "b", 1, 40.0, -35.0)]
    flight = read_nodes(folders, "r")
    leader = first(Case(flight=flight))
    assert leader is not None
    assert (leader.process.rank, f"{leader.process.pid}") == (1, "100 on b")
    assert len(flight.processes) == 2
    notes = [note.quote for note in why([str(run)]).notes]
    assert any("clocks of the nodes differ by 35.0 s" in note for note in notes)


def test_an_order_that_the_clocks_leave_open_is_said(tmp_path: Path) -> None:
    run = tmp_path / "near"
    node(run, "a", 0, 10.0, 0.0)
    node(run, "b", 1, 10.2, 0.0)
    assert any("may have been the first" in note.quote for note in why([str(run)]).notes)
    far = tmp_path / "far"
    node(far, "a", 0, 10.0, 0.0)
    node(far, "b", 1, 12.2, 0.0)
    assert not any("may have been the first" in note.quote for note in why([str(far)]).notes)
    unknown = tmp_path / "unknown"
    node(unknown, "a", 0, 10.0, None)
    node(unknown, "b", 1, 12.2, None)
    assert any("may have been the first" in note.quote for note in why([str(unknown)]).notes)


def test_tasks_that_were_never_told_their_rank_have_the_number_of_their_task(tmp_path: Path) -> None:
    run = tmp_path / "r"
    for rank, name in enumerate("ab"):
        folder = node(run, name, rank, 10.0 + 5 * rank, 0.0)
        for path in ("recording/events.jsonl", "recording/inside/100-1.events"):
            file = run / "nodes" / name / path
            file.write_text(file.read_text().replace('"rank": 1', '"rank": 0'))
    assert sorted(one.rank or 0 for one in read_nodes([folder, str(run / "nodes" / "a")], "r").ranks) == [0, 1]


def test_a_missing_node_is_said(tmp_path: Path) -> None:
    node(tmp_path / "r", "a", 0, 10.0, 0.0)
    gaps = [gap.what for gap in why([str(tmp_path / "r")]).not_looked]
    assert "the recordings of 1 of 2 nodes" in gaps


def test_a_node_that_waits_for_a_rank_that_ended_does_not_hang(tmp_path: Path) -> None:
    run = tmp_path / "r"
    node(run, "a", 0, 700.0, 0.0, "torch.distributed.DistBackendError")
    node(run, "b", 1, 10.0, 0.0)
    hang = {
        "t": START + 80,
        "kind": "hang",
        "rank": 0,
        "pid": 100,
        "seconds": 69.5,
        "since": START + 10.5,
        "where": "x.py:3",
    }
    with (run / "nodes" / "a" / "recording" / "events.jsonl").open("a") as file:
        file.write(json.dumps(hang) + "\n")
    told = why([str(run)])
    assert (told.ending.state, told.ending.first_rank) == ("crashed", 1)
    (run / "nodes" / "b" / "exit.json").unlink()  # now nobody knows how it ended there
    (run / "nodes" / "b" / "recording" / "inside" / "100-1.events").unlink()
    events = run / "nodes" / "b" / "recording" / "events.jsonl"
    events.write_text(events.read_text().splitlines()[0] + "\n")
    told = why([str(run)])
    assert told.findings[0].cause == "outside/node-lost"
    assert told.ending.state == "crashed"
