"""GuardCallback in a real Trainer: what the Trainer alone does to a NaN, and what is left of it with the callback."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
import torch
from guarded import INF, NAN
from safetensors.torch import load_file
from torch import Tensor, nn

from crashcart.train import HopelessTraining
from crashcart.train.transformers import GuardCallback

if TYPE_CHECKING:
    from pathlib import Path

# Without their types, which differ between versions.
Trainer: Any = import_module("transformers").Trainer
TrainerCallback: Any = import_module("transformers").TrainerCallback
TrainingArguments: Any = import_module("transformers").TrainingArguments

pytestmark = pytest.mark.filterwarnings("ignore:StepGuard", "ignore:.*pin_memory", "ignore:The log shows")


class Net(nn.Module):
    """As models of transformers: named inputs, a dict with the loss."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
        self.register_buffer("mask", torch.full((2, 2), -INF).triu(1), persistent=False)

    def forward(self, x: Tensor, labels: Tensor, index: Tensor | None = None) -> dict[str, Tensor]:  # noqa: ARG002 - travels with it
        out = self.layers(x)
        return {"loss": (out - labels).square().mean(), "logits": out}


def samples(count: int, bad: set[int] = frozenset()) -> list[dict[str, Any]]:  # type: ignore[assignment]
    torch.manual_seed(1)
    made: list[dict[str, Any]] = [{"x": torch.randn(4), "labels": torch.randn(1), "index": n} for n in range(count)]
    for n in bad:
        made[n]["x"][2] = NAN
    return made


class InOrder(Trainer):  # type: ignore[misc]
    """Batch n is step n."""

    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)


def trainer(
    folder: Path,
    data: list[Any],
    *callbacks: Any,
    model: nn.Module | None = None,
    kind: Any = InOrder,
    **options: Any,
) -> Any:
    given: dict[str, Any] = {
        "output_dir": str(folder), "use_cpu": True, "per_device_train_batch_size": 2, "learning_rate": 0.01,
        "weight_decay": 0.5, "report_to": [], "disable_tqdm": True, "logging_steps": 1, "save_steps": 2,
        "max_steps": len(data) // 2, "dataloader_pin_memory": False, "lr_scheduler_type": "constant",
    }  # fmt: skip
    arguments = TrainingArguments(**{**given, **options})
    return kind(model=model or Net(), args=arguments, train_dataset=data, eval_dataset=samples(4), callbacks=list(callbacks))


def saved(folder: Path) -> dict[int, bool]:
    """Step of each checkpoint -> whether its weights are finite."""
    return {
        int(path.name.split("-")[1]): all(
            bool(tensor.isfinite().all()) for tensor in load_file(path / "model.safetensors").values()
        )
        for path in folder.glob("checkpoint-*")
    }


def state(model: Any) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in model.state_dict().items()}


