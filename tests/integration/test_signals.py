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
from typing import TYPE_CHECKING

import pytest
from processes import tree_of
from supervised import CRASHCART, gone, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.processes

BARE: list[str] = []
SUPERVISED = [*CRASHCART, "--quiet", "--"]
# Four processes that write down every signal they get: the first one, a child in its group, one in a group of its own, one in a
# session of its own. They end when the file `end` is there.
TREE = """
    import os, signal, subprocess, sys, time

    def note(number, frame):
        with open("got", "a") as file:
            file.write(f"{name} {number}\\n")

    name = sys.argv[1] if sys.argv[1:] in (["child"], ["group"], ["session"]) else "first"
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
# Has a handler for USR1 only.
NO_HANDLER = """
    import os, signal, time
    signal.signal(signal.SIGUSR1, lambda *_: open("got", "a").write("first 10\\n"))
    with open("ready-first", "w"):
        pass
    while not os.path.exists("end"):
        time.sleep(0.02)
"""


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


def signal_by_name(pid: int, words: str, number: int) -> None:
    """As `pkill -f` does, but only within one job: other tests run beside this one."""
    found = subprocess.run(["pgrep", "-f", "--", words], capture_output=True, text=True, check=True).stdout.split()
    for one in sorted(set(map(int, found)) & set(tree_of(pid))):
        os.kill(one, number)


@contextlib.contextmanager
def running(folder: Path, before: list[str], *arguments: str, program: str = "tree.py") -> Iterator[subprocess.Popen[bytes]]:
    folder.mkdir()
    (folder / "tree.py").write_text(textwrap.dedent(TREE))
    (folder / "no_handler.py").write_text(textwrap.dedent(NO_HANDLER))
    job = subprocess.Popen(
        [*before, sys.executable, program, *arguments],
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
            job.wait(150)
        finally:
            for one in (folder / "ready-first", folder / "ready-child", folder / "ready-group", folder / "ready-session"):
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int(one.read_text()), signal.SIGKILL)


def got(folder: Path) -> Counter[str]:
    return Counter((folder / "got").read_text().splitlines() if (folder / "got").exists() else ())


def settled(folder: Path, at_least: int = 1) -> Counter[str]:
    """What was got, once it is as much as was expected and nothing more comes."""
    with contextlib.suppress(AssertionError):
        until(lambda: sum(got(folder).values()) >= at_least)
    time.sleep(1)
    return got(folder)


NUMBERS = [
    signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGWINCH,
    signal.SIGCONT, signal.SIGTSTP, signal.SIGURG, signal.SIGABRT, signal.SIGSEGV, signal.SIGIO, signal.SIGPROF,
    int(signal.SIGRTMIN) + 3,
]  # fmt: skip


@pytest.mark.parametrize(
    "send",
    [signal_process, signal_group, signal_everybody, signal_everybody_last_first],
    ids=lambda send: str(send.__name__),
)
def test_every_signal_reaches_the_same_processes_once(tmp_path: Path, send: Callable[[int, int], None]) -> None:
    results: list[Counter[str]] = []
    for name, before in (("bare", BARE), ("supervised", SUPERVISED)):
        with running(tmp_path / name, before) as job:
            for number in NUMBERS:
                send(job.pid, number)
                time.sleep(0.1)  # a stop that is not yet taken would undo a CONT, and the other way round
            results.append(settled(tmp_path / name, sum(results[0].values()) if results else len(NUMBERS)))
    assert results[0] == results[1]
    assert {line.split()[1] for line in results[0]} == {str(int(number)) for number in NUMBERS}


def test_many_senders_to_everybody_are_one_signal(tmp_path: Path) -> None:
    with running(tmp_path / "supervised", SUPERVISED) as job:
        signal_everybody_by_many_senders(job.pid, signal.SIGUSR1)
        assert settled(tmp_path / "supervised", 4) == Counter(
            f"{name} {int(signal.SIGUSR1)}" for name in ("first", "child", "group", "session")
        )


def test_the_name_of_the_job_reaches_it_once(tmp_path: Path) -> None:
    """`pkill -f` finds the job, and none of our processes."""
    results: list[Counter[str]] = []
    for name, before in (("bare", BARE), ("supervised", SUPERVISED)):
        with running(tmp_path / name, before, mark := f"{tmp_path.name}-{name}") as job:
            signal_by_name(job.pid, mark, signal.SIGUSR1)
            results.append(settled(tmp_path / name))
    assert results[0] == results[1] == Counter(["first 10"])


def test_our_own_name_reaches_the_job_too(tmp_path: Path) -> None:
    with running(tmp_path / "supervised", SUPERVISED) as job:
        signal_by_name(job.pid, "crashcart run", signal.SIGTERM)
        assert settled(tmp_path / "supervised")["first 15"] == 1


@pytest.mark.skipif(shutil.which("timeout") is None, reason="needs timeout")
@pytest.mark.parametrize("flags", [(), ("--foreground",)], ids=["group", "foreground"])
def test_a_timeout_around_it(tmp_path: Path, flags: tuple[str, ...]) -> None:
    results = []
    for name, before in (("bare", BARE), ("supervised", SUPERVISED)):
        with running(tmp_path / name, ["timeout", *flags, "-s", "USR1", "6", *before]) as job:
            until(lambda folder=tmp_path / name: got(folder), 60)
            results.append(set(settled(tmp_path / name)))
            assert job.poll() is None
    assert results[0] == results[1]


def test_signals_in_a_row_are_each_passed_on(tmp_path: Path) -> None:
    with running(tmp_path / "supervised", SUPERVISED) as job:
        for count in range(1, 6):
            os.kill(job.pid, signal.SIGUSR1)
            until(lambda count=count: got(tmp_path / "supervised") == Counter({"first 10": count}))


def test_the_first_process_of_a_container(tmp_path: Path) -> None:
    """Pid 1 gets only what it has a handler for; that it is ours must not kill the job."""
    in_namespace = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    if (
        shutil.which("unshare") is None
        or subprocess.run([*in_namespace, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("no pid namespace may be made here")
    results = []
    for name, before in (("bare", BARE), ("supervised", SUPERVISED)):
        with running(tmp_path / name, [*in_namespace, *before], program="no_handler.py") as job:
            first = tree_of(job.pid)[1]
            os.kill(first, signal.SIGUSR2)
            os.kill(first, signal.SIGTERM)
            os.kill(first, signal.SIGUSR1)
            results.append(settled(tmp_path / name))
            assert job.poll() is None
    assert results[0] == results[1] == Counter(["first 10"])


def is_stopped(folder: Path, name: str) -> bool:
    pid = int((folder / f"ready-{name}").read_text())
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("send", [signal_process, signal_group, signal_everybody], ids=lambda send: str(send.__name__))
def test_a_stop_stops_the_same_processes(tmp_path: Path, send: Callable[[int, int], None]) -> None:
    """We cannot pass STOP on, being stopped ourselves."""
    names = ("first", "child", "group", "session")
    results = []
    for name, before in (("bare", BARE), ("supervised", SUPERVISED)):
        folder = tmp_path / name
        with running(folder, before) as job:
            send(job.pid, signal.SIGSTOP)
            until(lambda folder=folder: is_stopped(folder, "first"))
            time.sleep(0.2)
            stopped = [one for one in names if is_stopped(folder, one)]
            time.sleep(2.5)  # longer than any look
            send(job.pid, signal.SIGCONT)
            until(lambda folder=folder: not any(is_stopped(folder, one) for one in names))
            time.sleep(1.5)
            results.append((stopped, [one for one in names if is_stopped(folder, one)], set(got(folder))))
    assert results[0] == results[1]


IGNORES_TERM = (
    "import os, signal, time; signal.signal(15, signal.SIG_IGN); open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
)


@pytest.mark.skipif(shutil.which("timeout") is None, reason="needs timeout")
def test_a_timeout_that_kills_leaves_no_job(tmp_path: Path) -> None:
    """`timeout -k` kills its process group, which the job would have been in."""
    command = ["timeout", "-k", "1", "4", *SUPERVISED, sys.executable, "-c", IGNORES_TERM]
    job = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    assert job.wait(150) == -signal.SIGKILL
    until(lambda: gone(int((tmp_path / "pid").read_text())))
    until(lambda: any(tmp_path.glob("crashcart_runs/*/exit.json")))


@pytest.mark.parametrize("kill", [signal_group, signal_process])
def test_a_kill_reaches_the_job_only_through_the_group(tmp_path: Path, kill: Callable[[int, int], None]) -> None:
    for _ in range(3):
        (tmp_path / "pid").unlink(missing_ok=True)
        job = subprocess.Popen([*SUPERVISED, sys.executable, "-c", IGNORES_TERM], cwd=tmp_path, start_new_session=True)
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        first = int((tmp_path / "pid").read_text())
        kill(job.pid, signal.SIGKILL)
        job.wait(150)
        if kill is signal_group:
            until(lambda first=first: gone(first))
        else:
            time.sleep(1.5)
            assert not gone(first)
            os.killpg(first, signal.SIGKILL)


def test_the_death_of_a_witness_alone_changes_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "supervised", SUPERVISED) as job:
        first = int((tmp_path / "supervised" / "ready-first").read_text())
        ours = [one for one in tree_of(job.pid) if one != job.pid and os.getpgid(one) == job.pid]
        beside_job = [one for one in tree_of(job.pid) if os.getpgid(one) == first and not is_of_job(one)]
        for one in (*ours, *beside_job):
            os.kill(one, signal.SIGKILL)
        os.kill(job.pid, signal.SIGUSR1)
        assert settled(tmp_path / "supervised") == Counter(["first 10"])
        assert not gone(first)


def is_of_job(pid: int) -> bool:
    with open(f"/proc/{pid}/environ", "rb") as file:
        return b"CRASHCART_JOB=" in file.read()
