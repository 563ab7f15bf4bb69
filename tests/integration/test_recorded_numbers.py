"""Real programs whose loss is no number, under `crashcart run`: data that brought it in is told from a step that was too large."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from inside_job import run
from recorded import blamed, ran, shown

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")

pytestmark = pytest.mark.processes
# Sample 133 is bad in one field; targets may hold NaN that a mask leaves out in every batch.
TRAIN = """
    import sys, torch
    from torch.utils.data import DataLoader, Dataset

    class Samples(Dataset):
        def __len__(self):
            return 256
        def __getitem__(self, index):
            x = torch.randn(8, generator=torch.Generator().manual_seed(index))
            y = x.sum().reshape(1).repeat(2)
            if BAD and index == 133:
                x[2] = float("inf")
            if MASKED:
                y[1] = float("nan")
            return {"state": x, "target": y}

    torch.manual_seed(0)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for step, batch in enumerate(DataLoader(Samples(), batch_size=8, num_workers=WORKERS)):
        wanted = torch.isfinite(batch["target"])
        loss = (model(batch["state"])[wanted] - batch["target"][wanted]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}", flush=True)
"""


def program(*, bad: bool = False, masked: bool = False, rate: float = 0.01, workers: int = 0) -> str:
    return (
        TRAIN.replace("BAD", str(bad))
        .replace("MASKED", str(masked))
        .replace("RATE", str(rate))
        .replace("WORKERS", str(workers))
    )


@pytest.mark.parametrize(("masked", "workers"), [(False, 0), (True, 1)])
def test_the_sample_that_brings_it_in_is_named_by_field_and_place(tmp_path: Path, masked: bool, workers: int) -> None:  # noqa: FBT001
    diagnosis = ran(tmp_path, program(bad=True, masked=masked, workers=workers))
    assert diagnosis.findings[0].cause == "numerics/bad-data"
    said = shown(diagnosis)
    assert "at step 16" in said
    assert "field 'state' in sample 133 of the data set (row 5 of batch 17 of its epoch)" in said
    assert "'target'" not in diagnosis.findings[0].signs[0].says
    assert "bfloat16" not in said


SHUFFLED = """
    import sys, torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    states, targets = torch.randn(400, 4), torch.randn(400, 1)
    states[137, 2] = float("nan")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        for state, target in DataLoader(TensorDataset(states, targets), batch_size=8, shuffle=True, num_workers=WORKERS):
            loss = (model(state) - target).square().mean()
            optimizer.zero_grad()
            if CHECKED:
                assert torch.isfinite(loss), "bad loss"
            loss.backward()
            if torch.isfinite(loss):
                optimizer.step()
"""


def shuffled(*, workers: int, checked: bool) -> str:
    return SHUFFLED.replace("WORKERS", str(workers)).replace("CHECKED", str(checked))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_loss_is_told_with_the_samples_of_its_batch_and_the_state_of_the_weights(tmp_path: Path, workers: int) -> None:
    job = run(tmp_path, shuffled(workers=workers, checked=False))
    losses = job.first.of("nonfinite")
    assert [loss["fields"][0]["indices"] for loss in losses] == [[137], [137]], "once in each epoch"
    assert all(137 in loss["indices"] and len(loss["indices"]) == 8 for loss in losses)
    assert all(loss["looked"] and loss["weights_finite"] and loss["largest"] < 10 for loss in losses)
    assert [batch["fields"] for batch in job.first.of("inputs")] == [[]] * 6


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_that_ends_the_program_is_told_with_the_batch_that_it_was_about(tmp_path: Path, workers: int) -> None:
    (error,) = run(tmp_path, shuffled(workers=workers, checked=True)).first.of("exception")
    assert error["type"] == "AssertionError"
    assert [field["indices"] for field in error["fields"]] == [[137]]


def test_a_batch_that_cannot_be_made_is_told_with_its_samples(tmp_path: Path) -> None:
    job = run(
        tmp_path,
        """
        import torch
        from torch.utils.data import DataLoader, Dataset
        class Samples(Dataset):
            def __len__(self):
                return 12
            def __getitem__(self, index):
                if index == 7:
                    raise OSError("truncated")
                return torch.zeros(2)
        for batch in DataLoader(Samples(), batch_size=3):
            pass
        """,
    )
    (failed,) = job.first.of("batch failed")
    assert (failed["batch"], failed["indices"], failed["type"]) == (2, [6, 7, 8], "OSError")


def test_a_step_that_is_too_large_is_not_blamed_on_data_that_always_holds_nan(tmp_path: Path) -> None:
    diagnosis = ran(tmp_path, program(masked=True, rate=1e6))
    assert diagnosis.findings[0].cause == "numerics/diverged"
    assert "numerics/bad-data" not in blamed(diagnosis)
    said = shown(diagnosis)
    assert "bfloat16" not in said, "no half precision is in use"
    assert "--max_grad_norm=" not in said, "the program takes no such flag"


def test_nan_that_a_mask_leaves_out_is_nobodys_fault(tmp_path: Path) -> None:
    assert not ran(tmp_path, program(masked=True)).findings


EVALUATED = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    states, unseen = torch.randn(64, 8), torch.randn(32, 8)
    unseen[5, 3] = float("nan")
    for epoch in range(3):
        model.train()
        for (state,) in DataLoader(TensorDataset(states), batch_size=16):
            loss = model(state).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            losses = [model(state).pow(2).mean() for (state,) in DataLoader(TensorDataset(unseen), batch_size=16)]
        print(f"epoch {epoch} loss {loss.item():.4f} val_loss {sum(losses).item() / len(losses):.4f}", flush=True)
"""


