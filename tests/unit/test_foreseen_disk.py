"""Room for checkpoints, told before the first is written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import crashcart
from crashcart.readers.machine import room

MIB = 1 << 20
COMMAND = ["python", "train.py", "--output_dir", "out", "--max_steps", "1000", "--save_steps", "100"]


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import torch\n\nmodel = torch.nn.Linear(1, 1)\ntorch.save(model.state_dict(), 'x.pt')\n")


def last_checkpoint(size: int) -> None:
    folder = Path("out/checkpoint-100")
    folder.mkdir(parents=True)
    header = b'{"w": {"dtype": "U8", "shape": [%d], "data_offsets": [0, %d]}}' % (size, size)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)


def free(monkeypatch: pytest.MonkeyPatch, size: int, inodes: int = 10_000) -> None:
    class Room:
        f_bavail, f_blocks, f_frsize, f_files, f_favail = size // 4096, 1 << 30, 4096, 20_000, inodes

    monkeypatch.setattr(os, "statvfs", lambda _path: Room)


def told(*more: str, command: list[str] | None = None) -> dict[str, tuple[str, str]]:
    found = crashcart.check(command=[*(command or COMMAND), *more]).findings
    return {one.cause: (one.level, one.signs[0].says) for one in found if one.level != "note"}


def test_ten_checkpoints_do_not_fit_and_three_do(monkeypatch: pytest.MonkeyPatch) -> None:
    last_checkpoint(100 * MIB)
    free(monkeypatch, 500 * MIB)
    level, says = told()["host-memory/disk-full"]
    assert level == "can"
    assert "10 checkpoints of 100 MiB" in says
    assert "host-memory/disk-full" not in told("--save_total_limit", "2")


def test_not_even_the_next_one_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    last_checkpoint(100 * MIB)
    free(monkeypatch, 60 * MIB)
    assert "another one of that size does not fit" in told()["host-memory/disk-full"][1]


def test_no_inode_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out").mkdir()
    free(monkeypatch, 500 * MIB, inodes=0)
    assert told()["host-memory/disk-full"][0] == "will"


def test_a_quota_counts_like_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    last_checkpoint(100 * MIB)
    monkeypatch.setattr(room, "_quota", lambda _folder, _source: 30 * MIB)
    assert "left of the quota" in told()["host-memory/disk-full"][1]


@pytest.mark.parametrize(
    ("number", "cause"), [(errno.ENOSPC, "host-memory/disk-full"), (errno.EROFS, "checkpoint/save-failed")]
)
def test_a_folder_that_refuses_a_file(number: int, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out").mkdir()

    def refuse(**_: Any) -> tuple[int, str]:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(room.tempfile, "mkstemp", refuse)  # type: ignore[attr-defined]
    assert told()[cause][0] == "will"


def test_the_test_file_is_taken_away_and_no_folder_is_made() -> None:
    told()
    assert not Path("out").exists()
    Path("out").mkdir()
    assert not told()
    assert not list(Path("out").iterdir())


def test_a_job_of_another_machine_is_not_judged_by_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    last_checkpoint(100 * MIB)
    free(monkeypatch, 0)
    assert not told(command=["srun", "-n", "4", *COMMAND])


GIB = 1 << 30


def model(**sizes: object) -> list[str]:
    Path("model.yaml").write_text("".join(f"{name}: {value}\n" for name, value in sizes.items()))
    Path("train.py").write_text(
        "import torch, yaml\ncfg = yaml.safe_load(open('model.yaml'))\nnet = torch.nn.Linear(1, 1)\n"
        "optimizer = torch.optim.AdamW(net.parameters())\ntorch.save(optimizer.state_dict(), 'x.pt')\n"
    )
    return ["--config", "model.yaml"]


def test_a_checkpoint_is_estimated_from_the_sizes_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 50 * GIB)
    config = model(hidden_size=2048, num_hidden_layers=24, vocab_size=32000)  # 1.3 billion, 7 GiB each
    level, says = told(*config)["host-memory/disk-full"]
    assert level == "can"
    assert "10 checkpoints of 7.1 GiB" in says
    assert "an estimate: 24 layers of width 2048 and 32,000 words" in says
    assert "host-memory/disk-full" not in told(*config, "--save_total_limit", "2")


def test_weights_alone_are_a_third_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 50 * GIB)
    config = model(hidden_size=2048, num_hidden_layers=24, vocab_size=32000)
    program = Path("train.py")
    program.write_text(program.read_text().replace("optimizer.state_dict", "net.state_dict"))
    assert "host-memory/disk-full" not in told(*config)


def test_a_part_of_the_model_is_not_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 50 * GIB)
    config = model(hidden_size=2048, num_hidden_layers=24, vocab_size=32000, lora_rank=16)
    assert "host-memory/disk-full" not in told(*config)


def test_a_name_is_worth_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 30 * GIB)
    found = crashcart.check(command=[*COMMAND, *model(model_name_or_path="org/llama-7b-hf")]).findings
    assert [(one.level, one.cause) for one in found if one.cause == "host-memory/disk-full"] == [
        ("note", "host-memory/disk-full")
    ]
