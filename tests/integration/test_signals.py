"""A signal reaches the same processes under `crashcart run` as without it, whoever sends it to whom."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from supervised import CRASHCART, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BARE: list[str] = []
SUPERVISED = [*CRASHCART, "--quiet", "--"]
# Four processes that write down every signal they get: the first one, a child in its group, one in a group of its own, one in a
# session of its own. They end when the file `end` is there.
TREE = """
    import os, signal, subprocess, sys, time

    def note(number, frame):
        with open("got", "a") as file:
            file.write(f"{name} {number}\\n")

    name = sys.argv[1] if sys.argv[1:] else "first"
    handled = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGRTMAX - 4}
    for number in handled:
        signal.signal(number, note)
    children = []
    if name == "first":
        for child, options in {
            "child": {},
            "group": {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp},
            "session": {"start_new_session": True},
        }.items():
            children.append(subprocess.Popen([sys.executable, __file__, child], **options))
        while sum(os.path.exists(f"ready-{child}") for child in ("child", "group", "session")) < 3:
            time.sleep(0.01)
    with open(f"ready-{name}.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"ready-{name}.new", f"ready-{name}")
    while not os.path.exists("end"):
        time.sleep(0.02)
    for child in children:
        child.wait()
"""


def parents() -> dict[int, int]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                found[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def tree_of(pid: int) -> list[int]:
    """A process and everything below it, the first one first."""
    above = parents()
    found = [pid]
    for one in found:
        found.extend(child for child, parent in above.items() if parent == one)
    return found


def signal_process(pid: int, number: int) -> None:
    os.kill(pid, number)


def signal_group(pid: int, number: int) -> None:
    os.killpg(pid, number)


def signal_everybody(pid: int, number: int) -> None:
    for one in tree_of(pid):
        os.kill(one, number)


def signal_everybody_last_first(pid: int, number: int) -> None:
    for one in reversed(tree_of(pid)):
        os.kill(one, number)


def signal_everybody_by_many_senders(pid: int, number: int) -> None:
    for one in tree_of(pid):
        subprocess.run(["kill", f"-{number}", str(one)], check=True)


def signal_process_then_group(pid: int, number: int) -> None:
    os.kill(pid, number)
    os.killpg(pid, number)


@contextlib.contextmanager
def running(folder: Path, before: list[str], *wrapper: str) -> Iterator[subprocess.Popen[bytes]]:
    folder.mkdir()
    (folder / "tree.py").write_text(textwrap.dedent(TREE))
    job = subprocess.Popen(
        [*wrapper, *before, sys.executable, "tree.py"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "CRASHCART_RUNS": str(folder / "runs")},
    )
    try:
        until((folder / "ready-first").exists, 60)
        yield job
    finally:
        (folder / "end").touch()
        try:
            job.wait(60)
        finally:
            for one in (folder / "ready-first", folder / "ready-child", folder / "ready-group", folder / "ready-session"):
                with contextlib.suppress(OSError):
                    os.kill(int(one.read_text()), signal.SIGKILL)


def got(folder: Path) -> set[str]:
    return set((folder / "got").read_text().splitlines()) if (folder / "got").exists() else set()


def settled(folder: Path) -> Counter[str]:
    """What was got, once nothing more comes."""
    before, deadline = -1, time.monotonic() + 20
    while time.monotonic() < deadline:
        size = (folder / "got").stat().st_size if (folder / "got").exists() else 0
        if size == before:
            break
        before = size
        time.sleep(0.8)
    return Counter((folder / "got").read_text().splitlines()) if (folder / "got").exists() else Counter()


NUMBERS = [
    signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGWINCH,
    signal.SIGCONT, signal.SIGTSTP, signal.SIGURG, signal.SIGABRT, signal.SIGSEGV, signal.SIGIO, signal.SIGPROF,
    int(signal.SIGRTMIN) + 3,
]  # fmt: skip


@pytest.mark.parametrize(
    "send", [signal_process, signal_group, signal_everybody, signal_everybody_last_first], ids=lambda send: str(send.__name__)
)
def test_every_signal_reaches_the_same_processes_once(tmp_path: Path, send: Callable[[int, int], None]) -> None:
    results = []
    for name, before in (("bare", BARE), ("supervised", SUPERVISED)):
        with running(tmp_path / name, before) as job:
            for number in NUMBERS:
                send(job.pid, number)
                time.sleep(0.1)  # a stop that is not yet taken would undo a CONT, and the other way round
            results.append(settled(tmp_path / name))
    assert results[0] == results[1]
    assert {line.split()[1] for line in results[0]} == {str(int(number)) for number in NUMBERS}


def test_many_senders_to_everybody_are_one_signal(tmp_path: Path) -> None:
    with running(tmp_path / "supervised", SUPERVISED) as job:
        signal_everybody_by_many_senders(job.pid, signal.SIGUSR1)
        assert settled(tmp_path / "supervised") == Counter(
            f"{name} {int(signal.SIGUSR1)}" for name in ("first", "child", "group", "session")
        )


def test_the_name_of_the_job_reaches_it_once(tmp_path: Path) -> None:
    """`pkill -f` finds us, the witnesses and the job."""
    results = []
    for name, before in (("bare", BARE), ("supervised", SUPERVISED)):
        with running(tmp_path / name, before) as job:
            subprocess.run(["pkill", "-USR1", "-f", "--ns", str(job.pid), "tree.py"], check=True, cwd=tmp_path)
            results.append(settled(tmp_path / name))
    assert results[0] == results[1]


def test_our_own_name_reaches_the_job_too(tmp_path: Path) -> None:
    with running(tmp_path / "supervised", SUPERVISED) as job:
        family = ",".join(map(str, tree_of(job.pid)))
        found = subprocess.run(["pgrep", "-f", "crashcart.cli run"], capture_output=True, text=True, check=True).stdout.split()
        for pid in set(found) & set(family.split(",")):
            os.kill(int(pid), signal.SIGTERM)
        assert settled(tmp_path / "supervised")["first 15"] == 1


@pytest.mark.skipif(shutil.which("timeout") is None, reason="needs timeout")
@pytest.mark.parametrize("flags", [(), ("--foreground",)], ids=["group", "foreground"])
def test_a_timeout_around_it(tmp_path: Path, flags: tuple[str, ...]) -> None:
    results = []
    for name, before in (("bare", BARE), ("supervised", SUPERVISED)):
        with running(tmp_path / name, before, "timeout", *flags, "-s", "USR1", "6") as job:
            until(lambda folder=tmp_path / name: got(folder), 30)
            results.append(set(settled(tmp_path / name)))
            assert job.poll() is None
    assert results[0] == results[1]


def test_signals_in_a_row_are_each_passed_on(tmp_path: Path) -> None:
    with running(tmp_path / "supervised", SUPERVISED) as job:
        for count in range(1, 6):
            os.kill(job.pid, signal.SIGUSR1)
            until(lambda count=count: Counter((tmp_path / "supervised" / "got").read_text().splitlines())["first 10"] == count
                  if (tmp_path / "supervised" / "got").exists() else False)
            assert got(tmp_path / "supervised") == {"first 10"}
