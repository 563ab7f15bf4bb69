"""The look from outside, at real processes: what they hold, what they wait on, what they are for, and that they may vanish."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from crashcart.recording.tables import HOST, PROCESS
from crashcart.run.outside.aside import Aside
from crashcart.run.outside.disk import Disk
from crashcart.run.outside.files import Kept, number_after
from crashcart.run.outside.gpu import Cards
from crashcart.run.outside.processes import Tree
from crashcart.run.outside.roles import recorded_role, wraps
from crashcart.run.outside.sampler import Sampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from crashcart.run.outside.process import Process

pytestmark = pytest.mark.processes


@contextmanager
def job(code: str, mark: str, *arguments: str, **environ: str) -> Iterator[tuple[subprocess.Popen[str], Tree]]:
    """A program that prints a line when it is where the test wants it, ended with all its descendants."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    name, _, value = mark.partition("=")
    inherited = {name: value for name, value in os.environ.items() if name not in ("RANK", "LOCAL_RANK")}
    process = subprocess.Popen(
        command, env={**inherited, name: value, **environ}, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    tree = Tree(process.pid, mark)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        tree.look(fresh=True)
        yield process, tree
    finally:
        tree.look(fresh=True)
        for pid in tree.processes:
            os.kill(pid, signal.SIGKILL)
        process.communicate()
        tree.close()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, "did not come about within 20 seconds"
        time.sleep(0.01)


def looked(tree: Tree) -> dict[int, Process]:
    tree.look(fresh=True)
    return tree.processes


def rows_of(sampler: Sampler) -> dict[int, dict[str, float]]:
    rows = [dict(zip(PROCESS, row, strict=True)) for row in sampler.sample().processes]
    return {int(row["pid"]): row for row in rows}


def children_of(tree: Tree) -> list[Process]:
    return [process for process in tree.processes.values() if process.pid != tree.root_pid]


@pytest.fixture
def mark(tmp_path: Path) -> str:
    return f"CRASHCART_LIVE={tmp_path}"


SLEEPERS = """
import os, time
for _ in range(3):
    if not os.fork():
        time.sleep(600)
print("ready", flush=True)
time.sleep(600)
"""


def test_births_and_deaths_are_noticed(mark: str) -> None:
    code = """
    import os, sys, time
    print("ready", flush=True)
    for line in sys.stdin:
        if not os.fork():
            time.sleep(600)
        print("born", flush=True)
    """
    with job(code, mark) as (process, tree):
        assert process.stdin is not None
        assert process.stdout is not None
        assert [one.pid for one in tree.born] == [process.pid]
        process.stdin.write("go\n")
        process.stdin.flush()
        process.stdout.readline()
        tree.look()
        (child,) = tree.born
        assert child.parent is tree.root
        with open(f"/proc/{child.pid}/stat") as stat:
            assert child.name == f"{child.pid}-{stat.read().rpartition(')')[2].split()[19]}"
        tree.look()
        assert tree.born == tree.ended == []
        process.kill()
        process.wait()
        tree.look()
        assert [one.pid for one in tree.ended] == [process.pid]
        assert list(tree.processes) == [child.pid]


def test_orphans_are_found_by_their_mark_and_strangers_are_not(mark: str) -> None:
    code = """
    import os, subprocess, sys, time
    if not os.fork():
        os.setsid()
        if not os.fork():
            print("ready", flush=True)
            time.sleep(600)
        os._exit(0)
    os.wait()
    time.sleep(600)
    """
    with job(code, mark) as (_, tree), job(SLEEPERS, mark + "2") as (_, strangers):
        until(lambda: len(looked(tree)) == 2)
        (orphan,) = children_of(tree)
        with open(f"/proc/{orphan.pid}/stat") as stat:
            assert int(stat.read().rpartition(")")[2].split()[1]) != tree.root_pid
        assert not tree.processes.keys() & strangers.processes.keys()


@pytest.mark.parametrize("lacks", ["children", "descriptors"])
def test_kernels_without_children_and_a_limit_of_few_files(mark: str, lacks: str) -> None:
    with job(SLEEPERS, mark) as (process, _):
        tree = Tree(process.pid, mark)
        if lacks == "children":
            tree._has_children = False
        else:
            tree._room = 1
        tree.look()
        assert len(tree.processes) == 4
        sampler = Sampler(tree, "/tmp")
        assert not any(math.isnan(row["rss"]) for row in rows_of(sampler).values())
        victim = children_of(tree)[0]
        os.kill(victim.pid, signal.SIGKILL)
        until(lambda: rows_of(sampler)[victim.pid]["state"] == ord("Z"))
        sampler.close()
        tree.close()


def test_secrets_are_not_kept_in_commands(mark: str) -> None:
    with job(SLEEPERS, mark, "--wandb_api_key", "0123456789abcdef0123456789abcdef01234567") as (_, tree):
        assert {process.command.rpartition(" ")[2] for process in tree.processes.values()} == {"[hidden]"}


RANK = """
import multiprocessing, os, subprocess, sys, time
def work(connection):
    connection.send("up")
    time.sleep(600)
def main():
    for way in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(way)
        ours, theirs = context.Pipe()
        context.Process(target=work, args=(theirs,), daemon=True).start()
        ours.recv()
    subprocess.Popen([os.path.join(os.path.dirname(__file__), "wandb-core"), "600"])
    subprocess.Popen(["bash", "-c", "sleep 600; true"])
    open(sys.argv[1], "w").close()
    time.sleep(600)
if __name__ == "__main__":
    main()
"""


def test_roles_below_a_launcher(mark: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANK)
    (tmp_path / "wandb-core").symlink_to("/bin/sleep")
    (tmp_path / "torchrun").write_text(
        "import os, subprocess, sys, time\nfor rank in '01':\n"
        f"    subprocess.Popen([sys.executable, {str(tmp_path / 'train.py')!r}, {str(tmp_path)!r} + '/up' + rank], env={{**os.environ, 'RANK': rank, 'LOCAL_RANK': rank}})\n"
        f"while not all(os.path.exists({str(tmp_path)!r} + '/up' + rank) for rank in '01'):\n    time.sleep(0.01)\n"
        "print('ready', flush=True)\ntime.sleep(600)\n",
    )
    exec_it = f"import os, sys; os.execv(sys.executable, [sys.executable, {str(tmp_path / 'torchrun')!r}])"
    with job(exec_it, mark, RANK="0") as (process, tree):

        def counted() -> dict[tuple[str, int | None], int]:
            tree.look(fresh=True)
            found = [(one.role, one.rank) for one in tree.processes.values()]
            return {role: found.count(role) for role in found if role[0] != "other"}

        wanted: dict[tuple[str, int | None], int] = {("launcher", None): 1}
        for rank in (0, 1):
            wanted |= {("rank", rank): 1, ("loader worker", rank): 3, ("tracker", rank): 1, ("shell", rank): 1}
        until(lambda: counted() == wanted)
        assert tree.processes[process.pid].role == "launcher"
        direct = [one for one in tree.processes.values() if one.role == "rank"]
        assert all(one.parent is tree.root for one in direct)


def test_a_single_program_below_a_shell_is_rank_0(mark: str) -> None:
    code = """
    import os, subprocess, sys, time
    subprocess.Popen(["bash", "-c", sys.executable + " -c 'import time; print(str().join([chr(114), \\"eady\\"]), flush=True); time.sleep(600)'; true"])
    time.sleep(600)
    """
    with job(code, mark) as (_, tree):
        roles = {one.parent.pid if one.parent else 0: (one.role, one.rank, one.assumed) for one in tree.processes.values()}
        assert roles[0] == ("rank", 0, True)
        shell = next(one for one in tree.processes.values() if one.role == "shell")
        assert roles[shell.pid] == ("other", 0, False)
    code = "import os; os.execvp('bash', ['bash', '-c', " + repr(f"{sys.executable} -c '{SLEEPERS}'; true") + "])"
    with job(code, mark) as (_, tree):
        found = sorted((one.role, one.rank) for one in children_of(tree))
        assert found == [("loader worker", 0)] * 3 + [("rank", 0)]
        assert tree.root is not None
        assert tree.root.role == "shell"


def test_a_process_says_its_rank_itself_and_its_parent_turns_out_to_be_the_launcher(mark: str) -> None:
    with job(SLEEPERS, mark) as (_, tree):
        assert tree.root is not None
        assert (tree.root.role, tree.root.rank) == ("rank", 0)
        for rank, process in enumerate(children_of(tree)[:2]):
            tree.tell_rank(process.pid, rank)
        assert tree.root.role == "launcher"
        assert [(one.role, one.rank) for one in children_of(tree)[:2]] == [("rank", 0), ("rank", 1)]


def test_a_guard_around_a_program_is_a_wrapper_and_the_program_becomes_a_rank_when_it_trains(
    mark: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    guarded = f"subprocess.call(['timeout', '600', sys.executable, {str(tmp_path / 'train.py')!r}])"
    with job(f"import subprocess, sys\n{guarded}", mark) as (_, tree):
        assert tree.root is not None
        roles = {
            one.command.partition(" ")[0].rpartition("/")[2]: one for one in tree.processes.values() if one is not tree.root
        }
        assert roles["timeout"].role == "wrapper"
        program = next(one for name, one in roles.items() if name.startswith("python"))
        tree.tell_trained(program.pid)
        assert (program.role, program.rank, program.assumed) == ("rank", 0, True)
        assert (recorded_role(program), recorded_role(tree.root)) == ("rank", "wrapper")


def test_a_rank_in_the_users_shell_makes_no_ranks_of_what_a_script_starts(mark: str) -> None:
    script = f"{sys.executable} -c '{SLEEPERS}'; true"
    code = "import os; os.execvp('bash', ['bash', '-c', " + repr(script) + "])"
    with job(code, mark, RANK="3") as (_, tree):
        (program,) = (one for one in children_of(tree) if one.role == "rank")
        assert (program.rank, program.assumed, recorded_role(program)) == (3, True, "program")


def test_what_a_command_line_wraps_is_told_from_what_it_mentions() -> None:
    assert wraps("python guard.py 600 python train.py --lr 1", "/usr/bin/python3.11 train.py --lr 1")
    assert wraps("/bin/guard ./train --lr 1", "./train --lr 1")
    assert not wraps("python train.py --script eval.py", "python eval.py")
    assert not wraps("python train.py", "python train.py")


def test_a_worker_that_becomes_another_program_changes_its_role(mark: str) -> None:
    code = """
    import os, sys, time
    start, go = os.pipe()
    if not os.fork():
        os.read(start, 1)
        os.execvp("bash", ["bash", "-c", "read line; true"])
    print("ready", flush=True)
    sys.stdin.readline()
    os.write(go, b"x")
    time.sleep(600)
    """
    with job(code, mark) as (process, tree):
        (child,) = children_of(tree)
        assert child.role == "loader worker"
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        until(lambda: looked(tree)[child.pid].role == "shell")


def test_memory_files_threads_waits_and_writes(mark: str, tmp_path: Path) -> None:
    code = """
    import os, sys, threading, time
    held = bytearray(os.urandom(1)) * (64 << 20)
    quiet, _ = os.pipe()
    begun = threading.Semaphore(0)
    for _ in range(2):
        if not os.fork():
            files = [open(os.devnull) for _ in range(20)]
            own = bytearray(os.urandom(1)) * (32 << 20)
            threads = [threading.Thread(target=time.sleep, args=(600,), daemon=True) for _ in range(5)]
            for thread in threads:
                thread.start()
            with open(sys.argv[1] + str(os.getpid()), "wb") as file:
                file.write(bytes(4 << 20))
                os.fsync(file.fileno())
            os.rename(file.name, file.name + "-done")
            os.read(quiet, 1)
    while sum(name.endswith("-done") for name in os.listdir(os.path.dirname(sys.argv[1]))) < 2:
        time.sleep(0.01)
    print("ready", flush=True)
    os.read(quiet, 1)
    """
    with job(code, mark, f"{tmp_path}/written") as (process, tree):
        sampler = Sampler(tree, str(tmp_path))
        until(lambda: all(row["state"] == ord("S") for row in rows_of(sampler).values()))
        rows = rows_of(sampler)
        parent = rows.pop(process.pid)
        assert 64 << 20 < parent["rss"] < 120 << 20
        for row in rows.values():
            assert row["rss"] > 96 << 20
            assert row["files"] >= parent["files"] + 20
            assert row["threads"] == 6
            assert row["cpu"] >= 0
            assert "pipe" in sampler.waits[int(row["wait"])]
            assert row["major_faults"] >= 0
            if os.stat(tmp_path).st_dev != os.stat("/dev/shm").st_dev:
                assert row["written"] >= 4 << 20
        sampler.close()


def test_proportional_memory_divides_what_is_shared_and_keeps_to_its_budget(mark: str) -> None:
    code = "x = bytearray(b'x') * (64 << 20)\n" + SLEEPERS
    with job(code, mark) as (process, tree):
        sampler = Sampler(tree, "/tmp")
        seen: dict[int, float] = {}
        now = 0.0
        processes = tree.processes.values()
        while len(seen) < 4:
            now += 1
            before = sampler.proportional.spent
            seen |= {key[0]: value for key, value in sampler.proportional.take(processes, now, patience=20).items()}
            assert sampler.proportional.spent <= max(now * 0.005, before) + 0.1
        resident = rows_of(sampler)[process.pid]["rss"]
        assert 64 << 20 < sum(seen.values()) < 1.5 * resident
        assert all(value < resident / 2 for value in seen.values())
        sampler.proportional.take(processes, now, patience=20)  # what was still on its way
        assert sampler.proportional.take(processes, now) == {}
        sampler.close()


def test_processes_that_vanish_while_they_are_read(mark: str, tmp_path: Path) -> None:
    code = """
    import os, time
    print("ready", flush=True)
    while True:
        children = []
        for _ in range(10):
            pid = os.fork()
            if not pid:
                os._exit(0)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)
    """
    with job(code, mark) as (process, tree):
        sampler = Sampler(tree, str(tmp_path))
        open_before = len(os.listdir("/proc/self/fd"))
        for _ in range(300):
            assert process.pid in rows_of(sampler)
        process.send_signal(signal.SIGSTOP)
        until(lambda: rows_of(sampler)[process.pid]["state"] == ord("T"))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        until(lambda: not rows_of(sampler))
        assert len(os.listdir("/proc/self/fd")) <= open_before
        sampler.close()


def test_the_host_and_the_disk(mark: str, tmp_path: Path) -> None:
    with job(SLEEPERS, mark) as (_, tree):
        sampler = Sampler(tree, str(tmp_path))
        sampler.sample()
        until(lambda: not math.isnan(sampler.sample().host[HOST.index("cpu_busy")]))
        sample = sampler.sample(fresh=True)
        host = dict(zip(HOST, sample.host, strict=True))
        assert 0 <= host["cpu_busy"] <= 1
        assert 0 < host["memory_available"] < host["memory_total"]
        assert 0 < host["disk_free"] <= host["disk_total"]
        assert host["oom_kills"] >= 0
        assert sample.gpus == []
        assert abs(sample.time - time.time()) < 60
        sampler.close()
    disk = Disk(str(tmp_path / "nowhere"))
    assert all(math.isnan(value) for value in disk.row(0.0))
    disk.close()


def test_a_question_without_answer_holds_nobody_up() -> None:
    gate = threading.Event()
    aside: Aside[int, int] = Aside(lambda question: question * 2 if gate.wait() and question else 1 // question)
    assert aside.begin(21)
    assert aside.take() is None
    assert not aside.begin(22)
    gate.set()
    assert aside.take(20) == 42
    assert aside.begin(0)
    until(lambda: (aside.take(), not aside.busy)[1])
    aside.close()


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert Kept(str(tmp_path / "nowhere")).read(0.0) == b""
    assert number_after(b"MemTotal:  12 kB\nMemFree: 3 kB\n", b"MemFree:", 1024) == 3072
    assert math.isnan(number_after(b"MemTotal:  12 kB\n", b"Free:"))
    assert math.isnan(number_after(b"", b"Free:"))


def test_without_nvml_there_are_no_rows_and_one_sentence() -> None:
    cards = Cards()
    if cards.cards:
        pytest.skip("this machine has NVML")
    cards.begin(frozenset())
    assert cards.take() == []
    assert cards.events() == []
    assert cards.why.endswith(".")
    assert cards.why.startswith("GPUs cannot be monitored")
    cards.close()
