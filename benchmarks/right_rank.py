"""How often the right rank of the right stage is named: launch scripts of several programs, one of two ranks dies, again and again.

    python benchmarks/right_rank.py 20                  # 20 of each kind of death; 20 of 20 are expected
    python benchmarks/right_rank.py 5 crash sigkill     # only these
    python benchmarks/right_rank.py 5 --script seeds    # only in this kind of script

Each trial is a real job under ``crashcart run``: a shell script that prepares data, starts a server, trains with torchrun (two ranks, gloo)
behind wrappers, evaluates, or loops over seeds. Which of the two ranks dies, when, and in which script is by chance, the same for each
kind. A trial is right when the first rank, the stage (in a loop the pass) and the way in which it ended are the true ones. Beside it
stands how often the launcher's own "Root Cause" names the rank.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

from crashcart.verbs.why import why

TRAIN = """
    import argparse, datetime, os, signal, sys, time
    import torch
    import torch.distributed as dist

    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", default="none")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--step", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    waiting = dist.new_group(timeout=datetime.timedelta(seconds=4), backend="gloo")
    dies = options.seed == options.at_seed
    mine = rank == options.rank and dies
    kind = options.kind if dies else "none"

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 100000

        def __getitem__(self, index):
            if mine and index >= 4 * options.step:
                if kind == "worker-memory":
                    raise MemoryError("Unable to allocate 64.0 GiB for an array with shape (8589934592,)")
                if kind == "worker-killed":
                    time.sleep(1.5)
                    os.kill(os.getpid(), signal.SIGKILL)
            return torch.randn(8)

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=1 if kind.startswith("worker") else 0)
    last = options.step + 15 if kind in ("none", "skipped") else 100000
    for step, batch in enumerate(loader):
        if step == last:
            break
        loss = model(batch).pow(2).mean()
        if mine and step == options.step:
            if kind == "crash":
                raise ValueError("this rank crashes")
            if kind == "sigkill":
                os.kill(os.getpid(), signal.SIGKILL)
            if kind == "sigterm":
                os.kill(os.getpid(), signal.SIGTERM)
            if kind == "exit-code":
                os._exit(1)
            if kind == "early-exit":
                sys.exit(0)
            if kind == "skipped":  # this rank alone finds its loss not finite
                loss = loss * float("nan")
            while kind == "hang":
                time.sleep(1)
        if kind == "exit-code" and step == options.step:
            while True:  # works alone when the launcher's SIGTERM comes
                torch.randn(64, 64) @ torch.randn(64, 64)
        if kind == "barrier" and step == options.step:
            if not mine:
                time.sleep(600)
            dist.barrier(waiting)
        if not torch.isfinite(loss):
            continue
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        time.sleep(0.02)
    if kind == "none":
        dist.destroy_process_group()
"""
PREPARE = """
    import sys, time
    time.sleep(1.5)
    if "--fails" in sys.argv:
        raise FileNotFoundError("no data to prepare")
"""
SERVE = """
    import socket
    server = socket.create_server(("127.0.0.1", 0))
    while True:
        server.accept()
"""
GUARD = """
    import subprocess, sys
    code = subprocess.call(sys.argv[2:], timeout=float(sys.argv[1]))
    sys.exit(code if code >= 0 else 128 - code)
"""
EVALUATE = """
    import time
    time.sleep(1.2)
    print("accuracy 0.9", flush=True)
