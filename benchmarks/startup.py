"""Wall time of the command line beside the bare interpreter, side by side in one run.

python benchmarks/startup.py [--rounds 21]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LOG = 'step 1 loss 0.3\nTraceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\nRuntimeError: CUDA out of memory.\n'


def main() -> int:
    """Time every row in turn and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    program = Path(sys.executable).parent / "crashcart"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        log.write_text(LOG)
        rows = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "crashcart --help": [str(program), "--help"],
            "crashcart why --json": [str(program), "why", "--json", str(log)],
            "crashcart why": [str(program), "why", str(log)],
        }
        times: dict[str, list[float]] = {name: [] for name in rows}
        for _ in range(options.rounds):
            for name, command in rows.items():
                begin = time.perf_counter()
                subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
                times[name].append(time.perf_counter() - begin)
    bare = statistics.median(times["python -c pass"])
    for name, promised in {
        "python -c pass": "",
        "crashcart --help": " (2.5)",
        "crashcart why --json": " (8)",
        "crashcart why": "",
    }.items():
        middle = statistics.median(times[name])
        print(f"{name:24} {1000 * middle:7.1f} ms  {middle / bare:5.2f} times{promised}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
