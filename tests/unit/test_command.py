"""Launch commands become facts with canonical names, typed values and the place to edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from crashcart.readers.job.command import read_command, read_script
from crashcart.readers.job.files import launch_facts
from crashcart.readers.job.scripts import read_launch

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.model import Fact

RDT = """#!/bin/bash
export TEXT_ENCODER_NAME="google/t5-v1_1-xxl"
export WANDB_API_KEY=abcdef0123456789
export NCCL_DEBUG=INFO
accelerate launch \\
    --num_processes 8 \\
    --multi_gpu \\
    --mixed_precision bf16 \\
    main.py \\
    --pretrained_text_encoder_name_or_path=$TEXT_ENCODER_NAME \\
    --train_batch_size=16 \\
    --sample_batch_size=64 \\
    --gradient_accumulation_steps=2 \\
    --max_train_steps=100000 \\
    --checkpointing_period=2000 \\
    --sample_period=500 \\
    --learning_rate=1e-4 \\
    --dataloader_num_workers=8 \\
    --image_aug \\
    --report_to="wandb"
"""

SLURM = """#!/bin/bash
#SBATCH -N 2   # two nodes
#SBATCH --ntasks-per-node=1 --cpus-per-task=16
#SBATCH --gres=gpu:a100:8
#SBATCH --mem=200G
#SBATCH -t 1-12:00:00
GPUS=8
BS=${BS:-16}
ARGS=(
  --per_device_train_batch_size $BS   # on each GPU
  --per_device_eval_batch_size "64"
)
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node ${GPUS} \\
    train.py --config conf/vla.yaml "${ARGS[@]}" --save_steps=500 2>&1 | tee log.txt
