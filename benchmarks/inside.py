"""What the inside part costs: start-up of `python -c pass`, and thread CPU of a training step.

    python benchmarks/inside.py [--starts 200] [--steps 20000]

With and without take turns, in one order and then the other, so that a busy machine is busy for both. Promised: at most 5 ms a
start, at most 20 microseconds a step.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SITE = Path(__file__).resolve().parent.parent / "src" / "crashcart" / "inside" / "site"

# The hooks take hold while torch is executed, so a step with and one without need a process each; both run the same blocks at
# the same time of day, since they wait for their turn on standard input.
STEPS = """
import json, sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __len__(self): return 1 << 30
    def __getitem__(self, index): return torch.zeros(4), torch.zeros(1)
    def __getitems__(self, indices): return BATCH

torch.set_num_threads(1)
BATCH = (torch.ones(8, 4), torch.ones(8, 1))
if sys.argv[1] == "small":
    model = nn.Linear(4, 1)
else:  # as Hugging Face's trainer does: train() before every step, here of 300 modules
    model = nn.Sequential(nn.Linear(4, 1), *[nn.Identity() for _ in range(300)])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = iter(DataLoader(Samples(), batch_sampler=([0] for _ in range(1 << 30)), collate_fn=lambda batch: batch))

def block(steps):
    begin = time.thread_time()
    for _ in range(steps):
        if sys.argv[1] == "train()":
            model.train()
        inputs, targets = next(loader)
        loss = (model[0] if sys.argv[1] == "train()" else model)(inputs).sub(targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (time.thread_time() - begin) / steps

block(200)
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps(block(int(line))), flush=True)
"""


def main() -> int:
    """Measure both and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--steps", type=int, default=20_000)
    options = parser.parse_args()
    compileall.compile_dir(SITE.parent, quiet=2)  # as pip does when it installs
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as live:  # noqa: S108
        wall, bare, cpu = start_up(live, options.starts)
        print(f"start-up: +{wall * 1e3:.2f} ms over {bare * 1e3:.1f} ms; CPU +{cpu * 1e3:.2f} ms")
        for kind in ("small", "train()"):
            added, bare = per_step(live, options.steps, kind)
            print(f"step, {kind}: +{added * 1e6:.1f} us of thread CPU over {bare * 1e6:.0f} us")
    return 0


def environment(live: str | None) -> dict[str, str]:
    """The variables of a process, with the inside part or without."""
    plain = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CRASHCART_LIVE", "CRASHCART_SIGNAL")
    }
    return plain if live is None else {**plain, "PYTHONPATH": str(SITE), "CRASHCART_LIVE": live, "CRASHCART_SIGNAL": "40"}


def start_up(live: str, times: int) -> tuple[float, float, float]:
    """Median of the differences of neighbours, in seconds: wall time, wall time without, CPU time."""
    rows = []
    for turn in range(times):
        pair = {}
        for inside in (None, live) if turn % 2 else (live, None):
            cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", "pass"], env=environment(inside), check=True)
            wall = time.perf_counter() - begin
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            pair[inside] = wall, after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime
        rows.append((pair[live][0] - pair[None][0], pair[None][0], pair[live][1] - pair[None][1]))
    wall, bare, cpu_added = (statistics.median(column) for column in zip(*rows, strict=True))
    return wall, bare, cpu_added


def per_step(live: str, steps: int, kind: str) -> tuple[float, float]:
    """Median of the differences of neighbouring blocks of 500 steps: seconds of thread CPU added, and without."""
    command = [sys.executable, "-c", STEPS, kind]
    both = {
        inside: subprocess.Popen(command, env=environment(inside), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for inside in (None, live)
    }
    for process in both.values():
        assert process.stdout is not None  # noqa: S101
        process.stdout.readline()
    rows = []
    for turn in range(max(4, steps // 500)):
        pair = {inside: _block(both[inside], 500) for inside in ((None, live) if turn % 2 else (live, None))}
        rows.append((pair[live] - pair[None], pair[None]))
    for process in both.values():
        process.communicate()
    added, bare = (statistics.median(column) for column in zip(*rows, strict=True))
    return added, bare


def _block(process: subprocess.Popen[str], steps: int) -> float:
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101
    process.stdin.write(f"{steps}\n")
    process.stdin.flush()
    return float(json.loads(process.stdout.readline()))


if __name__ == "__main__":
    sys.exit(main())