class Each(TrainerCallback):  # type: ignore[misc]
    """The weights after each step."""

    def __init__(self) -> None:
        self.seen: list[dict[str, list[float]]] = []

    def on_step_end(self, args: Any, state_: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        self.seen.append(state(given["model"]))


def test_the_trainer_alone_saves_lost_weights_and_logs_a_loss_of_zero(tmp_path: Path) -> None:
    alone = trainer(tmp_path, samples(12, {4}))
    alone.train()
    assert saved(tmp_path) == {2: True, 4: False, 6: False}
    lines = [line for line in alone.state.log_history if "grad_norm" in line]
    assert [line["loss"] for line in lines[2:]] == [0.0] * 4
    assert all(math.isnan(line["grad_norm"]) for line in lines[2:])


def test_with_the_callback_the_step_is_not_made_and_all_that_is_saved_is_good(tmp_path: Path) -> None:
    guard, each = GuardCallback(keep_in=tmp_path / "kept"), Each()
    guarded = trainer(tmp_path / "out", samples(12, {4}), guard, each)
    with pytest.warns(UserWarning, match="skipped step 2: the loss was not finite.*samples 4, not finite: x"):
        guarded.train()
    assert saved(tmp_path / "out") == {2: True, 4: True, 6: True}
    assert each.seen[2]["layers.0.weight"] == each.seen[1]["layers.0.weight"]  # decay of 0.5 would show
    assert each.seen[2]["layers.1.running_mean"] == each.seen[1]["layers.1.running_mean"]
    assert each.seen[3] != each.seen[2]
    assert (guard.counts.stepped, guard.counts.skipped, guard.counts.bad_loss) == (5, 1, 1)
    (kept,) = guard.kept
    assert (kept.step, kept.ids, kept.not_finite) == (2, [4, 5], {"x": [0]})
    assert kept.path is not None
    assert guard.safe_to_save
    assert guarded.model is not None
    assert not guarded.model._forward_hooks


def test_steps_that_are_good_are_those_of_the_trainer_alone(tmp_path: Path) -> None:
    told = []
    for callbacks in ([], [GuardCallback]):
        made = trainer(tmp_path, samples(24), *callbacks, gradient_accumulation_steps=2, max_steps=6, save_strategy="no")
        made.train()
        told.append(state(made.model))
    assert told[0] == told[1]


def test_windows_and_losses_of_ones_own(tmp_path: Path) -> None:
    class Own(InOrder):
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:  # noqa: FBT001, FBT002
            labels = inputs.pop("labels")
            out = model.layers(inputs["x"])
            loss = (out - labels).square().mean()
            return (loss, out) if return_outputs else loss

    for kind, reason in ((InOrder, "loss"), (Own, "gradients")):
        guard = GuardCallback()
        made = trainer(
            tmp_path, samples(16, {9}), guard, kind=kind, gradient_accumulation_steps=2, max_steps=4, save_strategy="no"
        )
        made.train()
        assert (guard.counts.skipped, guard.counts.stepped) == (1, 3), kind
        assert getattr(guard.counts, f"bad_{reason}") == 1
        assert [(one.step, one.micro, one.ids) for one in guard.kept] == ([(2, 0, [8, 9])] if kind is InOrder else [])


def test_a_log_that_hides_it_is_called_out_once(tmp_path: Path) -> None:
    for every, words in (
        (1, "a loss of exactly 0, but the gradient norm is nan"),
        (4, "in 1 of the steps since the last line"),
    ):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            trainer(tmp_path, samples(24, {4, 18}), GuardCallback(), logging_steps=every, save_strategy="no").train()
        (line,) = [str(one.message) for one in said if "The log shows" in str(one.message)]
        assert words in line
        assert "logging_nan_inf_filter=False" in line


def test_gradients_that_overflow_are_no_hidden_loss(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trainer(tmp_path, samples(12), GuardCallback(), Overflow(2), save_strategy="no").train()
    assert [str(one.message) for one in said if "The log shows" in str(one.message)] == []
    assert any("skipped step 2: the gradients were not finite" in str(one.message) for one in said)


def test_no_line_of_a_good_run_is_called_out(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        trainer(tmp_path, samples(8), GuardCallback(), save_strategy="no", dataloader_pin_memory=False).train()


def test_a_run_without_a_good_step_ends_with_an_error(tmp_path: Path) -> None:
    data = samples(40, set(range(8, 40)))
    with pytest.raises(HopelessTraining, match="all of the last 5 steps were skipped, since step 4"):
        trainer(tmp_path, data, GuardCallback(hopeless_after=5)).train()
    assert all(saved(tmp_path).values())


class Break(TrainerCallback):  # type: ignore[misc]
    """Weights that are lost by something else than a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_optimizer_step(self, args: Any, state_: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        if state_.global_step == self.at:
            with torch.no_grad():
                given["model"].layers[0].weight[0, 0] = NAN


def test_weights_that_are_lost_are_not_saved_and_end_it(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="No checkpoint was written at step 4: it would hold 1 weights.*layers.0.weight"), pytest.raises(
        HopelessTraining, match="weights are not finite since step 4 or before"
    ):  # fmt: skip
        trainer(tmp_path, samples(20), GuardCallback(), Break(3)).train()
    assert saved(tmp_path) == {2: True}


def test_weights_that_are_lost_in_the_last_step_are_no_success(tmp_path: Path) -> None:
    with (
        pytest.warns(UserWarning, match="No checkpoint was written"),
        pytest.raises(HopelessTraining, match="ended with 1 weights"),
    ):
        trainer(tmp_path, samples(8), GuardCallback(), Break(3)).train()
    assert saved(tmp_path) == {2: True}


def test_the_best_checkpoint_is_not_one_of_lost_weights(tmp_path: Path) -> None:
    """A NaN loss is never the best; an accuracy of lost weights may be."""
    options: dict[str, Any] = {
        "eval_strategy": "steps",
        "eval_steps": 1,
        "save_strategy": "best",
        "metric_for_best_model": "score",
        "max_steps": 3,
    }
    broken: Any = Break(0)
    for callbacks, wanted in (([broken], False), ([GuardCallback(), broken], None)):
        folder = tmp_path / str(wanted)
        made = trainer(folder, samples(8), *callbacks, **options)
        made.compute_metrics = lambda _: {"score": 0.1}
        if wanted is None:
            with pytest.raises(HopelessTraining, match="Evaluation found 1 weights"):
                made.train()
        else:
            made.train()
        assert saved(folder).get(1) is wanted


def test_lost_weights_are_taken_back(tmp_path: Path) -> None:
    guard = GuardCallback(rollback_every=5)
    with pytest.warns(UserWarning, match="went back to the weights after step"):
        trainer(tmp_path, samples(40), guard, Break(12), save_strategy="no").train()
    assert (guard.counts.rolled_back, guard.counts.skipped) == (1, 1)


@pytest.mark.parametrize("unscaled", [True, False])
def test_a_scaler_stays_sound(tmp_path: Path, *, unscaled: bool) -> None:
    """As in fp16, which accelerate has on GPUs only: with `max_grad_norm` gradients are unscaled before the hook."""

    class Scaled(InOrder):
        def create_accelerator_and_postprocess(self) -> None:
            super().create_accelerator_and_postprocess()
            self.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=100)

        def _clip_grad_norm(self, model: Any) -> Any:
            self.accelerator.scaler.unscale_(self.optimizer.optimizer)
            return nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    guard, each = GuardCallback(), Each()
    made = trainer(
        tmp_path, samples(16, {4}), guard, each, Overflow(5), kind=Scaled, max_grad_norm=float(unscaled), save_strategy="no"
    )
    made.train()
    assert (guard.counts.bad_loss, guard.counts.bad_gradients, guard.counts.stepped) == (1, 1, 6)
    assert each.seen[2]["layers.0.weight"] == each.seen[1]["layers.0.weight"]
    assert each.seen[5]["layers.0.weight"] == each.seen[4]["layers.0.weight"]
    assert made.accelerator.scaler.get_scale() == 4.0  # halved by the overflow, not by the broken sample


class Overflow(TrainerCallback):  # type: ignore[misc]
    """A finite loss whose gradients are not, at one step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_step_begin(self, args: Any, state_: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        if state_.global_step == self.at:
            weight = given["model"].layers[0].weight
            handles: list[Any] = []
            handles.append(weight.register_hook(lambda gradient: (handles[0].remove(), gradient * INF)[1]))


def test_copies_of_the_model_do_not_listen(tmp_path: Path) -> None:
    class Average(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state_: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
            average = copy.deepcopy(given["model"])
            pickle.loads(pickle.dumps(average))  # noqa: S301 - our own
            average(x=torch.randn(3, 4), labels=torch.zeros(3, 1))["loss"].backward()

    guard = GuardCallback()
    trainer(tmp_path, samples(8), guard, Average(), save_strategy="no").train()
    assert guard._seen == []
    assert guard.counts.stepped == 4


def test_another_training_begins_anew(tmp_path: Path) -> None:
    guard = GuardCallback(hopeless_after=3)
    with pytest.raises(HopelessTraining):
        trainer(tmp_path, samples(20, set(range(20))), guard, save_strategy="no").train()
    made = trainer(tmp_path, samples(20, {2}), guard, save_strategy="no")
    made.train()
    assert (guard.counts.stepped, guard.counts.skipped) == (9, 1)
    made.train()
    assert guard.counts.windows == 10
