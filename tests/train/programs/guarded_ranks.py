"""Run by test_step_guard.py as rank RANK of 2 over gloo: each scene prints one JSON line, or dies as a user's loop would."""

from __future__ import annotations

import json
import os
import sys
import warnings
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import torch
from torch import distributed, nn

from crashcart.train import HopelessTraining, StepGuard, agree_finite

RANK = int(os.environ["RANK"])
NAN = float("nan")


def net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def rows(count: int, rank: int = RANK) -> list[torch.Tensor]:
    torch.manual_seed(100 + rank)
    return [torch.randn(2, 4) for _ in range(count)]


def flat(model: nn.Module) -> list[float]:
    return [value for parameter in model.parameters() for value in parameter.detach().flatten().tolist()]


def loss_of(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
    return loss


def reference(windows: list[list[torch.Tensor]], clip: float | None = None) -> list[float]:
    """One process, one big batch for each window."""
    model = net()
    optimizer = sgd(model)
    for window in windows:
        optimizer.zero_grad()
        loss_of(model, torch.cat(window)).backward()  # type: ignore[no-untyped-call]
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return flat(model)


def apart(model: nn.Module, wanted: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(flat(model), wanted, strict=True))


def ddp(model: nn.Module | None = None) -> nn.parallel.DistributedDataParallel:
    return nn.parallel.DistributedDataParallel(model or net())


def usual() -> dict[str, Any]:
    """The skip of one rank alone."""
    model = ddp()
    optimizer = sgd(model)
    for number, batch in enumerate(rows(6)):
        loss = loss_of(model, batch) * (NAN if (RANK, number) == (1, 2) else 1)
        if not torch.isfinite(loss):
            optimizer.zero_grad()
            continue
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    distributed.barrier()
    return {"weights": flat(model)}


def nan_on_one() -> dict[str, Any]:
    model = ddp()
    guard = StepGuard(model, sgd(model), clip=1.0)
    data = [{"x": batch, "index": torch.tensor([2 * number, 2 * number + 1])} for number, batch in enumerate(rows(6))]
    for number, batch in enumerate(guard.batches(data)):
        guard.backward(loss_of(model, batch["x"]) * (NAN if (RANK, number) == (1, 2) else 1))
    return {"weights": flat(model), "skipped": guard.counts.skipped, "stepped": guard.counts.stepped, "kept": [kept.ids for kept in guard.kept]}  # fmt: skip


def inf_loss_with_good_gradients() -> dict[str, Any]:
    """Such a loss poisons no gradient, so DDP's own all-reduce tells nobody."""
    model = ddp()
    guard = StepGuard(model, sgd(model))
    for number, batch in enumerate(guard.batches(rows(4))):
        guard.backward(loss_of(model, batch) + (float("inf") if (RANK, number) == (0, 1) else 0))
    return {"weights": flat(model), "skipped": guard.counts.skipped}


def accumulation() -> dict[str, Any]:
    """Seven micro batches by three: the last window has one."""
    model = ddp()
    asked: list[int] = []
    original = distributed.all_reduce

    def counted(*arguments: Any, **named: Any) -> Any:
        asked.append(1)
        return original(*arguments, **named)

    distributed.all_reduce = counted
    guard = StepGuard(model, sgd(model), accumulate=3, clip=0.5)
    batches = guard.batches(rows(7))
    first = next(batches)
    asked.clear()  # the loaders' lengths were compared
    guard.backward(loss_of(model, first))
    for batch in batches:
        guard.backward(loss_of(model, batch))
    distributed.all_reduce = original
    both = [rows(7, 0), rows(7, 1)]
    wanted = reference([both[0][i:j] + both[1][i:j] for i, j in ((0, 3), (3, 6), (6, 7))], clip=0.5)
    return {"apart": apart(model, wanted), "all_reduces": len(asked), "partial": guard.counts.partial}


def sums_saved() -> dict[str, Any]:
    """How often DDP averages, counted by a hook of its own."""
    model = ddp()
    calls: list[int] = []

    def hook(_: object, bucket: Any) -> Any:
        calls.append(1)
        return distributed.all_reduce(bucket.buffer().div_(2), async_op=True).get_future().then(lambda done: done.value()[0])

    hook.__annotations__.clear()  # DDP wants the types themselves, not their names
    model.register_comm_hook(None, hook)
    guard = StepGuard(model, sgd(model), accumulate=3)
    for batch in guard.batches(rows(7)):
        guard.backward(loss_of(model, batch))
    both = [rows(7, 0), rows(7, 1)]
    wanted = reference([both[0][i:j] + both[1][i:j] for i, j in ((0, 3), (3, 6), (6, 7))])
    return {"calls": len(calls), "apart": apart(model, wanted)}


def own_loop() -> dict[str, Any]:
    """Nine micro batches here, eight there, by four: the ninth lies on one rank, and DDP has not averaged it."""
    model = ddp()
    guard = StepGuard(model, sgd(model), accumulate=4)
    for batch in rows(9 if RANK == 0 else 8):
        with guard.step(batch):
            guard.backward(loss_of(model, batch))
    finished = guard.finish()
    wanted = reference([rows(4, 0) + rows(4, 1), rows(8, 0)[4:] + rows(8, 1)[4:], rows(9, 0)[8:]])
    return {"apart": apart(model, wanted), "finished": finished, "again": guard.finish()}


def static_graph() -> dict[str, Any]:
    """By torch's own no_sync an internal error: the first backward of a static graph has to average."""
    model = nn.parallel.DistributedDataParallel(net(), static_graph=True)
    with model.no_sync():
        try:
            loss_of(model, rows(1)[0]).backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            usual = str(error)
    apart_by = []
    for nested in (False, True):
        model = nn.parallel.DistributedDataParallel(net(), static_graph=True)
        guard = StepGuard(model, sgd(model), accumulate=3)
        for batch in guard.batches(rows(7)):
            with guard.step(batch) if nested else nullcontext():
                guard.backward(loss_of(model, batch))
        all_rows = [[*rows(7, 0)[i : i + 3], *rows(7, 1)[i : i + 3]] for i in (0, 3, 6)]
        apart_by.append(apart(model, reference(all_rows)))
    return {"usual": usual, "apart": max(apart_by)}


def weighted() -> dict[str, Any]:
    """Micro batches of unequal size, also between ranks."""
    model = ddp()
    torch.manual_seed(7)
    samples = torch.randn(12, 4)
    mine = [samples[:1], samples[1:4], samples[4:6]] if RANK == 0 else [samples[6:10], samples[10:11], samples[11:]]
    guard = StepGuard(model, sgd(model), accumulate=3)
    for batch in guard.batches(mine):
        guard.backward(loss_of(model, batch), weight=len(batch))
    return {"apart": apart(model, reference([[samples]]))}


def weighted_here_only() -> dict[str, Any]:
    """A weight on one rank alone: each would divide by another number, and the models would part without a word."""
    said = []
    for unseen in (False, True):
        model = ddp()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True) if unseen else sgd(model)
        guard = StepGuard(model, optimizer, accumulate=2)
        if unseen:
            guard._stepping.can_wait = lambda device: True  # type: ignore[method-assign]  # noqa: ARG005 - its name is asked for
        try:
            for batch in guard.batches(rows(20)):
                guard.backward(loss_of(model, batch), weight=3 if RANK == 0 else None)
        except ValueError as error:
            said.append(str(error))
    return {"said": said, "weights": flat(ddp())}


