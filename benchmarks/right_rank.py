"""How often the right rank is named: a crash, a SIGKILL and a hang of one of two ranks, at a random step, again and again.

    python benchmarks/right_rank.py 20                  # 20 of each; 20 of 20 are expected
    python benchmarks/right_rank.py 5 crash sigkill     # only these

Each trial is a real job under ``crashcart run`` (torchrun, two ranks, gloo). Which of the two it is, and when, is by chance, the
same for each seed. Beside it stands how often the launcher's own "Root Cause" names that rank.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

from crashcart.verbs.why import why

PROGRAM = """
    import os, signal, sys, time
    import torch
    import torch.distributed as dist

    kind, who, when = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(100000):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        if rank == who and step == when:
            if kind == "crash":
                raise ValueError("this rank crashes")
            if kind == "sigkill":
                os.kill(os.getpid(), signal.SIGKILL)
            while kind == "hang":
                time.sleep(1)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        time.sleep(0.02)
"""
KINDS = ("crash", "sigkill", "hang")
PATIENCE = 300.0


class Trial(NamedTuple):
    """What one job showed."""

    rank: int
    ours: int | None
    launchers: int | None
    cause: str
    seconds: float


def trial(kind: str, chance: random.Random) -> Trial:
    """One job in a folder of its own."""
    rank, step = chance.randrange(2), chance.randrange(20, 120)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "train.py")
        program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
        began = time.monotonic()
        done = subprocess.run(
            [
                sys.executable, "-m", "crashcart.cli", "run", "--quiet", "--on-hang", "stop", "--grace", "2", "--",
                sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py", kind, str(rank), str(step),
            ],
            cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE,
            env={**os.environ, "CRASHCART_RUNS": f"{folder}/runs", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        (run,) = Path(folder, "runs").glob("*-train")
        diagnosis = why(str(run))
        said = re.search(r"Root Cause.*?rank\s*:\s*(\d+)", done.stdout + done.stderr, re.DOTALL)
        cause = diagnosis.findings[0].cause if diagnosis.findings else "nothing"
        named = int(said[1]) if said else None
        return Trial(rank, diagnosis.ending.first_rank, named, cause, time.monotonic() - began)


def main() -> int:
    """Run the campaign and print it; 0 where every trial named the right rank."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    wrong = 0
    for kind in sys.argv[2:] or KINDS:
        chance = random.Random(kind)
        trials = [trial(kind, chance) for _ in range(count)]
        right = sum(one.ours == one.rank for one in trials)
        launcher = sum(one.launchers == one.rank for one in trials)
        causes = sorted({one.cause for one in trials})
        wrong += count - right
        sys.stdout.write(
            f"{kind:8} right rank {right} of {count}; the launcher's own root cause {launcher} of {count}; told as "
            f"{', '.join(causes)}; {sum(one.seconds for one in trials) / count:.1f} s each\n"
        )
        for one in trials:
            if one.ours != one.rank:
                sys.stdout.write(f"    {json.dumps(one._asdict())}\n")
        sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
