"""CPU seconds of `check` on a project of 50,000 lines with 40 configs, beside `ruff check` and TorchFix on the same tree.

    python benchmarks/check_speed.py [--lines 50000] [--configs 40] [--rounds 5] [--from PACKAGE ...]

The tree is made of the sources of installed packages, copied under new names, with an entry file that imports every one of them:
all of it is the job's own code. The programs take turns, and the medians of their CPU time (user and system, all processes) are
compared. A rival that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = ("accelerate", "pytorch_lightning", "transformers", "torch.distributed", "torch.optim", "torch.utils.data")
LIMIT = 2.0
LARGEST = 3000
ENTRY = """

def main():
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(10):
        loss = model(torch.ones(2)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""
CONFIG = "train:\n  batch_size: {0}\n  learning_rate: 0.0001\n  epochs: 10\n  num_workers: 4\nmodel:\n  width: {0}\n  layers: [1, 2, 3]\n"


def build(root: Path, lines: int, configs: int, packages: list[str]) -> int:
    """Write the tree; how many lines of Python it has."""
    count = 0
    names: list[str] = []
    for file in _files(packages):
        text = file.read_text(encoding="utf-8", errors="replace")
        if count >= lines or text.count("\n") > LARGEST:
            continue
        name = f"part_{len(names):04d}"
        names.append(name)
        target = root / "project" / f"{name}.py"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        count += text.count("\n")
    (root / "project" / "__init__.py").write_text("", encoding="utf-8")
    imports = "".join(f"from project import {name}\n" for name in names)
    (root / "train.py").write_text(f"import torch\nimport yaml\n{imports}{ENTRY}", encoding="utf-8")
    (root / "configs").mkdir()
    for number in range(configs):
        (root / "configs" / f"run_{number:02d}.yaml").write_text(CONFIG.format(number + 1), encoding="utf-8")
    return count


def _files(packages: list[str]) -> list[Path]:
    found: list[Path] = []
    for name in packages:
        spec = importlib.util.find_spec(name)
        for folder in spec.submodule_search_locations or [] if spec is not None else []:
            found += sorted(Path(folder).rglob("*.py"))
    return found


def spent(command: list[str], folder: Path) -> float:
    """The CPU seconds of a command and everything that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Build the tree, let the programs take turns, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=50_000)
    parser.add_argument("--configs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--from", dest="packages", nargs="*", default=list(SOURCES))
    options = parser.parse_args()
    rivals = {"crashcart check": [sys.executable, "-m", "crashcart", "check", "."]}
    ruff = shutil.which("ruff", path=f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', '')}")
    if ruff:
        rivals["ruff check"] = [ruff, "check", "--no-cache", "--isolated", "."]
    if importlib.util.find_spec("torchfix") is not None:
        rivals["torchfix"] = [sys.executable, "-m", "torchfix", "--select", "ALL", "."]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        lines = build(root, options.lines, options.configs, options.packages)
        print(f"{lines} lines, {options.configs} configs, {options.rounds} rounds")
        times: dict[str, list[float]] = {rival: [] for rival in rivals}
        for _ in range(options.rounds):
            for rival, command in rivals.items():
                times[rival].append(spent(command, root))
    medians = {rival: statistics.median(each) for rival, each in times.items()}
    ours = medians["crashcart check"]
    for rival, median in medians.items():
        print(
            f"{rival:18} {median:7.2f} s CPU   {ours / median if median else 0:6.2f} x   ({min(times[rival]):.2f} to {max(times[rival]):.2f})"
        )
    sys.exit(0 if ours < LIMIT else 1)


if __name__ == "__main__":
    main()
