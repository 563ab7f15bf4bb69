"""Programs that would fill the memory, never end, or ask for what Python refuses: followed within bounds, and never our error."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "import argparse, itertools, json, os, sys\nimport numpy as np\nimport torch\nfrom dataclasses import dataclass\nfrom pathlib import Path\n"


def _again(expression: str) -> str:
    return f"a = {expression}\n" * 40


PROGRAMS = {
    "texts joined to themselves": "a = 'x' * 1000\n" + _again("'%s%s' % (a, a)"),
    "texts joined in a loop": "a = 'x' * 1000\nfor _ in [0] * 79:\n    a = f'{a}{a}'\n",
    "a join of a join": "a = 'x' * 1000\n" + _again("a.join([a] * 1000)"),
    "unknown texts joined to themselves": "a = input()\n" + _again("f'{a}{a}'") + "\nopen(a)\n",
    "paths joined to themselves": "a = Path('x' * 1000)\n" + _again("a / a"),
    "suffixes": "a = Path('x' * 1000)\n" + _again("a.with_suffix('.' + a.name)"),
    "replaced letters": "a = 'x' * 20000\n" + _again("a.replace('x', a)"),
    "formats": "a = 'x' * 15000\nb = '{0}{0}{0}{0}'.format(a)\nc = '%s' * 5000 % ((a,) * 5000)\n",
    "comprehensions": "x = [1 " + " ".join(f"for a{i} in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]" for i in range(12)) + "]\n",
    "spread lists": "a = [1] * 4000\nx = [" + "*a, " * 3000 + "]\nprint(" + "*a, " * 3000 + ")\n",
    "nested tuples": "a = ('x', 'y')\nfor _ in [0] * 60:\n    a = (a, a)\nx = 'abc'.startswith(a)\n",
    "words without end": "p = argparse.ArgumentParser()\np.add_argument('b', nargs=10**9)\nargs = p.parse_args()\n",
    "parents of parents": "p = argparse.ArgumentParser()\nfor _ in [0] * 60:\n    p = argparse.ArgumentParser(parents=[p, p], add_help=False)\n"
    "    p.add_argument('--x')\nargs = p.parse_args()\n",
    "a dataclass within itself": "import tyro, draccus\n@dataclass\nclass A:\n"
    + "".join(f"    f{i}: 'A' = None\n" for i in range(8))
    + "x = tyro.cli(A)\ny = draccus.parse(A)\n",
    "many files in one line": "with " + ", ".join(f"open('a{i}') as f{i}" for i in range(500)) + ": pass\n",
    "calls that Python refuses": "for i in range(1, 2, 3, 4): pass\nlist(range(1, 2, 3, 4))\nnp.arange(1, 2, 3, 4)\ndivmod(1)\nround()\nmin()\npow()\n"
    "'%d' % float('inf')\n'%c' % 1114112\np = argparse.ArgumentParser(prefix_chars='+')\np.add_argument('')\np.add_argument('-')\np.parse_args()\n",
    "contents of another kind": "from yacs.config import CfgNode\nfrom omegaconf import OmegaConf\nfrom transformers import HfArgumentParser\n"
    "CfgNode(set())\nCfgNode([{'a': 1}])\nc = OmegaConf.create({'a': 1})\nc.merge_from_other_cfg([1])\nc.unsafe_merge([c], 1)\n"
    "torch.distributed.all_gather({1: {2: 3}}, 4)\nHfArgumentParser(int).parse_dict([1])\nOmegaConf.merge([1], {2: 3}, {4})\nOmegaConf.unsafe_merge(['a.b=1'], 1)[0] = 2\nOmegaConf.merge([1]).x = 1\n",
    "slices as keys": "class A:\n    def __getitem__(self, key): return {key}, set([key]), {key: 1}, os.environ[key], 'a'.find('a', key), sorted([key, key])\nA()[1:2]\nA()[1:2, 3:]\n"
    "os.environ[:]\nos.environ[1:, 2]\ntorch.load('x')[1:]\nimport transformers\ntransformers.TrainingArguments(A()[1:2]).process_index\n",
}
MOST_MEGABYTES = 150
CHECK = """
import json, os, resource, sys
import crashcart
programs = json.load(sys.stdin)
for name, program in programs.items():
    with open("train.py", "w") as file:
        file.write(program)
    child = os.fork()
    if not child:
        crashcart.check(command=["python", "train.py"])
        os._exit(0)
    _, status, usage = os.wait4(child, 0)
    print(name, status, usage.ru_maxrss // 1024)
"""


def test_no_program_fills_the_memory(tmp_path: Path) -> None:
    import json

    programs = {name: HEAD + program for name, program in PROGRAMS.items()}
    done = subprocess.run(
        [sys.executable, "-c", CHECK], input=json.dumps(programs), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert len(lines) == len(PROGRAMS)
    assert [line for line in lines if " 0 " not in line or int(line.rpartition(" ")[2]) > MOST_MEGABYTES] == []


def test_the_programs_of_a_folder_share_the_memory(tmp_path: Path) -> None:
    """Six programs that would each take all that one may."""
    functions = "".join(f"def f{i}(x):\n    return [[x, x], f{max(0, i - 1)}([x, x, {i}])]\n" for i in range(300))
    loops = " ".join(f"for a{i} in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]" for i in range(12))
    for number in range(6):
        (tmp_path / f"train{number}.py").write_text(
            f"import os\n{functions}x = [f299(i) for i in os.listdir('.')]\nz = [1 {loops}]\n"
        )
        (tmp_path / f"run{number}.sh").write_text(f"python train{number}.py\n")
    measure = (
        "import crashcart; crashcart.check('.'); status = open('/proc/self/status').read(); "
        "print(int(status.partition('VmHWM:')[2].split()[0]) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", measure], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) < MOST_MEGABYTES
