"""Run by test_callbacks_ranks.py as rank RANK of 2 over gloo: one scene in a framework, one JSON line, or the death of a user's loop."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from datetime import timedelta
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

RANK = int(os.environ["RANK"])
NAN = float("nan")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: Tensor, labels: Tensor | None = None, index: Tensor | None = None) -> dict[str, Tensor]:  # noqa: ARG002
        return {"loss": (self.layers(x) - 1).square().mean()}


def samples(count: int, bad: int) -> Any:
    torch.manual_seed(1)
    made: Any = [{"x": torch.randn(4), "index": n} for n in range(count)]
    made[bad]["x"][2] = NAN
    return made


def told(model: nn.Module, guard: Any, **more: Any) -> dict[str, Any]:
    flat = [value for parameter in model.parameters() for value in parameter.detach().flatten().tolist()]
    counts = {} if guard is None else {"stepped": guard.counts.stepped, "skipped": guard.counts.skipped}
    kept = [] if guard is None else [one.ids for one in guard.kept]
    return {"weights": flat, "finite": all(map(math.isfinite, flat)), **counts, "kept": kept, **more}


def in_transformers(folder: str, *, guarded: bool) -> dict[str, Any]:
    from crashcart.train.transformers import GuardCallback

    transformers: Any = import_module("transformers")
    base: Any = transformers.Trainer

    class InOrder(base):  # type: ignore[misc]
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    guard = GuardCallback()
    arguments = transformers.TrainingArguments(
        output_dir=folder, use_cpu=True, ddp_backend="gloo", per_device_train_batch_size=2, max_steps=6, report_to=[],
        save_steps=4, gradient_accumulation_steps=2, dataloader_pin_memory=False, disable_tqdm=True, learning_rate=0.01,
    )  # fmt: skip
    trainer = InOrder(model=Net(), args=arguments, train_dataset=samples(48, 22), callbacks=[guard] if guarded else [])
    trainer.train()
    return told(trainer.model, guard if guarded else None)


def in_lightning(folder: str, *, guarded: bool) -> dict[str, Any]:
    from crashcart.train.lightning import GuardCallback

    pl: Any = import_module("lightning.pytorch")
    base: Any = pl.LightningModule

    class Module(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: Any, number: int) -> Tensor:  # noqa: ARG002
            loss: Tensor = self.net(**batch)["loss"]
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    os.environ["LOCAL_RANK"] = str(RANK)
    guard = GuardCallback()
    trainer = pl.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False, default_root_dir=folder,
        callbacks=[guard] if guarded else [], enable_progress_bar=False, enable_model_summary=False,
        accumulate_grad_batches=2, enable_checkpointing=False,
    )  # fmt: skip
    module = Module()
    trainer.fit(module, torch.utils.data.DataLoader(samples(48, 21), batch_size=2, shuffle=False))
    return told(module, guard if guarded else None)


def in_accelerate(kind: str) -> dict[str, Any]:
    from crashcart.train import guard_for

    seconds = timedelta(seconds=10 if kind == "usual" else 60)
    accelerate: Any = import_module("accelerate")
    accelerator = accelerate.Accelerator(
        cpu=True,
        gradient_accumulation_steps=2,
        kwargs_handlers=[accelerate.InitProcessGroupKwargs(timeout=seconds, backend="gloo")],
    )
    model: Any = Net()
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler: Any = torch.optim.lr_scheduler.StepLR(optimizer, 100)
    # 22 samples a rank in batches of 2: the last window is a half one. Rank 1 has sample 14 in its fourth batch.
    loader: Any = torch.utils.data.DataLoader(samples(44, 14), batch_size=2)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    if kind == "usual":
        return usual(accelerator, model, optimizer, loader)
    guard = guard_for(accelerator, model, optimizer, clip=1.0)
    micros = 0
    for _ in range(2):
        if kind == "batches":
            for batch in guard.batches(loader):
                guard.backward(model(**batch)["loss"])
                micros += 1
                if guard.stepped:
                    scheduler.step()
        else:
            for batch in loader:
                with accelerator.accumulate(model):
                    guard.backward(model(**batch)["loss"], batch=batch)
                    micros += 1
                    if guard.stepped:
                        scheduler.step()
    steps = scheduler.scheduler.last_epoch
    return told(model, guard, ranks=accelerator.num_processes, micros=micros, scheduled=steps, partial=guard.counts.partial)


def usual(accelerator: Any, model: Any, optimizer: Any, loader: Any) -> dict[str, Any]:
    """The loop of accelerate's documentation, with the usual skip."""
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch)["loss"]
            if not torch.isfinite(loss):
                optimizer.zero_grad()
                continue
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    accelerator.wait_for_everyone()
    return told(model, None)


def sharded() -> dict[str, Any]:
    """Each rank holds half of every weight: what is wrong in one half is known to both."""
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from crashcart.train.step.watch import StepWatch

    distributed.init_process_group("gloo")
    model: Any = Net()
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    watch = StepWatch()
    watch.begin(model, [optimizer], torch.device("cpu"), 0)
    made = []
    for step in range(4):
        loss = model(torch.randn(2, 4))["loss"]
        loss.backward()
        if (step, RANK) == (1, 1):
            model.layers[0].weight.grad.to_local()[0, 0] = float("inf")
        watch.saw(None, loss)
        made.append(watch.before_step(step, optimizer))
        optimizer.step()
        optimizer.zero_grad()
    before = watch.lost_weights()
    whole = model.layers[0].weight.full_tensor()
    if RANK == 1:
        with torch.no_grad():
            model.layers[0].weight.to_local()[0, 0] = NAN
    finite = bool(whole.isfinite().all())
    return {"made": made, "before": before, "after": watch.lost_weights(), "finite": finite}


def main() -> None:
    warnings.simplefilter("ignore")
    framework, kind, folder = sys.argv[1:]
    if framework == "accelerate":
        answer = in_accelerate(kind)
    elif framework == "sharded":
        answer = sharded()
    else:
        scene = in_transformers if framework == "transformers" else in_lightning
        answer = scene(folder, guarded=kind == "guarded")
    print("TOLD", json.dumps(answer), flush=True)  # noqa: T201 - read by the test
    os._exit(0)


main()
