"""Two gloo ranks that save and resume together: `torchrun resumed_ranks.py FOLDER WHAT...`, or started by hand with RANK and the like."""

# ruff: noqa: T201 - what they print is the answer
from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from crashcart.train import atomic_folder, resume, save_atomic, state_of

torch.set_num_threads(1)


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


def together(folder: Path, rank: int) -> None:
    """Each writes its part into one folder; one that raises spoils it for both, and the old one stays."""
    with atomic_folder(folder / "checkpoint-1") as place:
        (place / f"part{rank}").write_text(str(rank), encoding="utf-8")
    assert sorted(os.listdir(folder / "checkpoint-1")) == ["part0", "part1"]
    for bad in (0, 1):
        try:
            spoil(folder / "checkpoint-1", spoiler=rank == bad)
        except (ValueError, RuntimeError) as problem:  # noqa: PERF203 - each must be caught
            print(rank, type(problem).__name__, problem)
    assert sorted(os.listdir(folder / "checkpoint-1")) == ["part0", "part1"]
    assert os.listdir(folder) == ["checkpoint-1"] or rank


def spoil(path: Path, *, spoiler: bool) -> None:
    with atomic_folder(path) as place:
        (place / "new").write_text("x", encoding="utf-8")
        if spoiler:
            raise ValueError("here")


def alike(folder: Path, rank: int) -> None:
    """The second rank comes later, when there is one more; both load what the first has chosen. Only the first has written."""
    own = torch.nn.parallel.DistributedDataParallel(model())
    save_atomic(state_of(model=own, step=1), folder / "step-1.pt")
    dist.barrier()
    if rank:
        time.sleep(0.5)
        save_atomic(state_of(model=own, step=2), folder / "step-2.pt", every_rank=True)
    run = resume(folder, model=own)
    print(rank, "alike", run.step, round(float(torch.rand(1)), 6))


def sharded(folder: Path, rank: int) -> None:
    """Parameters in parts on both: saved whole, loaded in parts."""
    from torch.distributed.fsdp import fully_shard

    own = model()
    fully_shard(own)
    optimizer = torch.optim.Adam(own.parameters(), lr=0.1)
    own(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    expected = own.weight.full_tensor().clone()  # type: ignore[union-attr,operator]
    state = state_of(model=own, optimizer=optimizer, step=1)
    save_atomic(state, folder / "step-1.pt")
    dist.barrier()
    other = torch.nn.Linear(3, 2)
    fully_shard(other)
    optimizer = torch.optim.Adam(other.parameters(), lr=0.1)
    run = resume(folder, model=other, optimizer=optimizer)
    loaded: Any = other.weight
    same = torch.equal(loaded.full_tensor(), expected)
    moments = optimizer.state[next(other.parameters())]["exp_avg"].full_tensor()
    print(rank, "sharded", run.step, same, bool(moments.abs().sum() > 0), run.doubts)


def across(folder: Path, rank: int) -> None:
    """Saved by DDP and gone on with in shards, and the reverse: the same steps as if nothing had been changed."""
    from torch.distributed.fsdp import fully_shard

    def made(*, in_shards: bool) -> tuple[Any, Any]:
        own: Any = fully_shard(model()) if in_shards else torch.nn.parallel.DistributedDataParallel(model())
        return own, torch.optim.AdamW(own.parameters(), lr=0.1, foreach=False)

    def train(own: Any, optimizer: Any, steps: range) -> float:
        for step in steps:
            torch.manual_seed(10 * step + rank)
            loss = own(torch.randn(4, 3)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return round(float(loss), 6)

    for in_shards in (False, True):
        place = folder / str(in_shards)
        expected = train(*made(in_shards=False), range(6))
        own, optimizer = made(in_shards=in_shards)
        train(own, optimizer, range(3))
        save_atomic(state_of(model=own, optimizer=optimizer, step=3), place / "step-3.pt")
        dist.barrier()
        own, optimizer = made(in_shards=not in_shards)
        run = resume(place, model=own, optimizer=optimizer)
        print(rank, "across", train(own, optimizer, range(run.step, 6)) == expected, run.doubts)


def main(folder: str, *names: str) -> None:
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    for name in names:
        place = Path(folder) / name
        place.mkdir(exist_ok=True)
        {"together": together, "alike": alike, "sharded": sharded, "across": across}[name](place, dist.get_rank())
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
