"""What the inside part costs: start-up of `python -c pass`, and thread CPU of a training step.

    python benchmarks/inside.py [--starts 200] [--blocks 40] [--processes 2] [SHAPE ...]

With and without take turns, so that a busy machine is busy for both; steps in one process, in which the hooks are taken out and put
in again. Promised: at most 5 ms a start, at most 20 microseconds a step.
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SITE = Path(__file__).resolve().parent.parent / "src" / "crashcart" / "inside" / "site"

SHAPES = Path(__file__).resolve().parent / "step_shapes.py"
BLOCKS = {"small": 500, "modes": 200, "full": 200, "accelerate": 200, "trainer": 50, "lightning": 100}


def main() -> int:
    """Measure both and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--blocks", type=int, default=40, help="blocks of steps with and as many without, in each process")
    parser.add_argument("--processes", type=int, default=2, help="processes, since two never lie alike in memory")
    parser.add_argument("shapes", nargs="*", default=[*BLOCKS], help="of " + ", ".join(BLOCKS))
    options = parser.parse_args()
    compileall.compile_dir(SITE.parent, quiet=2)  # as pip does when it installs
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as live:  # noqa: S108
        if options.starts:
            wall, bare, cpu = start_up(live, options.starts)
            print(f"start-up: +{wall * 1e3:.2f} ms over {bare * 1e3:.1f} ms; CPU +{cpu * 1e3:.2f} ms", flush=True)
        for shape in options.shapes:
            rows = [row for _ in range(options.processes) for row in per_step(live, shape, options.blocks)]
            added, bare = (statistics.median(column) for column in zip(*rows, strict=True))
            ratio = statistics.median(1 + more / without for more, without in rows)
            told = f"+{added * 1e6:.1f} us of thread CPU over {bare * 1e6:.0f} us, ratio {ratio:.3f}"
            print(f"step, {shape}: {told}", flush=True)
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


def per_step(live: str, shape: str, blocks: int) -> list[tuple[float, float]]:
    """For neighbouring blocks of steps: seconds of thread CPU of a step that the hooks add, and those without."""
    command = [sys.executable, str(SHAPES), shape, str(BLOCKS[shape]), str(2 * blocks + 2)]
    done = subprocess.run(command, env=environment(live), capture_output=True, text=True, check=True)
    told = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("block ")][2:]  # the first two get warm
    pairs = zip(told[::2], told[1::2], strict=True)
    return [(float(ours[1]) - float(bare[1]), float(bare[1])) for ours, bare in pairs]


if __name__ == "__main__":
    sys.exit(main())
