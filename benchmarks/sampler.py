"""CPU of one sample of a job from outside, beside psutil reading the same figures, in turn: a trainer and 19 forked workers.

python benchmarks/sampler.py [--rounds 60] [--interval 0.25] [--trainer-mib 256] [--workers 19] [--rest 0.15]

Promised: at most 0.1 % of a core at one sample a second, proportional memory within a further 0.5 %.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil

from crashcart.run.outside.processes import Tree
from crashcart.run.outside.sampler import Sampler

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "CRASHCART_LIVE=/benchmark"
JOB = """
import os, sys, time
held = bytearray(b"x") * (int(sys.argv[1]) << 20)
for _ in range(int(sys.argv[2])):
    if not os.fork():
        while True:
            time.sleep(float(sys.argv[3]))
            sum(bytearray(1 << 18))
print("ready", flush=True)
time.sleep(3600)
"""


def main() -> int:
    """Sample in every way in turn, with pauses as in use (caches go cold), and print the CPU of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--interval", type=float, default=0.25)
    parser.add_argument("--trainer-mib", type=int, default=256)
    parser.add_argument("--workers", type=int, default=19)
    parser.add_argument(
        "--rest", type=float, default=0.15, help="seconds between a worker's batches; large for a job that hangs"
    )
    options = parser.parse_args()
    command = [sys.executable, "-c", JOB, str(options.trainer_mib), str(options.workers), str(options.rest)]
    name, _, value = MARK.partition("=")
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, name: value}) as job:
        if job.stdout is None or job.stdout.readline() != b"ready\n":
            return 1
        tree = Tree(job.pid, MARK)
        sampler = Sampler(tree, "/")
        root = psutil.Process(job.pid)
        known = [root, *root.children(recursive=True)]
        ways: dict[str, Callable[[], object]] = {
            "crashcart": sampler.sample,
            "psutil, tree walked": lambda: _psutil([root, *root.children(recursive=True)]),
            "psutil, tree known": lambda: _psutil(known),
        }
        began = time.monotonic()
        times = _measured(ways, options.rounds, options.interval)
        lasted = time.monotonic() - began
        print(f"{len(tree.processes)} processes, trainer of {options.trainer_mib} MiB, {os.cpu_count()} cores")
        for way, spent in times.items():
            middle, high = statistics.median(spent), sorted(spent)[int(0.95 * len(spent))]
            print(
                f"{way:22} {1e3 * middle:8.3f} ms of CPU a sample (95 %: {1e3 * high:.3f}) = {100 * statistics.fmean(spent):.3f} % of a core at 1 Hz"
            )
        print(
            f"{'proportional memory':22} {100 * sampler.proportional.spent / lasted:.3f} % of a core over {lasted:.0f} s (0.5)"
        )
        ratio = statistics.median(times["psutil, tree known"]) / statistics.median(times["crashcart"])
        print(f"psutil with the tree known costs {ratio:.1f} times as much")
        job.kill()
        for process in known:
            process.kill()
    return 0 if statistics.fmean(times["crashcart"]) <= 0.001 else 1


def _measured(ways: dict[str, Callable[[], object]], rounds: int, interval: float) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, sample in ways.items():
            time.sleep(interval / len(ways))
            begin = time.thread_time()
            sample()
            times[way].append(time.thread_time() - begin)
    return {way: spent[3:] for way, spent in times.items()}


def _psutil(processes: list[psutil.Process]) -> list[object]:
    """The same columns, as far as psutil has them: no wait channel, no pressure, no memory group."""
    rows: list[object] = [
        psutil.virtual_memory(),
        psutil.swap_memory(),
        psutil.disk_usage("/dev/shm"),  # noqa: S108 - the mount
        psutil.disk_usage("/"),
    ]
    rows += [psutil.cpu_times(), psutil.getloadavg()]
    for process in processes:
        with process.oneshot():
            row = [
                process.pid,
                process.memory_info(),
                process.num_fds(),
                process.num_threads(),
                process.cpu_times(),
                process.status(),
            ]
            rows.append([*row, process.io_counters()])
    return rows


if __name__ == "__main__":
    sys.exit(main())
