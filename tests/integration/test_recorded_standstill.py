"""What a person reads about a job that stands still, while it does and after it was ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest
from recorded import TORCHRUN, shown

from crashcart.verbs.why import why

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")

pytestmark = pytest.mark.processes
PATIENCE = 120.0
RANKS = """
    import datetime, time
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=SECONDS))
    rank = dist.get_rank()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(10000):
        model(torch.randn(4, 8)).pow(2).mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        time.sleep(0.05)
        if step == 20:
            WHAT
"""
APART = """
            if rank == 0:
                dist.broadcast(torch.zeros(3), 0)
            else:
                dist.all_reduce(torch.zeros(5))
            dist.barrier()"""
SWAPPED = """
            groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
            for group in groups[::-1] if rank else groups:
                dist.all_reduce(torch.zeros(5), group=group)"""
SLEEPS = """
            if rank == 0:
                time.sleep(3600)"""


def start(folder: Path, what: str, seconds: int) -> subprocess.Popen[str]:
    program = textwrap.dedent(RANKS.replace("WHAT", what.strip()).replace("SECONDS", str(seconds)))
    (folder / "train.py").write_text(program)
    return subprocess.Popen(
        [sys.executable, "-m", "crashcart", "run", "--grace", "3", "--", *TORCHRUN, "train.py"],
        cwd=folder,
        env=environment(folder),
        stdout=(folder / "seen").open("w"),
        stderr=subprocess.STDOUT,
        text=True,
    )


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "CRASHCART_RUNS": str(folder / "runs"), "CRASHCART_HANG_SECONDS": "6"}


def the_run(folder: Path) -> str:
    (found,) = [path for path in (folder / "runs").iterdir() if path.is_dir()]
    return str(found)


@pytest.mark.long
def test_ranks_in_different_collectives_are_told_apart_and_a_time_out_is_no_progress(tmp_path: Path) -> None:
    start(tmp_path, APART, 40).wait(PATIENCE)
    seen = (tmp_path / "seen").read_text()
    assert "the ranks wait in different collectives: rank 0 in broadcast at" in seen
    assert "rank 1 in all_reduce at" in seen
    assert "makes progress again" not in seen
    diagnosis = why(the_run(tmp_path))
    assert (diagnosis.findings[0].cause, diagnosis.ending.state) == ("distributed/desync", "hung")


def test_groups_in_another_order_at_one_line_are_a_desync(tmp_path: Path) -> None:
    """The stacks are alike; that all wait and nothing moves is what shows it."""
    job = start(tmp_path, SWAPPED, 1800)
    try:
        end = time.monotonic() + PATIENCE
        while "no progress for" not in (tmp_path / "seen").read_text():
            assert time.monotonic() < end
            time.sleep(0.2)
        first = why(the_run(tmp_path)).findings[0]
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(PATIENCE)
    assert first.cause == "distributed/desync"
    assert "waited for each other in all_reduce" in first.signs[0].says


def test_a_job_that_hangs_is_listed_as_such_and_its_end_is_told_in_words(tmp_path: Path) -> None:
    job = start(tmp_path, SLEEPS, 1800)
    try:
        end = time.monotonic() + PATIENCE
        while "no progress for" not in (tmp_path / "seen").read_text():
            assert time.monotonic() < end
            time.sleep(0.2)
        listed = [sys.executable, "-m", "crashcart", "runs"]
        table = subprocess.run(listed, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=True)
        told = subprocess.run([*listed, "--json"], env=environment(tmp_path), cwd=tmp_path, capture_output=True, check=True)
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(PATIENCE)
    assert "hangs since " in table.stdout
    assert json.loads(told.stdout)["runs"][0]["outcome"].endswith(", rank 0")
    said = shown(why(the_run(tmp_path)))
    assert "Rank 0 sleeps at" in said
    assert "hung by" not in said
    assert "A time-out that fits" not in said, "more time would only hide it"
