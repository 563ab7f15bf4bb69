"""Checkpoints as real libraries save them: one builder for each."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

Builder = Callable[[Path], Path]


class Net(nn.Module):
    """Large enough for a lost page to fall into the middle of a row."""

    def __init__(self) -> None:
        """Make two layers."""
        super().__init__()
        self.first = nn.Linear(40, 300)
        self.second = nn.Linear(300, 2)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Run both."""
        return self.second(self.first(value).relu())  # type: ignore[no-any-return]


class Hostile:
    """Unpickling it would create a file."""

    def __init__(self, marker: Path) -> None:
        """Keep the file that must never appear."""
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Say what unpickling should run."""
        return os.system, (f"touch {self.marker}",)


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters())
    nn.functional.cross_entropy(net(torch.randn(16, 40)), torch.randint(0, 2, (16,))).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return net, optimizer


def training_state(step: int = 500) -> dict[str, Any]:
    net, optimizer = trained()
    return {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "rng": torch.get_rng_state()}


def batches() -> torch.utils.data.DataLoader[Any]:
    data = torch.utils.data.TensorDataset(torch.randn(16, 40), torch.randint(0, 2, (16,)))
    return torch.utils.data.DataLoader(data, batch_size=4)


def torch_zip(root: Path) -> Path:
    torch.save(training_state(), root / "step_500.pt")
    return root / "step_500.pt"


def torch_legacy(root: Path) -> Path:
    torch.save(training_state(), root / "model_500.pth", _use_new_zipfile_serialization=False)
    return root / "model_500.pth"


def torch_script(root: Path) -> Path:
    torch.jit.script(Net()).save(str(root / "scripted.pt"))  # type: ignore[no-untyped-call]
    return root / "scripted.pt"


def safetensors(root: Path) -> Path:
    library = pytest.importorskip("safetensors.torch")
    library.save_file(trained()[0].state_dict(), root / "model_500.safetensors")
    return root / "model_500.safetensors"


def sharded_safetensors(root: Path) -> Path:
    library = pytest.importorskip("safetensors.torch")
    return _sharded(root, "model", "safetensors", library.save_file)


def sharded_bin(root: Path) -> Path:
    return _sharded(root, "pytorch_model", "bin", torch.save)


def _sharded(root: Path, stem: str, suffix: str, save: Callable[[Any, Path], None]) -> Path:
    state = trained()[0].state_dict()
    weight_map = {}
    for number, layer in enumerate(("first", "second"), start=1):
        shard = f"{stem}-0000{number}-of-00002.{suffix}"
        weights = {name: tensor for name, tensor in state.items() if name.startswith(layer)}
        save(weights, root / shard)
        weight_map.update(dict.fromkeys(weights, shard))
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (root / f"{stem}.{suffix}.index.json").write_text(json.dumps(index))
    return root


def distributed(root: Path) -> Path:
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    dcp.save(training_state(), checkpoint_id=root / "step-500", no_dist=True)
    return root / "step-500"


def accelerate_state(root: Path) -> Path:
    return _accelerate(root, safe_serialization=True)


def accelerate_bin(root: Path) -> Path:
    return _accelerate(root, safe_serialization=False)


def _accelerate(root: Path, *, safe_serialization: bool) -> Path:
    library = pytest.importorskip("accelerate")
    accelerator = library.Accelerator(cpu=True)
    net, optimizer = trained()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    accelerator.prepare(net, optimizer, schedule, batches())
    for step in (1, 2):
        accelerator.save_state(str(root / f"checkpoint_{step}"), safe_serialization=safe_serialization)
        # A second rank: the same state under its name.
        states = root / f"checkpoint_{step}"
        shutil.copy(states / "random_states_0.pkl", states / "random_states_1.pkl")
    return root / "checkpoint_2"


def accelerate_deepspeed(root: Path) -> Path:
    states = _accelerate(root, safe_serialization=True)
    for folder in (states, states.with_name("checkpoint_1")):
        for name in ("model.safetensors", "optimizer.bin"):
            (folder / name).unlink()
        _deepspeed_ranks(folder / "pytorch_model", 12)
        (folder / "latest").write_text("pytorch_model")
    return states


def accelerate_fsdp(root: Path) -> Path:
    states = _accelerate(root, safe_serialization=True)
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    net, optimizer = trained()
    for folder in (states, states.with_name("checkpoint_1")):
        for name in ("model.safetensors", "optimizer.bin"):
            (folder / name).unlink()
        dcp.save(net.state_dict(), checkpoint_id=folder / "pytorch_model_fsdp_0", no_dist=True)
        dcp.save(optimizer.state_dict()["state"][0], checkpoint_id=folder / "optimizer_0", no_dist=True)
    return states


def hf_trainer(root: Path) -> Path:
    return _trainer(root)


def hf_trainer_deepspeed(root: Path) -> Path:
    newest = _trainer(root)
    for step in (2, 4):
        folder = root / f"checkpoint-{step}"
        (folder / "optimizer.pt").unlink()
        _deepspeed_ranks(folder / f"global_step{step}", step)
        (folder / "latest").write_text(f"global_step{step}")
    return newest


def hf_trainer_model_only(root: Path) -> Path:
    return _trainer(root, save_only_model=True)


def _trainer(root: Path, **settings: Any) -> Path:
    library = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    net = library.LlamaForCausalLM(library.LlamaConfig(vocab_size=64, num_key_value_heads=2, **shape))
    data = [{"input_ids": torch.randint(0, 64, (8,)), "labels": torch.randint(0, 64, (8,))} for _ in range(16)]
    arguments = library.TrainingArguments(
        str(root), max_steps=4, save_steps=2, use_cpu=True, report_to=[], disable_tqdm=True, **settings
    )
    library.Trainer(net, arguments, train_dataset=data).train()
    return root / "checkpoint-4"


def lightning(root: Path) -> Path:
    library = pytest.importorskip("lightning")

    class Module(library.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters())

    keeper = library.pytorch.callbacks.ModelCheckpoint(root, save_top_k=-1, save_last="link")
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    runner = library.Trainer(max_epochs=2, accelerator="cpu", default_root_dir=root, callbacks=[keeper], **quiet)
    runner.fit(Module(), batches())
    return root / "epoch=1-step=8.ckpt"


def _deepspeed_ranks(folder: Path, step: int) -> None:
    folder.mkdir(parents=True)
    net, optimizer = trained()
    said = {"global_steps": step, "dp_world_size": 2, "mp_world_size": 1, "ds_version": "0.16.0"}
    torch.save({"module": net.state_dict(), "optimizer": None, **said}, folder / "mp_rank_00_model_states.pt")
    for rank in range(2):
        name = f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save({"optimizer_state_dict": optimizer.state_dict(), "ds_version": "0.16.0"}, folder / name)


def deepspeed(root: Path) -> Path:
    for step in (6, 12):
        _deepspeed_ranks(root / f"global_step{step}", step)
    (root / "latest").write_text("global_step12")
    return root / "global_step12"


def megatron(root: Path) -> Path:
    for rank in range(2):
        folder = root / "iter_0000500" / f"mp_rank_0{rank}"
        folder.mkdir(parents=True)
        torch.save({"iteration": 500, "model": trained()[0].state_dict()}, folder / "model_optim_rng.pt")
    (root / "latest_checkpointed_iteration.txt").write_text("500")
    return root / "iter_0000500"


BUILDERS: dict[str, Builder] = {
    builder.__name__: builder
    for builder in (
        torch_zip,
        torch_legacy,
        torch_script,
        safetensors,
        sharded_safetensors,
        sharded_bin,
        distributed,
        accelerate_state,
        accelerate_bin,
        accelerate_deepspeed,
        accelerate_fsdp,
        hf_trainer,
        hf_trainer_deepspeed,
        hf_trainer_model_only,
        lightning,
        deepspeed,
        megatron,
    )
}
