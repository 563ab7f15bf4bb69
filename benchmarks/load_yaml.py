"""What `load_yaml` costs: ratios to PyYAML's loaders over the same text, in turns, CPU time.

    python benchmarks/load_yaml.py [--times 30]

The text is one that all of them read alike.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import TYPE_CHECKING

import yaml

from crashcart.train import load_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

SECTION = "part{0}:\n  lr: 0.{0}\n  name: run {0}\n  betas: [0.9, 0.95, {0}]\n  amp: true\n  more: {{a: 1.0e-4, b: text, c: null}}\n"


def seconds(read: Callable[[], object]) -> float:
    """CPU time of one reading."""
    begin = time.process_time()
    read()
    return time.process_time() - begin


def main() -> int:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=30)
    times = parser.parse_args().times
    for sections, rounds in ((33, times), (3333, max(3, times // 10))):
        text = "".join(SECTION.format(number) for number in range(1, sections + 1))
        rivals = {
            "load_yaml": lambda text=text: load_yaml(text),
            "CSafeLoader": lambda text=text: yaml.load(text, yaml.CSafeLoader),
            "safe_load": lambda text=text: yaml.safe_load(text),
        }
        if load_yaml(text) != yaml.safe_load(text):
            raise SystemExit("the loaders disagree")
        rows = [{name: seconds(read) for name, read in rivals.items()} for _ in range(rounds)]
        middle = {name: statistics.median(row[name] for row in rows) for name in rivals}
        told = ", ".join(f"{middle['load_yaml'] / middle[name]:.2f} of {name}" for name in ("CSafeLoader", "safe_load"))
        print(f"{len(text.splitlines())} lines: {middle['load_yaml'] * 1e3:.1f} ms, {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
