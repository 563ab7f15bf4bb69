"""Exceptions in child processes and inside libraries, under `crashcart run`: the user's own line is named, and who raised first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from recorded import blamed, ran, recorded, shown

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")

pytestmark = pytest.mark.processes
SPAWNED = """
    import torch, torch.multiprocessing

    def look_up(table):
        return table["velocity"]

    def work(index):
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(8):
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
            if index == 1 and step == 5:
                look_up({})

    if __name__ == "__main__":
        torch.multiprocessing.spawn(work, nprocs=2)
"""


def test_the_exception_of_a_spawned_process_is_the_answer(tmp_path: Path) -> None:
    diagnosis = ran(tmp_path, SPAWNED)
    assert blamed(diagnosis)[0] == "code/bug"
    assert shown(diagnosis).startswith("Rank 1 raised KeyError at train.py:5 in look_up")
    assert diagnosis.ending.phase == "train"


STARTED = """
    import multiprocessing, sys

    def work(index):
        if index == 1:
            raise LookupError("no such episode")

    if __name__ == "__main__":
        context = multiprocessing.get_context(METHOD)
        children = [context.Process(target=work, args=(index,)) for index in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        AFTER
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_program_that_gives_up_for_its_child(tmp_path: Path, method: str) -> None:
    after = "sys.exit(any(child.exitcode for child in children))"
    diagnosis = ran(tmp_path, STARTED.replace("METHOD", repr(method)).replace("AFTER", after))
    assert shown(diagnosis).startswith("Child process of rank 0 raised LookupError at train.py:6 in work")


@pytest.mark.parametrize(
    ("after", "says"),
    [("print('done')", None), ("raise ArithmeticError('of its own')", "train.py raised ArithmeticError")],
)
def test_a_childs_exception_that_was_got_over_is_no_cause(tmp_path: Path, after: str, says: str | None) -> None:
    diagnosis = ran(tmp_path, STARTED.replace("METHOD", "'fork'").replace("AFTER", after))
    if says is None:
        assert not blamed(diagnosis)
    else:
        assert shown(diagnosis).startswith(says)


def test_a_helper_program_that_failed_is_named_instead_of_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "convert.py").write_text("def convert():\n    raise LookupError('no such shard')\nconvert()\n")
    (tmp_path / "train.py").write_text(
        "import subprocess, sys\nsubprocess.run([sys.executable, 'convert.py'], check=True)\n"
    )
    diagnosis = recorded(tmp_path, sys.executable, "train.py")
    assert "raised LookupError at" in shown(diagnosis)
    assert "convert.py:2 in convert" in shown(diagnosis)


LIBRARY = """
    import torch

    def step(model, batch):
        return torch.nn.functional.cross_entropy(model(batch), torch.tensor([7, 1]))

    step(torch.nn.Linear(4, 3), torch.randn(2, 4))
"""


def test_the_users_own_line_stands_beside_the_librarys(tmp_path: Path) -> None:
    diagnosis = ran(tmp_path, LIBRARY)
    assert diagnosis.findings[0].cause == "data/label-range"
    assert "train.py raised IndexError at train.py:5 in step (inside torch/nn/functional.py:" in shown(diagnosis)


WORKER = """
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Episodes(Dataset):
        def __len__(self):
            return 8
        def __getitem__(self, index):
            return {"a": 1}["b"]

    for batch in DataLoader(Episodes(), batch_size=2, num_workers=1):
        pass
"""


def test_the_line_of_the_data_set_is_named_where_a_worker_raised(tmp_path: Path) -> None:
    assert " at train.py:9 in __getitem__" in shown(ran(tmp_path, WORKER))


def test_an_index_that_came_with_the_data_is_a_label_out_of_range(tmp_path: Path) -> None:
    """A plain `table[label]` raises the same words as a mistake in the code; what its names held tells them apart."""
    program = """
        import torch
        counts = torch.zeros(6, dtype=torch.long)
        for labels in (torch.tensor([0, 5, 3]), torch.tensor([2, 6, 1])):
            for label in labels:
                counts[NUMBER] += 1
    """
    diagnosis = ran(tmp_path, program.replace("NUMBER", "label"))
    assert blamed(diagnosis)[0] == "data/label-range"
    assert diagnosis.findings[0].signs[0].says == "label holds 6, but what it indexes has size 6 there"
    (tmp_path / "computed").mkdir()
    assert blamed(ran(tmp_path / "computed", program.replace("NUMBER", "len(counts)")))[0] == "code/bug"
