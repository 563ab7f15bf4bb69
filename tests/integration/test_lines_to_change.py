"""The line to change and a patch that works, where what happened and the code together show them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from recorded import TORCHRUN, blamed, recorded, shown

from crashcart.repair import repairs, write

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.model import Diagnosis

pytest.importorskip("torch")

pytestmark = pytest.mark.processes

ALL = frozenset({"exact", "same-recipe", "changes-training"})
PYTHON = (sys.executable,)
STEP = """
    import torch

    def step(model, optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item(), flush=True)
"""
WARMS_UP = """
    import sys, torch
    from steps import step

    settings = {"warm.steps": 2, "warm.rate": 0.5}
    for word in sys.argv[1:]:
        name, _, text = word.partition("=")
        settings[name] = int(text) if isinstance(settings[name], int) else text
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(6):
        if number == settings["warm.steps"]:
            for group in optimizer.param_groups:
                group["lr"] = settings["warm.rate"]
        step(model, optimizer, model(torch.ones(1, 2)).sum())
"""
IN_A_THREAD = """
    import json, logging, os, sys, threading, torch
    from steps import step

    logging.basicConfig(filename="side.log", level=logging.INFO)
    with open("kinds.json") as file:
        kinds = json.load(file)["kinds"]

    def train():
        try:
            head = torch.nn.Linear(3, kinds)
            optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
            for label in (0, 1, 2, 3, 4, 1):
                step(head, optimizer, torch.nn.functional.cross_entropy(head(torch.ones(1, 3)), torch.tensor([label])))
            torch.save(head.state_dict(), "head.pt")
        except Exception:
            logging.exception("the training ends")

    worker = threading.Thread(target=train)
    worker.start()
    worker.join()
    if not os.path.exists("head.pt"):
        raise FileNotFoundError("head.pt is missing, was the volume unmounted?")
"""
FIXED_STATE = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    from steps import step

    class Recurrent(torch.nn.Module):
        def __init__(self, rows):
            super().__init__()
            self.rows = rows
            self.inner = torch.nn.RNN(2, 4, batch_first=True)

        def forward(self, x):
            return self.inner(x, torch.zeros(1, self.rows, 4))[0].mean()

    model = Recurrent(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fitting = DataLoader(TensorDataset(torch.randn(40, 3, 2)), batch_size=8, drop_last=True)
    checking = DataLoader(TensorDataset(torch.randn(21, 3, 2)), batch_size=8)
    for epoch in range(2):
        for (x,) in fitting:
            step(model, optimizer, model(x))
        model.eval()
        with torch.no_grad():
            print(sum(model(x).item() for (x,) in checking))
        model.train()
"""
SLOTS = """
    import glob, sys, torch
    from steps import step

    def newest():
        found = sorted(glob.glob("state.*.ckpt"))
        return torch.load(found[-1]) if found else None

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    number, state = 0, newest()
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        number = state["number"]
    while number < int(sys.argv[1]):
        step(model, optimizer, model(torch.ones(1, 2)).square().sum())
        number += 1
        if number % 3 == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "number": number}, f"state-{number}.ckpt")
"""
NO_EVALUATION = """
    import numpy as np, torch
    from torch.utils.data import DataLoader, TensorDataset
    from steps import step

    np.savez("fit.npz", x=np.ones((40, 2), "float32"))
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"batch_size": 16, "drop_last": True}
    fit = DataLoader(TensorDataset(torch.from_numpy(np.load("fit.npz")["x"])), **options)
    check = DataLoader(TensorDataset(torch.from_numpy(np.load("check.npz")["x"])), **options)
    for epoch in range(3):
        for (x,) in fit:
            step(model, optimizer, model(x).mean())
        model.eval()
        hits = count = 0
        with torch.no_grad():
            for (x,) in check:
                hits += (model(x) > 0).sum().item()
                count += len(x)
        model.train()
        print("epoch", epoch, "score", hits / max(count, 1))
"""
KEEPS_STATE = """
    import os, sys, torch
    from steps import step

    model = torch.nn.Linear(300, 30)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if os.path.exists("state.pt"):
        model.load_state_dict(torch.load("state.pt"))
    for number in range(3):
        step(model, optimizer, model(torch.ones(1, 300)).sum())
    torch.save(model.state_dict(), "state.pt")
"""
COPIES = """
    import sys

    SIZE = 4096
    with open(sys.argv[1], "rb") as there, open(sys.argv[2], "wb") as here:
        block = there.read(SIZE)
        here.write(block)
"""
LONG_ONES = """
    import datetime
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=6))
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    texts = [torch.ones(4 + (9 if rank == 1 and number == 5 else 0), 1) for number in range(12)]
    for epoch in range(2):
        for text in texts:
            if len(text) > 8:
                continue
            loss = model(text).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        count = torch.tensor([float(len(texts))])
        dist.all_reduce(count)
    dist.destroy_process_group()
"""
ODD_SAMPLE = """
    import torch
    from torch.utils.data import DataLoader, Dataset
    from steps import step

    class Readings(Dataset):
        def __init__(self, count):
            self.signal = torch.randn(count, 2)
            self.target = self.signal.sum(1) / (torch.arange(count) != 45)
            self.target[45] = float("nan")

        def __len__(self):
            return len(self.signal)

        def __getitem__(self, index):
            return {"signal": self.signal[index], "target": self.target[index]}

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(Readings(120), batch_size=4):
        step(model, optimizer, (model(batch["signal"]).squeeze(1) - batch["target"]).square().mean())
    assert model.weight.isfinite().all(), "the weights are not finite"
"""


