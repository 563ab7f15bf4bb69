"""GuardCallback in a real Lightning Trainer, with every precision and both kinds of optimization."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
import torch
from guarded import INF, NAN, infinite_gradients, weights
from torch import Tensor, nn

from crashcart.train import HopelessTraining
from crashcart.train.lightning import GuardCallback

if TYPE_CHECKING:
    from pathlib import Path

# Without their types, which differ between versions.
pl: Any = import_module("lightning.pytorch")
LightningModule: Any = pl.LightningModule
ModelCheckpoint: Any = import_module("lightning.pytorch.callbacks").ModelCheckpoint
MixedPrecision: Any = import_module("lightning.pytorch.plugins.precision").MixedPrecision

pytestmark = pytest.mark.filterwarnings(
    "ignore:StepGuard", "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:.*num_workers", "ignore:.*isinstance",
    "ignore:.*srun", "ignore:.*log_every_n_steps", "ignore:Checkpoint directory", "ignore:.*LeafSpec",
)  # fmt: skip


class Net(LightningModule):  # type: ignore[misc]
    def __init__(self, *, overflow_at: int = -1, break_at: int = -1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers: Any = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
        self.register_buffer("mask", torch.full((2, 2), -INF).triu(1))
        self.overflow_at, self.break_at = overflow_at, break_at
        self.after: list[list[float]] = []

    def training_step(self, batch: Any, number: int) -> Tensor:
        loss: Tensor = (self.layers(batch["x"]) - 1).square().mean()
        return infinite_gradients(loss) if number == self.overflow_at else loss

    def on_train_batch_end(self, outputs: Any, batch: Any, number: int) -> None:  # noqa: ARG002
        self.after.append([*weights(self), *self.layers[1].running_mean.tolist()])

    def optimizer_step(self, epoch: int, number: int, *more: Any) -> None:
        super().optimizer_step(epoch, number, *more)
        if number == self.break_at:
            with torch.no_grad():
                self.layers[0].weight[0, 0] = NAN

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=0.01, weight_decay=0.5)


class Manual(Net):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, number: int) -> None:  # type: ignore[override]
        loss = super().training_step(batch, number)
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.AdamW(self.layers[0].parameters()), torch.optim.SGD(self.layers[3].parameters(), lr=0.1)]


def batches(count: int, bad: Any = ()) -> list[dict[str, Any]]:
    torch.manual_seed(1)
    made = [{"x": torch.randn(3, 4), "index": torch.arange(3) + 3 * n} for n in range(count)]
    for n in bad:
        made[n]["x"][1, 2] = NAN
    return made


def fit(folder: Path, model: Net, data: Any, *callbacks: Any, ckpt_path: Path | None = None, **options: Any) -> Any:
    given: dict[str, Any] = {
        "default_root_dir": folder, "accelerator": "cpu", "max_epochs": 1, "logger": False, "callbacks": list(callbacks),
        "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": bool(callbacks),
    }  # fmt: skip
    trainer = pl.Trainer(**{**given, **options})
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=None), ckpt_path=ckpt_path)
    return trainer


def every_step(folder: Path, **options: Any) -> Any:
    return ModelCheckpoint(dirpath=folder, filename="the", every_n_train_steps=1, enable_version_counter=False, **options)


def good(path: Path) -> bool:
    state = torch.load(path, weights_only=False)["state_dict"]
    return all(bool(tensor.isfinite().all()) for name, tensor in state.items() if name != "mask")


def test_lightning_alone_overwrites_the_good_checkpoint(tmp_path: Path) -> None:
    fit(tmp_path, Net(), batches(6, [3]), every_step(tmp_path))
    assert not good(tmp_path / "the.ckpt")


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_the_step_is_not_made_whatever_the_precision(tmp_path: Path, precision: str, clip: float | None) -> None:
    guard, model = GuardCallback(), Net(overflow_at=4)
    plugin = (
        MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=8.0)) if precision == "16-mixed" else None
    )
    options = {"plugins": plugin} if plugin else {"precision": precision}
    fit(tmp_path, model, batches(6, [2]), guard, every_step(tmp_path), gradient_clip_val=clip, **options)
    assert good(tmp_path / "the.ckpt")
    assert (guard.counts.bad_loss, guard.counts.bad_gradients, guard.counts.stepped) == (1, 1, 4)
    assert model.after[2] == model.after[1]
    assert model.after[4][:-8] == model.after[3][:-8]  # the statistics of that batch are good ones
    assert model.after[5] != model.after[4]
    assert [(one.step, one.ids, one.not_finite) for one in guard.kept] == [(2, [6, 7, 8], {"x": [1]}), (4, [12, 13, 14], {})]
    assert guard.kept[1].loss < 100
    if plugin and plugin.scaler:
        assert plugin.scaler.get_scale() == 4.0  # halved by the overflow, not by the broken sample


@pytest.mark.parametrize(
    "options", [{}, {"accumulate_grad_batches": 2}, {"precision": "bf16-mixed", "gradient_clip_val": 0.5}]
)
def test_steps_that_are_good_are_those_of_lightning_alone(tmp_path: Path, options: dict[str, Any]) -> None:
    told = []
    for callbacks in ([], [GuardCallback()]):
        model = Net()
        fit(tmp_path, model, batches(5), *callbacks, **{**options, "enable_checkpointing": False})
        told.append(model.after)
    assert told[0] == told[1]


def test_a_window_of_micro_batches_is_skipped_whole(tmp_path: Path) -> None:
    guard, model = GuardCallback(), Net()
    fit(tmp_path, model, batches(7, [3]), guard, accumulate_grad_batches=2, enable_checkpointing=False)
    assert (guard.counts.windows, guard.counts.skipped) == (4, 1)
    assert [(one.step, one.micro, one.ids) for one in guard.kept] == [(1, 1, [9, 10, 11])]
    assert model.after[3][:-8] == model.after[1][:-8]
    assert all(map(torch.isfinite, torch.tensor(model.after[-1])))


@pytest.mark.filterwarnings("ignore:Training ended, but all 1 steps were skipped")
def test_a_long_window_holds_few_batches_and_all_names(tmp_path: Path) -> None:
    guard = GuardCallback(keep=40)
    fit(tmp_path, Net(overflow_at=39), batches(40), guard, accumulate_grad_batches=40, enable_checkpointing=False)
    assert [one.ids for one in guard.kept] == [[3 * n, 3 * n + 1, 3 * n + 2] for n in range(40)]
    assert sum(one.batch is not None for one in guard.kept) == 16


def test_optimizers_that_are_stepped_by_hand(tmp_path: Path) -> None:
    guard, model = GuardCallback(), Manual()
    fit(tmp_path, model, batches(5, [2]), guard, enable_checkpointing=False)
    assert (guard.counts.stepped, guard.counts.skipped) == (8, 2)
    assert model.after[2][:-8] == model.after[1][:-8]


@pytest.mark.parametrize("weights_only", [True, False])
def test_lost_weights_are_not_saved_and_the_last_good_checkpoint_stays(tmp_path: Path, *, weights_only: bool) -> None:
    model = Net(break_at=3)
    checkpoint = ModelCheckpoint(dirpath=tmp_path, filename="{step}", every_n_train_steps=1, save_weights_only=weights_only)
    with pytest.raises(
        HopelessTraining, match=r"No checkpoint was written to .*step=4.*1 weights that are not finite: layers"
    ):
        fit(tmp_path, model, batches(6), GuardCallback(), checkpoint)
    assert [path.name for path in tmp_path.glob("*.ckpt")] == ["step=3.ckpt"]
    assert good(tmp_path / "step=3.ckpt")


def test_a_checkpoint_on_an_exception_is_none_of_lost_weights(tmp_path: Path) -> None:
    class Late(Net):
        def on_train_batch_end(self, outputs: Any, batch: Any, number: int) -> None:
            super().on_train_batch_end(outputs, batch, number)
            if number == 3:
                raise KeyError("the user's own")

    guard, checkpoint = GuardCallback(), ModelCheckpoint(dirpath=tmp_path, save_on_exception=True)
    with pytest.warns(UserWarning, match="No checkpoint was written"), pytest.raises(KeyError, match="the user's own"):
        fit(tmp_path, Late(break_at=3), batches(6), guard, checkpoint)
    assert list(tmp_path.glob("*.ckpt")) == []


def test_lost_weights_end_it_at_the_next_step_and_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(HopelessTraining, match="weights are not finite since step 4 or before"):
        fit(tmp_path, Net(break_at=3), batches(6), GuardCallback(), enable_checkpointing=False)
    with pytest.raises(HopelessTraining, match="ended with 1 weights"):
        fit(tmp_path, Net(break_at=5), batches(6), GuardCallback(), enable_checkpointing=False)


def test_a_run_without_a_good_step_ends_with_an_error_and_keeps_what_was_good(tmp_path: Path) -> None:
    with pytest.raises(HopelessTraining, match="all of the last 5 steps were skipped, since step 3"):
        fit(tmp_path, Net(), batches(30, range(3, 30)), GuardCallback(hopeless_after=5), every_step(tmp_path))
    assert good(tmp_path / "the.ckpt")


def test_advice_comes_once(tmp_path: Path) -> None:
    guard = GuardCallback()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit(tmp_path, Net(), batches(140, range(0, 140, 10)), guard, enable_checkpointing=False)
    assert sum("% of the last steps" in str(one.message) for one in said) == 1
    assert guard.advice is not None


def test_counts_are_resumed_and_saving_is_lightnings_own_again(tmp_path: Path) -> None:
    first, second = GuardCallback(), GuardCallback()
    trainer = fit(tmp_path, Net(), batches(4, [1]), first, every_step(tmp_path))
    assert "save_checkpoint" not in vars(trainer)
    resumed = fit(
        tmp_path, Net(), batches(4, [1]), second, every_step(tmp_path), max_epochs=2, ckpt_path=tmp_path / "the.ckpt"
    )
    assert resumed.global_step == 8
    assert (first.counts.skipped, second.counts.skipped, second.counts.windows) == (1, 2, 8)
    assert second.kept[0].step == 5
