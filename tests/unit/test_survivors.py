"""What is left of a run when its log is lost."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from crashcart.model import NotLooked
from crashcart.readers.traces import survivors as module
from crashcart.readers.traces.slurm import parse, sacct
from crashcart.readers.traces.survivors import survivors

WANDB = "wandb/run-20261115_071203-a1b2c3d4/files"
TREE = {
    f"{WANDB}/output.log": "wandb-output",
    f"{WANDB}/wandb-summary.json": "wandb-summary",
    f"{WANDB}/wandb-metadata.json": "wandb-metadata",
    f"{WANDB}/config.yaml": "wandb-config",
    "wandb/debug-internal.log": "wandb-debug",
    "wandb/run-20261115_071203-a1b2c3d4/logs/debug.log": "wandb-debug",
    "runs/a/events.out.tfevents.1794726723.node1.4410.0": "tfevents",
    "mlruns/0/3f2a/meta.yaml": "mlflow-run",
    "mlruns/0/3f2a/metrics/loss": "mlflow-metric",
    "slurm-77.out": "slurm-output",
    "nohup.out": "output",
    "train.err": "output",
    "elastic/none_x1/attempt_0/3/stderr.log": "elastic-log",
    "elastic/none_x1/attempt_0/3/error.json": "error-file",
    "lightning_logs/version_0/metrics.csv": "lightning-metrics",
    "lightning_logs/version_0/hparams.yaml": "lightning-hparams",
    "out/checkpoint-2000/trainer_state.json": "trainer-state",
    "logs/train.log": "log",
    "logs/rank0.txt": "log",
    "run.sbatch": "launch-script",
    "configs/base.yaml": "config",
    "dmesg.txt": "kernel-log",
    "kern.log.1": "kernel-log",
    "journal-node1.log": "kernel-log",
}
NOT_OURS = (
    ".git/config.yaml",
    "venv/lib/python3.11/site-packages/torch/conf.yaml",
    "out/checkpoint-2000/tokenizer.json",
    "data/image.jpg",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (*TREE, *NOT_OURS, "out/checkpoint-2000/model.safetensors"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return tmp_path


def test_everything_that_survives_is_found_under_its_kind_and_nothing_else(folder: Path) -> None:
    found = survivors(folder)
    files = {
        os.path.relpath(survivor.path, folder): kind
        for kind, listed in found.by_kind.items()
        for survivor in listed
        if kind != "checkpoints"
    }
    assert files == TREE
    assert found.not_looked == ()


def test_checkpoints_are_told_by_the_folder_that_holds_them(folder: Path) -> None:
    (folder / "last.ckpt").write_bytes(b"x" * 10)
    roots = survivors(folder).of("checkpoints")
    assert {root.path for root in roots} == {str(folder), str(folder / "out")}


def test_the_newest_of_a_kind_comes_first(tmp_path: Path) -> None:
    for age, name in enumerate(["new.log", "older.log", "oldest.log"]):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    assert [Path(survivor.path).name for survivor in survivors(tmp_path).of("log")] == [
        "new.log",
        "older.log",
        "oldest.log",
    ]


def test_links_in_a_circle_end_and_a_linked_folder_is_met_once(folder: Path) -> None:
    (folder / "wandb" / "latest-run").symlink_to("run-20261115_071203-a1b2c3d4")
    (folder / "logs" / "up").symlink_to(folder)
    (folder / "dangling").symlink_to(folder / "nowhere")
    (survivor,) = survivors(folder).of("wandb-output")
    assert "latest-run" not in survivor.path


def test_a_folder_on_another_disk_is_found_through_its_link(tmp_path: Path) -> None:
    other = tmp_path / "scratch"
    other.mkdir()
    (other / "train.log").write_text("x")
    job = tmp_path / "job"
    job.mkdir()
    (job / "logs").symlink_to(other)
    assert len(survivors(job).of("log")) == 1


def test_what_could_not_be_entered_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    real = os.scandir

    def refusing(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    (missed,) = survivors(tmp_path).not_looked
    assert missed.why == "Permission denied"
    assert missed.what.endswith("closed")


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    (missed,) = survivors(tmp_path / "gone").not_looked
    assert "No such file" in missed.why


def test_the_walk_is_bounded_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "/".join(["d"] * 12)
    deep.mkdir(parents=True)
    (deep / "train.log").write_text("x")
    assert "deeper" in survivors(tmp_path).not_looked[0].why
    monkeypatch.setattr(module, "MAX_IN_FOLDER", 5)
    for number in range(9):
        (tmp_path / f"{number}.log").write_text("x")
    found = survivors(tmp_path)
    assert len(found.of("log")) <= 5
    assert any("more than 5 entries" in missed.why for missed in found.not_looked)
    monkeypatch.setattr(module, "MAX_IN_FOLDER", 50)
    monkeypatch.setattr(module, "MAX_ENTRIES", 1)
    assert any("stopped after 1" in missed.why for missed in survivors(tmp_path).not_looked)


SACCT = """\
JobID|State|ExitCode|MaxRSS|ReqMem|Timelimit|Elapsed|Start|End|NodeList|Reason
77|OUT_OF_MEMORY|0:125||200Gn|1-00:00:00|02:22:00|1794726131|1794734651|gpu01|None
77.batch|OUT_OF_MEMORY|0:125|1180K||||||gpu01|
77.0|CANCELLED by 1000|1:9|13928044K||||||gpu01|
"""


def test_the_state_of_the_job_itself_is_read() -> None:
    assert parse(SACCT) == "OUT_OF_MEMORY"


def fake_sacct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    binary = tmp_path / "sacct"
    binary.write_text(f"#!{sys.executable}\nimport os, sys, time\n{script}\n")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_sacct_is_asked_for_one_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_sacct(
        tmp_path,
        monkeypatch,
        "assert sys.argv[1:4] == ['-j', '77', '--parsable2'] and os.environ['LC_ALL'] == 'C'\nprint('JobID|State\\n77|TIMEOUT')",
    )
    assert sacct("77") == "TIMEOUT"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("time.sleep(30)", "did not respond"),
        ("sys.exit('Slurm accounting storage is disabled')", "storage is disabled"),
        ("print('JobID|State')", "does not know it"),
        ("print(chr(0) * 9)", "does not know it"),
    ],
)
def test_an_accounting_that_does_not_answer_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    fake_sacct(tmp_path, monkeypatch, script)
    answer = sacct("77", timeout_seconds=1.5)
    assert isinstance(answer, NotLooked)
    assert why in answer.why


def test_without_slurm_and_with_a_strange_id_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = sacct("77")
    assert isinstance(answer, NotLooked)
    assert "not on this machine" in answer.why
    fake_sacct(tmp_path, monkeypatch, "open('started', 'w')")
    answer = sacct("77 --allusers")
    assert isinstance(answer, NotLooked)
    assert "not a job id" in answer.why
