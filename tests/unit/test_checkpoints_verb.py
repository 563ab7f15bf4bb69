"""`crashcart checkpoints`: what is there, which are whole, and which one a resume would take."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import pytest
import torch
from checkpoint_parts import file_with, model, safetensors_bytes

from crashcart import checkpoints
from crashcart.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def saved(path: Path, **content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)
    return path


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_weights_that_are_nan_are_doubted_and_named(tmp_path: Path, kind: torch.dtype) -> None:
    healthy = saved(tmp_path / "step_1.pt", model={"head.weight": torch.randn(8, 8).to(kind)})
    spoilt = saved(
        tmp_path / "step_2.pt", model={"body.weight": torch.ones(8), "head.weight": torch.full((8,), float("nan")).to(kind)}
    )
    assert checkpoints.inspect(healthy).verdict == "whole"
    found = checkpoints.inspect(spoilt, deep=False)
    assert found.verdict == "doubtful"
    assert "1 of 2 tensors hold NaN, the first is model.head.weight" in found.reasons[0]
    assert checkpoints.newest_whole(tmp_path) == checkpoints.inspect(healthy)


def test_an_infinity_is_no_nan(tmp_path: Path) -> None:
    mask = torch.full((8, 8), float("-inf")).triu(1)
    assert checkpoints.inspect(saved(tmp_path / "step_1.pt", mask=mask)).verdict == "whole"


def test_nan_in_safetensors_is_seen(tmp_path: Path) -> None:
    values = struct.pack("<4f", 1.0, float("nan"), 2.0, 3.0)
    path = file_with(tmp_path, "model.safetensors", safetensors_bytes({"weight": ([4], values)}))
    assert "hold NaN, the first is weight" in checkpoints.inspect(path).reasons[0]


def test_a_folder_of_the_programs_own_making_is_one_checkpoint(tmp_path: Path) -> None:
    """It has an optimizer.pt and no scheduler.pt, and none is missing: no other one has it."""
    for step in (500, 1000):
        for name in ("model", "optimizer"):
            saved(tmp_path / f"checkpoint-{step}" / f"{name}.pt", value=torch.ones(4))
    found = checkpoints.find(tmp_path)
    assert [(item.path.name, item.kind, item.step, item.verdict) for item in found] == [
        ("checkpoint-1000", "files", 1000, "whole"),
        ("checkpoint-500", "files", 500, "whole"),
    ]


def test_what_only_the_older_one_has_is_missing(tmp_path: Path) -> None:
    for epoch in (1, 2):
        saved(tmp_path / f"epoch_{epoch}" / "weights.pth", value=torch.ones(4))
    saved(tmp_path / "epoch_1" / "ema.pth", value=torch.ones(4))
    newest, older = checkpoints.find(tmp_path)
    assert (newest.path.name, newest.verdict, older.verdict) == ("epoch_2", "doubtful", "whole")
    assert newest.reasons[0] == "it has no ema.pth file, which epoch_1 beside it has"


def test_many_steps_in_one_folder_are_many_checkpoints(tmp_path: Path) -> None:
    for step in (1, 2):
        saved(tmp_path / "epoch_3" / f"step_{step}.pt", value=torch.ones(4))
    assert [item.step for item in checkpoints.find(tmp_path)] == [2, 1]


def test_the_first_line_is_what_a_resume_would_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "step_10.pt", model=torch.ones(400))
    cut = saved(tmp_path / "step_20.pt", model=torch.ones(400))
    cut.write_bytes(cut.read_bytes()[:-100])
    assert main(["checkpoints", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path}: a resume would take step_10.pt (step 10)."
    assert lines[1].split()[0] == "20"
    assert lines[1].split()[-2:] == ["broken", "step_20.pt"]
    assert "ends in the middle" in lines[2]


def test_the_exit_code_tells_whether_there_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", str(tmp_path)]) == 1
    assert "No checkpoints in" in capsys.readouterr().out
    broken = file_with(tmp_path, "step_3.safetensors", model()[:-5])
    assert main(["checkpoints", str(broken)]) == 1
    assert main(["checkpoints", str(tmp_path / "gone")]) == 2


def test_full_compares_the_checksums(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "step_10.pt", model=torch.ones(4000))
    content = bytearray(path.read_bytes())
    place = content.find(struct.pack("<f", 1.0) * 100)
    content[place + 200] ^= 1
    path.write_bytes(bytes(content))
    assert main(["checkpoints", str(tmp_path)]) == 0
    assert main(["checkpoints", str(tmp_path), "--full"]) == 1
    assert "does not match its checksum" in " ".join(capsys.readouterr().out.split())


def test_json_has_every_checkpoint_and_the_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "step_10.pt", model=torch.ones(4))
    assert main(["checkpoints", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["resume"] == {str(tmp_path): str(path)}
    assert [(row["step"], row["verdict"]) for row in answer["checkpoints"]] == [(10, "whole")]


def test_a_pickle_that_would_run_code_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mark = tmp_path / "ran"
    file_with(tmp_path, "step_1.pkl", b"cos\nsystem\n(S'touch " + str(mark).encode() + b"'\ntR.")
    main(["checkpoints", str(tmp_path), "--full"])
    assert not mark.exists()
    assert "\x1b" not in capsys.readouterr().out
