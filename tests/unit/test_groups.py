"""Nodes of one job find each other by what their launcher or scheduler was told, and nobody else does."""

from __future__ import annotations

import json
import os
import platform
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from crashcart.recording.folder import make_folder, nodes_of, runs
from crashcart.recording.group import Part, part_of
from crashcart.recording.meeting import join

if TYPE_CHECKING:
    from pathlib import Path

HOST = platform.node().split(".")[0].lower()
STEP = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "4", "SLURM_PROCID": "3"}


@pytest.mark.parametrize(
    ("command", "variables", "group", "rank"),
    [
        ("torchrun --nnodes 2 --node-rank 1 --master-addr n1 --master-port 4000 train.py", {}, "n1-4000", 1),
        ("torchrun --nnodes=2 --rdzv_id=abc --rdzv-endpoint n1.example.org:29400 train.py", {}, "abc-n1-29400", None),
        ("torchrun --nnodes=1:4 --rdzv_id=abc --rdzv-endpoint=10.0.0.1:29400 train.py", {}, "abc-10.0.0.1-29400", None),
        ("python -m torch.distributed.run --nnodes 2 --rdzv-endpoint localhost:1 -m train", {}, f"{HOST}-1", None),
        ("accelerate launch --num_machines 2 --machine_rank 0 --main_process_ip n1 train.py", {}, "n1-29500", 0),
        ("deepspeed --no_ssh --num_nodes 2 --node_rank 1 --master_addr n1 train.py", {}, "n1-29500", 1),
        (
            "bash train.sh",
            {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_RDZV_ID": "a", "PET_RDZV_ENDPOINT": "m:1"},
            "a-m-1",
            1,
        ),
        ("python train.py", {"MASTER_ADDR": "m", "MASTER_PORT": "23", "WORLD_SIZE": "2", "RANK": "1"}, "m-23", 1),
        ("python train.py", {"MASTER_ADDR": "m", "NODE_RANK": "0"}, "m-29500", 0),
        ("python train.py", {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "PMIX_NAMESPACE": "9"}, "mpi-9", 1),
        ("python train.py", STEP, "slurm-77.0", 3),
        ("python train.py", {**STEP, "SLURM_RESTART_COUNT": "1"}, "slurm-77.0-requeue1", 3),
        ("torchrun --nnodes 4 --rdzv-endpoint n1:1 train.py", {**STEP, "CRASHCART_JOB": "/x"}, "slurm-77.0", 3),
        ("bash train.sh", {"CRASHCART_GROUP": "mine", "NODE_RANK": "5"}, "mine", 5),
    ],
)
def test_nodes_that_share_a_job_share_its_name(
    command: str, variables: dict[str, str], group: str, rank: int | None
) -> None:
    part = part_of(shlex.split(command), variables)
    assert part is not None
    assert (part.group, part.rank) == (group, rank)


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        ("python train.py", {}),
        ("python train.py --nnodes 2 --master_addr n1", {}),
        ("torchrun --nproc-per-node 8 train.py --nnodes 2", {}),
        ("torchrun --standalone --nnodes 2 train.py", {}),
        ("torchrun --nnodes 1 train.py", {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "m"}),
        ("accelerate launch --num_processes 8 train.py", {}),
        ("deepspeed --hostfile hosts --num_nodes 2 train.py", {}),
        ("python train.py", {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "WORLD_SIZE": "1", "RANK": "0"}),
        ("python train.py", {"MASTER_ADDR": "m", "WORLD_SIZE": "2", "RANK": "1", "CRASHCART_JOB": "/x"}),
        ("srun python train.py", {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}),
        ("python train.py", {**STEP, "SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1"}),
    ],
)
def test_a_job_of_one_machine_stays_one(command: str, variables: dict[str, str]) -> None:
    assert part_of(shlex.split(command), variables) is None


def test_the_machines_of_accelerate_are_read_from_its_config(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("num_machines: 2\nmachine_rank: 1\nmain_process_ip: 'n7'\nmain_process_port: 23\n")
    part = part_of(["accelerate", "launch", "--config_file", str(tmp_path / "a.yaml"), "train.py"], {})
    assert part is not None
    assert (part.group, part.rank, part.least) == ("n7-23", 1, 2)


def test_nodes_that_come_at_once_meet_in_one_folder(tmp_path: Path) -> None:
    parts = [Part("job", f"node-{rank}", rank, 64) for rank in range(64)]
    with ThreadPoolExecutor(64) as pool:
        made = [*pool.map(lambda part: join(str(tmp_path), part, "train"), parts)]
    assert {os.path.basename(path or "") for path in made} == {part.name for part in parts}
    assert [path.name for path in tmp_path.iterdir()] == ["train-job"]


def ended(folder: str | None) -> None:
    assert folder is not None
    for name, value in (("run.json", {"state": "failed", "code": 1}), ("exit.json", {"code": 1})):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file)


def age(root: Path, seconds: float) -> None:
    for path in [*root.rglob("*")]:
        os.utime(path, (time.time() - seconds,) * 2)


def test_an_earlier_run_of_the_same_name_is_not_mixed_in(tmp_path: Path) -> None:
    first = join(str(tmp_path), Part("job", "a-0"), "train")
    ended(first)
    ended(join(str(tmp_path), Part("job", "b-1"), "train"))
    again = join(str(tmp_path), Part("job", "b-1"), "train")  # it was here before
    assert again == str(tmp_path / "train-job-2" / "nodes" / "b-1")
    assert join(str(tmp_path), Part("job", "a-0"), "train") == str(tmp_path / "train-job-2" / "nodes" / "a-0")
    age(tmp_path, 3600)
    late = join(str(tmp_path), Part("job", "c-2"), "train")  # the next day, on a machine that was not there before
    assert late == str(tmp_path / "train-job-3" / "nodes" / "c-2")
    slurm = Part("slurm-1.0", "a-0", unique=True)
    assert join(str(tmp_path), slurm, "train") == str(tmp_path / "train-slurm-1.0" / "nodes" / "a-0")
    age(tmp_path, 3600)
    assert join(str(tmp_path), slurm._replace(name="b-1"), "train") == str(tmp_path / "train-slurm-1.0" / "nodes" / "b-1")


def test_a_run_of_nodes_is_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASHCART_RUNS", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CRASHCART_GROUP", "g")
    for node in "ab":
        monkeypatch.setenv("CRASHCART_NODE", node)
        path, refused = make_folder(["python", "train.py"])
        assert path is not None
        assert not refused
        ended(path)
    assert [os.path.basename(path) for path in runs() if path.startswith(str(tmp_path))] == ["train-g"]
    assert [os.path.basename(path) for path in nodes_of(str(tmp_path / "train-g"))] == ["a", "b"]
