"""Ends that have no traceback, or a misleading one, under `crashcart run`: what is said first, and what to do about it."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from recorded import blamed, ran, recorded, shown

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")

pytestmark = pytest.mark.processes
TRAIN = """
    import ctypes, os, sys, time, traceback
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(64, 8)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: RATE)
    def train(steps):
        for step in range(steps):
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            time.sleep(0.02)
    WHAT
"""


def program(what: str, rate: str = "1.0") -> str:
    return TRAIN.replace("WHAT", what.strip()).replace("RATE", rate)


def test_an_exit_without_an_exception_has_no_traceback_to_look_at(tmp_path: Path) -> None:
    said = shown(ran(tmp_path, program("train(10); os._exit(7)")))
    assert "exited with code 7, without an exception" in said
    assert "Find what ended the process" in said
    assert "the traceback above" not in said


def test_a_fault_in_native_code_points_to_its_stack(tmp_path: Path) -> None:
    said = shown(ran(tmp_path, program("train(10); ctypes.string_at(8)")))
    assert "was killed by SIGSEGV, a segmentation fault during training" in said
    assert "Look at the stack that was recorded when the signal arrived" in said


def test_a_fault_before_anyone_could_look_is_told_by_the_signal(tmp_path: Path) -> None:
    diagnosis = recorded(tmp_path, "bash", "-c", "kill -SEGV $$")
    assert blamed(diagnosis) == ["code/bug"]
    assert "SIGSEGV" in shown(diagnosis)


def test_what_an_exception_said_stands_in_the_answer(tmp_path: Path) -> None:
    diagnosis = ran(tmp_path, program("train(3); raise LookupError('no episode 17')"))
    assert shown(diagnosis).startswith("Rank 0 raised LookupError at")
    assert "during training: no episode 17." in shown(diagnosis)


def test_an_error_that_ends_with_0_is_mentioned_and_nobody_is_blamed(tmp_path: Path) -> None:
    what = """
    try:
        train(5)
        raise LookupError("no episode 17")
    except LookupError:
        traceback.print_exc()
        sys.exit(0)"""
    diagnosis = ran(tmp_path, program(what))
    assert not blamed(diagnosis)
    assert shown(diagnosis).startswith("The run finished with exit code 0, but there was an error: LookupError")


def test_a_learning_rate_that_stays_at_zero_is_told_with_its_steps(tmp_path: Path) -> None:
    diagnosis = ran(tmp_path, program("train(250)", rate="max(0.0, 1 - step // 10)"))
    assert diagnosis.findings[0].cause == "silent/not-learning"
    assert "The learning rate of every group of rank 0 was 0 at step" in shown(diagnosis)


def test_a_schedule_that_ends_at_zero_is_healthy(tmp_path: Path) -> None:
    assert not ran(tmp_path, program("train(150)", rate="1 - step / 150")).findings


@pytest.mark.parametrize("rest", ["| tee out.log", "|| true"])
def test_a_training_whose_death_a_shell_hides_is_told(tmp_path: Path, rest: str) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(program("train(60); raise LookupError('no episode 17')")))
    (tmp_path / "job.sh").write_text(f"{sys.executable} train.py {rest}\n")
    diagnosis = recorded(tmp_path, "bash", "job.sh")
    assert blamed(diagnosis) == ["code/bug"]
    assert "no episode 17; its parent process still exited with code 0" in shown(diagnosis)


def test_a_helper_that_may_fail_beside_a_training_that_ends_well_is_not_blamed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(program("train(20)")))
    (tmp_path / "job.sh").write_text(f"{sys.executable} train.py\n{sys.executable} -c 'raise LookupError' || true\n")
    assert not blamed(recorded(tmp_path, "bash", "job.sh"))


def test_a_thread_that_keeps_a_program_from_its_end_is_named(tmp_path: Path) -> None:
    what = """
    import signal, threading
    def forever():
        while True:
            time.sleep(0.5)
    threading.Thread(target=forever).start()
    threading.Thread(target=lambda: (time.sleep(25), os.kill(os.getpid(), signal.SIGTERM)), daemon=True).start()
    train(30)"""
    said = shown(ran(tmp_path, program(what), CRASHCART_HANG_SECONDS="5"))
    assert "has finished its program and has been stuck in _shutdown" in said
    assert "in forever" in said.split("threads still running")[1]
