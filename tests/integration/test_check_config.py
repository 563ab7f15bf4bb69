"""A job whose config will kill it: `check --fix` finds it before the start, and the patched job really runs through."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

TRAIN = """import argparse
import os

import torch
import yaml


class Trainer:
    def __init__(self, config):
        self.options = config["train"]
        self.model = torch.nn.Linear(4, 1)
        rate = self.options["learning_rate"] * int(os.environ.get("WORLD_SIZE", 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate, weight_decay=self.options["weight_decay"])

    def fit(self):
        for _ in range(self.options["max_steps"]):
            self.model(torch.randn(2, 4)).mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        print("trained")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--seed", type=int, default=0)
    with open(parser.parse_args().config) as file:
        Trainer(yaml.safe_load(file)).fit()


if __name__ == "__main__":
    main()
"""
CONFIG = "train:\n  learning_rate: 1e-4  # peak\n  weight_decay: 1e-2\n  max_steps: 3\n"
SCRIPT = "#!/bin/bash\n{python} train.py \\\n    --config configs/a.yaml \\   # the small one\n    --seeed 1\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "configs").mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "configs" / "a.yaml").write_text(CONFIG)
    (tmp_path / "run.sh").write_text(SCRIPT.format(python=sys.executable))
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def crashcart(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(folder, sys.executable, "-m", "crashcart", *arguments)


def test_the_patched_job_runs_through(project: Path) -> None:
    assert run(project, "bash", "run.sh").returncode != 0
    found = crashcart(project, "check", "run.sh")
    assert found.returncode == 1
    assert "config/type" in found.stdout
    assert "config/launch-script" in found.stdout
    assert crashcart(project, "check", "--fix", "run.sh").returncode == 0  # the last flag is read when the command is whole
    done = run(project, "bash", "run.sh")
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
