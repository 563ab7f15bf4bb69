"""Launch scripts of several programs under `crashcart run`: the right stage, the right rank, and what the user reads."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from crashcart.errors import DEBUG
from crashcart.report.terminal import text
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.model import Diagnosis, StageReport
pytest.importorskip("torch")

pytestmark = pytest.mark.processes

TORCHRUN = f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node 2"
TRAIN = """
    import datetime, os, signal, sys, time
    import torch
    import torch.distributed as dist

    what = sys.argv[1]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    group = dist.new_group(timeout=datetime.timedelta(seconds=4))
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(20):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).pow(2).mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if step == 10 and what == "barrier":
            if rank == 0:
                time.sleep(600)
            dist.barrier(group)
        if step == 10 and what == "crash" and rank == 1:
            raise ValueError("this rank crashes")
        while step == 10 and what == "hang" and rank == 1:
            time.sleep(1)
    dist.destroy_process_group()
"""
ALONE = """
    import os, time
    import torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    held = []
    for step in range(400):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).pow(2).mean().backward()
        optimizer.step()
        held.append(torch.ones(10 << 18))
        time.sleep(0.2)
"""
GUARD = """
    import os, subprocess, sys, time
    child = subprocess.Popen(sys.argv[2:])
    while child.poll() is None:
        with open(f"/proc/{child.pid}/statm") as file:
            if int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") > int(sys.argv[1]) << 20:
                child.kill()
        time.sleep(0.1)
    sys.exit(child.wait() if child.wait() >= 0 else 128 - child.wait())
"""
PREPARE = "import sys, time\ntime.sleep(1.5)\nif 'fails' in sys.argv:\n    raise FileNotFoundError('no data')\n"


def ran(folder: Path, script: str, *flags: str, **environment: str) -> tuple[Diagnosis, subprocess.CompletedProcess[str]]:
    """What is said of a script, and what `crashcart run` printed."""
    for name, program in (("train.py", TRAIN), ("alone.py", ALONE), ("guard.py", GUARD), ("prepare.py", PREPARE)):
        (folder / name).write_text(textwrap.dedent(program))
    (folder / "evaluate.py").write_text("import time\ntime.sleep(1.2)\n")
    (folder / "job.sh").write_text(script.replace("PYTHON", sys.executable).replace("TORCHRUN", TORCHRUN) + "\n")
    plain = {
        variable: value
        for variable, value in os.environ.items()
        if not variable.startswith("CRASHCART_") or variable == DEBUG
    }
    out, errors = folder / "out.txt", folder / "errors.txt"
    with out.open("wb") as stdout, errors.open("wb") as stderr:  # no pipes: what outlives the job would keep them open
        done = subprocess.run(
            [sys.executable, "-m", "crashcart.cli", "run", *flags, "--", "bash", "job.sh"],
            cwd=folder,
            env={**plain, "OMP_NUM_THREADS": "1", **environment},
            stdout=stdout,
            stderr=stderr,
            timeout=180,
            check=False,
        )
    (run,) = [path for path in (folder / "crashcart_runs").iterdir() if path.is_dir()]
    for process in json.loads((run / "run.json").read_text())["left"]:
        with contextlib.suppress(OSError):
            os.kill(process["pid"], signal.SIGKILL)
    return why(str(run)), subprocess.CompletedProcess(done.args, done.returncode, out.read_text(), errors.read_text())


def decided(diagnosis: Diagnosis) -> StageReport:
    (stage,) = [one for one in diagnosis.stages if one.decided]
    return stage


def test_the_rank_that_timed_out_is_named_although_a_preparation_came_before_it(tmp_path: Path) -> None:
    diagnosis, _ = ran(tmp_path, "[ -d data ] || PYTHON prepare.py\nTORCHRUN train.py barrier\n", RANK="0")
    assert [(one.program, one.role, one.ranks) for one in diagnosis.stages] == [
        ("prepare.py", "preparation", 0),
        ("train.py", "training", 2),
    ]
    assert (diagnosis.ending.first_rank, decided(diagnosis).program) == (1, "train.py")
    assert diagnosis.findings[0].cause != "outside/preempted"


def test_what_a_guard_killed_is_the_rank_and_its_growth_is_told(tmp_path: Path) -> None:
    diagnosis, done = ran(tmp_path, "exec PYTHON guard.py 700 PYTHON alone.py")
    assert done.returncode == 137
    stage = decided(diagnosis)
    assert (stage.program, stage.role, stage.ranks, stage.ending.signal) == ("alone.py", "training", 1, "SIGKILL")
    assert (stage.ending.optimizer_steps or 0) > 5
    assert "grew from" in " ".join(text(diagnosis).split())


def test_a_script_that_hides_the_death_of_its_training_has_not_finished(tmp_path: Path) -> None:
    script = "PYTHON prepare.py fails || true\nTORCHRUN train.py crash || true\nPYTHON evaluate.py"
    diagnosis, done = ran(tmp_path, script)
    assert done.returncode == 0
    assert (diagnosis.ending.state, diagnosis.ending.first_rank) == ("crashed", 1)
    assert [(one.program, one.ending.state) for one in diagnosis.stages] == [
        ("prepare.py", "crashed"),
        ("train.py", "crashed"),
        ("evaluate.py", "finished"),
    ]
    assert "the command exited with code 0, but train.py (2 ranks) crashed with exit code 1" in done.stderr
    assert "stages: prepare.py crashed" in done.stderr
    listed = subprocess.run(
        [sys.executable, "-m", "crashcart.cli", "runs", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (row,) = json.loads(listed.stdout)["runs"]
    assert row["state"] == "failed"
    assert [one["program"] for one in row["stages"] if one["decided"]] == ["train.py"]


@pytest.mark.long
def test_a_job_that_we_stopped_since_it_hung_was_stopped_by_nobody_else(tmp_path: Path) -> None:
    script = "PYTHON prepare.py\nTORCHRUN train.py hang\nPYTHON evaluate.py"
    diagnosis, _ = ran(tmp_path, script, "--on-hang", "stop", "--grace", "5", CRASHCART_HANG_SECONDS="8")
    assert (diagnosis.ending.state, diagnosis.ending.first_rank, decided(diagnosis).program) == ("hung", 1, "train.py")
    assert not [one for one in diagnosis.findings if one.cause.startswith("outside/") and one.role == "cause"]


STEPS = """
    import os, signal, sys, time
    import torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def steps(count, pause=0.02):
        for _ in range(count):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).pow(2).mean().backward()
            optimizer.step()
            time.sleep(pause)