"""


def last(facts: list[Fact]) -> dict[str, Any]:
    return {fact.name: fact.value for fact in facts}


def script(folder: Path, text: str) -> tuple[str, dict[str, Fact]]:
    path = folder / "train.sh"
    path.write_text(text)
    return str(path), {fact.name: fact for fact in read_script(str(path))}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "accelerate launch --num_processes 8 --multi_gpu main.py --train_batch_size=16 --sample_period -1",
            {
                "launch.kind": "accelerate",
                "launch.processes": 8,
                "train.batch_size": 16,
                "sample.period": -1,
                "distributed.kind": "ddp",
            },
        ),
        (
            "torchrun --nnodes=2 --nproc-per-node 8 --rdzv_backend c10d train.py --lr 1e-4",
            {
                "launch.kind": "torchrun",
                "launch.nodes": 2,
                "launch.processes_per_node": 8,
                "launch.processes": 16,
                "train.learning_rate": 1e-4,
            },
        ),
        (
            "python -m torch.distributed.run --standalone --nproc_per_node=gpu -m pkg.train --epochs 3",
            {"launch.kind": "torchrun", "launch.processes_per_node": "gpu", "launch.script": "pkg.train", "train.epochs": 3},
        ),
        (
            "python3 -u -m torch.distributed.launch --nproc_per_node=2 --use_env tools/train.py cfg.py --cfg-options optim.lr=0.1",
            {
                "launch.kind": "torch.distributed.launch",
                "launch.processes": 2,
                "launch.script": "tools/train.py",
                "train.learning_rate": 0.1,
            },
        ),
        (
            "deepspeed --num_gpus 4 --master_port 29501 train.py --deepspeed ds.json --bf16 --per_device_train_batch_size 4",
            {
                "launch.kind": "deepspeed",
                "launch.processes": 4,
                "distributed.config_path": "ds.json",
                "train.bf16": True,
                "train.batch_size": 4,
            },
        ),
        (
            "srun -N 2 --ntasks-per-node=8 --mem 64G -t 90 python train.py trainer.max_epochs=3",
            {
                "launch.kind": "srun",
                "launch.processes": 16,
                "launch.memory_bytes": 64 << 30,
                "launch.time_limit_seconds": 5400,
                "train.epochs": 3,
            },
        ),
        (
            "mpirun -np 8 --mca btl tcp -x NCCL_DEBUG=INFO python train.py --workers 4",
            {"launch.kind": "mpirun", "launch.processes": 8, "loader.workers": 4, "launch.script": "train.py"},
        ),
        (
            "python train_net.py --config-file configs/a.yaml SOLVER.IMS_PER_BATCH 16 SOLVER.BASE_LR 0.02",
            {"launch.kind": "python", "train.global_batch_size": 16, "train.learning_rate": 0.02},
        ),
        (
            "llamafactory-cli train a.yaml learning_rate=1e-5",
            {"launch.kind": "program", "config.path": "a.yaml", "train.learning_rate": 1e-5},
        ),
        (
            "python t.py +data.val.batch_size=3 data.val.num_workers=2 ++resume=null",
            {"eval.batch_size": 3, "eval.workers": 2, "resume.path": None},
        ),
        ("./train --batch_size 3", {"launch.kind": "program", "train.batch_size": 3}),
    ],
)
def test_a_launch_command_is_understood(command: str, expected: dict[str, Any]) -> None:
    facts = last(read_command(command))
    assert {name: facts.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    "wrapper",
    ["nohup", "env OMP_NUM_THREADS=4", "numactl --cpunodebind=0 --membind 0", "uv run", "uv run --frozen", "conda run -n x --no-capture-output",
     "stdbuf -oL", "timeout -s INT 3600", "CUDA_VISIBLE_DEVICES=0,1", "cd /x &&", "time", "taskset -c 0-7", "nice -n 5"],
)  # fmt: skip
def test_a_wrapper_does_not_hide_the_program(wrapper: str) -> None:
    facts = last(read_command(f"{wrapper} python train.py --batch_size 4 2>&1 | tee log"))
    assert (facts["launch.script"], facts["train.batch_size"]) == ("train.py", 4)


@pytest.mark.parametrize(
    ("argument", "name", "value"),
    [
        ("--max_steps=1e4", "train.max_steps", 1e4),
        ("--batch_size 016", "train.batch_size", 16),
        ("--pin_memory False", "loader.pin", False),
        ("--no-pin-mem", "loader.pin", False),
        ("--output_dir runs/1", "output.path", "runs/1"),
        ("--precision bf16-mixed", "train.precision", "bf16-mixed"),
        ("--strange-flag 7", "flag.strange-flag", 7),
        ("-b 32", "flag.b", 32),
        ("--deepspeed", "flag.deepspeed", True),
    ],
)
def test_values_are_typed_as_a_parser_types_them(argument: str, name: str, value: object) -> None:
    found = last(read_command(f"python t.py {argument} --end 1"))[name]
    assert found == value
    assert type(found) is type(value)


def test_a_command_given_as_words_needs_no_quotes_and_has_no_spans() -> None:
    facts = read_command(["python", "my train.py", "--name=a b", "--batch_size", "2"], "/proc/12/cmdline")
    assert last(facts)["flag.name"] == "a b"
    assert last(facts)["command.text"] == "python 'my train.py' '--name=a b' --batch_size 2"
    assert {fact.span for fact in facts} == {None}
    assert {fact.evidence.where for fact in facts} == {"/proc/12/cmdline"}


def test_the_spelling_and_the_span_of_the_value_are_kept(tmp_path: Path) -> None:
    path, facts = script(tmp_path, RDT)
    fact = facts["sample.batch_size"]
    assert (fact.value, fact.spelling, fact.evidence.where) == (64, "--sample_batch_size", f"{path}:12")
    for name, written in (
        ("sample.batch_size", "64"),
        ("tracker.kind", "wandb"),
        ("launch.processes", "8"),
        ("train.learning_rate", "1e-4"),
    ):
        span = facts[name].span
        assert span is not None
        assert RDT[span.start : span.end] == written


def test_seed_000_gives_everything_its_diagnosis_needs(tmp_path: Path) -> None:
    values = {name: fact.value for name, fact in script(tmp_path, RDT)[1].items()}
    expected = {"train.batch_size": 16, "sample.batch_size": 64, "train.accumulation": 2, "sample.period": 500, "save.period": 2000,
                "loader.workers": 8, "launch.processes": 8, "tracker.kind": "wandb", "train.max_steps": 100000, "train.precision": "bf16"}  # fmt: skip
    assert {name: values.get(name) for name in expected} == expected


def test_a_slurm_script_gives_limits_and_the_whole_number_of_processes(tmp_path: Path) -> None:
    path, facts = script(tmp_path, SLURM)
    values = {name: fact.value for name, fact in facts.items()}
    expected = {"launch.nodes": 2, "launch.time_limit_seconds": 129600, "launch.memory_bytes": 200 << 30, "launch.gpus_per_node": 8,
                "launch.cpus_per_task": 16, "launch.kind": "torchrun", "launch.processes": 16, "config.path": "conf/vla.yaml",
                "eval.batch_size": 64, "save.period": 500, "launch.exit_hidden": True}  # fmt: skip
    assert {name: values.get(name) for name in expected} == expected
    batch = facts["train.batch_size"]
    assert batch.span is not None
    assert SLURM[batch.span.start : batch.span.end] == "16"
    assert batch.evidence.where == f"{path}:8"


def test_the_training_command_is_chosen_among_others(tmp_path: Path) -> None:
    text = "pip install x\npython -c 'import torch'\npython prepare.py --batch_size 1\ntorchrun train.py --batch_size 2\npython eval.py --batch_size 3\n"
    facts = script(tmp_path, text)[1]
    assert (facts["launch.script"].value, facts["train.batch_size"].value) == ("train.py", 2)


def test_nothing_of_a_secret_is_kept(tmp_path: Path) -> None:
    facts = [
        *script(tmp_path, RDT)[1].values(),
        *read_command("env HF_TOKEN=abcdef0123 python t.py --wandb_key abcdef0123 --api-key=abcdef0123"),
    ]
    assert "abcdef0123" not in repr(facts)
    assert "environment.NCCL_DEBUG" in {fact.name for fact in facts}


def test_a_login_in_the_script_is_not_kept(tmp_path: Path) -> None:
    key = "ab70081f825fb1fa49d325cd15bee60b102f7176"
    assert key not in repr(script(tmp_path, f"wandb login {key}\npython train.py --lr 0.1\n")[1])


def test_a_value_from_outside_stays_unknown_and_says_so(tmp_path: Path) -> None:
    facts = script(tmp_path, "python train.py --train_batch_size=$BATCH --lr 0.1 --out $HOME/x\n")[1]
    assert "train.batch_size" not in facts
    assert facts["flag.train_batch_size"].value == "$BATCH"
    assert facts["script.unset_variable"].value == "BATCH"


def test_a_script_that_trains_nothing_gives_no_command(tmp_path: Path) -> None:
    assert script(tmp_path, "echo hello\nmkdir -p x\n")[1] == {}
    assert read_command("") == []


def test_what_stands_behind_a_broken_continuation_is_not_an_argument(tmp_path: Path) -> None:
    text = "python3 imitate_episodes.py \\\n    --batch_size 2 \\  # 进一步减小\n    --num_epochs 2000\n"
    facts = script(tmp_path, text)[1]
    assert facts["train.batch_size"].value == 2
    assert "train.epochs" not in facts
    assert facts["script.broken_continuation"].evidence.where.endswith("train.sh:2")


@pytest.mark.parametrize(
    ("command", "processes"),
    [
        ("torchrun train.py", 1),
        ("torchrun --nnodes=2:2 --nproc_per_node=4 train.py", 8),
        ("torchrun --nnodes=1:4 --nproc_per_node=4 train.py", None),
        ("torchrun --nnodes=$N --nproc_per_node=4 train.py", None),
        ("PET_NPROC_PER_NODE=4 torchrun train.py", 4),
        ("CUDA_VISIBLE_DEVICES=0,1,2 torchrun --nproc_per_node=gpu train.py", 3),
        ("torchrun --nproc_per_node=auto train.py", None),
        ("accelerate launch --num_processes 16 --num_machines 2 train.py", 16),
        ("accelerate launch train.py", None),
        ("deepspeed --num_nodes 2 --num_gpus 4 train.py", 8),
        ("mpirun -np 8 python train.py", 8),
        ("srun -n 8 python train.py", 8),
        ("srun -N 2 --ntasks-per-node 4 python train.py", 8),
    ],
)
def test_the_sum_of_processes_is_told_or_unknown(command: str, processes: int | None) -> None:
    assert last(read_command(command)).get("launch.processes") == processes


def test_slurm_gives_the_script_its_own_numbers(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:8\nsrun torchrun --nnodes=$SLURM_NNODES --nproc_per_node=$SLURM_GPUS_ON_NODE train.py\n"
    assert script(tmp_path, text)[1]["launch.processes"].value == 16


def test_options_of_sbatch_and_arguments_of_the_script_count(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text("#SBATCH --nodes=1\ntorchrun --nproc_per_node 2 train.py --config $1 ${2:-x}\n")
    facts = {fact.name: fact.value for fact in read_launch(str(path), ["sbatch", "--nodes=4", str(path), "a.yaml"])}
    assert (facts["launch.nodes"], facts["config.path"]) == (4, "a.yaml")


@pytest.mark.parametrize(
    ("line", "folder"),
    [
        ("cd sub", "sub"),
        ('cd "$(dirname "$0")"', "."),
        ('cd "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/.."', ".."),
        ("cd $WORK", None),
    ],
)
def test_the_folder_of_the_script_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, folder: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sh").write_text(f"{line}\npython train.py\n")
    facts = {fact.name: fact.value for fact in read_script("a.sh")}
    assert facts.get("launch.folder") == folder
    assert ("launch.folder_unknown" in facts) == (folder is None)


def test_a_hostfile_and_a_choice_of_cards_are_counted(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("node1 slots=8\nnode2 slots=4\n")
    for command, processes in (("--hostfile hosts", 12), ("--include node1:0,1@node2:0", 3), ("-i localhost:0,1", 2)):
        facts = read_command(f"deepspeed {command} train.py")
        found = {fact.name: fact.value for fact in launch_facts(facts, [str(tmp_path)])}
        assert found["launch.processes"] == processes
