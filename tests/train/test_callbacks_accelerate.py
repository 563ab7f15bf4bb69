"""guard_for on one process: the accelerator's windows, scaler and saves; and what happens where a framework is missing."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from guarded import NAN, infinite_gradients, loss_of, net, rows, weights

from crashcart.train import NotSafeToSave, guard_for

if TYPE_CHECKING:
    from pathlib import Path

Accelerator: Any = import_module("accelerate").Accelerator  # without its types, which differ between versions

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore:StepGuard")]


def prepared(accumulate: int = 1, scale: float | None = None, **options: Any) -> tuple[Any, Any, Any, Any, Any]:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    if scale is not None:  # as in fp16, which accelerate has on GPUs only
        accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    model: Any = net()
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=0.01)
    data: Any = rows(7)
    loader: Any = torch.utils.data.DataLoader(data, batch_size=None)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    return accelerator, model, optimizer, loader, guard_for(accelerator, model, optimizer, **options)


def usual(accumulate: int) -> list[float]:
    """The loop of accelerate's documentation."""
    accelerator, model, optimizer, loader, _ = prepared(accumulate)
    for _ in range(2):
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(loss_of(model, batch))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    return weights(model)


@pytest.mark.parametrize("accumulate", [1, 7])
@pytest.mark.parametrize("inside", [True, False])
def test_good_steps_are_those_of_the_usual_loop(accumulate: int, *, inside: bool) -> None:
    accelerator, model, _, loader, guard = prepared(accumulate, clip=1.0)
    for _ in range(2):
        for batch in loader if inside else guard.batches(loader):
            if inside:
                with accelerator.accumulate(model):
                    guard.backward(loss_of(model, batch))
            else:
                guard.backward(loss_of(model, batch))
    assert weights(model) == pytest.approx(usual(accumulate), abs=1e-7)


@pytest.mark.parametrize("inside", [True, False])
def test_the_last_window_is_the_mean_of_what_was_there(*, inside: bool) -> None:
    """Seven batches by three: accelerate alone divides the last one by three."""
    accelerator, model, _, loader, guard = prepared(3)
    for _ in range(2):
        for batch in loader if inside else guard.batches(loader):
            if inside:
                with accelerator.accumulate(model):
                    guard.backward(loss_of(model, batch))
            else:
                guard.backward(loss_of(model, batch))
    assert (guard.counts.windows, guard.counts.partial) == (6, 2)
    reference = net()
    optimizer = torch.optim.AdamW(reference.parameters(), lr=0.01)
    data = rows(7)
    for _ in range(2):
        for window in (data[:3], data[3:6], data[6:]):
            optimizer.zero_grad()
            loss_of(reference, torch.cat(window)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    assert weights(model) == pytest.approx(weights(reference), abs=1e-6)


def test_the_accelerators_scaler_stays_sound() -> None:
    accelerator, model, _, loader, guard = prepared(scale=8.0, clip=1.0)
    for number, batch in enumerate(guard.batches(loader)):
        loss = loss_of(model, batch)
        guard.backward(loss * NAN if number == 2 else infinite_gradients(loss) if number == 4 else loss)
    assert (guard.counts.stepped, guard.counts.bad_loss, guard.counts.bad_gradients) == (5, 1, 1)
    assert accelerator.scaler.get_scale() == 4.0


def test_a_state_with_lost_weights_is_not_saved(tmp_path: Path) -> None:
    accelerator, model, _, loader, guard = prepared()
    for batch in guard.batches(loader):
        guard.backward(loss_of(model, batch))
    accelerator.save_state(str(tmp_path / "good"))
    with torch.no_grad():
        model[0].weight[0, 0] = NAN
    with pytest.raises(NotSafeToSave, match=r"1 tensors are not finite: 0\.weight"):
        accelerator.save_state(str(tmp_path / "bad"))
    assert (tmp_path / "good" / "model.safetensors").exists()
    assert list((tmp_path / "bad").iterdir()) == []


def test_deepspeed_makes_its_steps_itself() -> None:
    accelerator = SimpleNamespace(distributed_type="DEEPSPEED")
    with pytest.raises(ValueError, match="cannot guard DEEPSPEED: it makes its steps itself"):
        guard_for(accelerator, net(), None)


def test_a_framework_that_is_missing_is_missed_only_by_what_needs_it() -> None:
    program = """
import sys
for name in ("transformers", "lightning", "pytorch_lightning", "accelerate"):
    sys.modules[name] = None
import crashcart.train
assert "torch" not in sys.modules
from crashcart.train import guard_for
from crashcart.train.lightning import GuardCallback as one
from crashcart.train.transformers import GuardCallback as other
for callback in (one, other):
    try:
        callback()
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("GuardCallback needs lightning or pytorch_lightning, and neither can be imported.\n")
    assert "GuardCallback needs transformers" in done.stdout


def test_no_framework_is_loaded_for_the_library() -> None:
    program = "import sys, crashcart.train as t; t.StepGuard; t.guard_for; print({'transformers', 'lightning', 'accelerate'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"
