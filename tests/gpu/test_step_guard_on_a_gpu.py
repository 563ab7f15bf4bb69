"""On a GPU: the guard adds no wait to a good step, and its flag, read late, skips exactly the bad ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the look whether there is a torch

from crashcart.train import HopelessTraining, StepGuard  # noqa: E402 - needs torch

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here"),
    pytest.mark.filterwarnings("ignore:StepGuard"),
]


@pytest.fixture
def no_waits() -> Iterator[None]:
    yield
    torch.cuda.set_sync_debug_mode("default")


def net(kind: Any = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 1)).cuda().to(kind)


def rows(count: int, kind: Any = torch.float32) -> list[Any]:
    torch.manual_seed(1)
    return [torch.randn(32, 64, device="cuda", dtype=kind) for _ in range(count)]


def weights(model: nn.Module) -> list[float]:
    return [value for parameter in model.parameters() for value in parameter.detach().float().flatten().tolist()]


def settings(scaled: bool) -> dict[str, Any]:  # noqa: FBT001 - one caller
    return {"scaler": torch.amp.GradScaler("cuda", init_scale=1024.0), "clip": 1.0} if scaled else {"clip": 1.0}


@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_a_good_step_waits_for_nothing(name: str, accumulate: int, *, scaled: bool) -> None:
    kind = torch.float32 if scaled else torch.bfloat16
    model = net(kind)
    named = {"momentum": 0.9} if name == "SGD" else {}
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=1e-3, fused=True, **named)
    guard = StepGuard(model, optimizer, accumulate=accumulate, **settings(scaled))
    batches = rows(40, kind)
    weight = torch.ones((), device="cuda")
    for number, batch in enumerate(guard.batches(batches)):
        if number == 2 * accumulate:
            torch.cuda.set_sync_debug_mode("error")
        guard.backward(model(batch).float().square().mean(), weight=weight if number % 2 else 1.0)
    torch.cuda.set_sync_debug_mode("default")
    guard.finish()
    assert guard.counts.skipped == 0
    assert guard.counts.stepped == math.ceil(40 / accumulate)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_bad_steps_leave_no_trace(name: str, *, fused: bool) -> None:
    """The first one too: fused SGD of torch alone then takes uninitialised memory for its momentum."""
    finals = []
    for bad in ((0, 5, 6), ()):
        model = net()
        model[1].eval()  # type: ignore[index]
        named = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=1e-3, fused=fused, **named)
        guard = StepGuard(model, optimizer, clip=1.0)
        batches = rows(12)
        for number, batch in enumerate(
            guard.batches(batches if bad else [b for n, b in enumerate(batches) if n not in (0, 5, 6)])
        ):
            guard.backward(model(batch).square().mean() * (float("nan") if number in bad else 1.0))
        guard.finish()
        assert (guard.counts.stepped, guard.counts.skipped, len(guard.kept)) == (9, len(bad), len(bad))
        finals.append(weights(model))
    assert finals[0] == finals[1]


def test_running_statistics_and_weights_come_back() -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    guard = StepGuard(model, optimizer, rollback_every=1)
    batches = rows(60)
    batches[20][3] = float("nan")
    for number, batch in enumerate(guard.batches(batches)):
        guard.backward(model(batch).square().mean())
        if number == 40:
            with torch.no_grad():
                next(model.parameters())[0, 0] = float("nan")
    guard.finish()
    guard.check_before_save()
    assert model.eval()(batches[0]).isfinite().all()
    assert guard.counts.rolled_back == 1
    assert guard.kept[0].not_finite == {"batch": [3]}


def test_batches_do_not_pile_up_on_the_device() -> None:
    model = net()
    guard = StepGuard(model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True))

    def loader() -> Iterator[Any]:
        for _ in range(40):
            yield torch.zeros(1 << 18, 64, device="cuda")  # 64 MiB

    for batch in guard.batches(loader()):
        guard.backward(model(batch[:32]).square().mean())
    assert torch.cuda.max_memory_allocated() < 9 * (64 << 20)


def test_hopeless_is_said_on_a_gpu_too() -> None:
    model = net()
    guard = StepGuard(model, torch.optim.AdamW(model.parameters(), fused=True), hopeless_after=5)
    epoch = guard.batches(rows(40))

    def train() -> None:
        for batch in epoch:
            guard.backward(model(batch).square().mean() * float("nan"))

    with pytest.raises(HopelessTraining, match="all of the last 5 steps"):
        train()
    assert not guard.safe_to_save
