"""A scaler in every order of events, and fused optimizers whose flag the host never reads."""

from __future__ import annotations

import copy
import math
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from guarded import NAN, adam, infinite_gradients, loss_of, net, rows, run, weights
from torch import nn

from crashcart.train import HopelessTraining, StepGuard
from crashcart.train.step.stepping import Stepping
from crashcart.train.step.verdicts import LAG

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore:StepGuard")


def test_the_usual_return_on_nan_breaks_the_scaler() -> None:
    """Seed 001: backward is left out, the rest of the cycle is not."""
    model = net()
    optimizer, scaler = adam(model), torch.amp.GradScaler("cpu")

    def usual(factor: float) -> None:
        optimizer.zero_grad()
        loss = loss_of(model, rows(1)[0]) * factor
        if torch.isfinite(loss):
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    usual(1.0)
    with pytest.raises(AssertionError, match="No inf checks were recorded"):
        usual(NAN)


def events(*, kind: str, at: int, accumulate: int, enabled: bool = True, fused: bool = False) -> list[Any]:
    """Nine micro batches of which one is bad; what is left of scale and weights."""
    model = net()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=enabled)
    guard = StepGuard(model, adam(model, fused=fused), scaler=scaler, accumulate=accumulate, clip=1.0)
    skipped = []
    for number, batch in enumerate(guard.batches(rows(9))):
        loss, before = loss_of(model, batch), weights(model)
        if number == at:
            loss = infinite_gradients(loss) if kind == "gradients" else loss * NAN
        guard.backward(loss)
        if not guard.stepped and guard.counts.windows and before == weights(model) and (number + 1) % accumulate == 0:
            skipped.append(number // accumulate)
    assert all(map(math.isfinite, weights(model)))
    assert all(parameter.grad is None for parameter in model.parameters())
    return [scaler.get_scale(), guard.counts.skipped + guard.counts.searching, guard.counts.stepped, skipped]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    ("kind", "at", "accumulate", "wanted"),
    [
        ("loss", 3, 1, [1024.0, 1, 8, [3]]),  # a broken sample says nothing about the scale
        ("gradients", 3, 1, [512.0, 1, 8, [3]]),
        ("loss", 0, 1, [1024.0, 1, 8, [0]]),
        ("gradients", 0, 1, [512.0, 1, 8, [0]]),
        ("loss", 4, 3, [1024.0, 1, 2, [1]]),  # in the middle of a window: the whole window
        ("gradients", 4, 3, [512.0, 1, 2, [1]]),
        ("loss", 8, 4, [1024.0, 1, 2, []]),  # in a partial one
        ("gradients", 8, 2, [512.0, 1, 4, []]),
    ],
)
def test_scaler_and_weights_are_right_after_every_event(
    kind: str, at: int, accumulate: int, wanted: Any, *, fused: bool
) -> None:
    assert events(kind=kind, at=at, accumulate=accumulate, fused=fused) == wanted


@pytest.mark.parametrize("kind", ["loss", "gradients"])
def test_a_scaler_that_is_off_skips_as_well(kind: str) -> None:
    """With bf16 scalers are switched off, and then nothing but the guard skips."""
    assert events(kind=kind, at=3, accumulate=1, enabled=False) == [1.0, 1, 8, [3]]


def test_the_same_as_torch_where_nothing_is_wrong() -> None:
    model, bare = net(), net()
    scaler, other = (torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3) for _ in range(2))
    guard, optimizer = StepGuard(model, adam(model), scaler=scaler, clip=0.1), adam(bare)
    run(model, guard, rows(8))
    for batch in rows(8):
        other.scale(loss_of(bare, batch)).backward()  # type: ignore[no-untyped-call]
        other.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(bare.parameters(), 0.1)
        other.step(optimizer)
        other.update()
        optimizer.zero_grad()
    assert weights(model) == weights(bare)
    assert scaler.state_dict() == other.state_dict()


def test_broken_samples_do_not_drive_the_scale_to_nothing() -> None:
    """Thirty NaN losses: torch's own cycle halves thirty times; gradients then round to zero, and nothing says so."""
    scales = []
    for ours in (False, True):
        model = net()
        optimizer, scaler = adam(model), torch.amp.GradScaler("cpu")
        guard = StepGuard(model, optimizer, scaler=scaler, hopeless_after=10_000)
        for number, batch in enumerate(rows(60)):
            loss = loss_of(model, batch) * (NAN if number % 2 else 1)
            if ours:
                guard.backward(loss)
                continue
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        scales.append(scaler.get_scale())
    assert scales == [2.0**-14, 2.0**16]


def test_unscale_by_the_user_is_not_done_twice() -> None:
    model, plain = net(), net()
    optimizer, scaler = adam(model), torch.amp.GradScaler("cpu")
    guard, other = StepGuard(model, optimizer, scaler=scaler, accumulate=4), StepGuard(plain, adam(plain), accumulate=4)
    for batch in rows(3):
        guard.backward(loss_of(model, batch))
        other.backward(loss_of(plain, batch))
    scaler.unscale_(optimizer)
    guard.finish()
    other.finish()
    assert weights(model) == pytest.approx(weights(plain), abs=1e-6)