"""
SPAWNS = """
    import multiprocessing
    from steps import steps

    def train(rank):
        steps(20)
        if rank == 1:
            raise IndexError("no such shard")

    if __name__ == "__main__":
        ranks = [multiprocessing.get_context("spawn").Process(target=train, args=(rank,)) for rank in range(2)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        if all(rank.exitcode == 0 for rank in ranks):
            print("all good")
"""
LOADS = """
    import os
    import torch
    from torch.utils.data import DataLoader, Dataset
    from steps import steps

    class Samples(Dataset):
        def __len__(self):
            return 64
        def __getitem__(self, index):
            if index == 32:
                os._exit(7)
            return torch.ones(1)

    for _ in DataLoader(Samples(), batch_size=4, num_workers=1):
        steps(1)
"""


def ran_steps(folder: Path, script: str) -> tuple[Diagnosis, subprocess.CompletedProcess[str]]:
    for name, program in (("steps.py", STEPS), ("spawns.py", SPAWNS), ("loads.py", LOADS)):
        (folder / name).write_text(textwrap.dedent(program))
    return ran(folder, script)


def test_a_program_whose_ranks_failed_has_not_finished(tmp_path: Path) -> None:
    diagnosis, _ = ran_steps(tmp_path, "PYTHON spawns.py")
    assert (decided(diagnosis).program, diagnosis.ending.state) == ("spawns.py", "crashed")
    assert "IndexError" in text(diagnosis).partition("\n\n")[0]


def test_a_worker_that_leaves_is_the_first(tmp_path: Path) -> None:
    diagnosis, _ = ran_steps(tmp_path, "PYTHON loads.py")
    assert diagnosis.findings[0].cause == "code/bug"
    assert "code 7" in diagnosis.findings[0].signs[0].says


@pytest.mark.long
def test_of_two_trainings_the_one_that_failed_first_decides(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("from steps import steps\nsteps(3000)\n")
    (tmp_path / "fails.py").write_text("from steps import steps\nsteps(50)\nraise KeyError('teacher')\n")
    script = "PYTHON long.py & A=$!\nPYTHON fails.py & B=$!\nwait -n; code=$?\nkill $A $B\nwait\nexit $code"
    diagnosis, _ = ran_steps(tmp_path, script)
    assert decided(diagnosis).program == "fails.py"
    assert "KeyError" in diagnosis.findings[0].signs[0].says


def test_a_signal_to_one_program_is_no_scheduler(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("from steps import steps\nsteps(10)\nopen('trains', 'w').close()\nsteps(3000)\n")
    script = "PYTHON long.py & A=$!\nwhile [ ! -e trains ]; do sleep 0.1; done\nkill $A; wait $A"
    diagnosis, _ = ran_steps(tmp_path, script)
    assert diagnosis.findings[0].cause == "outside/user"
    assert "the rest of the job got no signal" in diagnosis.findings[0].signs[0].says


def test_a_copy_that_fails_after_the_training_does_not_unmake_it(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text("from steps import steps\nsteps(20)\n")
    diagnosis, done = ran_steps(tmp_path, "PYTHON short.py\ncp no-such-file elsewhere")
    assert (done.returncode, diagnosis.ending.state) == (1, "finished")
    assert "after it the command ended with exit code 1" in text(diagnosis).partition("\n\n")[0].replace("\n", " ")
    assert "finished, but the command exited with code 1" in done.stderr
