"""What the interpreter knows of data files, of how much is read, of lengths and of graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crashcart.readers.interpreter import follow
from crashcart.readers.interpreter.execution import Execution
from crashcart.readers.interpreter.launch import Launch
from crashcart.readers.interpreter.modules import Modules

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.readers.interpreter.values import Value


def followed(folder: Path, program: str, ranks: int = 1) -> Execution:
    """A program that calls ``show(value)`` for what a test asks about."""
    entry = folder / "train.py"
    entry.write_text(program)
    interpreter = follow(Modules(str(entry), [str(folder)]), Launch(arguments=[], ranks=ranks, sets_ranks=ranks > 1))
    assert interpreter is not None
    return Execution(interpreter)


def shown(execution: Execution) -> list[Value]:
    return [call.arguments[0] for call in execution.trace.named("show")]


def kinds(value: Value) -> set[str]:
    return {tag.partition(":")[0] for tag in value.tags}


@pytest.mark.parametrize(
    ("read", "tags"),
    [
        ("file['x'][()]", {"data", "bulk", "whole"}),
        ("file['x'][:]", {"data", "bulk", "whole"}),
        ("file['x'][3]", {"data", "bulk"}),
        ("file['x'][2:5]", {"data", "bulk"}),
        ("file['x'][()][0]", {"data", "bulk"}),
        ("np.array(file['x'])", {"data", "bulk", "whole"}),
        ("np.stack([file['x'][()], file['y'][()]])", {"data", "bulk", "whole"}),
        ("file['x'][()].mean()", {"data"}),
        ("file['x'][()].shape", {"data"}),
        ("file['x']", {"handle"}),
        ("file['a/b']['c']", {"handle"}),
    ],
)
def test_how_much_is_read_is_known(tmp_path: Path, read: str, tags: set[str]) -> None:
    execution = followed(tmp_path, f"import h5py\nimport numpy as np\nfile = h5py.File('a.h5')\nshow({read})\n")
    assert kinds(shown(execution)[0]) == tags


def test_tables_are_known_by_their_key(tmp_path: Path) -> None:
    program = "import h5py\nfor t in range(5):\n    h5py.File('a.h5')[f'episode_{t}']['images/top'][t]\n"
    (read,) = followed(tmp_path, program).trace.named("h5py.read")
    assert read.receiver.data == "episode_#/images/top"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("TensorDataset(torch.randn(30, 2))", 30),
        ("random_split(TensorDataset(torch.zeros(30)), [20, 10])[1]", None),
        ("Subset(TensorDataset(torch.zeros(30)), list(range(7)))", 7),
        ("Own(12)", 12),
        ("np.random.permutation(10)[:4]", 4),
    ],
)
def test_the_length_of_data(tmp_path: Path, made: str, count: int | None) -> None:
    program = f"""
import numpy as np
import torch
from torch.utils.data import Dataset, Subset, TensorDataset, random_split


class Own(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count


show(len({made}))
"""
    assert getattr(shown(followed(tmp_path, program))[0], "value", None) == count


def test_parts_of_a_split_have_their_own_length(tmp_path: Path) -> None:
    program = """
import torch
from torch.utils.data import TensorDataset, random_split

train, val = random_split(TensorDataset(torch.zeros(30)), [20, 10])
show(len(train))
show(len(val))
"""
    assert [getattr(value, "value", None) for value in shown(followed(tmp_path, program))] == [20, 10]


def test_what_goes_backward_was_made_by_a_model(tmp_path: Path) -> None:
    program = """
from somewhere import build
import torch

model, loader = build()
for batch in loader:
    loss = model(batch)["loss"]
    loss.backward()
    show(model(batch))
    show(model(batch).detach())
    show(model(batch).argmax(1) == batch)
    with torch.no_grad():
        show(model(batch) * 2)
"""
    graphs = ["graph" in value.tags for value in shown(followed(tmp_path, program))]
    assert graphs == [True, False, False, False]


def test_what_differs_between_ranks_says_so(tmp_path: Path) -> None:
    program = "import torch.distributed as dist\npaths = load()\nshow(paths[dist.get_rank() :: 2])\nshow(paths[0])\n"
    own, same = shown(followed(tmp_path, program, ranks=2))
    assert "rank" in own.tags
    assert "rank" not in same.tags


def test_an_argument_behind_an_unknown_list_has_no_known_place(tmp_path: Path) -> None:
    program = "def train(model, epochs=1):\n    show(model)\n\n\ntrain(*build(), 100)\n"
    (model,) = shown(followed(tmp_path, program))
    assert not hasattr(model, "value")


def test_a_cache_without_a_bound_is_told_from_one_with_it(tmp_path: Path) -> None:
    program = """
import functools


@functools.lru_cache(maxsize=None)
def one(): ...


@functools.lru_cache(maxsize=4)
def two(): ...


show(one)
show(two)
"""
    functions = shown(followed(tmp_path, program))
    assert [value.decorators for value in functions] == [("functools.cache",), ("functools.lru_cache",)]  # type: ignore[attr-defined]