"""
PROGRAMS = {"train.py": TRAIN, "prepare.py": PREPARE, "server.py": SERVE, "guard.py": GUARD, "evaluate.py": EVALUATE}
SCRIPTS = {
    "plain": "LAUNCH --seed 0",
    "stages": """
        [ -d data ] || PYTHON prepare.py
        PYTHON server.py &
        server=$!
        LAUNCH --seed 0
        code=$?
        PYTHON evaluate.py
        kill $server
        exit $code""",
    "tolerated": "PYTHON prepare.py --fails || true\nLAUNCH --seed 0 || true\nPYTHON evaluate.py",
    "seeds": "PYTHON prepare.py\nfor seed in 0 1 2; do LAUNCH --seed $seed; done",
    "guard": "PYTHON prepare.py\nPYTHON guard.py 600 LAUNCH --seed 0",
    "timeout": "PYTHON server.py & timeout 600 LAUNCH --seed 0; code=$?; kill %1; exit $code",
    "nohup": "PYTHON prepare.py; nohup env SOME=1 LAUNCH --seed 0 2>&1 | tee train.log",
}
KINDS = {
    "none": "finished", "crash": "crashed", "sigkill": "", "sigterm": "", "exit-code": "crashed", "hang": "hung", "skipped": "crashed",
    "barrier": "crashed", "worker-memory": "crashed", "worker-killed": "", "early-exit": "crashed",
}  # fmt: skip
BAD = frozenset({"crashed", "killed", "hung", "stopped"})
PATIENCE = 300.0


class Trial(NamedTuple):
    """What one job showed."""

    script: str
    rank: int | None
    ours: int | None
    launchers: int | None
    stage: str
    state: str
    cause: str
    right: bool
    seconds: float
    folder: str


def trial(kind: str, script: str, chance: random.Random, keep: str | None) -> Trial:
    """One job in a folder of its own."""
    rank, step, seed = chance.randrange(2), chance.randrange(20, 120), chance.randrange(3) if script == "seeds" else 0
    with contextlib.ExitStack() as stack:
        folder = tempfile.mkdtemp(dir=keep) if keep else stack.enter_context(tempfile.TemporaryDirectory())
        for name, text in PROGRAMS.items():
            Path(folder, name).write_text(textwrap.dedent(text), encoding="utf-8")
        launch = (
            f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node 2 train.py --kind {kind} --rank {rank} "
            f"--step {step} --at-seed {seed}"
        )
        commands = textwrap.dedent(SCRIPTS[script]).replace("LAUNCH", launch).replace("PYTHON", sys.executable)
        Path(folder, "run.sh").write_text(commands + "\n", encoding="utf-8")
        began = time.monotonic()
        output = Path(folder, "output.txt")
        with output.open("wb") as stream:  # no pipe: a process that outlives the job would keep it open
            subprocess.run(
                [sys.executable, "-m", "crashcart.cli", "run", "--quiet", "--on-hang", "stop", "--grace", "5", "--", "bash", "run.sh"],
                cwd=folder, stdout=stream, stderr=stream, check=False, timeout=PATIENCE,
                env={**os.environ, "CRASHCART_RUNS": f"{folder}/runs", "OMP_NUM_THREADS": "1", "CRASHCART_HANG_SECONDS": "8"},
            )  # fmt: skip
        (run,) = Path(folder, "runs").glob("*-run")
        kill_left(run)
        diagnosis = why(str(run))
        said = re.search(r"Root Cause.*?rank\s*:\s*(\d+)", output.read_text(encoding="utf-8", errors="replace"), re.DOTALL)
        trained = [stage for stage in diagnosis.stages if stage.program == "train.py"]
        stage = next((stage for stage in diagnosis.stages if stage.decided), None)
        number = next((str(place) for place, one in enumerate(trained) if one is stage), "")
        wanted = "2" if kind == "none" and script == "seeds" else str(seed)
        ended = diagnosis.ending.state == KINDS[kind] if KINDS[kind] else diagnosis.ending.state in BAD
        first = None if kind == "none" else rank
        cause = diagnosis.findings[0].cause if diagnosis.findings and diagnosis.findings[0].role == "cause" else "nothing"
        right = (
            diagnosis.ending.first_rank == first and number == wanted and ended and (kind != "none" or cause == "nothing")
        )
        return Trial(
            script=script,
            rank=first,
            ours=diagnosis.ending.first_rank,
            launchers=int(said[1]) if said else None,
            stage=f"{stage.program if stage else 'none'} {number}".strip(),
            state=diagnosis.ending.state,
            cause=cause,
            right=right,
            seconds=time.monotonic() - began,
            folder=folder if keep else "",
        )


def kill_left(run: Path) -> None:
    """End what outlived the job, as the recording names it."""
    for process in json.loads((run / "run.json").read_text(encoding="utf-8")).get("left") or ():
        with contextlib.suppress(OSError):
            os.kill(process["pid"], signal.SIGKILL)


def main() -> int:
    """Run the campaign and print it; 0 where every trial named the right rank of the right stage."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("count", type=int, nargs="?", default=20)
    parser.add_argument("kinds", nargs="*", help=", ".join(KINDS))
    parser.add_argument("--script", choices=[*SCRIPTS], help="only this kind of script")
    parser.add_argument("--keep", help="a folder in which everything is left behind")
    options = parser.parse_args()
    wrong = 0
    sys.stdout.write(f"{'death':14} {'right':>8} {'launcher':>9} {'seconds':>8}  told as\n")
    for kind in options.kinds or KINDS:
        chance = random.Random(kind)
        order = [*SCRIPTS]
        chance.shuffle(order)
        scripts = [options.script or order[place % len(order)] for place in range(options.count)]
        trials = [trial(kind, script, chance, options.keep) for script in scripts]
        right = sum(one.right for one in trials)
        launcher = sum(one.launchers == one.rank for one in trials) if kind != "none" else 0
        causes = ", ".join(sorted({one.cause for one in trials}))
        wrong += options.count - right
        mean = sum(one.seconds for one in trials) / options.count
        sys.stdout.write(
            f"{kind:14} {right:3} of {options.count:2} {launcher:3} of {options.count:2} {mean:8.1f}  {causes}\n"
        )
        for one in trials:
            if not one.right:
                sys.stdout.write(f"    wrong: {one._asdict()}\n")
        sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
