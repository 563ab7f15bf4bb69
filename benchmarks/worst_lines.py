"""Time for a megabyte of the worst lines that a search can find, beside that of usual logs, in the same run.

    python benchmarks/worst_lines.py [--rounds 40] [--kilobytes 64] [--megabytes 1 64] [--seed 0] [--keep FOLDER]

A piece of one or more lines is put together from what the knowledge base looks for: the texts of all phrases, words of step lines, digits, punctuation
and blanks, each repeated or not. The slowest lines of a round are changed and crossed for the next. What is timed is all of ``why``
in processor time: reading, structure, causes and redaction, without the start of Python. The usual logs are healthy runs of ten
frameworks with a death at their end. A log of 64 kB is kept whole, so every line of it is looked at; of larger ones, which lines are
kept depends on what they say. So logs of ``--megabytes`` are made of the worst lines found and of lines that all match, alike and
unlike, and are timed beside a usual log of the same size.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from healthy_lines import STYLES, healthy

from crashcart.cause import causes
from crashcart.deadline import interrupting
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DEATH = """Traceback (most recent call last):
  File "train.py", line 211, in <module>
    main()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.21 GiB is free.
"""
WORDS = (
    "Traceback (most recent call last):", 'File "a.py", line 3, in f', "Error", "RuntimeError: ", "Exception", "WARNING", "Killed",
    "rank", "[rank3]:", "loss", "nan", "inf", "step", "epoch", "iter", "it/s", "grad_norm", "lr", "eval", "val", "train", "saving checkpoint",
    "loading", "CUDA", "NCCL", "out of memory", "exit code", "signal", "Thread 0x7f", "GiB", "MiB", "batch", "data", "config",
    "a", "x_", "A.", "/", "\\", ":", "=", "==", "|", "[", "]", "(", ")", "{", "'", '"', "#", "*", "-", "--", "<", ">", "%", ".", ",", ";", "$", "@", "!",
    "0", "9", "1.", "12/34", "1e", "0x", " ", "  ", "\t", "é", "中", "█", "\x1b[0m", "\r", "\n", "\n  ",
)  # fmt: skip
LENGTHS = (80, 300, 1200, 5500)
POPULATION = 24


def main() -> int:
    """Search, and print the worst beside the usual."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--kilobytes", type=int, default=64)
    parser.add_argument(
        "--megabytes", type=int, nargs="*", default=[1, 64], help="sizes of the logs that are timed at the end"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder in which the worst line so far is kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crashcart-worst-") as folder, interrupting():
        search = Search(Path(folder) / "x.log", options.kilobytes << 10, random.Random(options.seed), options.keep)
        usual = search.usual()
        print(
            f"usual: {statistics.median(usual):.2f} s/MB (median of {len(usual)}), {max(usual):.2f} the slowest", flush=True
        )
        worst = search.run(options.rounds)
        again = search.usual()
        large = [(size, *search.large(size * 1_000_000, [line for _, line in worst[:5]])) for size in options.megabytes]
    base = statistics.median([*usual, *again])
    for seconds, line in worst[:5]:
        print(f"{seconds:.2f} s/MB = {seconds / base:.1f} times the usual: {line[:150]!r} ({len(line)} characters)")
    for size, usual_seconds, figures in large:
        print(f"{size} MB: usual {usual_seconds:.2f} s")
        for name, seconds in sorted(figures.items(), key=lambda figure: -figure[1]):
            print(f"  {seconds:6.2f} s = {seconds / usual_seconds:.1f} times the usual: {name[:100]!r}")
    return 0


class Search:
    """Lines that get slower from round to round."""

    def __init__(self, path: Path, size: int, chance: random.Random, keep: Path | None = None) -> None:
        self.path = path
        self.keep = keep
        self.size = size
        self.chance = chance
        literals = sorted({text for cause in causes() for phrase in cause.phrases for text in phrase.literals})
        self.pieces = [*literals, *WORDS * 4]

    def usual(self) -> list[float]:
        """Seconds for a megabyte of the healthy logs of each framework."""
        self.timed("warm\n" + DEATH)
        found = []
        for style in STYLES:
            lines: list[str] = []
            while sum(map(len, lines)) < self.size:
                lines += healthy(2000, len(lines), style)
            found.append(self.timed("\n".join(lines)[: self.size] + "\n" + DEATH))
        return found

    def run(self, rounds: int) -> list[tuple[float, str]]:
        """The slowest lines, slowest first."""
        known: dict[str, float] = {}
        lines = [self.fresh() for _ in range(POPULATION * 4)]
        for number in range(rounds):
            for line in lines:
                if line not in known:
                    known[line] = self.timed(self.log(line))
            best = sorted(known, key=known.__getitem__, reverse=True)[:POPULATION]
            print(f"round {number}: {known[best[0]]:.2f} s/MB {best[0][:90]!r}", flush=True)
            if self.keep is not None:
                self.keep.mkdir(parents=True, exist_ok=True)
                (self.keep / "worst.txt").write_text(best[0], encoding="utf-8")
            lines = [self.changed(self.chance.choice(best), self.chance.choice(best)) for _ in range(POPULATION)]
            lines += [self.fresh() for _ in range(POPULATION // 4)]
        worst = sorted(known, key=known.__getitem__, reverse=True)[:10]
        return sorted(
            ((statistics.median(self.timed(self.log(line)) for _ in range(3)), line) for line in worst), reverse=True
        )

    def large(self, size: int, worst: list[str]) -> tuple[float, dict[str, float]]:
        """Seconds for a usual log of that size, and for logs of which every line matches."""
        blocks = ["\n".join(healthy(4000, seed, style)) + "\n" for seed, style in enumerate(STYLES)]
        usual = self.timed_log(itertools.cycle(blocks), size=size)
        figures = {}
        for name, line in (*((f"found: {line}", numbered(line)) for line in worst), *self.floods().items()):
            figures[name] = self.timed_log(map(line, range(size)), size=size)
        return usual, figures

    def floods(self) -> dict[str, Callable[[int], str]]:
        """Lines that all match: one word, a number that differs, words that differ, several texts in turn, all texts there are."""
        words = ["".join(self.chance.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(100_003)]
        some, every = self.chance.sample(self.pieces, 10), self.pieces[: len(self.pieces) - 4 * len(WORDS)]
        return {
            "Killed": lambda _: "Killed\n",
            "Killed, carriage returns": lambda _: "Killed\r",
            "Killed, 900 times a line": lambda number: "Killed" * 900 + f" {number}\n",
            "loss nan": lambda _: "loss nan\n",
            "CUDA out of memory": lambda _: "CUDA out of memory. \n",
            "ERROR n failed": lambda number: f"ERROR {number} failed\n",
            "a run that went nan": lambda number: (
                f"[{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}] step {number}/1000000 loss: nan grad_norm: nan lr: 1.00e-04\n"
            ),
            "tracebacks": lambda number: DEATH.replace("211", str(number)),
            "word Killed": lambda number: f"{words[number % 100_003]}{number % 7} {words[number % 99_991]} Killed\n",
            "ERROR word failed": lambda number: f"ERROR {words[number % 100_003]} {words[number % 99_991]} failed\n",
            "ten texts in turn": lambda number: f"{some[number % 10]} {number}\n",
            "two of ten texts": lambda number: f"{some[number * 7919 % 10]} {some[number // 10 % 10]} {number}\n",
            "all texts in turn": lambda number: f"{every[number * 7919 % len(every)]} {number}\n",
        }

    def timed_log(self, pieces: Iterable[str], *, size: int) -> float:
        """Seconds of processor time for a log of that size."""
        written = 0
        with self.path.open("w", encoding="utf-8", newline="") as file:
            for piece in pieces:
                written += file.write(piece)
                if written >= size:
                    break
        start = time.process_time()
        why([os.fspath(self.path)], look_around=False)
        return time.process_time() - start

    def log(self, line: str) -> str:
        """A log of such lines, told apart by a number so that nothing is remembered from one to the next."""
        count = max(1, self.size // (len(line.encode()) + 8))
        return "".join(f"{line} {number}\n" if number % 2 else f"{number} {line}\n" for number in range(count))

    def fresh(self) -> str:
        """A few pieces, some of them repeated."""
        parts = []
        for _ in range(self.chance.randint(1, 8)):
            piece = self.chance.choice(self.pieces)
            parts.append(piece * (self.chance.choice((1, 1, 1, 2, 8, 100, 1000))))
        return self.cut("".join(parts) * self.chance.choice((1, 1, 3, 50)))

    def changed(self, one: str, other: str) -> str:
        """A line made of two, or of one and a piece."""
        at, to = self.chance.randint(0, len(one)), self.chance.randint(0, len(other))
        how = self.chance.randrange(5)
        if how == 0:
            return self.cut(one[:at] + other[to:])
        if how == 1:
            return self.cut(one[:at] + self.chance.choice(self.pieces) * self.chance.choice((1, 5, 50)) + one[at:])
        if how == 2:
            return self.cut(one[: max(1, at)] * self.chance.choice((2, 10, 200)))
        if how == 3:
            return self.cut((one[:at] + one[at + self.chance.randint(1, 60) :]) or one)
        return self.cut(f"{one[:200]} {other[:200]} " * self.chance.choice((1, 4, 40)))

    def cut(self, line: str) -> str:
        """At most as long as a line that is read whole."""
        return line[: self.chance.choice(LENGTHS)] or "x"

    def timed(self, text: str) -> float:
        """Seconds of processor time for a megabyte."""
        self.path.write_text(text, encoding="utf-8")
        start = time.process_time()
        why([os.fspath(self.path)], look_around=False)
        return (time.process_time() - start) / max(1, self.path.stat().st_size) * 1e6


def numbered(line: str) -> Callable[[int], str]:
    """Such lines, told apart by a number at their end or beginning."""
    return lambda number: f"{line} {number}\n" if number % 2 else f"{number} {line}\n"


if __name__ == "__main__":
    raise SystemExit(main())
