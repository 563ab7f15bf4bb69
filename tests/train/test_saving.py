"""A checkpoint is whole or not there, whatever ends the save; the usual torch.save leaves half of one under the name."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from crashcart import checkpoints
from crashcart.train import atomic_folder, newest_valid, save_atomic
from crashcart.train.saving import leftovers as left

pytestmark = pytest.mark.processes

PROGRAMS = Path(__file__).parent / "programs"


def killed(folder: Path, kind: str, times: int) -> tuple[int, int]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAMS / "killed_saves.py"), str(folder), kind, str(times)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=True)
    lost, names = done.stdout.split()
    return int(lost), int(names)


def test_a_kill_in_the_middle_of_the_usual_save_destroys_the_checkpoint(tmp_path: Path) -> None:
    assert killed(tmp_path, "usual", 15)[0] > 0


def test_a_kill_at_any_moment_leaves_a_whole_one(tmp_path: Path) -> None:
    lost, names = killed(tmp_path, "ours", 25)
    assert lost == 0
    assert names <= 2  # the checkpoint, and what the last kill left: the next save removes it
    save_atomic({"step": 1}, tmp_path / "last.pt")
    assert os.listdir(tmp_path) == ["last.pt"]


def test_a_full_disk_leaves_the_old_one(tmp_path: Path) -> None:
    """Shown with a limit on the size of a file, which ends a write as a full disk does."""
    path = tmp_path / "last.pt"
    save_atomic({"step": 1}, path)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match="could not be written, and what was there before is untouched") as caught:
            save_atomic({"weights": torch.zeros(100_000)}, path)
        assert caught.value.errno == errno.EFBIG
        assert os.listdir(tmp_path) == ["last.pt"]
        assert path.read_bytes() == before
        with pytest.raises(RuntimeError):
            torch.save({"weights": torch.zeros(100_000)}, path)  # the usual way: the old one is gone
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert checkpoints.inspect(path).verdict == "broken"


def test_no_room_is_told_as_such(tmp_path: Path) -> None:
    def full(_obj: Any, file: Any) -> None:
        file.problem = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise RuntimeError("unexpected pos 64 vs 0")

    with pytest.raises(OSError, match=r"No space left on device: .*last.pt") as caught:
        save_atomic({}, tmp_path / "last.pt", save=full)
    assert caught.value.errno == errno.ENOSPC
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("problem", [KeyboardInterrupt, ValueError])
def test_whatever_is_raised_goes_on_and_leaves_nothing(tmp_path: Path, problem: type[BaseException]) -> None:
    def broken(_obj: Any, file: Any) -> None:
        file.write(b"half")
        raise problem

    (tmp_path / "a.pt").write_text("old", encoding="utf-8")
    with pytest.raises(problem):
        save_atomic({}, tmp_path / "a.pt", save=broken)
    assert (tmp_path / "a.pt").read_text(encoding="utf-8") == "old"
    with pytest.raises(problem), atomic_folder(tmp_path / "b") as folder:  # noqa: PT012 - the block is what is tested
        (folder / "x").touch()
        raise problem
    assert os.listdir(tmp_path) == ["a.pt"]


def test_what_is_saved_is_what_torch_saves(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 4)
    path = save_atomic(model.state_dict(), tmp_path / "new" / "folder" / "model.pt")
    loaded = torch.load(path, weights_only=True)
    assert all(torch.equal(loaded[name], value) for name, value in model.state_dict().items())
    assert checkpoints.inspect(path).verdict == "whole"


def test_permissions_are_those_of_the_umask_or_of_the_file_before(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        save_atomic({}, tmp_path / "a.pt")
        assert stat.S_IMODE((tmp_path / "a.pt").stat().st_mode) == 0o640
        (tmp_path / "a.pt").chmod(0o664)
        save_atomic({}, tmp_path / "a.pt")
        assert stat.S_IMODE((tmp_path / "a.pt").stat().st_mode) == 0o664
        with atomic_folder(tmp_path / "b") as folder:
            (folder / "x").touch()
        assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o750
    finally:
        os.umask(before)


def test_a_link_is_followed_and_a_second_name_keeps_the_old(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "last.pt").symlink_to("far/real.pt")
    save_atomic({"step": 1}, tmp_path / "last.pt")
    os.link(tmp_path / "far" / "real.pt", tmp_path / "kept.pt")
    save_atomic({"step": 2}, tmp_path / "last.pt")
    assert (tmp_path / "last.pt").is_symlink()
    assert torch.load(tmp_path / "far" / "real.pt", weights_only=True) == {"step": 2}
    assert torch.load(tmp_path / "kept.pt", weights_only=True) == {"step": 1}


def test_wrong_targets_are_told(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder; save_atomic writes a file"):
        save_atomic({}, tmp_path)
    with pytest.raises(ValueError, match="keep is 1 or more"):
        save_atomic({}, tmp_path / "a.pt", keep=0)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError), atomic_folder(tmp_path / "file"):
        pass
    assert os.listdir(tmp_path) == ["file"]


def test_only_what_a_dead_writer_left_is_removed(tmp_path: Path) -> None:
    descriptor, living = left.reserve_file(str(tmp_path / "a.pt"))
    dead, gone = left.reserve_file(str(tmp_path / "b.pt"))
    os.close(dead)
    elsewhere = tmp_path / ".c.pt.another-host.12345678.crashcart-saving"
    elsewhere.touch()
    mine = tmp_path / ".notes"
    mine.touch()
    save_atomic({}, tmp_path / "new.pt")
    assert os.path.exists(living)
    assert not os.path.exists(gone)
    assert elsewhere.exists()
    os.utime(elsewhere, (0, 0))
    os.close(descriptor)
    save_atomic({}, tmp_path / "new.pt")
    assert sorted(os.listdir(tmp_path)) == [".notes", "new.pt"]


def test_a_writer_keeps_its_lock_while_it_writes(tmp_path: Path) -> None:
    def look(_obj: Any, _file: Any) -> None:
        save_atomic({"inner": 1}, tmp_path / "b.pt")  # cleans the folder, and must leave the outer one alone
        (temporary,) = [name for name in os.listdir(tmp_path) if name.endswith(left.SAVING)]
        with (tmp_path / temporary).open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    save_atomic({}, tmp_path / "a.pt", save=look)
    assert sorted(os.listdir(tmp_path)) == ["a.pt", "b.pt"]


def test_the_newest_whole_ones_are_kept(tmp_path: Path) -> None:
    for step in (100, 200, 300):
        save_atomic({"step": step}, tmp_path / f"step-{step}.pt")
        os.utime(tmp_path / f"step-{step}.pt", (step, step))
    (tmp_path / "best.pt").write_bytes((tmp_path / "step-100.pt").read_bytes())
    (tmp_path / "step-300.pt").write_bytes(b"half")
    os.utime(tmp_path / "step-300.pt", (300, 300))
    save_atomic({"step": 400}, tmp_path / "step-400.pt", keep=2)
    assert sorted(os.listdir(tmp_path)) == ["best.pt", "step-200.pt", "step-300.pt", "step-400.pt"]
    save_atomic(
        {"step": 50}, tmp_path / "step-50.pt", keep=1
    )  # begun anew in the same folder: the newest is what was just written
    assert sorted(os.listdir(tmp_path)) == ["best.pt", "step-50.pt"]


def test_the_last_whole_one_is_never_removed(tmp_path: Path) -> None:
    save_atomic({"step": 1}, tmp_path / "step-1.pt")
    save_atomic({}, tmp_path / "step-2.pt", keep=1, save=lambda _obj, file: file.write(b"not a checkpoint"))
    assert sorted(os.listdir(tmp_path)) == ["step-1.pt", "step-2.pt"]


def test_a_folder_appears_whole_and_replaces_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, can_exchange in ((1, True), (2, True), (3, False)):
        if not can_exchange:
            monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: None)
        with atomic_folder(tmp_path / "checkpoint-7") as folder:
            (folder / "deep").mkdir()
            (folder / "deep" / "x").write_text(str(number), encoding="utf-8")
            assert (tmp_path / "checkpoint-7").exists() == (number > 1)
        assert (tmp_path / "checkpoint-7" / "deep" / "x").read_text(encoding="utf-8") == str(number)
    assert os.listdir(tmp_path) == ["checkpoint-7"]


def test_a_folder_that_was_only_moved_aside_comes_back(tmp_path: Path) -> None:
    """Where the kernel cannot exchange two names, a kill between the two renames leaves this."""
    aside = Path(left._temporary(str(tmp_path / "checkpoint-1"), left.REPLACED))
    aside.mkdir()
    (aside / "x").touch()
    save_atomic({}, tmp_path / "other.pt")
    assert (tmp_path / "checkpoint-1" / "x").exists()


def test_folders_are_kept_by_number_too(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    for step in (1, 2, 3):
        with atomic_folder(tmp_path / f"checkpoint-{step}", keep=2) as folder:
            safetensors.save_file({"w": torch.zeros(3)}, folder / "model.safetensors")
            (folder / "config.json").write_text("{}", encoding="utf-8")
    assert sorted(os.listdir(tmp_path)) == ["checkpoint-2", "checkpoint-3"]


def test_newest_valid_says_what_it_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert newest_valid(tmp_path) is None
    assert newest_valid(tmp_path / "not there") is None
    for step in (100, 200, 300):
        save_atomic({"step": step, "w": torch.zeros(100)}, tmp_path / f"step-{step}.pt")
    data = (tmp_path / "step-300.pt").read_bytes()
    (tmp_path / "step-300.pt").write_bytes(data[: len(data) // 2])
    data = (tmp_path / "step-200.pt").read_bytes()
    (tmp_path / "step-200.pt").write_bytes(data.replace(b"\0" * 100, b"\0" * 50 + b"\1" + b"\0" * 49, 1))
    assert newest_valid(tmp_path) == tmp_path / "step-100.pt"
    assert [("step-300" in line, "step-200" in line, "left out" in line) for line in caplog.messages] == [
        (True, False, True),
        (False, True, True),
    ]


def two_ranks(folder: Path, *what: str) -> list[str]:
    """Both ranks' lines, sorted."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    environment["MASTER_PORT"] = str(free_port())
    command = [sys.executable, str(PROGRAMS / "resumed_ranks.py"), str(folder), *what]
    ranks = [
        subprocess.Popen(
            command, env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=100) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert all(rank.returncode == 0 for rank in ranks), said
    return sorted(line for out, _ in said for line in out.splitlines())


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_two_ranks_save_and_resume_together(tmp_path: Path) -> None:
    """One folder from both, or none; the same checkpoint for both, though the later finds a newer one; sharded parameters."""
    lines = two_ranks(tmp_path, "together", "alike", "sharded", "across")
    name = tmp_path / "together" / "checkpoint-1"
    assert [line for line in lines if "Error" in line] == [
        f"0 RuntimeError {name} was not saved: rank 1 raised ValueError: here.",
        "0 ValueError here",
        f"1 RuntimeError {name} was not saved: rank 0 raised ValueError: here.",
        "1 ValueError here",
    ]
    first, second = (line.split() for line in lines if "alike" in line)
    assert first[2] == second[2] == "1"
    assert first[3] != second[3]  # random numbers of two ranks must not become the same
    assert newest_valid(tmp_path / "alike") == tmp_path / "alike" / "step-2.pt"
    assert [line for line in lines if "sharded" in line] == [f"{rank} sharded 1 True True ()" for rank in range(2)]
    assert sorted(line for line in lines if "across" in line) == [f"{rank} across True ()" for rank in (0, 0, 1, 1)]
    state = torch.load(tmp_path / "sharded" / "step-1.pt", weights_only=True)
    assert state["model"]["weight"].shape == (2, 3)
