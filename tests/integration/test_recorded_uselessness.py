"""Useless and slow runs under `crashcart run`: noticed while they last, and explained from the recording."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from stopped import CRASHCART, LOOP, OPTIMIZER, RANKS, TORCHRUN, events, prepared, run, the_run

from crashcart.verbs.why import why

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return prepared(tmp_path, monkeypatch)


NAN = """
for number in range(60):
    loss = step(model, optimizer, torch.randn(4, 8) * (float("nan") if number == 30 else 1.0))
    if number % 5 == 0:
        print(f"step {number} loss {SHOWN:.4f}", flush=True)
"""


EMPTY = """
from torch.utils.data import DataLoader
data = DataLoader(torch.randn(64, 8), batch_size=4)
validation = DataLoader(torch.randn(3, 8), batch_size=4, drop_last=True)
for epoch in range(3):
    model.train()
    for batch in data:
        step(model, optimizer, batch, 0.01)
    model.eval()
    with torch.no_grad():
        errors = [model(batch).pow(2).mean() for batch in validation]
    print(f"epoch {epoch} val_loss {sum(errors)}", flush=True)
"""


RESUME = """
def warm_up(number):
    return min(1.0, (number + 1) / 50)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up)
if os.path.exists("last.pt"):
    state = torch.load("last.pt")
    model.load_state_dict(state["model"])
    if RESTORES:
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
for number in range(60):
    step(model, optimizer, torch.randn(4, 8), 0.02)
    schedule.step()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}, "last.pt")
"""


@pytest.mark.parametrize("shown", ["float(loss)", "0.0 if loss != loss else float(loss)"])
def test_a_loss_that_is_no_number_is_told_with_its_step(folder: Path, shown: str) -> None:
    """Also where the log shows 0 instead."""
    assert run(folder, LOOP, NAN.replace("SHOWN", shown)).returncode == 0
    findings = why([the_run(folder)]).findings
    assert (findings[0].cause, findings[0].role) == ("numerics/diverged", "cause")
    assert any("from step 30 on" in sign.says for sign in findings[0].signs)
    masked = [one for one in findings if one.cause == "silent/masked-nan" and one.strength == "decisive"]
    assert bool(masked) == shown.startswith("0.0")


def test_a_sample_that_brings_nan_in_is_told_by_its_rank(folder: Path) -> None:
    code = """
    for number in range(120):
        bad = number == 80 and rank == 1
        step(model, optimizer, torch.randn(4, 8) * (float("nan") if bad else 1.0))
    dist.destroy_process_group()
    """
    run(folder, RANKS, code, *TORCHRUN)
    first = why([the_run(folder)]).findings[0]
    assert (first.cause, first.strength, first.signs[0].evidence[0].rank) == ("numerics/bad-data", "decisive", 1)


@pytest.mark.parametrize("replaced", [True, False])
def test_an_optimizer_of_a_layer_that_was_replaced_is_told_by_its_flat_loss(folder: Path, *, replaced: bool) -> None:
    code = f"""
    if {replaced}:
        model = torch.nn.Linear(8, 8)
    for number in range(60):
        loss = step(model, optimizer, torch.randn(64, 8) + 1, 0.02)
        if number % 5 == 0:
            print(f"step {{number}} loss {{loss:.4f}}", flush=True)
    """
    assert run(folder, LOOP, code).returncode == 0
    findings = why([the_run(folder)]).findings
    assert [(found.cause, found.role) for found in findings] == ([("silent/not-learning", "cause")] if replaced else [])


def test_an_evaluation_of_no_batch_is_told(folder: Path) -> None:
    assert run(folder, LOOP, EMPTY).returncode == 0
    first = why([the_run(folder)]).findings[0]
    assert (first.cause, first.role, first.strength) == ("silent/eval-empty", "cause", "decisive")
    assert "no batches in 3 evaluation(s)" in first.signs[0].says


@pytest.mark.sample(1)
@pytest.mark.parametrize("restores", [False, True])
def test_a_learning_rate_that_starts_anew_after_a_resume_is_told(folder: Path, *, restores: bool) -> None:
    for _ in range(2):
        assert run(folder, LOOP, RESUME.replace("RESTORES", str(restores))).returncode == 0
    last = max(path for path in (folder / "crashcart_runs").iterdir() if path.is_dir())
    findings = why([str(last)]).findings
    if restores:
        assert findings == ()
        return
    assert (findings[0].cause, findings[0].role, findings[0].strength) == ("silent/resume-state-lost", "cause", "decisive")
    assert "has a learning rate of 0.01" in findings[0].signs[0].says
    assert "step 1 after it used 0.0002" in findings[0].signs[0].says


STARVED = """
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self):
        return 70
    def __getitem__(self, index):
        time.sleep(0.2)
        return torch.randn(8)
for batch in DataLoader(Slow(), batch_size=1):
    step(model, optimizer, batch, 0.02)
"""


def test_a_step_that_waits_for_its_data_is_told_without_blame(folder: Path) -> None:
    assert run(folder, LOOP, STARVED).returncode == 0
    first = why([the_run(folder)]).findings[0]
    assert (first.cause, first.role, first.strength) == ("slow/data", "contributing", "strong")
    assert "s per batch" in first.signs[0].says


HEALTHY = """
from torch.utils.data import DataLoader
data = DataLoader(torch.randn(64, 8), batch_size=4, num_workers=2)
validation = DataLoader(torch.randn(8, 8), batch_size=4)
for epoch in range(3):
    model.train()
    for batch in data:
        loss = step(model, optimizer, batch)
    model.eval()
    with torch.no_grad():
        errors = [float(model(batch).pow(2).mean()) for batch in validation]
    print(f"epoch {epoch} loss {float(loss):.4f} val_loss {sum(errors) / len(errors):.4f}", flush=True)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{epoch}.pt")
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("ranks", [1, 2])
def test_in_a_healthy_run_nothing_is_found(folder: Path, ranks: int) -> None:
    # A thread of gloo that has not let go of the last work aborts a process that ends (pytorch#179291).
    more = "if True:\n    dist.barrier()\n    dist.destroy_process_group()\n    time.sleep(1)\n" if ranks > 1 else ""
    done = run(folder, RANKS if ranks > 1 else LOOP, HEALTHY + more, *(TORCHRUN if ranks > 1 else ()))
    assert done.returncode == 0
    assert [one.cause for one in why([the_run(folder)]).findings] == []
    assert events(folder, "hang") == []


def test_weights_of_another_program_are_no_resume(folder: Path) -> None:
    saving = 'torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")\n'
    loop = "for number in range(20):\n    step(model, optimizer, torch.randn(4, 8), 0.01)\n"
    (folder / "pretrain.py").write_text(LOOP + OPTIMIZER + loop + saving)
    loading = 'model.load_state_dict(torch.load("last.pt")["model"])\n'
    (folder / "probe.py").write_text(LOOP + OPTIMIZER.replace("0.01", "0.5") + loading + loop)
    (folder / "train.sh").write_text(f"{sys.executable} pretrain.py && {sys.executable} probe.py\n")
    subprocess.run([*CRASHCART, "bash", "train.sh"], check=True, timeout=100)
    diagnosis = why([the_run(folder)])
    assert [stage.program for stage in diagnosis.stages] == ["pretrain.py", "probe.py"]
    assert diagnosis.findings == ()
