"""A Makefile is read as the shell gets to see it: the recipe of a target, with the variables that make fills in."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.errors import CommandError
from crashcart.readers.job.makefile import made_by, makefile, targets_of
from crashcart.readers.job.scripts import read_launch, training_targets

if TYPE_CHECKING:
    from pathlib import Path

MAKEFILE = """PY ?= python
LR := 1e-3
MORE = --steps 10 \\
    --batch_size 4
export CUDA_VISIBLE_DEVICES = 0
ifdef FAST
WORKERS = 1
else
WORKERS = 8
endif

.PHONY: all
all: train
data/%.npz:
\t$(PY) tools/make.py $@
prepare:
\t$(PY) tools/prepare_data.py --out data --size 100 --seed 1 --shards 4 --jobs 2
train: prepare
\t@PYTHONPATH=src $(PY) -m pkg.train --lr $(LR) \\
\t\t--num_workers $(WORKERS) $(MORE)
by_script:
\tcd . && bash scripts/train.sh
"""
TRAIN = """import argparse, torch
from pkg.model import Net
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float)
p.add_argument("--steps", type=int)
p.add_argument("--num_workers", type=int)
p.add_argument("--batch_size", type=int)
args = p.parse_args()
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=args.lr)
for _ in range(args.steps):
    net(torch.ones(args.batch_size, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src" / "pkg").mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "src" / "pkg" / "train.py").write_text(TRAIN)
    (tmp_path / "src" / "pkg" / "model.py").write_text("from torch import nn\nNet = lambda: nn.Linear(2, 1)\n")
    (tmp_path / "scripts" / "train.sh").write_text(
        "PYTHONPATH=src python src/pkg/train.py --lr 0.1 --batch_size 2 --steps 5\n"
    )


def told(words: list[str], target: str = "") -> dict[str, object]:
    return {fact.name: fact.value for fact in read_launch("Makefile", words, target=target)}


def test_the_script_of_a_target_is_as_long_as_the_file() -> None:
    text, given = makefile("Makefile", "train")
    assert len(text) == len(MAKEFILE)
    assert [line.count("\n") for line in text] == [line.count("\n") for line in MAKEFILE]
    assert text.index("--lr ${LR}") == MAKEFILE.index("--lr $(LR)")
    assert given == {"PY": "python", "LR": "1e-3", "MORE": "--steps 10      --batch_size 4", "CUDA_VISIBLE_DEVICES": "0"}


def test_a_target_is_a_launch() -> None:
    facts = told(["make", "train", "LR=0.5"])
    assert facts["launch.script"] == "pkg.train"
    assert facts["train.learning_rate"] == 0.5
    assert facts["train.batch_size"] == 4
    assert facts["environment.CUDA_VISIBLE_DEVICES"] == "0"
    assert "loader.workers" not in facts  # set under a condition, which only make can tell
    assert told([])["launch.script"] == "pkg.train"  # what `all` needs
    assert told([], "by_script")["train.batch_size"] == 2
    assert targets_of("Makefile") == ["prepare", "train", "by_script"]
    assert training_targets("Makefile") == ["train", "by_script"]


def test_a_command_of_make() -> None:
    made = made_by(["A=1", "make", "-j4", "-C", ".", "train", "LR=2"])
    assert made is not None
    assert (made.file, made.target, made.given) == ("Makefile", "train", {"A": "1", "LR": "2"})
    assert made_by(["python", "train.py"]) is None
    diagnosis = crashcart.check(command=["make", "train"])
    assert diagnosis.subject == "make train"
    assert not diagnosis.not_looked


def test_what_is_found_can_be_patched_in_the_makefile() -> None:
    """The value of a variable stands where it is set; the patched file still is one that make takes."""
    (fact,) = [one for one in read_launch("Makefile", target="train") if one.name == "train.learning_rate"]
    assert fact.evidence.where == "Makefile:2"
    assert fact.span is not None
    assert MAKEFILE[fact.span.start : fact.span.end] == "1e-3"
    done = subprocess.run(["make", "-n", "train"], capture_output=True, text=True, check=True)
    assert "python -m pkg.train --lr 1e-3" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["make", "trian"], "Makefile has no target trian; there are"),
        (["make", "-f", "none.mk"], "make would find no none.mk in ."),
    ],
)
def test_what_make_would_refuse_is_a_sentence(words: list[str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "crashcart", "check", "--", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_hostile_makefile_costs_neither_memory_nor_the_rest(tmp_path: Path) -> None:
    """Variables that double forty times, thousands of targets, bytes that are no text: the project is checked all the same."""
    doubled = "".join(f"A{number} = $(A{number - 1}) $(A{number - 1})\n" for number in range(1, 40))
    (tmp_path / "bomb.mk").write_text(f"A0 = x\n{doubled}t:\n\tpython t.py $(A39)\n")
    (tmp_path / "many.mk").write_text(
        "".join(f"t{number}: t{number + 1}\n\tpython t{number}.py\n" for number in range(20000))
    )
    (tmp_path / "bytes.mk").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "t.py").write_text("print(1)\n")
    assert "A39" not in makefile("bomb.mk")[1]
    with pytest.raises(CommandError, match="larger than 200 kB"):
        targets_of("many.mk")
    diagnosis = crashcart.check(".")
    assert not [one for one in diagnosis.findings if one.level == "will"]
