"""What is no regular file is refused with a sentence, and nothing makes us wait or fills the memory."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crashcart.regular_files import (
    RefusedFileError,
    bounded_lines,
    is_regular,
    names_in,
    open_input,
    open_regular,
    problem_with,
    read_end,
    read_start,
    read_whole,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.timeout(60)


def _socket(path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.close()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


SPECIAL: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "train.sh is a named pipe, not a file"),
    "socket": (_socket, "train.sh is a socket, not a file"),
    "zero": (lambda path: path.symlink_to("/dev/zero"), "train.sh is a device, not a file"),
    "terminal": (lambda path: path.symlink_to("/dev/ptmx"), "train.sh is a device, not a file"),
    "folder": (lambda path: path.mkdir(), "train.sh is a folder, not a file"),
    "dangling": (lambda path: path.symlink_to("nowhere"), "train.sh is a link that leads nowhere"),
    "circle": (lambda path: path.symlink_to(path.name), "train.sh is a link that leads in a circle"),
    "missing": (lambda _: None, "train.sh cannot be read: No such file or directory"),
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_is_told_in_a_sentence(here: Path, kind: str) -> None:
    make, says = SPECIAL[kind]
    make(here / "train.sh")
    for read in (lambda: read_whole("train.sh", 100), lambda: read_start("train.sh", 1), lambda: read_end("train.sh", 1)):
        with pytest.raises(OSError, match=r".") as caught:
            read()
        assert problem_with("train.sh", caught.value) == says
    assert not is_regular("train.sh")


@pytest.mark.parametrize("name", ["a\0b", "\udc80\ud800", "x" * 300, "x/" * 3000 + "x", ""])
def test_a_name_that_no_file_can_have_is_an_os_error(name: str) -> None:
    with pytest.raises(OSError, match=r"."):
        read_whole(name, 10)
    assert not is_regular(name)
    assert names_in(name) == []
    assert list(walk(name)) == [(name, [], [])]


def test_links_to_files_work_where_nobody_forbids_them(here: Path) -> None:
    (here / "real").mkdir()
    (here / "real" / "a").write_text("text")
    (here / "link").symlink_to("real")
    (here / "b").symlink_to("link/a")
    assert read_whole("b", 10) == b"text"
    assert read_whole("link/a", 10, no_links_below=str(here / "link")) == b"text"  # the folder itself may be a link
    with pytest.raises(RefusedFileError, match="symbolic link"):
        read_whole(str(here / "b"), 10, no_links_below=str(here))
    with pytest.raises(RefusedFileError, match="symbolic link"):
        read_whole(str(here / "link" / "a"), 10, no_links_below=str(here))
    with pytest.raises(OSError, match="outside"):
        read_whole(str(here / "b"), 10, no_links_below=str(here / "real"))
    assert names_in(str(here / "link"), no_links_below=str(here)) == []
    assert names_in(str(here / "real"), no_links_below=str(here)) == ["a"]


def test_a_limit_is_no_matter_of_what_a_file_says_of_its_size(here: Path) -> None:
    with open("sparse", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RefusedFileError, match="sparse is larger than 5 MB"):
        read_whole("sparse", 5_000_000)
    assert read_start("sparse", 3) == b"\0\0\0"
    assert read_end("sparse", 3) == (b"\0\0\0", (1 << 40) - 3)
    assert b"MemTotal" in read_whole("/proc/meminfo", 100_000)  # of size 0
    with pytest.raises(OSError, match="larger than"):
        read_whole("/proc/meminfo", 10)
    assert here


def test_holes_of_a_log_are_not_read(here: Path) -> None:
    with open("rotated.log", "wb") as file:
        file.write(b"first")
        file.seek(1 << 40)
        file.write(b"last\n")
    stream, size = open_input("rotated.log")
    with stream:
        content = stream.readall() or b""
    assert size == (1 << 40) + 5
    assert len(content) < 1 << 20
    assert content.replace(b"\0", b"") == b"first\nlast\n"
    assert here


def test_a_file_as_standard_input_is_read_as_one_that_is_named(here: Path) -> None:
    with open("rotated.log", "wb") as file:
        file.write(b"step 1 loss 2\nKilled\n")
        file.truncate(1 << 36)
    command = [sys.executable, "-m", "crashcart", "why", "--json", "-"]
    with open("rotated.log", "rb") as file:
        answer = subprocess.run(command, stdin=file, capture_output=True, check=True, timeout=60).stdout
    assert json.loads(answer)["ending"]["state"] == "killed"
    assert here


def test_lines_that_are_too_long_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b"one\n" + b"x" * 1000 + b"\ntwo\n" + b"y" * 500)
    with open_regular(path) as file:
        assert list(bounded_lines(file, 100, 10_000)) == [b"one\n", b"two\n"]
    with open_regular(path) as file:
        assert list(bounded_lines(file, 100, 500)) == [b"one\n"]


def test_a_walk_ends(here: Path) -> None:
    at = here
    for _ in range(80):
        at = at / "d"
        at.mkdir()
        (at / "f").touch()
    (here / "up").symlink_to(".")
    for number in range(50):
        (here / f"file{number}").touch()
    problems: list[tuple[str, str]] = []
    assert len(list(walk(".", problems, deepest=10))) == 11
    assert "deeper than 10 folders" in problems[-1][1]
    assert sum(len(files) for _, _, files in walk(".", problems, most=30)) <= 30
    assert "too many files" in problems[-1][1]
    assert list(walk(".", problems, seconds=-1)) == [(".", [], [])]


def test_what_the_shell_has_opened_is_read(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1\nRuntimeError: CUDA error: device-side assert triggered\n")
    (tmp_path / "dmesg").write_text("[Mon Nov 15 07:02:11 2026] Out of memory: Killed process 1 (python)\n")
    why = f"{sys.executable} -m crashcart why"
    for command in (
        f"{why} <(cat train.log)",
        f"{why} - < train.log",
        f"cat train.log | {why} -",
        f"cat train.log | {why} /dev/stdin",
        f"gzip -c train.log | {why} -",
        f"{why} <(gzip -c train.log)",
    ):
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, "device-side assert" in done.stdout) == (0, True), (command, done.stdout, done.stderr)
    command = f"{why} train.log --kernel-log <(cat dmesg)"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "host-memory/oom-kill" in done.stdout) == (0, True), done.stderr


def test_standard_input_that_is_closed_is_told(tmp_path: Path) -> None:
    command = f"{sys.executable} -m crashcart why - <&-"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (2, "crashcart: Standard input is closed.\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_told(here: Path) -> None:
    (here / "a").touch(mode=0)
    with pytest.raises(PermissionError) as caught:
        read_whole("a", 10)
    assert problem_with("a", caught.value) == "a cannot be read: Permission denied"


@pytest.mark.parametrize("name", ["new\nline.log", "esc\x1b[31m.log", "\udcff\udcfe.log", "é" * 120 + ".log", " .log"])
def test_any_name_of_a_log_can_be_opened_and_told(here: Path, name: str) -> None:
    Path(name).write_text("step 1\nRuntimeError: CUDA error: device-side assert triggered\n")
    for more in ([], ["--json"], ["--html", "page.html"]):
        command: list[str | bytes] = [sys.executable, "-m", "crashcart", "why", os.fsencode(name), *more]
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    assert "device-side assert" in Path("page.html").read_text("utf-8")
    assert here
