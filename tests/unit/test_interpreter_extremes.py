"""What a program works out with extreme values costs neither the answer nor the time of the rest."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from crashcart.deadline import interrupting
from crashcart.verbs.check import check

if TYPE_CHECKING:
    from pathlib import Path

BEFORE = """import argparse, math, numpy, torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", default="0.1")
args = parser.parse_args()
"""
PEAK = """import sys
from crashcart.cli import main
main()
print([line for line in open("/proc/self/status") if line.startswith("VmHWM")][0].split()[1], file=sys.stderr)
"""
AFTER = "optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)\nloss.backward()\noptimizer.step()\n"
PROGRAMS = {
    "letters beyond all alphabets": "x = f'{-1:c} {2**63:c} {10**64:c} {7.5:c}'\n",
    "positions beyond all texts": "x = 'abc'.find('b', 10**64)\ny = 'abc'.count('a', -10**64, 2**63)\nz = 'abc'[2**63]\n",
    "splits beyond all texts": "x = 'a b'.split(' ', 2**63)\ny = 'a'.replace('a', 'b', 2**31)\n",
    "roundings": "x = round(5, -10**9)\ny = round(5, 10**10)\nz = round(float('nan'))\n",
    "ranges": "x = len(range(10**29))\ny = list(range(-2**63, 2**63))\nz = numpy.arange(10**20)\nfor i in range(10**64): pass\n",
    "digits": f"x = {'0x' + 'f' * 50_000}\ny = f'{{x}}'\nz = str(x) + '%d' % x\nw = math.prod([10**29] * 60)\nv = f'{{w}}'\nu = -x\n",
    "results of math": "x = math.exp(999)\ny = math.log(0)\nz = math.sqrt(-1)\nw = math.floor(float('inf'))\nv = math.pow(0, -1)\n",
}  # fmt: skip


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_extreme_values_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "train.py").write_text(f"{BEFORE}{text}{AFTER}")
    monkeypatch.chdir(tmp_path)
    start = time.thread_time()
    with interrupting():
        found = check(["train.py"])
    assert time.thread_time() - start < 2.5
    assert "config/type" in [finding.cause for finding in found.findings]


def test_numpy_warns_where_math_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("import numpy as np, torch\nx = np.sqrt(-1.0)\ny = np.log(0.0)\nloss.backward()\n")
    monkeypatch.chdir(tmp_path)
    assert not check(["train.py"]).findings


YACS = """import argparse, torch
from yacs.config import CfgNode
parser = argparse.ArgumentParser()
parser.add_argument("--config")
config = CfgNode(ARGUMENTS)
config.merge_from_file(parser.parse_args().config)
loss.backward()
"""


def test_a_key_that_a_config_does_not_know_may_hold_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("rates: [1e-4]\n")
    words = ["python", "train.py", "--config", "config.yaml"]
    (tmp_path / "train.py").write_text(YACS.replace("ARGUMENTS", "{'rate': 1}"))
    check(command=words)
    (tmp_path / "train.py").write_text(YACS.replace("ARGUMENTS", "new_allowed=True"))
    assert not check(command=words).findings


def test_what_one_statement_makes_is_bounded(tmp_path: Path) -> None:
    texts = {
        "texts": "a = 'a' * 19_000\nx = [" + "a + '1', " * 12_000 + "]\n",
        "lists": "a = [0] * 4000\nx = [" + "a + a, " * 9_000 + "]\n",
        "slices": "a = [0] * 4000\nx = [" + "a[1:], " * 9_000 + "]\n",
        "appends": "a = [0] * 4000\nx = [" + "a.append(1), " * 9_000 + "]\n",
        "one dictionary": "a = {" + ", ".join(f"'k{number}': {number}" for number in range(9_000)) + "}\n",
        "partial calls": "from functools import partial\nf = print\n"
        + "f = partial(f, f)\n" * 3000
        + "f = partial(f, *[1] * 4000)\n" * 200
        + "f()\n",
        "folders of modules": "import sys\n"
        + "".join(f"sys.path.append('d{number}')\n" for number in range(3000))
        + "".join(f"import m{number}\n" for number in range(1000)),
    }
    for name, text in texts.items():
        (tmp_path / "train.py").write_text(f"import torch\n{text}loss.backward()\n")
        done = subprocess.run(
            [sys.executable, "-c", PEAK, "check", "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert int(done.stderr) < 145_000, name  # kB; 150 MB is what any input may cost
