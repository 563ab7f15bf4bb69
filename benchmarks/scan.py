"""CPU time and memory of reading a large log, beside ripgrep, zcat and the standard library, interleaved in one run.

    python benchmarks/scan.py [--megabytes 1024] [--rounds 5] [--folder DIR]

The log has bars, step lines of several ranks, warnings, and a traceback 20 MB before the end because other ranks went on.
Every row is a fresh process; CPU time is user plus system from wait4, medians of all rounds.
"""

from __future__ import annotations

import argparse
import gzip
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from healthy_lines import healthy

TRACEBACK = """[rank3]: Traceback (most recent call last):
[rank3]:   File "train.py", line 211, in <module>
[rank3]:     main()
[rank3]:   File "train.py", line 187, in main
[rank3]:     loss.backward()
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.21 GiB is free.
"""
ONE_BY_ONE = """
import re, sys
patterns = [re.compile(p.encode("latin-1")) for p in open(sys.argv[2], encoding="latin-1").read().split("\\n") if p]
data = open(sys.argv[1], "rb").read(int(sys.argv[3]))
print(sum(1 for p in patterns for _ in p.finditer(data)))
"""
OURS = "import sys, crashcart.readers.logs as l; log = l.read_logs([sys.argv[1]], engine=sys.argv[2]); print(len(log.lines), [r.kind for r in log.raised if r.top])"
SAMPLE = 1 << 20


def main() -> int:
    """Make the log, run every row, print ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "crashcart-bench")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    log, packed = options.folder / f"large-{options.megabytes}.log", options.folder / f"large-{options.megabytes}.log.gz"
    patterns, sample = options.folder / "patterns.txt", options.folder / "sample.log"
    # In a process of its own: what this one holds would count as resident memory of its children.
    maker = multiprocessing.get_context("spawn").Process(
        target=make_inputs, args=(log, packed, patterns, sample, options.megabytes)
    )
    maker.start()
    maker.join()
    python = sys.executable
    rows = {
        "cat": ["cat", str(log)],
        "crashcart, re2": [python, "-c", OURS, str(log), "re2"],
        "crashcart, standard library": [python, "-c", OURS, str(log), "stdlib"],
        "crashcart, hyperscan": [python, "-c", OURS, str(log), "hyperscan"],
        "crashcart, .gz, all extras": [python, "-c", OURS, str(packed), "auto"],
        "crashcart, .gz, isal": [python, "-c", OURS, str(packed), "re2"],
        "crashcart, .gz, no extras": [python, "-c", "import sys; sys.modules['isal'] = None; " + OURS, str(packed), "re2"],
        "zcat": ["zcat", str(packed)],
        "re one after another, 1 MiB": [python, "-c", ONE_BY_ONE, str(sample), str(patterns), str(SAMPLE)],
    }
    if shutil.which("rg"):
        rows["rg -n --no-unicode"] = ["rg", "-n", "--no-unicode", "--no-config", "-a", "-f", str(patterns), str(log)]
    show(measure(rows, options.rounds), log.stat().st_size)
    return 0


def make_inputs(log: Path, packed: Path, patterns: Path, sample: Path, megabytes: int) -> None:
    """Write what is not there yet."""
    make_log(log, megabytes << 20)
    make_gz(log, packed, megabytes << 20)
    write_patterns(patterns)
    sample.write_bytes(_head(log, SAMPLE))


def measure(rows: dict[str, list[str]], rounds: int) -> dict[str, tuple[float, float, float]]:
    """Median CPU seconds, median wall seconds and largest resident megabytes of each row, the rows taking turns."""
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    wall: dict[str, list[float]] = {name: [] for name in rows}
    memory = dict.fromkeys(rows, 0.0)
    for _ in range(rounds):
        for name, command in rows.items():
            begun = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            _, _, usage = os.wait4(process.pid, 0)
            wall[name].append(time.perf_counter() - begun)
            seconds[name].append(usage.ru_utime + usage.ru_stime)
            memory[name] = max(memory[name], usage.ru_maxrss / 1024)
    return {name: (statistics.median(times), statistics.median(wall[name]), memory[name]) for name, times in seconds.items()}


def show(figures: dict[str, tuple[float, float, float]], size: int) -> None:
    """The table and the ratios that are promised."""
    for name, (seconds, wall, memory) in figures.items():
        print(f"{name:32} {seconds:8.2f} CPU s  {wall:8.2f} s  {memory:8.0f} MB resident")
    for engine in ("re2", "hyperscan"):
        if "rg -n --no-unicode" in figures:
            ratio = figures[f"crashcart, {engine}"][0] / figures["rg -n --no-unicode"][0]
            print(f"{engine} against rg: {ratio:.2f} of its CPU time (promised: at most 1.3)")
    one_by_one = figures["re one after another, 1 MiB"][0] * size / SAMPLE
    ratio = one_by_one / figures["crashcart, standard library"][0]
    print(f"standard library against re one after another: {ratio:.0f} times as fast (25)")
    for name, promised in (("all extras", 1.7), ("isal", 1.7), ("no extras", 1.2)):
        times = zip(figures["zcat"][:2], figures[f"crashcart, .gz, {name}"][:2], strict=True)
        cpu, wall = (zcat / ours for zcat, ours in times)
        print(f".gz with {name} against zcat: {wall:.2f} times its speed, {cpu:.2f} per CPU second ({promised})")


def make_log(path: Path, size: int) -> Path:
    """A log of that size, kept for the next time."""
    if path.exists() and abs(path.stat().st_size - size) < 1 << 21:
        return path
    blocks = [_block(seed) for seed in range(10)]
    with path.open("wb") as file:
        index = written = 0
        while written < size - (20 << 20):
            written += file.write(blocks[index % len(blocks)][: size - (20 << 20) - written])
            index += 1
        file.write(b"\n" + TRACEBACK.encode())
        while written < size:
            written += file.write(blocks[index % len(blocks)][: size - written])
            index += 1
    return path


def _block(seed: int) -> bytes:
    """Step lines, bars and warnings of several programs, mixed as ranks mix them."""
    programs = [healthy(8_000, seed * 10 + index, style) for index, style in enumerate(("plain", "ranks", "hf", "fairseq"))]
    return ("\n".join(line for lines in zip(*programs, strict=False) for line in lines) + "\n").encode()


def make_gz(log: Path, path: Path, size: int) -> Path:
    """The beginning of the log, compressed."""
    if not path.exists():
        with gzip.open(path, "wb", 6) as file:
            file.write(_head(log, size))
    return path


def write_patterns(path: Path) -> Path:
    """All our patterns, one a line, as rg reads them."""
    from crashcart.readers.logs import scanner

    path.write_bytes("\n".join(scanner().patterns).encode("latin-1"))
    return path


def _head(log: Path, size: int) -> bytes:
    with log.open("rb") as file:
        return file.read(size)


if __name__ == "__main__":
    sys.exit(main())