def test_several_optimizers_one_of_them_without_gradients() -> None:
    """A scaler of torch refuses the second: "No inf checks were recorded for this optimizer"."""
    model, idle = net(), net()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    guard = StepGuard([model, idle], [adam(model), adam(idle)], scaler=scaler)
    before = weights(idle)
    run(model, guard, rows(4), bad=[1])
    assert (guard.counts.stepped, guard.counts.skipped, weights(idle)) == (3, 1, before)


def test_a_scaler_is_loaded_and_saved_between_windows() -> None:
    model = net()
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    guard = StepGuard(model, adam(model), scaler=scaler)
    run(model, guard, rows(3))
    state, told = copy.deepcopy(scaler.state_dict()), guard.state_dict()
    scaler.load_state_dict({**state, "scale": 16.0})
    run(model, guard, rows(3))
    assert scaler.get_scale() == 16.0
    guard.load_state_dict(told)
    assert guard.counts.windows == 3


def test_an_error_in_the_middle_of_a_step_reaches_no_later_one() -> None:
    model, same = net(), net()
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    failing = [True]

    class Adam(torch.optim.AdamW):
        def step(self, closure: Any = None) -> Any:
            if failing and failing.pop():
                raise RuntimeError("out of memory")
            return super().step(closure)

    guard = StepGuard(model, Adam(model.parameters(), lr=0.01), scaler=scaler)
    with pytest.raises(RuntimeError, match="out of memory"):
        guard.backward(loss_of(model, rows(1)[0]))
    run(model, guard, rows(4))
    run(same, StepGuard(same, adam(same)), rows(4))
    assert weights(model) == pytest.approx(weights(same), abs=1e-6)


def test_the_scalers_search_is_no_alarm_and_a_search_without_end_is_hopeless() -> None:
    model = net()
    guard = StepGuard(model, adam(model), scaler=torch.amp.GradScaler("cpu", init_scale=2.0**8), hopeless_after=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(model, guard, rows(12), range(6), infinite_gradients)
    assert (guard.counts.searching, guard.counts.skipped, guard.counts.stepped) == (6, 0, 6)
    assert guard.safe_to_save
    with pytest.raises(HopelessTraining, match="all of the last 20 steps"):
        run(model, guard, rows(60), range(60), infinite_gradients)


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stepping, "can_wait", lambda _self, _bad: True)


@pytest.mark.usefixtures("unseen")
@pytest.mark.parametrize("name", ["AdamW", "Adam", "SGD", "Adagrad"])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_fused_optimizer_skips_by_the_flag_alone(name: str, *, scaled: bool) -> None:
    """The first step is skipped too: fused SGD of torch then takes uninitialised memory for its momentum."""
    finals = []
    for bad in ((0, 4), ()):
        model = net()
        named = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01, fused=True, **named)
        guard = StepGuard(model, optimizer, clip=1.0, scaler=torch.amp.GradScaler("cpu", init_scale=4.0) if scaled else None)
        batches = rows(8)
        run(model, guard, batches if bad else [batch for number, batch in enumerate(batches) if number not in (0, 4)], bad)
        assert guard.counts.windows == (8 if bad else 6) - LAG
        guard.finish()
        assert (guard.counts.skipped, guard.counts.stepped) == (len(bad), 6)
        finals.append(weights(model))
    assert finals[0] == finals[1]


def test_fused_sgd_of_torch_alone_is_lost_after_a_skipped_first_step() -> None:
    parameter = nn.Parameter(torch.ones(64, 64))
    junk = [torch.full((64, 64), 7e7) for _ in range(50)]
    del junk
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9, fused=True)
    for found, gradient in ((1.0, NAN), (0.0, 1.0)):
        optimizer.found_inf = torch.tensor(found)  # type: ignore[attr-defined]
        parameter.grad = torch.full((64, 64), gradient)
        optimizer.step()
    if torch.equal(parameter, torch.full((64, 64), 0.9)):
        pytest.skip("the memory happened to hold zeros, or torch has mended it")
    guarded = nn.Parameter(torch.ones(64, 64))
    stepping = Stepping([torch.optim.SGD([guarded], lr=0.1, momentum=0.9, fused=True)], None)
    for found, gradient in ((1.0, NAN), (0.0, 1.0)):
        guarded.grad = torch.full((64, 64), gradient)
        stepping.step_unseen(torch.tensor(found))
    assert torch.allclose(guarded, torch.full((64, 64), 0.9))


def test_a_loaded_state_that_is_not_fused_goes_by_the_host() -> None:
    model = net()
    optimizer = adam(model, fused=True)
    stepping = Stepping([optimizer], None)
    gpu = torch.device("cuda")
    assert stepping.can_wait(gpu)
    optimizer.load_state_dict(adam(net()).state_dict())
    assert not stepping.can_wait(gpu)


@pytest.mark.usefixtures("unseen")
def test_what_is_known_late_is_kept_and_said_late() -> None:
    model = net()
    guard = StepGuard(model, adam(model, fused=True), hopeless_after=3)
    asked = []

    def loader() -> Iterator[dict[str, Any]]:
        for number, batch in enumerate(rows(20)):
            asked.append(number)
            yield {"x": batch, "id": number}

    with pytest.raises(HopelessTraining, match="since step 2"):
        run(model, guard, loader(), range(2, 20))
    assert asked[-1] == 4 + LAG + 1  # one ahead
    assert [kept.ids for kept in guard.kept] == [[2], [3], [4]]