def no_lengths() -> dict[str, Any]:
    """Generators, two batches on one rank, four on the other: one window of all six."""
    model = ddp()
    guard = StepGuard(model, sgd(model), accumulate=4)
    for batch in guard.batches(iter(rows(4 if RANK == 0 else 2))):
        guard.backward(loss_of(model, batch))
    return {"apart": apart(model, reference([rows(4, 0) + rows(2, 1)]))}


def unequal_lengths() -> dict[str, Any]:
    model = ddp()
    guard = StepGuard(model, sgd(model))
    for batch in guard.batches(rows(5 if RANK == 0 else 3)):
        guard.backward(loss_of(model, batch))
    return {"windows": guard.counts.windows, "weights": flat(model)}


def scaler_alone_on_each() -> dict[str, Any]:
    """No wrapper: gradients overflow on rank 0 only, and both scalers must fall alike."""
    model = net()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    guard = StepGuard(model, sgd(model), scaler=scaler)
    seen = []
    for number, batch in enumerate(guard.batches(rows(4, 0))):
        loss = loss_of(model, batch)
        if (RANK, number) == (0, 1):
            loss.register_hook(lambda gradient: gradient * float("inf"))  # type: ignore[no-untyped-call]
        guard.backward(loss)
        seen.append((guard.stepped, scaler.get_scale()))
    return {"seen": seen, "weights": flat(model)}


def hopeless() -> dict[str, Any]:
    model = ddp()
    guard = StepGuard(model, sgd(model), hopeless_after=5)
    try:
        for batch in guard.batches(rows(20)):
            guard.backward(loss_of(model, batch) * (NAN if RANK == 1 else 1))
    except HopelessTraining as error:
        return {"step": guard.counts.windows - 1, "said": str(error), "safe": guard.safe_to_save}
    return {"step": -1}


