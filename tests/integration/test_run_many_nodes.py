"""One crashcart on each of two nodes: they meet in one folder, and what became of the job is told from both recordings."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import pytest

from crashcart.verbs.why import why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from crashcart.model import Diagnosis

pytest.importorskip("torch")

pytestmark = pytest.mark.processes
CRASHCART = [sys.executable, "-m", "crashcart.cli", "run", "--on-hang", "stop", "--grace", "3", "--"]
FLOOR = "8"
TRAIN = """
    import os, sys, time
    import torch
    import torch.distributed as dist

    what = sys.argv[1]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(10 if what == "finish" else 1200):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if rank == 1 and step == 20:
            if what == "crash":
                {}["no such key"]
            elif what == "kill":
                os.kill(os.getpid(), 9)
            elif what == "hang":
                time.sleep(3600)
        time.sleep(0.1)
    dist.destroy_process_group()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRASHCART_RUNS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAIN))
    return tmp_path


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def two_nodes(folder: Path, what: str, port: int | None = None) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A launcher on each of two nodes, with a static rendezvous: rank 1 is the second node's."""
    port = port or free_port()
    nodes: list[subprocess.Popen[bytes]] = []
    for rank in (1, 0):  # no node needs to be the first
        launcher = ["--nnodes", "2", "--node-rank", str(rank), "--nproc-per-node", "1"]
        address = ["--master-addr", "127.0.0.1", "--master-port", str(port)]
        command = [*CRASHCART, sys.executable, "-m", "torch.distributed.run", *launcher, *address, "train.py", what]
        with (folder / f"{what}{rank}.out").open("wb") as out:
            environment = {**os.environ, "CRASHCART_NODE": "ab"[rank]}
            nodes.insert(0, subprocess.Popen(command, stdout=out, stderr=out, env=environment))
    try:
        yield nodes
    finally:
        for node in nodes:
            node.terminate()
        for node in nodes:
            node.wait(150)


def ran(folder: Path, what: str, port: int | None = None) -> Path:
    with two_nodes(folder, what, port) as nodes:
        for node in nodes:
            node.wait(120)
    return runs(folder)[-1]


def runs(folder: Path) -> list[Path]:
    found = [path for path in (folder / "crashcart_runs").iterdir() if path.is_dir()]
    return sorted(found, key=lambda path: path.stat().st_ctime)


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def words(diagnosis: Diagnosis) -> str:
    told = diagnosis.findings[0].signs[0]
    return told.says + " ".join(item.quote for item in told.evidence)


def listed() -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "crashcart", "runs", "--json"], capture_output=True, check=True, timeout=60, text=True
    )
    rows: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
    return rows


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("what", "cause", "state", "said"),
    [
        ("crash", "code/bug", "crashed", ("rank 1 raised KeyError", "before any other rank")),
        ("kill", "outside/user", "crashed", ("rank 1", "on b-1) ended by SIGKILL")),
        ("hang", "distributed/slow-rank", "hung", ("rank 1 sleeps", "rank 0 waits for it")),
    ],
)
def test_the_rank_of_the_other_node_is_named(
    folder: Path, what: str, cause: str, state: str, said: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "hang":
        monkeypatch.setenv("CRASHCART_HANG_SECONDS", FLOOR)
    run = ran(folder, what)
    assert [path.name for path in sorted((run / "nodes").iterdir())] == ["a-0", "b-1"]
    diagnosis = why([str(run)])
    assert diagnosis.findings[0].cause == cause
    assert (diagnosis.ending.state, diagnosis.ending.first_rank) == (state, 1)
    assert all(part in words(diagnosis) for part in said), words(diagnosis)
    alone = why([str(run / "nodes" / "a-0")])
    assert any(f"crashcart why {run}" in gap.how for gap in alone.not_looked)
    assert why([str(run / "nodes" / name) for name in ("b-1", "a-0")]).findings[0].cause == cause


def test_a_node_that_falls_silent_is_lost(folder: Path) -> None:
    with two_nodes(folder, "on") as nodes:
        until(lambda: b"step 20" in (folder / "on0.out").read_bytes())
        (run,) = runs(folder)
        facts = json.loads((run / "nodes" / "b-1" / "run.json").read_text())
        events = (run / "nodes" / "b-1" / "recording" / "events.jsonl").read_text().splitlines()
        below = {event["pid"] for line in events if (event := json.loads(line))["kind"] == "process"}
        for pid in [facts["pid"], facts["keeper"], *below]:  # as when the machine goes down: nobody is left to say a word
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        nodes[0].wait(120)
        time.sleep(4)
    diagnosis = why([str(run)])
    assert any(note.quote.startswith("node b-1: no sample since") for note in diagnosis.notes)
    assert diagnosis.findings[0].cause == "outside/node-lost"
    assert "node b-1 (rank 1) sent nothing after" in words(diagnosis)
    (row,) = listed()
    assert row["outcome"].startswith("failed")


def test_a_healthy_run_of_two_nodes_is_blamed_for_nothing_and_a_name_that_comes_again_is_another_run(folder: Path) -> None:
    port = free_port()
    first = ran(folder, "finish", port)
    diagnosis = why([str(first)])
    assert diagnosis.ending.state == "finished"
    assert not [one for one in diagnosis.findings if one.role == "cause"]
    second = ran(folder, "finish", port)
    assert [len(list((run / "nodes").iterdir())) for run in (first, second)] == [2, 2]
    assert second.name == f"{first.name}-2"
    assert [row["outcome"] for row in listed()] == ["finished", "finished"]
