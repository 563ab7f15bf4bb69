"""Small jobs whose ranks take turns, each run as `python turns.py NAME`; a rank prints what it saw, one line a thing."""

# ruff: noqa: T201 - they print what is compared
from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import time
from datetime import timedelta
from pathlib import Path

RANK = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
if "HOST" in os.environ:
    socket.gethostname = lambda: os.environ["HOST"]  # a rank that plays another machine

from crashcart.train import FirstRankError, load_once, rank_zero_first  # noqa: E402 - it reads the host's name
from crashcart.train.ranks import waiting  # noqa: E402 - as above

PREPARING = 5.0


def say(*words: object) -> None:
    """In one piece: the ranks share a pipe."""
    os.write(1, f"rank {RANK}: {' '.join(map(str, words))}\n".encode())


def join(seconds: float = 2.0) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))


def usual() -> None:
    """What people write: dies when the work takes longer than the group's time-out."""
    import torch.distributed as dist

    join()
    if RANK == 0:
        time.sleep(PREPARING)
    dist.barrier()
    say("through the barrier")


def ours() -> None:
    """The same work, then everything that one program may do with turns."""
    import torch
    import torch.distributed as dist

    join()
    cache = Path(os.environ["CACHE"])
    with rank_zero_first() as first:
        if first:
            time.sleep(PREPARING)
            cache.write_text("prepared")
        say("reads", cache.read_text(), first)
    for turn in range(3):  # the same place again, and one inside another
        with rank_zero_first(), rank_zero_first("inner"):
            say("turn", turn)
    calls = [lambda: say("a"), lambda: say("b")]
    for call in calls if RANK == 0 else reversed(calls):  # order does not matter where names differ
        load_once(call)
    say("got", load_once(lambda kind: f"built {kind}", "index", then=lambda kind: f"read {kind}"))
    try:
        with rank_zero_first("mine alone") as first:
            say({True: "no error"}[first])
    except KeyError:
        say("its own error")
    total = torch.ones(1)
    dist.all_reduce(total)  # nothing of ours was left in the group's way
    say("ranks", int(total))
    dist.destroy_process_group()  # gloo alone, left open, now and then aborts at the end of the process


def raises() -> None:
    with rank_zero_first("bad"):
        raise ValueError("no such file: train.h5")


def told() -> None:
    """By hand, two ranks: what rank 1 hears of rank 0."""
    waiting.WORD_SECONDS = 1.0
    with rank_zero_first(silence_seconds=1.0) as first:
        if first:
            ctypes.PyDLL(None).sleep(4)  # keeps the interpreter lock: silent, but not dead
    say("goes on")
    try:
        raises()
    except (ValueError, FirstRankError) as error:
        say(type(error).__name__, str(error).replace("\n", " / "))
    try:
        load_once(sys.exit, 3)
    except (SystemExit, FirstRankError) as error:
        say(type(error).__name__, str(error).splitlines()[0])
    if RANK == 1:  # a call that rank 0 never makes
        try:
            load_once(lambda: say("never"))
        except FirstRankError as error:
            say(str(error))


def killed() -> None:
    """The first rank of each circle is killed in the middle, by itself."""
    scope, victim, silence = os.environ["SCOPE"], int(os.environ["VICTIM"]), float(os.environ.get("SILENCE", "300"))
    load_once(int)  # every rank has found the store
    begin = time.monotonic()
    try:
        with rank_zero_first(scope=scope, silence_seconds=silence) as first:  # type: ignore[arg-type]
            if victim == RANK:
                time.sleep(1)
                os.kill(os.getpid(), signal.SIGKILL)
            if first:
                time.sleep(3)
    finally:
        say(f"waited {time.monotonic() - begin:.1f} s")
    say("goes on")


def passes_by() -> None:
    """The first rank thinks that the call is for the others."""
    if RANK == 0:
        time.sleep(5)
        return
    load_once(passes_by)


def nodes() -> None:
    """One rank of each machine prepares."""
    with rank_zero_first(scope="node") as first:
        begin = time.monotonic()
        if first:
            time.sleep(1.5)
        say("node", os.environ.get("GROUP_RANK"), "first" if first else "later", begin)
    join(30)
    with rank_zero_first() as first:
        say("job", "first" if first else "later")


def restarted() -> None:
    """The notes of the attempt before are still in torchrun's store."""
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    with rank_zero_first("built") as first:
        if first and attempt == "0":
            raise ValueError("the first attempt fails")
        if first:
            time.sleep(1.5)
            Path(os.environ["CACHE"]).write_text("prepared")
        say("attempt", attempt, Path(os.environ["CACHE"]).read_text())


def shared() -> None:
    """Ranks without torch that share a folder and nothing else."""
    with rank_zero_first(folder=os.environ["CACHE"]) as first:
        if first:
            time.sleep(1.5)
        say("first" if first else "later", time.monotonic())
    say("torch" if "torch" in sys.modules else "no torch")


def spawned(rank: int, port: int) -> None:
    import torch.distributed as dist

    for again in range(2):  # a second group has a store of its own
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port + again}", rank=rank, world_size=2)
        with rank_zero_first(scope="node") as first:
            if first:
                time.sleep(1)
            print("first" if first else "later", flush=True)
        dist.destroy_process_group()  # with no barrier before: the store is rank 0's


def unmarked() -> None:
    """Processes of multiprocessing, of which nobody said who is the first of its machine."""
    from torch import multiprocessing

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(spawned, (port,), nprocs=2)  # type: ignore[attr-defined, no-untyped-call]


def alone() -> None:
    with rank_zero_first() as first:
        say("first" if first else "later")
    say(load_once(lambda: 7), "torch" if "torch" in sys.modules else "no torch")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
