"""Two ranks that train under `crashcart run` until something happens, and what is said of them then."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import pytest

from crashcart.verbs.why import why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from crashcart.model import Diagnosis, Finding
pytest.importorskip("torch")


CRASHCART = [sys.executable, "-m", "crashcart.cli", "run", "--quiet"]


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


PATIENCE = 200.0


# Two ranks that train for ever, unless something happens: the first argument says what, on rank 1, at step 5.
TRAIN = """
    import os, sys, time
    import torch
    import torch.distributed as dist

    what = sys.argv[1]
    dist.init_process_group("gloo")
    rank, restart = dist.get_rank(), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    held = []
    for step in range(10 if what == "finish" else 12 if what == "restart" else 400):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if rank == 1 and step >= 5:
            if what == "crash" or (what == "restart" and restart == 0):
                {}["no such key"]
            elif what == "segfault":
                import ctypes
                ctypes.string_at(0)
            elif what == "exit":
                os._exit(3)
            elif what == "save":
                torch.save(model.state_dict(), "no/such/folder/model.pt")
            elif what == "fill":
                torch.save(torch.zeros(1 << 24), "model.pt")
            elif what == "open":
                held.append([open(os.devnull) for _ in range(20)])
            elif what == "eat":
                held.append(bytearray(b"x" * (64 << 20)))
            elif what == "eat slowly":
                held.append(bytearray(b"x" * (4 << 20)))
        time.sleep(0.1)
    dist.destroy_process_group()
"""


def prepared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the program in it, and the runs beside it."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CRASHCART_RUNS", str(folder / "runs"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (folder / "train.py").write_text(textwrap.dedent(TRAIN))
    return folder


@contextlib.contextmanager
def started(folder: Path, *command: str, grace: int = 30, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "seen").open("wb") as seen:
        job = subprocess.Popen(
            [*CRASHCART, "--grace", str(grace), "--", *command], **{"stdout": seen, "stderr": seen, **more}
        )
        try:
            yield job
            job.wait(PATIENCE)
        finally:
            for pid in [job.pid, *processes(folder)] if job.poll() is None else []:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            job.wait(PATIENCE)


def training(what: str, *flags: str) -> list[str]:
    return [*TORCHRUN, *flags, "train.py", what]


def ran(folder: Path, *command: str, **more: Any) -> Diagnosis:
    with started(folder, *command, **more):
        pass
    return told(folder)


def the_run(folder: Path) -> Path:
    (found,) = [path for path in (folder / "runs").iterdir() if path.is_dir()]
    return found


def events(folder: Path) -> list[dict[str, Any]]:
    try:
        lines = (the_run(folder) / "recording" / "events.jsonl").read_text().splitlines()
    except (OSError, ValueError):
        return []
    return [json.loads(line) for line in lines if line.endswith("}")]


def processes(folder: Path, *roles: str) -> dict[int, int | None]:
    """Ranks by pid, of processes of these roles."""
    told = {event["pid"]: (event["role"], event["rank"]) for event in events(folder) if event["kind"] == "process"}
    return {pid: rank for pid, (role, rank) in told.items() if not roles or role in roles}


def told(folder: Path) -> Diagnosis:
    return why(str(the_run(folder)))


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def trains(folder: Path) -> None:
    """Wait until both ranks have made some steps and are known."""
    until(lambda: b"step 4 " in (folder / "seen").read_bytes() and len(processes(folder, "rank")) == 2)


def pid_of(folder: Path, rank: int) -> int:
    return next(pid for pid, one in processes(folder, "rank").items() if one == rank)


def finding(diagnosis: Diagnosis, cause: str) -> Finding:
    return next(one for one in diagnosis.findings if one.cause == cause)


def words(one: Finding) -> str:
    """What a finding says from the record, with its evidence."""
    signs = [sign for sign in one.signs if any(item.source == "recorder" for item in sign.evidence)]
    return "\n".join(part for sign in signs for part in (sign.says, *(item.quote for item in sign.evidence)))


def blamed(diagnosis: Diagnosis) -> list[str]:
    return [one.cause for one in diagnosis.findings if one.role == "cause"]
