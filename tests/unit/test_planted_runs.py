"""A run folder that somebody planted cannot make us read, change or wait for anything outside it; `planted_runs.py 500` asks more."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from planted_runs import OTHER_USER, examine, write_run

from crashcart.cli import main
from crashcart.readers.gather import Given, gather
from crashcart.recording.files import has_file, listed, opened, read_json, write_json
from crashcart.recording.folder import make_folder, roots

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_outside_is_read_or_changed(tmp_path: Path, seed: int) -> None:
    assert examine(tmp_path, seed) == []


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "crashcart_runs" / "2026-11-15T07-02-11-train"
    write_run(folder, "honest", left_out=("findings.json",))
    return folder


@pytest.mark.parametrize("name", ["findings.json", "findings.json.new", "exit.json.new"])
def test_a_link_where_we_would_write_is_not_written_through(run: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "victim").write_text("mine")
    (run / name).symlink_to(tmp_path / "victim")
    assert main(["why", str(run)]) == 0
    assert (tmp_path / "victim").read_text() == "mine"


def test_our_own_run_gets_its_findings(run: Path) -> None:
    assert main(["why", str(run)]) == 0
    assert json.loads((run / "findings.json").read_text())["findings"]
    assert not [name for name in os.listdir(run) if name.startswith(".")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_in_the_run_of_somebody_else_nothing_is_written(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.chown(run, OTHER_USER, OTHER_USER)
    before = sorted(os.listdir(run))
    assert main(["why", str(run)]) == 0
    assert "honest" in capsys.readouterr().out
    assert sorted(os.listdir(run)) == before


def test_links_to_a_run_and_to_the_folder_of_runs_work(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.move(str(run.parent), "elsewhere")
    os.symlink("elsewhere", "crashcart_runs")
    os.symlink(run.name, "crashcart_runs/latest")
    for path in ("crashcart_runs/latest", "crashcart_runs/latest/", f"crashcart_runs/{run.name}"):
        case = gather(Given([path]))
        assert "RuntimeError: honest" in [line.text for line in case.log.lines]
        assert case.flight is not None
        assert case.flight.of_kind("exception")
    assert main(["runs"]) == 0
    assert run.name in capsys.readouterr().out


def test_a_link_inside_a_run_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.move(str(run / "logs"), "logs")
    (run / "logs").symlink_to("../../logs")
    assert main(["why", str(run), "--json"]) == 0
    gaps = {gap["what"]: gap["why"] for gap in json.loads(capsys.readouterr().out)["not_looked"]}
    assert gaps[str(run / "logs")] == "it is a symbolic link, and links inside a run folder are not followed"


def test_files_of_a_run_are_opened_from_its_folder_down(run: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write_run(outside, "secret")
    (run / "nodes").mkdir()
    (run / "nodes" / "x").symlink_to(outside)
    part = str(run / "nodes" / "x")
    assert read_json(os.path.join(part, "run.json")) == {}
    assert listed(part) == []
    assert not has_file(part, "run.json")
    with pytest.raises(OSError, match="symbolic link"):
        opened(part, "kernel.log")


def test_a_small_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(str(path), {"a": 1})
    write_json(str(path), {"a": 2})
    assert read_json(str(path)) == {"a": 2}
    assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "folder.json").mkdir()
    write_json(str(tmp_path / "folder.json"), {})
    assert sorted(os.listdir(tmp_path)) == ["folder.json", "run.json"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_temporary_folder_that_somebody_else_has_made_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    waiting = tmp_path / "tmp" / f"crashcart-{os.getuid()}"
    if kind == "folder":
        waiting.mkdir()
        os.chown(waiting, OTHER_USER, OTHER_USER)
    else:
        (tmp_path / "trap").mkdir()
        waiting.symlink_to(tmp_path / "trap")
    monkeypatch.setenv("CRASHCART_RUNS", "/proc/nowhere")
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert not [root for root in roots() if root.startswith(str(tmp_path))]
    assert make_folder(["python", "train.py"])[0] is None