def lost_weights_go_back() -> dict[str, Any]:
    """A step that is finite and far too long; both ranks go back to the same weights."""
    model = ddp()
    optimizer = sgd(model)
    guard = StepGuard(model, optimizer, rollback_every=1)
    for number, batch in enumerate(guard.batches(rows(14))):
        if number == 7:
            for group in optimizer.param_groups:
                group["lr"] = float("inf")
        guard.backward(loss_of(model, batch))
        if number == 7:
            for group in optimizer.param_groups:
                group["lr"] = 0.1
    return {"weights": flat(model), "rolled_back": guard.counts.rolled_back}


def own_cycle() -> dict[str, Any]:
    """The free function: one rank's gradient is not finite, both know."""
    model = net()
    loss_of(model, rows(1)[0]).backward()  # type: ignore[no-untyped-call]
    good = bool(agree_finite(model))
    if RANK == 1:
        next(model.parameters()).grad[0, 0] = NAN  # type: ignore[index]
    if RANK == 0:
        model.zero_grad()  # nothing to look at here, but the other waits
    return {"good": good, "bad": bool(agree_finite(model)), "alone": bool(agree_finite(model, group=False))}


def shards(model: nn.Module) -> list[Any]:
    return list(model.parameters())


def sharded() -> dict[str, Any]:
    """FSDP2: a gradient of NaN reaches only the rank into whose shard it falls."""
    from torch.distributed.fsdp import fully_shard

    results: dict[str, Any] = {}
    for no_sync in (None, True):
        model = net()
        fully_shard(model)
        guard = StepGuard(model, sgd(model), accumulate=2, clip=0.5, no_sync=no_sync)
        for batch in guard.batches(rows(5)):
            guard.backward(loss_of(model, batch))
        both = [rows(5, 0), rows(5, 1)]
        wanted = reference([both[0][i:j] + both[1][i:j] for i, j in ((0, 2), (2, 4), (4, 5))], clip=0.5)
        full = [value for parameter in shards(model) for value in parameter.full_tensor().flatten().tolist()]
        results[f"apart, no_sync {no_sync}"] = max(abs(a - b) for a, b in zip(full, wanted, strict=True))
    model = net()
    fully_shard(model)
    guard = StepGuard(model, sgd(model))
    for number, batch in enumerate(guard.batches(rows(3))):
        loss = loss_of(model, batch)
        if number == 1:  # a gradient of NaN in one entry of one parameter, with a finite loss
            poison = next(model.parameters())
            poison.register_post_accumulate_grad_hook(_poison_once())  # type: ignore[no-untyped-call]
        guard.backward(loss)
    results["fused"] = _fused_and_unseen()
    results["skipped"] = guard.counts.skipped
    results["finite"] = all(bool(parameter.to_local().isfinite().all()) for parameter in shards(model))
    return results


def _fused_and_unseen() -> list[Any]:
    """The flag that only the device reads, with shards."""
    from torch.distributed.fsdp import fully_shard

    model = net()
    fully_shard(model)
    guard = StepGuard(model, torch.optim.AdamW(model.parameters(), fused=True), clip=0.5)
    guard._stepping.can_wait = lambda device: True  # type: ignore[method-assign]  # noqa: ARG005 - its name is asked for
    for number, batch in enumerate(guard.batches(rows(5))):
        guard.backward(loss_of(model, batch) * (NAN if (RANK, number) == (1, 0) else 1))
    guard.finish()
    return [guard.counts.stepped, guard.counts.skipped, all(bool(one.to_local().isfinite().all()) for one in shards(model))]


def _poison_once() -> Any:
    done: list[int] = []

    def poison(parameter: Any) -> None:
        if not done and RANK == 1:
            done.append(1)
            parameter.grad[0, 0] = NAN

    return poison


SCENES = [
    *(
        nan_on_one,
        inf_loss_with_good_gradients,
        accumulation,
        sums_saved,
        own_loop,
        static_graph,
        weighted,
        weighted_here_only,
        no_lengths,
        unequal_lengths,
    ),
    *(scaler_alone_on_each, hopeless, lost_weights_go_back, own_cycle, sharded),
]

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    seconds = 5 if sys.argv[1] == "usual" else 40
    distributed.init_process_group(
        "gloo", init_method=f"file://{sys.argv[2]}", rank=RANK, world_size=2, timeout=timedelta(seconds=seconds)
    )
    for scene in [usual] if sys.argv[1] == "usual" else SCENES:
        print(json.dumps([scene.__name__, scene()]), flush=True)  # noqa: T201 - what the test reads
    distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads live as long as DDP does, and abort where the interpreter ends first (pytorch#179291)