def test_a_loss_of_the_evaluation_alone_that_is_no_number_is_told(tmp_path: Path) -> None:
    diagnosis = ran(tmp_path, EVALUATED)
    assert blamed(diagnosis) == ["numerics/bad-data"]
    assert "evaluation loss is not finite" in shown(diagnosis)


def test_batches_live_no_longer_than_without_us(tmp_path: Path) -> None:
    job = run(
        tmp_path,
        """
        import gc, weakref
        import torch
        from torch.utils.data import DataLoader
        for batch in DataLoader(torch.zeros(4, 2), batch_size=2):
            seen = weakref.ref(batch)
            del batch
            assert seen() is None
        """,
    )
    assert (job.code, job.err) == (0, "")


def test_weights_that_were_broken_before_the_first_step_are_told_as_such(tmp_path: Path) -> None:
    broken = program().replace("optimizer = torch", "model.weight.data[0, 0] = float('nan')\n    optimizer = torch", 1)
    diagnosis = ran(tmp_path, broken)
    assert diagnosis.findings[0].cause == "numerics/diverged"
    assert "before the first step" in shown(diagnosis)
    assert diagnosis.findings[0].fixes[0].title.startswith("Start from an earlier checkpoint")


def test_a_rate_that_no_optimizer_can_use_is_not_halved(tmp_path: Path) -> None:
    diagnosis = ran(tmp_path, program(rate=1e30))
    assert diagnosis.findings[0].cause == "numerics/diverged"
    assert diagnosis.findings[0].fixes[0].title.startswith("Set a usual learning rate: 1e+30")


WITHOUT_GRADIENT = """
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Samples(Dataset):
        def __len__(self):
            return 256
        def __getitem__(self, index):
            x = torch.randn(8, generator=torch.Generator().manual_seed(index))
            return {"left": x, "right": x.clone() if index == 133 else x.flip(0)}

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)

        def forward(self, left, right):
            a, b = self.layer(left), self.layer(right)
            return LOSS

    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step, batch in enumerate(DataLoader(Samples(), batch_size=8)):
        loss = net(batch["left"], batch["right"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} seen", flush=True)
"""


@pytest.mark.parametrize(
    "loss",
    [
        "(a - b).square().sum(-1).sqrt().mean()",
        "((a - b).pow(2).sum(-1) ** 0.5).mean()",
        "((a * b).sum(-1) / (a - b).norm(dim=-1)).mean()",
    ],
)
def test_a_gradient_that_is_not_finite_at_finite_inputs_is_the_loss_and_not_the_data(tmp_path: Path, loss: str) -> None:
    diagnosis = ran(tmp_path, WITHOUT_GRADIENT.replace("LOSS", loss))
    assert blamed(diagnosis) == ["numerics/diverged"]
    assert any("return " in item.quote for sign in diagnosis.findings[0].signs for item in sign.evidence), shown(diagnosis)
