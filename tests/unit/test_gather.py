"""What is found when the log is lost, and what is not taken for the run's own."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import crashcart

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """#!/bin/bash
accelerate launch --num_processes 8 main.py \\
    --train_batch_size=16 \\
    --sample_batch_size=64 \\
    --checkpointing_period=2000 \\
    --sample_period=500
"""
CRASH = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nRuntimeError: CUDA out of memory.\n'


def whole_checkpoint(folder: Path) -> None:
    folder.mkdir(parents=True)
    header = json.dumps({"w": {"dtype": "F32", "shape": [256], "data_offsets": [0, 1024]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\x01" * 1024)


def test_without_a_log_the_schedule_at_the_step_of_death_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(SCRIPT)
    whole_checkpoint(tmp_path / "out" / "checkpoint-2000")
    diagnosis = crashcart.why([str(tmp_path)])
    told = " ".join(note.quote for note in diagnosis.notes)
    assert diagnosis.ending.step == 2000
    assert "the newest checkpoint is whole" in told
    assert "step 2000 was the first with saving a checkpoint and sampling; the next such step is 4000" in told
    assert "sampling had passed 3 times before" in told
    assert [finding.cause for finding in diagnosis.findings][:3] == [
        "unknown/not-enough-evidence", "config/schedule-collision", "gpu-memory/eval-or-sample",
    ]  # fmt: skip
    edits = [fix.diff for finding in diagnosis.findings for fix in finding.fixes if fix.diff]
    assert any("+    --sample_batch_size=16 \\" in diff for diff in edits)


def test_the_output_that_wandb_kept_is_a_log(tmp_path: Path) -> None:
    files = tmp_path / "wandb" / "run-20261115_071203-a1b2c3d4" / "files"
    files.mkdir(parents=True)
    (files / "output.log").write_text(CRASH)
    assert crashcart.why([str(tmp_path)]).findings[0].cause == "gpu-memory/train-step"


def test_a_torchelastic_folder_is_read_by_rank(tmp_path: Path) -> None:
    for rank in (0, 1):
        folder = tmp_path / "none_abc" / "attempt_0" / str(rank)
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(CRASH if rank else "step 1 loss 0.3\n")
    diagnosis = crashcart.why([str(tmp_path)])
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("gpu-memory/train-step", 1)


def test_several_scripts_beside_a_log_are_nobodys(tmp_path: Path) -> None:
    for name in ("a.sh", "b.sh"):
        (tmp_path / name).write_text(SCRIPT)
    (tmp_path / "train.log").write_text(CRASH)
    assert not any(fix.diff for finding in crashcart.why([str(tmp_path / "train.log")]).findings for fix in finding.fixes)


def test_the_config_that_the_command_names_is_read(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("learning_rate: 1e-4  # the usual\nbatch_size: 8\n")
    (tmp_path / "train.log").write_text(
        'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n    AdamW(params, lr=lr)\n'
        "TypeError: '<=' not supported between instances of 'float' and 'str'\n"
    )
    diagnosis = crashcart.why([str(tmp_path / "train.log")], command=f"python t.py --config {tmp_path / 'base.yaml'}")
    finding = diagnosis.findings[0]
    assert finding.cause == "config/type"
    assert any(item.where.endswith("base.yaml:1") for sign in finding.signs for item in sign.evidence)
    assert any("+learning_rate: 1.0e-4  # the usual" in fix.diff for fix in finding.fixes)


def test_the_exit_status_decides_when_the_log_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1 loss 0.3\nstep 2 loss 0.2\n")
    diagnosis = crashcart.why([str(tmp_path / "train.log")], exit_code=137)
    assert (diagnosis.ending.signal, diagnosis.findings[0].cause) == ("SIGKILL", "host-memory/oom-kill")
    assert diagnosis.findings[0].level == "may"


def test_a_kernel_event_of_another_day_is_not_blamed(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(
        "2026-11-15 03:10:00,100 INFO step=100 loss=0.5\n2026-11-15 03:12:00,100 INFO step=200 loss=0.4\n"
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 2 (pid: 48119) of binary: python\n"
    )
    line = "[Sun Nov 15 03:12:05 2026] Memory cgroup out of memory: Killed process 48119 (python) total-vm:9150kB, anon-rss:6011kB\n"
    for name, text in {
        "ours": line,
        "other": line.replace("Sun Nov 15 03", "Fri Nov 13 22").replace("48119", "777"),
    }.items():
        (tmp_path / f"{name}.txt").write_text(text)
    ours = crashcart.why([str(tmp_path / "train.log")], kernel_log=str(tmp_path / "ours.txt"))
    other = crashcart.why([str(tmp_path / "train.log")], kernel_log=str(tmp_path / "other.txt"))
    assert (ours.findings[0].cause, ours.findings[0].level) == ("host-memory/oom-kill", "did")
    assert not any(
        item.where.startswith("other.txt")
        for finding in other.findings
        for sign in finding.signs
        for item in sign.evidence
        if sign.strength != "against"
    )
