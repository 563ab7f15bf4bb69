"""A checkpoint of another optimizer or another schedule: torch loads it without a word, and it means something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from crashcart.train import ResumeError, resume, save_atomic, state_of

if TYPE_CHECKING:
    from pathlib import Path

SCHEDULES: dict[str, Any] = {
    "StepLR": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 10),
    "CosineAnnealingLR": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
}


def trained(kind: Any, schedule: str = "StepLR", **named: Any) -> tuple[nn.Module, Any, Any]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = kind(model.parameters(), lr=0.1, **named)
    scheduler = SCHEDULES[schedule](optimizer)
    step(model, optimizer)
    scheduler.step()
    return model, optimizer, scheduler


def step(model: nn.Module, optimizer: Any) -> None:
    optimizer.zero_grad()
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()


@pytest.mark.parametrize(
    ("saved", "here", "lacks"),
    [
        (torch.optim.AdamW, torch.optim.SGD, "dampening, momentum"),
        (torch.optim.SGD, torch.optim.AdamW, "betas, eps"),
    ],
)
def test_the_state_of_another_optimizer_is_refused_where_torch_takes_it(
    tmp_path: Path, saved: Any, here: Any, lacks: str
) -> None:
    model, optimizer, _ = trained(saved)
    save_atomic(state_of(model=model, optimizer=optimizer, step=1), tmp_path / "a.pt")
    model, usual, _ = trained(here)
    usual.load_state_dict(optimizer.state_dict())
    with pytest.raises(KeyError):
        step(model, usual)
    model, ours, _ = trained(here)
    with pytest.raises(ResumeError, match=f"of another kind, and has no {lacks}"):
        resume(tmp_path / "a.pt", model=model, optimizer=ours)
    step(model, ours)  # it is as it was


@pytest.mark.parametrize("foreign", [False, True])
def test_another_schedule_is_told(tmp_path: Path, *, foreign: bool) -> None:
    model, optimizer, scheduler = trained(torch.optim.SGD)
    state = state_of(model=model, optimizer=optimizer, scheduler=scheduler, step=1)
    if foreign:
        del state["kinds"]
    save_atomic(state, tmp_path / "a.pt")
    model, optimizer, scheduler = trained(torch.optim.SGD, "CosineAnnealingLR")
    with pytest.warns(UserWarning, match="the scheduler was"):
        run = resume(tmp_path / "a.pt", model=model, optimizer=optimizer, scheduler=scheduler)
    told = {
        False: "the scheduler was StepLR, here it is CosineAnnealingLR",
        True: "the scheduler was of another kind: gamma, step_size were saved, here it has T_max, eta_min",
    }
    assert run.doubts == (told[foreign],)


def test_an_optimizer_with_the_same_settings_is_told_by_its_name(tmp_path: Path) -> None:
    model, optimizer, _ = trained(torch.optim.NAdam)
    save_atomic(state_of(model=model, optimizer=[optimizer], step=1), tmp_path / "a.pt")
    model, optimizer, _ = trained(torch.optim.NAdam)
    assert resume(tmp_path / "a.pt", model=model, optimizer=[optimizer]).doubts == ()

    class Other(torch.optim.NAdam):
        pass

    model, optimizer, _ = trained(Other)
    with pytest.warns(UserWarning, match="the optimizer was NAdam, here it is Other"):
        resume(tmp_path / "a.pt", model=model, optimizer=[optimizer])


def test_the_line_tells_only_what_was_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, _, _ = trained(torch.optim.SGD)
    save_atomic(state_of(model=model, step=1), tmp_path / "a.pt")
    save_atomic(state_of(model=model, step=1, epoch=2, batch=0), tmp_path / "b.pt")
    for name in ("a.pt", "b.pt"):
        resume(tmp_path / name, model=model)
    without, told = capsys.readouterr().err.splitlines()
    assert "a.pt: step 1, lr unknown;" in without
    assert "b.pt: step 1, epoch 2, batch 0, lr unknown;" in told
