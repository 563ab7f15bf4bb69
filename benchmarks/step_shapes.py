"""Training loops of several shapes, run by `inside.py` in a process that has the hooks.

Each calls `turn()` at the end of every step. After each block of steps the hooks are taken out or put in again, and the thread CPU
of one step is printed: two processes never lie alike in memory, and differ by more than the hooks cost.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH = (torch.ones(8, 4), torch.ones(8, 1))
ROWS = 1 << 24


class Hooks:
    """What the inside part put in place of torch's own: can be taken out and put in again."""

    def __init__(self) -> None:
        import importlib

        from torch.utils.data import dataloader

        owners: tuple[Any, ...] = (
            dataloader._BaseDataLoaderIter,
            torch.Tensor,
            torch.amp.GradScaler,
            nn.Module,
            torch.optim.Optimizer,
        )
        self.places: list[tuple[Any, str, Any, Any]] = []
        for owner in owners:
            for name, ours in list(vars(owner).items()):
                theirs = (
                    getattr(ours, "__wrapped__", None) if hasattr(ours, "_crashcart") else getattr(ours, "_original", None)
                )
                if theirs is not None:
                    self.places.append((owner, name, ours, theirs))
        self.hooks: Any = importlib.import_module("torch.optim.optimizer")._global_optimizer_post_hooks
        self.after = dict(self.hooks)
        if not self.places or not self.after:
            raise SystemExit("there are no hooks in this process")

    def put(self, *, inside: bool) -> None:
        """With the hooks, or without."""
        for owner, name, ours, theirs in self.places:
            setattr(owner, name, ours if inside else theirs)
        self.hooks.clear()
        if inside:
            self.hooks.update(self.after)


class Turn:
    """Measures blocks of steps, with and without in turns; the first ones are only there to get warm."""

    def __init__(self, block: int, blocks: int) -> None:
        self.block = self.left = block
        self.blocks = blocks
        self.inside = True
        self.hooks = Hooks()
        self.begin = time.thread_time()

    def __call__(self) -> None:
        """One step is done."""
        self.left -= 1
        if self.left:
            return
        spent = (time.thread_time() - self.begin) / self.block
        print(f"\nblock {'with' if self.inside else 'without'} {spent!r}", flush=True)
        self.blocks -= 1
        if not self.blocks:
            os._exit(0)
        self.inside = not self.inside
        self.hooks.put(inside=self.inside)
        self.left = self.block
        self.begin = time.thread_time()


class Samples(Dataset[Any]):
    """Ready batches: what a loader does is the same with and without."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return BATCH

    def __getitems__(self, indices: list[int]) -> Any:  # noqa: ANN401
        return BATCH


def loader() -> DataLoader[Any]:
    """One that gives the same batch again and again."""
    return DataLoader(Samples(), batch_sampler=[[0]] * (1 << 20), collate_fn=lambda batch: batch)


def error(outputs: torch.Tensor, targets: torch.Tensor) -> Any:  # noqa: ANN401 - torch leaves backward() without types
    """The loss of all shapes."""
    return outputs.sub(targets).square().mean()


def small(turn: Turn) -> None:
    """Plain SGD: the hooks beside as little as there can be."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for inputs, targets in loader():
        loss = error(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        turn()


def modes(turn: Turn) -> None:
    """`train()` before every step, here of 300 modules, as Hugging Face's trainer does."""
    model = nn.Sequential(nn.Linear(4, 1), *[nn.Identity() for _ in range(300)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for inputs, targets in loader():
        model.train()
        loss = error(model[0](inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        turn()


def full(turn: Turn) -> None:
    """AdamW with two groups, a scaler, a schedule that changes the rate every step, the loss read by the program too."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
    groups: Any = [{"params": model[0].parameters(), "weight_decay": 0.0}, {"params": model[1].parameters()}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    scaler = torch.amp.GradScaler("cpu")
    for inputs, targets in loader():
        loss = error(model(inputs), targets)
        optimizer.zero_grad()
        scaled: Any = scaler.scale(loss)
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        loss.item()
        turn()


def accelerate(turn: Turn) -> None:
    """Accelerate's loop."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = nn.Linear(4, 1)
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    batches = accelerator.prepare(loader())
    for inputs, targets in batches:
        loss = error(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        turn()


def trainer(turn: Turn) -> None:
    """Hugging Face's trainer with a small BERT."""
    import transformers

    class Rows(Dataset[Any]):
        def __len__(self) -> int:
            return ROWS

        def __getitem__(self, index: int) -> Any:  # noqa: ANN401
            return {"input_ids": torch.ones(4, dtype=torch.long), "labels": 0}

    class Turns(transformers.TrainerCallback):
        def on_step_end(self, *args: object, **kwargs: object) -> None:  # noqa: ARG002
            turn()

    config = transformers.BertConfig(
        vocab_size=8, hidden_size=8, num_hidden_layers=2, num_attention_heads=1, intermediate_size=8
    )
    classifier: Any = transformers.BertForSequenceClassification
    model = classifier(config)
    with tempfile.TemporaryDirectory() as folder:
        given = transformers.TrainingArguments(
            folder,
            max_steps=1 << 22,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            logging_steps=1 << 22,
        )
        transformers.Trainer(model, given, train_dataset=Rows(), callbacks=[Turns()]).train()


def lightning(turn: Turn) -> None:
    """Lightning's trainer."""
    import lightning as library

    class Module(library.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 1)

        def training_step(self, batch: Any, index: int) -> Any:  # noqa: ANN401, ARG002
            return error(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

        def on_train_batch_end(self, *args: object) -> None:  # noqa: ARG002
            turn()

    library.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(Module(), loader())


SHAPES = (small, modes, full, accelerate, trainer, lightning)

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    {shape.__name__: shape for shape in SHAPES}[sys.argv[1]](Turn(int(sys.argv[2]), int(sys.argv[3])))
