"""From a pid to a job, the other ends of its files, and sentences where there is nothing to look at."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from crashcart.errors import CommandError
from crashcart.flight import frames_of
from crashcart.live.clocks import Clocks
from crashcart.live.job import Job, find_job
from crashcart.run.outside.ends import Ends
from crashcart.run.outside.waits import wait_of

pytestmark = pytest.mark.processes

WAITING = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print('ready', flush=True); s.recv(1)"
PAIR = """
import os, sys
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.close(writer)
    print("ready", flush=True)
    os.read(reader, 1)
    os._exit(0)
os.close(reader)
sys.stdin.read()
os.write(writer, b"x")
os.wait()
"""
SPY = """Process 4711: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 4712 (active): "pt_worker"
    wait (/usr/lib/python3.11/threading.py:327)
Thread 4711 (idle)
    Loader.__next__ (/home/me/data.py:9)
    main.<locals>.run (/home/me/train.py:7)
Thread 4713 (idle): "writer"
    get (/usr/lib/python3.11/queue.py:171)
"""


def test_the_other_end_of_a_connection_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with subprocess.Popen([sys.executable, "-c", WAITING, str(port)], stdout=subprocess.PIPE) as job:
            connection, _ = server.accept()
            assert job.stdout is not None
            assert job.stdout.readline() == b"ready\n"
            time.sleep(0.5)
            tree = Job(job.pid, "NONE=1").tree()
            ends = Ends(tree.processes)
            tree.close()
            assert f"the connection with 127.0.0.1:{port}" in wait_of(job.pid, ends).words
            assert ends.abroad(job.pid) == [f"127.0.0.1:{port}"]
            assert job.poll() is None
            connection.close()


def test_who_holds_the_other_end_of_a_pipe_is_told() -> None:
    with subprocess.Popen([sys.executable, "-c", PAIR], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"ready\n"
        time.sleep(0.5)
        tree = Job(job.pid, "NONE=1").tree()
        (child,) = [pid for pid in tree.processes if pid != job.pid]
        wait = wait_of(child, Ends(tree.processes))
        tree.close()
        assert wait.words == "waits in read of a pipe from rank 0"
        assert find_job(child).root == job.pid
        job.communicate()


def test_how_long_a_process_has_not_run() -> None:
    with subprocess.Popen(["sleep", "60"]) as job:
        time.sleep(3)
        idle = Clocks().idle(job.pid)
        job.kill()
    assert idle != idle or 2 < idle < 30  # noqa: PLR0124 - NaN where the kernel does not tell


def test_the_main_thread_of_what_py_spy_prints_is_the_one_of_the_process() -> None:
    frames = frames_of(SPY)
    assert [(frame.file, frame.line, frame.function) for frame in frames] == [
        ("/home/me/data.py", 9, "__next__"),
        ("/home/me/train.py", 7, "run"),
    ]


def test_where_there_is_nothing_to_look_at_a_sentence_says_so() -> None:
    with pytest.raises(CommandError, match="no process 4194304"):
        find_job(4194304)
    with subprocess.Popen(["sleep", "60"]) as job:
        with pytest.raises(CommandError, match=r"\(sleep\) does not run Python"):
            find_job(job.pid)
        job.kill()
        os.waitid(os.P_PID, job.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(CommandError, match=f"has ended and is a zombie of its parent {os.getpid()}"):
            find_job(job.pid)


def test_a_thread_of_the_kernel_is_no_program() -> None:
    if not os.path.exists("/proc/2/comm") or open("/proc/2/comm").read() != "kthreadd\n":  # noqa: SIM115
        pytest.skip("a container shows no threads of the kernel")
    with pytest.raises(CommandError, match="is a kernel thread"):
        find_job(2)


def test_somebody_elses_process_is_told_as_such() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    reader, writer = os.pipe()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as job:
        child = os.fork()
        if child == 0:
            os.setresuid(65534, 65534, 65534)
            try:
                find_job(job.pid)
            except CommandError as sentence:
                os.write(writer, str(sentence).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        job.communicate(b"\n")
    with open(reader) as file:
        assert "belongs to root: only they and root may inspect it." in file.read()


STARTS = """
import os, subprocess, sys
code = "import os; os.write(1, b'ready' + bytes([10])); input()"
kids = [subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "RANK": str(rank)}) for rank in range(int(sys.argv[1]))]
for kid in kids:
    kid.wait()
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_program_that_starts_several_ranks_is_their_launcher(ranks: int) -> None:
    command = [sys.executable, "-c", STARTS, str(ranks)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        for _ in range(ranks):
            assert job.stdout.readline() == b"ready\n"
        with open(f"/proc/{job.pid}/task/{job.pid}/children") as file:
            children = [int(word) for word in file.read().split()]
        assert {find_job(pid).root for pid in children} == ({job.pid} if ranks > 1 else set(children))
        job.communicate(b"\n" * ranks)