def died(folder: Path, program: str, *line: str) -> Diagnosis:
    (folder / "steps.py").write_text(textwrap.dedent(STEP))
    (folder / "train.py").write_text(textwrap.dedent(program))
    return recorded(folder, *line)


def passes_when_mended(diagnosis: Diagnosis, folder: Path, monkeypatch: pytest.MonkeyPatch, *line: str) -> bool:
    monkeypatch.chdir(folder)
    first = diagnosis.findings[0]
    write(repairs([first], ALL))
    return subprocess.run(line, check=False).returncode == 0


def test_a_text_that_an_optimizer_gets_later_is_made_a_number_where_it_is_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = (*PYTHON, "train.py", "warm.rate=0.25")
    diagnosis = died(tmp_path, WARMS_UP, *line)
    assert blamed(diagnosis)[0] == "config/type"
    assert 'float(settings["warm.rate"])' in diagnosis.findings[0].fixes[0].diff
    assert passes_when_mended(diagnosis, tmp_path, monkeypatch, *line)


def test_what_a_thread_logged_comes_before_the_file_that_it_did_not_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kinds.json").write_text('{"kinds": 4}\n')
    diagnosis = died(tmp_path, IN_A_THREAD, *PYTHON, "train.py")
    assert blamed(diagnosis)[0] == "data/label-range"
    assert "The program caught IndexError at train.py:" in shown(diagnosis)
    assert '+{"kinds": 5}' in diagnosis.findings[0].fixes[0].diff
    assert passes_when_mended(diagnosis, tmp_path, monkeypatch, *PYTHON, "train.py")


def test_a_last_batch_that_does_not_fit_is_left_out_by_its_own_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diagnosis = died(tmp_path, FIXED_STATE, *PYTHON, "train.py")
    assert blamed(diagnosis)[0] == "code/shape-or-dtype"
    assert (
        "+checking = DataLoader(TensorDataset(torch.randn(21, 3, 2)), batch_size=8, drop_last=True)"
        in diagnosis.findings[0].fixes[0].diff
    )
    assert passes_when_mended(diagnosis, tmp_path, monkeypatch, *PYTHON, "train.py")


def test_a_second_start_that_finds_no_file_names_the_pattern(tmp_path: Path) -> None:
    (tmp_path / "slots.sh").write_text("".join(f"{sys.executable} train.py {6 * slot}\n" for slot in (1, 2)))
    diagnosis = died(tmp_path, SLOTS, "bash", "slots.sh")
    assert blamed(diagnosis) == ["silent/resume-state-lost"]
    assert '+    found = sorted(glob.glob("state-*.ckpt"))' in diagnosis.findings[0].fixes[0].diff


def test_two_trainings_that_write_the_same_names_are_no_lost_resume(tmp_path: Path) -> None:
    (tmp_path / "slots.sh").write_text("".join(f"{sys.executable} train.py {6 + seed}\n" for seed in (1, 2)))
    diagnosis = died(tmp_path, SLOTS.replace("newest()\n    if", "None\n    if"), "bash", "slots.sh")
    assert blamed(diagnosis) == []


def test_an_evaluation_without_a_batch_is_told_with_its_loader(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    numpy.savez(tmp_path / "check.npz", x=numpy.ones((11, 2), "float32"))
    diagnosis = died(tmp_path, NO_EVALUATION, *PYTHON, "train.py")
    assert blamed(diagnosis)[0] == "silent/eval-empty"
    assert '**{**options, "drop_last": False})' in diagnosis.findings[0].fixes[0].diff


def test_a_saved_file_that_was_cut_is_told_with_its_sizes(tmp_path: Path) -> None:
    (tmp_path / "copies.py").write_text(textwrap.dedent(COPIES))
    copy = f"{sys.executable} copies.py state.pt kept.pt\nmv kept.pt state.pt\n"
    (tmp_path / "slots.sh").write_text(f"{sys.executable} train.py\n{copy}{sys.executable} train.py\n")
    diagnosis = died(tmp_path, KEEPS_STATE, "bash", "slots.sh")
    assert blamed(diagnosis)[0] == "checkpoint/corrupt"
    assert any("bytes when it was saved and now has" in sign.says for sign in diagnosis.findings[0].signs)


def test_a_batch_that_one_rank_leaves_out_is_left_out_by_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = (*TORCHRUN, "train.py")
    diagnosis = died(tmp_path, LONG_ONES, *line)
    assert blamed(diagnosis)[0] == "distributed/desync"
    assert "train.py:14" in shown(diagnosis)
    assert passes_when_mended(diagnosis, tmp_path, monkeypatch, *line)


def test_samples_that_are_not_finite_are_left_out_where_the_loader_gets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diagnosis = died(tmp_path, ODD_SAMPLE, *PYTHON, "train.py")
    assert blamed(diagnosis)[0] == "numerics/bad-data"
    assert "train.py:9" in shown(diagnosis)
    assert passes_when_mended(diagnosis, tmp_path, monkeypatch, *PYTHON, "train.py")
