"""What is kept of a bad step, what is advised, when it is hopeless, and the way back."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from guarded import INF, NAN, adam, infinite_gradients, loss_of, net, rows, run, weights
from torch import nn

from crashcart.train import HopelessTraining, NotSafeToSave, StepGuard

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:StepGuard")


def test_the_bad_batch_is_kept_with_its_samples_and_loads_safely(tmp_path: Path) -> None:
    model = net()
    guard = StepGuard(model, adam(model), accumulate=2, keep_in=tmp_path / "kept")
    batches: list[dict[str, Any]] = [
        {
            "x": batch,
            "index": torch.tensor([10 * n, 10 * n + 1]),
            "meta": {"names": ["a", "b"], "none": None, "odd": object()},
        }
        for n, batch in enumerate(rows(6))
    ]
    batches[3]["x"][1, 2] = NAN
    with pytest.warns(UserWarning, match="skipped step 1: the loss was not finite.*samples 31, not finite: x"):
        run(model, guard, batches)
    (kept,) = guard.kept
    assert (kept.step, kept.micro, kept.ids, kept.not_finite) == (1, 1, [30, 31], {"x": [1]})
    assert kept.path is not None
    loaded = torch.load(kept.path, weights_only=True)
    assert loaded["ids"] == [30, 31]
    assert torch.equal(loaded["batch"]["x"].nan_to_num(), batches[3]["x"].nan_to_num())
    assert loaded["batch"]["meta"]["names"] == ["a", "b"]


def test_copies_are_bounded_and_keep_the_rows_that_matter() -> None:
    model = net()
    guard = StepGuard(model, adam(model), keep=2, keep_bytes=100)
    batch = torch.ones(1000, 4)
    batch[777, 1] = INF
    for _ in range(4):
        guard.backward(loss_of(model, batch), batch=(batch, ["text"]), ids=range(1000))
    assert len(guard.kept) == 2
    assert guard.kept[0].not_finite == {"0": [777]}
    assert guard.kept[0].batch[0].tolist() == batch[777:778].tolist()
    assert "samples 777" in str(guard.kept[0])


def test_batches_of_any_kind_are_kept_or_named() -> None:
    class Strange:
        def __init__(self) -> None:
            self.itself = self

        def __array__(self) -> None:
            raise ValueError

    class Pair(NamedTuple):
        x: Any
        y: Any

    model = net()
    guard = StepGuard(model, adam(model), keep=20)
    bad = loss_of(model, rows(1)[0]) * NAN
    sparse = torch.eye(3).to_sparse()
    batches: list[Any] = [None, 3, "text", [], {}, Strange(), Pair(rows(1)[0], None), [[{"x": [Strange()]}]], sparse]
    for batch in [*batches, torch.ones(())]:
        guard.backward(bad.detach().requires_grad_(), batch=batch)
    assert len(guard.kept) == 10
    assert guard.kept[6].batch["x"].shape == (2, 4)
    assert guard.kept[8].batch.is_sparse


def test_only_gradients_bad_keeps_every_micro_batch_of_the_window() -> None:
    model = net()
    guard = StepGuard(model, adam(model), accumulate=2)
    run(model, guard, [{"x": batch, "id": str(number)} for number, batch in enumerate(rows(4))], [2], infinite_gradients)
    assert [(kept.reason, kept.ids) for kept in guard.kept] == [("gradients", ["2"]), ("gradients", ["3"])]


def test_a_folder_that_cannot_be_written_does_not_stop_the_training() -> None:
    model = net()
    guard = StepGuard(model, adam(model), keep_in="/proc/nowhere")
    with pytest.warns(UserWarning, match="cannot write to keep_in='/proc/nowhere', the copy is in memory only"):
        run(model, guard, rows(3), bad=[1])
    assert guard.kept[0].path is None


def test_advice_comes_once_above_five_in_a_hundred() -> None:
    model = net()
    guard = StepGuard(model, adam(model))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run(model, guard, rows(90), bad=range(0, 90, 10))
        assert guard.advice is None
        run(model, guard, rows(110), bad=range(0, 90, 10))
    assert guard.advice is not None
    assert "look at the data" in guard.advice
    assert len([one for one in said if "% of the last steps" in str(one.message)]) == 1


def test_few_skips_bring_no_advice() -> None:
    model = net()
    guard = StepGuard(model, adam(model))
    run(model, guard, rows(300), bad=range(0, 300, 25))
    assert guard.advice is None
    assert "12 skipped (loss 12, gradients 0)" in guard.summary()


def test_weights_that_are_lost_end_it_at_the_first_skip_and_are_not_saved() -> None:
    model = net()
    guard = StepGuard(model, adam(model))
    run(model, guard, rows(3))
    guard.check_before_save()
    with torch.no_grad():
        next(model.parameters())[0, 0] = NAN
    with pytest.raises(NotSafeToSave, match=r"1 tensors are not finite: 0\.weight"):
        guard.check_before_save()
    with pytest.raises(HopelessTraining, match=r"weights are not finite since step 3 or before \(0\.weight\)"):
        run(model, guard, rows(3))
    assert not guard.safe_to_save


def test_a_mask_of_minus_infinity_is_no_lost_weight() -> None:
    model = net()
    model.register_buffer("mask", torch.full((3, 3), -INF).triu(1))
    model.register_parameter("frozen_mask", nn.Parameter(torch.full((3,), -INF), requires_grad=False))
    guard = StepGuard(model, adam(model), rollback_every=1)
    run(model, guard, rows(12), bad=[6])
    guard.check_before_save()
    with torch.no_grad():
        model.get_parameter("0.weight").fill_(NAN)
    run(model, guard, rows(4))
    assert (guard.counts.skipped, guard.counts.rolled_back) == (2, 1)
    model.get_buffer("mask")[0, 0] = NAN
    with pytest.raises(NotSafeToSave, match="mask"):
        guard.check_before_save()


def test_the_usual_skip_saves_a_run_that_never_learned() -> None:
    """Exit 0, every step skipped, a checkpoint: ours says that it is not worth saving."""
    model = net()
    guard = StepGuard(model, adam(model))
    run(model, guard, rows(5), bad=range(5))
    assert not guard.safe_to_save
    with pytest.raises(NotSafeToSave, match="all 5 steps were skipped"):
        guard.check_before_save()


@pytest.mark.parametrize("optimizer_too", [True, False])
def test_lost_weights_are_rolled_back(*, optimizer_too: bool) -> None:
    model = net()
    optimizer = adam(model)
    guard = StepGuard(model, optimizer, rollback_every=5, rollback_optimizer=optimizer_too)
    run(model, guard, rows(10))
    with torch.no_grad():
        next(model.parameters())[0, 0] = NAN
        optimizer.state[next(model.parameters())]["exp_avg"][0, 0] = NAN if optimizer_too else 0
    run(model, guard, rows(10))
    assert all(map(math.isfinite, weights(model)))
    assert (guard.counts.rolled_back, guard.counts.skipped) == (1, 1)


def test_a_series_of_skips_goes_back_to_before_it() -> None:
    model = net()
    guard = StepGuard(model, adam(model), rollback_every=5, rollback_after=3)
    run(model, guard, rows(6))
    run(model, guard, rows(5), bad=range(1, 5))
    assert guard.counts.rolled_back == 1


def test_running_statistics_survive_a_broken_batch() -> None:
    """The usual skip keeps the weights and loses the batch norm: evaluation is NaN for ever, training looks well."""
    torch.manual_seed(0)
    usual, model = (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)) for _ in range(2))
    batches = rows(6)
    batches[2][0, 0] = NAN
    optimizer, guard = adam(usual), StepGuard(model, adam(model))
    for batch in batches:
        loss = usual(batch).square().mean()
        if loss.isfinite():
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    for batch in guard.batches(batches):
        guard.backward(model(batch).square().mean())
    assert not usual.eval()(rows(1)[0]).isfinite().all()
    assert model.eval()(rows(1)[0]).isfinite().all()
    guard.check_before_save()
