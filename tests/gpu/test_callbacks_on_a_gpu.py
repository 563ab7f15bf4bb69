"""On a GPU: the callbacks with the scalers that the frameworks make themselves for fp16."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the look whether there is a torch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here"),
    pytest.mark.filterwarnings("ignore:StepGuard", "ignore:The log shows"),
]
BAD = 12


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x: Any, labels: Any) -> dict[str, Any]:
        return {"loss": (self.layers(x) - labels).float().square().mean()}


def samples(count: int) -> Any:
    torch.manual_seed(1)
    made = [{"x": torch.randn(16), "labels": torch.randn(1)} for _ in range(count)]
    made[4 * BAD + 1]["x"][3] = float("nan")
    return made


def good(model: Any, guard: Any) -> None:
    assert all(bool(tensor.isfinite().all()) for tensor in model.state_dict().values())
    assert (guard.counts.bad_loss, guard.counts.bad_gradients, guard.counts.windows) == (1, 0, 20)
    assert guard.counts.stepped + guard.counts.searching == 19
    assert guard.kept[0].step == BAD


@pytest.mark.parametrize("clip", [0.0, 1.0])
@pytest.mark.parametrize("optimizer", ["adamw_torch", "adamw_torch_fused"])
def test_transformers_in_fp16(tmp_path: Path, optimizer: str, clip: float) -> None:
    pytest.importorskip("transformers")
    transformers: Any = import_module("transformers")
    from crashcart.train.transformers import GuardCallback

    base: Any = transformers.Trainer

    class InOrder(base):  # type: ignore[misc]
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    guard = GuardCallback()
    arguments = transformers.TrainingArguments(
        str(tmp_path), fp16=True, per_device_train_batch_size=4, max_steps=20, report_to=[], save_strategy="no",
        disable_tqdm=True, max_grad_norm=clip, optim=optimizer,
    )  # fmt: skip
    trainer = InOrder(model=Net(), args=arguments, train_dataset=samples(80), callbacks=[guard])
    trainer.train()
    good(trainer.model, guard)


@pytest.mark.parametrize("fused", [False, True])
def test_lightning_in_fp16(tmp_path: Path, *, fused: bool) -> None:
    pytest.importorskip("lightning.pytorch")
    lightning: Any = import_module("lightning.pytorch")
    from crashcart.train.lightning import GuardCallback

    base: Any = lightning.LightningModule

    class Module(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: Any, number: int) -> Any:  # noqa: ARG002
            return self.net(**batch)["loss"]

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=fused)

    guard, module = GuardCallback(), Module()
    trainer = lightning.Trainer(
        precision="16-mixed", accelerator="gpu", devices=1, max_epochs=1, logger=False, callbacks=[guard],
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(module, torch.utils.data.DataLoader(samples(80), batch_size=4))
    good(module, guard)
