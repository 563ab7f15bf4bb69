"""What the interpreter knows of ranks: who starts them, who comes where, and what is different on rank 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crashcart.readers.interpreter import follow
from crashcart.readers.interpreter.execution import Execution
from crashcart.readers.interpreter.launch import Launch
from crashcart.readers.interpreter.libraries.collectives import waits_of
from crashcart.readers.interpreter.modules import Modules
from crashcart.readers.rules._rank_flow import collectives_of, turns, unanswered

if TYPE_CHECKING:
    from pathlib import Path


def followed(folder: Path, text: str, *, ranks: int | None = 4, kind: str = "torchrun") -> Execution:
    """A program that was followed."""
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    launch = Launch(arguments=[], sets_ranks=kind == "torchrun", ranks=ranks, kind=kind)
    interpreter = follow(Modules(str(path), [str(folder)]), launch)
    assert interpreter is not None
    return Execution(interpreter)


STARTS = {
    "import lightning\nlightning.Trainer(devices=4)": 4,
    "import pytorch_lightning as pl\npl.Trainer(devices=[0, 1], num_nodes=2)": 4,
    "from lightning.pytorch import Trainer\nTrainer(devices='0,1,')": 2,
    "from lightning.fabric import Fabric\nFabric(devices='3')": 3,
    "import lightning\nlightning.Trainer(devices='auto')": None,
    "import lightning\nlightning.Trainer()": None,
    "import lightning\nlightning.Trainer(devices=8, strategy='dp')": 1,
    "import torch.multiprocessing as mp\nmp.spawn(print, nprocs=2)": 2,
    "import lightning\nlightning.Trainer(devices=2)\nlightning.Trainer(devices=4)": None,
    "print('one process')": 1,
}


@pytest.mark.parametrize("text", STARTS)
def test_a_program_that_starts_ranks_has_as_many_as_it_says(tmp_path: Path, text: str) -> None:
    """Without a launcher the program itself says how many ranks there are."""
    assert followed(tmp_path, text, ranks=1, kind="python").ranks == STARTS[text]


def test_a_launcher_decides_before_the_trainer(tmp_path: Path) -> None:
    """Under torchrun the number of its processes counts."""
    assert followed(tmp_path, "import lightning\nlightning.Trainer(devices=2)", ranks=8).ranks == 8


SIDES = {
    "if rank == 0:\n    dist.barrier()": ["first"],
    "if rank != 0:\n    dist.barrier()": ["others"],
    "if not (rank != 0 or unknown()):\n    dist.barrier()": ["first"],
    "if rank % torch.cuda.device_count() == 0:\n    dist.barrier()": ["first"],
    "writer = print if rank == 0 else None\nif writer is not None:\n    dist.barrier()": ["first"],
    "def save():\n    if rank:\n        return\n    dist.barrier()\nsave()\ndist.barrier()": ["first", ""],
    "assert rank == 0\ndist.barrier()": ["first"],
    "@main_process_only\ndef save():\n    dist.barrier()\nsave()": ["first"],
    "def save():\n    dist.barrier()\nsave = rank_zero_only(save)\nsave()": ["first"],
    "if dist.get_rank(dist.new_group([0, 1])) == 0:\n    dist.barrier()": [""],
}
HEAD = (
    "import torch\nimport torch.distributed as dist\nfrom accelerate.utils import main_process_only\n"
    "from lightning.pytorch.utilities import rank_zero_only\nfrom elsewhere import unknown\nrank = dist.get_rank()\n"
)


@pytest.mark.parametrize("text", SIDES)
def test_a_collective_knows_which_ranks_come(tmp_path: Path, text: str) -> None:
    """A test on the rank divides the ranks, however it is written."""
    assert [each.side for each in collectives_of(followed(tmp_path, HEAD + text))] == SIDES[text]


LONE = {
    "if rank == 0:\n    dist.barrier()\nelse:\n    dist.barrier()": 0,
    "if rank == 0:\n    dist.barrier()\n    dist.barrier()\nelse:\n    dist.barrier()": 1,
    "if rank > 0:\n    dist.barrier()\nprint()\nif rank == 0:\n    dist.barrier()": 0,
    "for epoch in range(100):\n    if rank == 0:\n        dist.barrier()\nif rank:\n    dist.barrier()": 2,
    "if rank == 0:\n    dist.broadcast(x, 0)\nelse:\n    while unknown():\n        dist.broadcast(x, 0)": 0,
    "if rank == 0:\n    dist.barrier(group=dist.new_group([0]))": 0,
    "if rank == 0:\n    dist.barrier(dist.group.WORLD)": 1,
}


@pytest.mark.parametrize("text", LONE)
def test_a_collective_without_its_counterpart_is_alone(tmp_path: Path, text: str) -> None:
    """Both sides must make as many calls in each part of the program."""
    assert len(unanswered(collectives_of(followed(tmp_path, HEAD + text)))) == LONE[text]


def test_who_waits_first_comes_after_the_others(tmp_path: Path) -> None:
    """Between the wait of the others and that of rank 0, rank 0 is alone."""
    text = "if rank:\n    dist.barrier()\nprint('in turns')\nif not rank:\n    dist.barrier()\nprint('together')"
    execution = followed(tmp_path, HEAD + text)
    ((begin, end),) = turns(collectives_of(execution))
    assert [begin < call.number < end for call in execution.trace.named("print")] == [True, False]


def test_a_value_that_is_reduced_is_waited_for_only_where_lightning_is_told_so(tmp_path: Path) -> None:
    """``self.log`` waits with ``sync_dist=True`` alone."""
    text = (
        "import lightning\nclass M(lightning.LightningModule):\n    def training_step(self, batch, index):\n"
        "        self.log('a', 1)\n        self.log('b', 1, sync_dist=True)\nlightning.Trainer(devices=2).fit(M())"
    )
    execution = followed(tmp_path, text, ranks=1, kind="python")
    assert [waits_of(call) for call in execution.trace.named("lightning.LightningModule.log")] == [None, "always"]
