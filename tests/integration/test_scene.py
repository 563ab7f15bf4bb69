"""What the code of a run that died shows beside what happened: the line to change, the patch, and the settings at that line."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest
from recorded import blamed, ran, recorded, shown

from crashcart.model import HARMLESS
from crashcart.repair import repairs, write
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.model import Diagnosis

pytest.importorskip("torch")

pytestmark = pytest.mark.processes

LOOKS_UP = """
    import argparse, torch

    class Net(torch.nn.Module):
        def __init__(self, rows):
            super().__init__()
            self.table = torch.nn.Embedding(rows, 4)

        def forward(self, index):
            return self.table(index).mean()

    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=8)
    net = Net(parser.parse_args().rows)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(40):
        loss = net(torch.tensor([step]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.3f}", flush=True)
"""
SAVES = """
    import json, torch

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        optimizer.step()
    with open(f"metrics/{step}.json", "w") as file:
        json.dump({"loss": loss.item()}, file)
"""
KEEPS = """
    import resource, time, torch
    from torch.utils.data import DataLoader, Dataset

    class Samples(Dataset):
        def __init__(self):
            self.cache = {}

        def __len__(self):
            return 4000

        def __getitem__(self, index):
            if index not in self.cache:
                self.cache[index] = torch.ones(1_000_000)
            return self.cache[index][:4].clone()

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    used = int(open("/proc/self/statm").read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 30), used + (3 << 30)))
    loader = DataLoader(Samples(), batch_size=4)
    for epoch in range(9):
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(0.05)
"""

ONE_LEFT = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.save({"x": torch.randn(17, 3)}, "points.pt")
    points = torch.load("points.pt")["x"]
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for (x,) in DataLoader(TensorDataset(points), batch_size=4, shuffle=True):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
WRITES_ITS_END = """
    import sys, traceback, torch

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    try:
        for step in range(9):
            loss = model(torch.ones(1, 2)).sum()
            if step < 5:
                scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            print("step", step, loss.item(), flush=True)
    except Exception:
        with open("crash.txt", "w") as file:
            traceback.print_exc(file=file)
        print("stopped early, see crash.txt")
        sys.exit(1)
"""


def launched(folder: Path, program: str, line: str) -> Diagnosis:
    (folder / "train.py").write_text(textwrap.dedent(program))
    (folder / "train.sh").write_text(f"{line}\n")
    return recorded(folder, "bash", "train.sh")


def test_the_settings_at_the_line_of_the_death_are_told(tmp_path: Path) -> None:
    diagnosis = launched(tmp_path, LOOKS_UP, f"{sys.executable} train.py --rows 12")
    assert blamed(diagnosis)[0] == "data/label-range"
    assert "train.sh:1:thatlineuses--rows12" in shown(diagnosis).replace(" ", "")  # a long path is broken anywhere


def test_code_that_was_changed_since_the_run_explains_nothing(tmp_path: Path) -> None:
    launched(tmp_path, LOOKS_UP, f"{sys.executable} train.py --rows 12")
    os.utime(tmp_path / "train.py", (time.time() + 60,) * 2)
    (run,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    told = shown(why(str(run)))
    assert "that line uses" not in told
    assert "train.py was changed after the run began" in told


def test_a_traceback_leads_to_the_code_as_long_as_its_lines_stand_there(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(LOOKS_UP))
    log = tmp_path / "train.log"
    done = subprocess.run([sys.executable, str(tmp_path / "train.py")], capture_output=True, text=True, check=False)
    log.write_text(done.stdout + done.stderr)
    assert "that line uses --rows 8" in shown(why(str(log)))
    (tmp_path / "train.py").write_text("# a new first line\n" + textwrap.dedent(LOOKS_UP))
    assert "that line uses" not in shown(why(str(log)))


def test_what_the_code_shows_at_the_line_of_the_death_comes_with_its_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diagnosis = ran(tmp_path, SAVES)
    monkeypatch.chdir(tmp_path)
    fix = diagnosis.findings[0].fixes[0]
    assert fix.title == "Create the folder before saving"
    write(repairs(diagnosis.findings[:1], HARMLESS))
    assert subprocess.run([sys.executable, "train.py"], check=False).returncode == 0


def test_the_cache_that_grew_until_memory_ran_out_is_named(tmp_path: Path) -> None:
    diagnosis = ran(tmp_path, KEEPS)
    assert blamed(diagnosis)[0] == "host-memory/leak"
    assert "Samples.cache keeps every sample" in shown(diagnosis)
    assert "while len(self.cache) >= 4" in diagnosis.findings[0].fixes[0].diff


def test_a_last_batch_of_one_sample_is_left_out_by_the_loader_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data, which the job makes itself after it began, are no code that was changed."""
    diagnosis = ran(tmp_path, ONE_LEFT)
    assert blamed(diagnosis)[0] == "config/batch-arithmetic"
    monkeypatch.chdir(tmp_path)
    assert "shuffle=True, drop_last=True)" in diagnosis.findings[0].fixes[0].diff
    write(repairs(diagnosis.findings[:1], HARMLESS))
    assert subprocess.run([sys.executable, "train.py"], check=False).returncode == 0


def test_a_traceback_that_the_program_wrote_into_its_own_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "earlier.txt").write_text("Traceback (most recent call last):\n  of another run\nMemoryError\n")
    os.utime(tmp_path / "earlier.txt", (1e9, 1e9))
    diagnosis = ran(tmp_path, WRITES_ITS_END)
    assert blamed(diagnosis)[0] == "numerics/grad-scaler"
    assert "crash.txt:" in shown(diagnosis)


def test_a_file_larger_than_the_script_allows_is_told_with_the_limit(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nmodel = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for step in range(3):\n    model(torch.ones(1, 2)).sum().backward()\n    optimizer.step()\n"
        "torch.save(torch.zeros(1 << 21), 'weights.pt')\n"
    )
    (tmp_path / "train.sh").write_text(f"ulimit -f 4000\n{sys.executable} train.py\n")
    diagnosis = recorded(tmp_path, "bash", "train.sh")
    assert blamed(diagnosis)[0] == "host-memory/disk-full"
    assert "+ulimit -f unlimited" in diagnosis.findings[0].fixes[0].diff
