"""The numbers of a job are those that its program uses; what was not followed to its use is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from crashcart.readers.plan import Asked, plans

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """import argparse
import os
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(2000, 4))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = """        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def facts_of(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], command: str) -> dict[str, Any]:
    """The facts of the job that a command starts, by name."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(folder)
    case = plans(Asked(command.split(), []))[0].case
    return {name: fact.value for name, fact in case.facts.items()} | {
        "refused": [fact.value["says"] for fact in case.all("arguments.refused")]
    }


CASES: dict[str, tuple[dict[str, str], str, dict[str, Any]]] = {
    "a flag that the program divides is not the batch": (
        {
            "train.py": HEAD
            + """parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--workers", type=int, default=4)
args = parser.parse_args()
loader = DataLoader(data, batch_size=args.batch_size // torch.cuda.device_count(), num_workers=min(os.cpu_count(), args.workers))
for epoch in range(3):
    for (x,) in loader:
"""
            + STEP
        },
        "python train.py --batch_size 64",
        {"train.batch_size": None, "loader.workers": None, "train.epochs": 3, "train.accumulation": 1},
    ),
    "visible cards are those that the launch names": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=64 // torch.cuda.device_count())
for (x,) in loader:
        model(x).mean().backward()
        optimizer.step()
""",
            "run.sh": "export CUDA_VISIBLE_DEVICES=0,1\npython train.py\n",
        },
        "bash run.sh",
        {"train.batch_size": 32},
    ),
    "a loader of the program's own class is a loader": (
        {
            "train.py": HEAD
            + """class Endless(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.iterator = super().__iter__()
    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)
loader = Endless(data, batch_size=12, num_workers=3)
for epoch in range(2):
    for (x,) in loader:
"""
            + STEP
        },
        "python train.py",
        {"train.batch_size": 12, "loader.workers": 3, "train.epochs": 2},
    ),
    "batches that next() takes from a generator feed the training": (
        {
            "train.py": HEAD
            + """def batches(size):
    loader = DataLoader(data, batch_size=size)
    while True:
        for (x,) in loader:
            yield x
source = batches(16)
for step in range(500):
        x = next(source)
"""
            + STEP
        },
        "python train.py",
        {"train.batch_size": 16, "train.max_steps": 500},
    ),
    "a period behind the test for accumulation is the period": (
        {
            "train.py": HEAD
            + """loader = DataLoader(data, batch_size=4)
step = rounds = 0
for epoch in range(2):
    for (x,) in loader:
        rounds += 1
        waits = rounds % 4 != 0
        model(x).mean().backward()
        if not waits:
            optimizer.step()
            optimizer.zero_grad()
            step += 1
        if not waits and step % 100 == 0:
            torch.save(model.state_dict(), f"{step}.pt")
"""
        },
        "python train.py",
        {"train.accumulation": 4, "save.period": 100},
    ),
    "a period of one is a period": (
        {
            "train.py": HEAD
            + """parser = argparse.ArgumentParser()
parser.add_argument("--save_every", type=int, default=10)
args = parser.parse_args()
loader = DataLoader(data, batch_size=4)
for epoch in range(2):
    for (x,) in loader:
"""
            + STEP
            + """    if epoch % args.save_every == 0:
        torch.save(model.state_dict(), f"{epoch}.pt")
"""
        },
        "python train.py --save_every 1",
        {"save.period_epochs": 1, "save.period": None},
    ),
    "a setting that no test reaches is no period": (
        {
            "train.py": HEAD
            + """parser = argparse.ArgumentParser()
parser.add_argument("--save_every", type=int, default=10)
args = parser.parse_args()
loader = DataLoader(data, batch_size=4)
for (x,) in loader:
"""
            + STEP
        },
        "python train.py --save_every 7",
        {"save.period": None, "save.period_epochs": None},
    ),
    "epochs of a resumed run are counted to the same end": (
        {
            "train.py": HEAD
            + """start = torch.load("last.pt")["epoch"] if os.path.exists("last.pt") else 0
loader = DataLoader(data, batch_size=4)
for epoch in range(start, 90):
    for (x,) in loader:
"""
            + STEP
        },
        "python train.py",
        {"train.epochs": 90},
    ),
    "a command that the project installs is its program": (
        {
            "pyproject.toml": "[project.scripts]\ntool = 'tool.cli:main'\n",
            "tool/__init__.py": "",
            "tool/cli.py": HEAD
            + """def train(batch):
    for (x,) in DataLoader(data, batch_size=batch):
"""
            + STEP
            + """def main():
    train(int(sys.argv[2]))
""",
            "run.sh": "tool prepare 3\ntool train 6\n",
        },
        "bash run.sh",
        {"launch.script": "tool", "train.batch_size": 6},
    ),
    "modules that a program imports by listing a folder are imported": (
        {
            "kinds/__init__.py": """import importlib
import os
KINDS = {}
def register(kind):
    KINDS[kind.__name__] = kind
    return kind
for name in os.listdir(os.path.dirname(os.path.abspath(__file__))):
    if name.endswith("_kind.py"):
        importlib.import_module(f"kinds.{name[:-3]}")
""",
            "kinds/small_kind.py": "from kinds import register\n@register\nclass Small:\n    batch = 5\n",
            "train.py": HEAD
            + """from kinds import KINDS
for (x,) in DataLoader(data, batch_size=KINDS["Small"].batch):
"""
            + STEP,
        },
        "python train.py",
        {"train.batch_size": 5},
    ),
    "a dictionary of the program's own class holds what it was made of": (
        {
            "config.json": '{"batch": 9}',
            "train.py": HEAD
            + """import json
class Settings(dict):
    def __init__(self, *args):
        super().__init__(*args)
        self.__dict__ = self
settings = Settings(json.load(open("config.json")))
for (x,) in DataLoader(data, batch_size=settings.batch):
"""
            + STEP,
        },
        "python train.py",
        {"train.batch_size": 9},
    ),
    "options of Kaldi's scripts are variables": (
        {
            "parse_options.sh": "while true; do break; done\n",
            "train.py": HEAD
            + """for (x,) in DataLoader(data, batch_size=int(sys.argv[1])):
"""
            + STEP,
            "run.sh": "size=8\n. ./parse_options.sh\npython train.py $size\n",
        },
        "bash run.sh --size 24",
        {"train.batch_size": 24},
    ),
    "a program without a tracker has none": (
        {"train.py": HEAD + "for (x,) in DataLoader(data):\n" + STEP},
        "python train.py",
        {"tracker.kind": "none"},
    ),
    "an own check of the program refuses a value": (
        {
            "train.py": """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--net", default="small")
args = parser.parse_args()
if args.net == "small":
    width = 1
else:
    raise ValueError(f"no such net: {args.net}")
"""
        },
        "python train.py --net smal",
        {"refused": ["the program refuses --net smal: ValueError: no such net: smal"]},
    ),
    "a key that a dataclass does not take is refused": (
        {
            "config.yaml": "learning_rte: 0.1\n",
            "train.py": """import yaml
from dataclasses import dataclass
@dataclass
class Settings:
    learning_rate: float = 0.2
settings = Settings(**yaml.safe_load(open("config.yaml")))
""",
        },
        "python train.py",
        {
            "refused": [
                (
                    "the program refuses learning_rte 0.1: TypeError: Settings.__init__() got an unexpected keyword argument"
                    " 'learning_rte'"
                )
            ]
        },
    ),
    "a name that a module may register which is not known is not refused": (
        {
            "train.py": """import argparse
import importlib
KINDS = {}
for name in open("plugins.txt"):
    importlib.import_module(name)
parser = argparse.ArgumentParser()
parser.add_argument("--kind", choices=KINDS.keys())
args = parser.parse_args()
KINDS[args.kind]()
"""
        },
        "python train.py --kind big",
        {"refused": []},
    ),
    "the rank that a launcher adds is no missing flag": (
        {
            "train.py": """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", type=int, required=True)
args = parser.parse_args()
"""
        },
        "python -m torch.distributed.launch --nproc_per_node 2 train.py",
        {"refused": []},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_number_is_what_the_program_uses(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, command, expected = CASES[name]
    known = facts_of(tmp_path, monkeypatch, files, command)
    assert {key: known.get(key) for key in expected} == expected
