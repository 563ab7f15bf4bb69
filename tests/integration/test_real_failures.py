"""Small real training programs that fail for real, under python or torchrun, and what is said of what they printed."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import crashcart

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")

pytestmark = pytest.mark.processes

SET_UP = """
import os, sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

model = nn.Linear(4, 3)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
"""


@dataclass(frozen=True)
class Program:
    """A program, how it is launched, and the cause that must come first."""

    cause: str
    code: str
    ranks: int = 0
    script: str = ""


PROGRAMS = [
    Program(
        "config/type",
        """
        import yaml
        config = yaml.safe_load("learning_rate: 1e-4")
        lr = config["learning_rate"] * 8
        print(f"Base LR: {config['learning_rate']}, effective: {lr}")
        torch.optim.AdamW(model.parameters(), lr=config["learning_rate"])
        """,
    ),
    Program(
        "numerics/grad-scaler",
        """
        scaler = torch.amp.GradScaler("cpu", enabled=True)
        for step in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(2, 4)).sum()
            if step == 1:
                loss = loss * float("nan")
            else:
                scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        """,
    ),
    Program(
        "data/shape",
        """
        class Samples(Dataset):
            def __len__(self): return 8
            def __getitem__(self, index): return torch.zeros(index + 1, 4)
        for batch in DataLoader(Samples(), batch_size=4, num_workers=1):
            model(batch)
        """,
    ),
    Program(
        "data/label-range",
        """
        nn.functional.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 2, 7]))
        """,
    ),
    Program(
        "data/empty-or-short",
        """
        loader = DataLoader(TensorDataset(torch.zeros(0, 4)), batch_size=4, shuffle=True)
        for batch in loader:
            pass
        """,
    ),
    Program(
        "host-memory/oom-kill",
        """
        class Killed(Dataset):
            def __len__(self): return 8
            def __getitem__(self, index):
                os.kill(os.getpid(), 9)
        for batch in DataLoader(Killed(), num_workers=1):
            pass
        """,
    ),
    Program(
        "checkpoint/corrupt",
        """
        torch.save(model.state_dict(), "model.pt")
        data = open("model.pt", "rb").read()
        open("model.pt", "wb").write(data[: len(data) // 2])
        model.load_state_dict(torch.load("model.pt"))
        """,
    ),
    Program(
        "checkpoint/incompatible",
        """
        model.load_state_dict(nn.Sequential(nn.Linear(4, 3)).state_dict())
        """,
    ),
    Program(
        "code/autograd",
        """
        weight = torch.randn(3, requires_grad=True)
        hidden = weight.exp()
        hidden.add_(1)
        hidden.sum().backward()
        """,
    ),
    Program(
        "code/shape-or-dtype",
        """
        model(torch.randn(2, 5))
        """,
    ),
    Program(
        "distributed/unused-parameters",
        """
        import torch.distributed as dist
        dist.init_process_group("gloo")
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)
            def forward(self, x): return self.used(x)
        parallel = nn.parallel.DistributedDataParallel(Two())
        for step in range(3):
            parallel(torch.randn(2, 4)).sum().backward()
        """,
        ranks=2,
    ),
    Program(
        "code/bug",
        """
        import torch.distributed as dist
        dist.init_process_group("gloo")
        if dist.get_rank() == 1:
            scores = {}
            print(scores["val_top5"])
        dist.barrier()
        """,
        ranks=2,
    ),
    Program("config/launch-script", "", script="python3 train.py \\\n    --batch_size 8 \\   # smaller\n    --lr 1e-4\n"),
    Program("host-memory/oom-kill", "", script="bash -c 'kill -9 $$' \n"),
]


@pytest.mark.sample(6)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"{program.cause} {program.ranks or ''}".strip())
def test_the_cause_of_a_real_failure_comes_first(program: Program, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SET_UP + textwrap.dedent(program.code) if program.code else "import sys\n")
    command = [sys.executable, "train.py"]
    if program.ranks:
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={program.ranks}",
            "train.py",
        ]
    if program.script:
        (tmp_path / "launch.sh").write_text(program.script)
        command = ["bash", "launch.sh"]
    done = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, check=False
    )
    assert done.returncode != 0, done.stdout
    (tmp_path / "train.log").write_text(done.stdout)
    exit_code = done.returncode if done.returncode > 0 else 128 - done.returncode
    diagnosis = crashcart.why([str(tmp_path / "train.log")], exit_code=exit_code)
    assert diagnosis.findings[0].cause == program.cause, done.stdout[-3000:]
    assert diagnosis.findings[0].role == "cause"
    assert diagnosis.findings[0].signs[0].evidence
