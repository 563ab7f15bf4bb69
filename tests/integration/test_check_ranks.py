"""Programs whose ranks or trackers block: found before the launch, and after the patch they really run to their end."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.model import HARMLESS
from crashcart.repair import repairs, write

sys.path.insert(0, str(Path(__file__).parents[1]))
from started import started

if TYPE_CHECKING:
    from crashcart.model import Diagnosis

pytestmark = pytest.mark.processes

pytest.importorskip("torch")

MEETING = """\
import datetime
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, out):
        self.out = out
        self.is_main = dist.get_rank() == 0
        self.model = DistributedDataParallel(torch.nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.data = [torch.randn(8, 4) for _ in range(3)]

    @torch.no_grad()
    def evaluate(self):
        total = torch.zeros(1)
        for batch in self.data:
            total += self.model.module(batch).square().sum()
        dist.all_reduce(total)
        return total.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            for batch in self.data:
                loss = self.model(batch).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            if self.is_main and epoch % 2 == 0:
                score = self.evaluate()
                print(f"epoch {epoch}: {score:.3f}", flush=True)
            if self.is_main:
                path = os.path.join(self.out, f"epoch{epoch}.pt")
                torch.save(self.model.module.state_dict(), path)
                dist.barrier()


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
    os.makedirs("out", exist_ok=True)
    Trainer("out").fit(3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
INDEX = """\
import os
import pickle
import time

import torch
import torch.distributed as dist


class Episodes(torch.utils.data.Dataset):
    def __init__(self, root):
        self.index_path = os.path.join(root, "index.pkl")
        if not os.path.exists(self.index_path):
            index = [(number, number + 1) for number in range(50000)]
            with open(self.index_path, "wb") as file:
                time.sleep(2)
                pickle.dump(index, file)
        with open(self.index_path, "rb") as file:
            self.index = pickle.load(file)

    def __len__(self):
        return len(self.index)


def main():
    dist.init_process_group("gloo")
    os.makedirs("data", exist_ok=True)
    dist.barrier()
    time.sleep(dist.get_rank())
    print(len(Episodes("data")), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
CLIENT = """\
import json
import urllib.request


class Dashboard:
    def __init__(self, url):
        self.url = url

    def report(self, row):
        request = urllib.request.Request(self.url, data=json.dumps(row).encode())
        urllib.request.urlopen(request)
"""
REPORTED = """\
import sys

import torch
from dashboard import Dashboard


def main(url):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    board = Dashboard(url)
    for epoch in range(1):
        loss = model(torch.ones(2)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        board.report({"epoch": epoch, "loss": loss.item()})
    print("done")


if __name__ == "__main__":
    main(sys.argv[1])
"""
RANKS = ["torchrun", "--standalone", "--nproc_per_node", "2", "train.py"]


@pytest.fixture(autouse=True)
def _in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def ran(*words: str, seconds: float = 180) -> subprocess.CompletedProcess[str]:
    """Run a program of the test with this interpreter; a rank is started as torchrun starts it."""
    launcher = ["-m", "torch.distributed.run", *words[1:]] if words[0] == "torchrun" else list(words[1:])
    command = [sys.executable, *launcher]
    return started(lambda: subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False))


def mended(words: list[str]) -> Diagnosis:
    """Patch a job as ``--fix`` does; what is said of it then."""
    write(repairs(crashcart.check(command=words).findings, HARMLESS))
    return crashcart.check(command=words)


def levels(diagnosis: Diagnosis, cause: str) -> list[str]:
    return [finding.level for finding in diagnosis.findings if finding.cause == cause]


def test_a_wait_of_the_first_rank_kills_the_job_and_its_patch_does_not() -> None:
    """What is claimed is true of the program as it stands, and no longer true of the patched one."""
    Path("train.py").write_text(MEETING, encoding="utf-8")
    assert levels(crashcart.check(command=RANKS), "distributed/desync") == ["will"]
    assert ran(*RANKS).returncode != 0
    assert levels(mended(RANKS), "distributed/desync") == []
    run = ran(*RANKS)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("epoch") == 2
    assert len(list(Path("out").glob("*.pt"))) == 3


def test_an_index_that_every_rank_builds_is_built_once() -> None:
    """The second rank reads what the first has half written, unless they take turns."""
    Path("train.py").write_text(INDEX, encoding="utf-8")
    assert levels(crashcart.check(command=RANKS), "data/download") == ["can"]
    assert ran(*RANKS).returncode != 0
    Path("data/index.pkl").unlink()
    assert levels(mended(RANKS), "data/download") == []
    run = ran(*RANKS)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["50000", "50000"]


@pytest.mark.long
def test_a_training_outlives_a_server_that_never_answers() -> None:
    """A row that cannot be told in time is not told."""
    Path("dashboard.py").write_text(CLIENT, encoding="utf-8")
    Path("train.py").write_text(REPORTED, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        job = ["python", "train.py", f"http://127.0.0.1:{server.getsockname()[1]}/rows"]
        assert levels(crashcart.check(command=job), "tracker/blocked") == ["can"]
        with pytest.raises(subprocess.TimeoutExpired):
            ran(*job, seconds=20)
        assert levels(mended(job), "tracker/blocked") == []
        run = ran(*job)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "done\n"
