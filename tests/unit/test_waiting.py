"""What threads wait for and whether anything can end it: histories of waits in, decisions out, and a few real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from crashcart.flight import Frame
from crashcart.run.hangs import Progress
from crashcart.run.movement import Stillness
from crashcart.run.outside.ends import Ends
from crashcart.run.outside.process import Process
from crashcart.run.outside.sockets import tcp_connections, tcp_connections_of, unix_peers
from crashcart.run.stacks import Stack
from crashcart.run.waiting import (
    CLOSED,
    COLLECTIVE,
    OPEN,
    SPINS,
    STOPPED,
    TRACKER,
    ProcessWait,
    find_deadlock,
    in_tracker,
    wait_of_process,
    waited_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes

STANDARD = "/usr/lib/python3.11/"
PACKAGES = "/env/lib/python3.11/site-packages/"
OWN = Frame("/home/me/train.py", 7, "main")
CONDITION = Frame(STANDARD + "threading.py", 327, "wait")


def waits(*kinds: str) -> dict[int, ProcessWait]:
    return {number: ProcessWait(number, kind) for number, kind in enumerate(kinds)}


@pytest.mark.parametrize(
    ("kinds", "dead", "odd"),
    [
        ((CLOSED,), [], 0),
        ((CLOSED, COLLECTIVE), [], 0),
        ((COLLECTIVE, TRACKER), [], 1),
        ((SPINS, CLOSED), [], 1),  # on a card one spins while it waits for the other
        ((COLLECTIVE, STOPPED), [], 1),
        ((COLLECTIVE, COLLECTIVE), [], None),
        ((COLLECTIVE,), [1], None),
    ],
)
def test_a_job_in_which_all_wait_for_each_other_is_stuck(kinds: tuple[str, ...], dead: list[int], odd: int | None) -> None:
    deadlock = find_deadlock(waits(*kinds), range(len(kinds)), dead)
    assert deadlock is not None
    assert deadlock.pid == odd
    assert deadlock.partner_died == bool(dead)


@pytest.mark.parametrize(
    "kinds",
    [
        (OPEN,),
        (OPEN, COLLECTIVE),  # it may come
        (STOPPED,),  # somebody will let it go on
        (STOPPED, STOPPED),
        (SPINS,),  # its card may work
        (SPINS, COLLECTIVE),
    ],
)
def test_a_job_that_may_go_on_is_not(kinds: tuple[str, ...]) -> None:
    assert find_deadlock(waits(*kinds), range(len(kinds))) is None


def test_a_helper_that_may_go_on_keeps_the_job_from_being_called_stuck() -> None:
    assert find_deadlock(waits(CLOSED, OPEN), [0]) is None
    assert find_deadlock(waits(CLOSED, CLOSED), [0]) is not None


def test_ranks_whose_cards_work_are_not_judged_by_their_collectives_alone() -> None:
    assert find_deadlock(waits(COLLECTIVE, COLLECTIVE), [0, 1], cards_work=True) is None


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([CONDITION, Frame(STANDARD + "queue.py", 90, "join"), OWN], "Queue.join()"),
        ([CONDITION, Frame(STANDARD + "queue.py", 171, "get"), OWN], "Queue.get()"),
        ([Frame(STANDARD + "threading.py", 1119, "_wait_for_tstate_lock"), Frame(STANDARD + "threading.py", 1100, "join"), OWN], "Thread.join()"),
        ([CONDITION, Frame(STANDARD + "concurrent/futures/_base.py", 451, "result"), OWN], "Future.result()"),
        ([CONDITION, CONDITION, Frame(STANDARD + "multiprocessing/pool.py", 765, "wait"), Frame(STANDARD + "multiprocessing/pool.py", 768, "get"), OWN], "AsyncResult.get()"),
        ([CONDITION, CONDITION, OWN], "Event.wait()"),
    ],
)  # fmt: skip
def test_what_is_waited_for_is_named_as_people_write_it(frames: list[Frame], words: str) -> None:
    assert waited_for(frames) == words


def test_a_program_that_a_tracker_runs_is_not_in_its_tracker() -> None:
    tracker = Frame(PACKAGES + "wandb/sdk/wandb_run.py", 2282, "finish")
    assert in_tracker([CONDITION, tracker, OWN])
    assert not in_tracker([CONDITION, OWN, tracker])


def test_the_early_limit_is_a_quarter_of_the_floor_or_ten_times_the_longest_phase() -> None:
    progress = Progress(0.0)
    for second in range(1, 20):
        progress.update((second,), "train", second * 0.5, second * 0.5)
    assert progress.early_limit() == 15
    progress.update((20,), "train", 12.0, 12.0)
    assert progress.early_limit() == pytest.approx(25.0)
    progress.update((20,), "tracker", 13.0, 12.0)
    assert progress.early_limit() == 15


def test_what_two_looks_apart_was_done_is_measured_by_the_job_itself() -> None:
    """A look may be late; the rank has written down when it got on."""
    progress = Progress(0.0)
    progress.update((1,), "train", 1.0, 0.9)
    progress.update((2,), "train", 3.4, 1.8)
    assert progress.since == 1.8
    assert progress.longest["train"] == pytest.approx(0.9)


SILENT = "import sys; print('ready', flush=True); "
PROGRAMS = {
    "lock": SILENT + "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "own pipe": SILENT + "import os; r, w = os.pipe(); os.read(r, 1)",
    "sleep": SILENT + "import time; time.sleep(100)",
    "timed": SILENT + "import threading; threading.Event().wait(100)",
    "input": SILENT + "sys.stdin.read(1)",
    "server": SILENT + "import socket; s = socket.create_server(('127.0.0.1', 0)); s.accept()",
    "thread sleeps": SILENT
    + "import threading, time; threading.Thread(target=time.sleep, args=(100,), daemon=True).start(); threading.Event().wait()",
    # As torch 2.11 has it: the loop of gloo, which listens, bears no name of its own.
    "nameless gloo": "import glob, torch, torch.distributed as dist\n"
    "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
    "dist.all_reduce(torch.ones(1))\n"
    "for name in glob.glob('/proc/self/task/*/comm'): open(name, 'w').write('python')\n"
    + SILENT
    + "import threading; threading.Event().wait()",
    "listening thread": SILENT
    + "import select, socket, threading; s = socket.create_server(('127.0.0.1', 0)); e = select.epoll(); e.register(s); "
    "threading.Thread(target=e.poll, daemon=True).start(); threading.Event().wait()",
    "outside": "import socket; s = socket.create_connection(('127.0.0.1', {port})); " + SILENT + "s.recv(1)",
}


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("lock", CLOSED),
        ("own pipe", CLOSED),
        ("sleep", OPEN),
        ("timed", OPEN),
        ("input", OPEN),
        ("server", OPEN),
        ("thread sleeps", OPEN),
        ("nameless gloo", CLOSED),
        ("listening thread", OPEN),
        ("outside", OPEN),
    ],
)
def test_the_kernel_tells_who_can_end_a_wait(name: str, kind: str, server: socket.socket) -> None:
    code = PROGRAMS[name].replace("{port}", str(server.getsockname()[1]))
    job = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert job.stdout is not None
        job.stdout.readline()
        found, end = "", time.monotonic() + 10
        while found != kind and time.monotonic() < end:
            time.sleep(0.2)
            ends = Ends({job.pid: Process(job.pid, keep=False)})
            found = wait_of_process(job.pid, None, ends).kind
        assert found == kind
    finally:
        job.kill()
        job.communicate()


def test_a_time_out_of_the_loader_is_a_wait() -> None:
    """The same system call is a sleep in one place and a question in another: the library's frames tell."""
    code = SILENT + "import os, select; r, w = os.pipe(); p = select.poll(); p.register(r)\nwhile True: p.poll(5000)"
    job = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert job.stdout is not None
        job.stdout.readline()
        time.sleep(1)
        ends = Ends({job.pid: Process(job.pid, keep=False)})
        frames = (Frame(STANDARD + "selectors.py", 415, "select"), Frame(PACKAGES + "torch/utils/data/dataloader.py", 1310, "_try_get_data"), OWN)  # fmt: skip
        stack = Stack(job.pid, 0, "rank 0", "", frames, "")
        assert wait_of_process(job.pid, None, ends).kind == OPEN
        assert wait_of_process(job.pid, stack, ends).kind == CLOSED
        assert wait_of_process(job.pid, stack._replace(frames=(frames[0], OWN)), ends).kind == OPEN
    finally:
        job.kill()
        job.communicate()


def test_a_data_set_that_reads_from_a_server_inside_the_loader_waits_for_the_server(server: socket.socket) -> None:
    """Without workers the loader's frames stand around those of whoever fetches the sample."""
    code = PROGRAMS["outside"].replace("{port}", str(server.getsockname()[1]))
    job = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert job.stdout is not None
        job.stdout.readline()
        time.sleep(0.5)
        loader = PACKAGES + "torch/utils/data/"
        frames = (
            Frame(STANDARD + "ssl.py", 1166, "read"),
            Frame(PACKAGES + "fsspec/implementations/http.py", 20, "read"),
            Frame(loader + "_utils/fetch.py", 52, "fetch"),
            Frame(loader + "dataloader.py", 788, "_next_data"),
            OWN,
        )
        ends = Ends({job.pid: Process(job.pid, keep=False)})
        assert wait_of_process(job.pid, Stack(job.pid, 0, "rank 0", "", frames, ""), ends).kind == OPEN
    finally:
        job.kill()
        job.communicate()


def test_bytes_of_a_connection_are_counted_and_ends_of_a_pair_are_known(server: socket.socket) -> None:
    if tcp_connections() is None:
        pytest.skip("the kernel does not tell of its sockets here")
    with socket.create_connection(server.getsockname()) as ours, server.accept()[0] as theirs:
        inode = os.fstat(theirs.fileno()).st_ino
        before = (tcp_connections() or {})[inode].moved
        found = tcp_connections() or {}
        assert found[os.fstat(ours.fileno()).st_ino].there == found[inode].here
        ours.sendall(b"x" * 1000)
        theirs.recv(1000)
        assert (tcp_connections() or {})[inode].moved - before == 1000
    first, second = socket.socketpair()
    with first, second:
        assert (unix_peers() or {})[os.fstat(first.fileno()).st_ino] == os.fstat(second.fileno()).st_ino


def test_sockets_tell_of_themselves_where_the_kernel_does_not() -> None:
    """Both ways give the same, also for an IPv4 client of a server that takes both kinds."""
    with (
        socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.create_connection(("127.0.0.1", server.getsockname()[1])) as ours,
        server.accept()[0] as theirs,
    ):
        own = {os.fstat(each.fileno()).st_ino: each.fileno() for each in (ours, theirs, server)}
        before = tcp_connections_of(os.getpid(), own) or {}
        ours.sendall(b"x" * 1000)
        theirs.recv(1000)
        asked = tcp_connections_of(os.getpid(), own) or {}
        assert len(asked) == 2
        assert asked[os.fstat(ours.fileno()).st_ino].there == asked[os.fstat(theirs.fileno()).st_ino].here
        assert [connection.moved - before[inode].moved for inode, connection in asked.items()] == [1000, 1000]
        if (known := tcp_connections()) is not None:
            assert {inode: known[inode] for inode in asked} == asked
        assert tcp_connections_of(os.getpid(), {1: 999_999}) == {}
    with socket.socketpair()[0] as pair:
        assert tcp_connections_of(os.getpid(), {2: pair.fileno()}) == {}


def test_a_number_that_is_no_socket_any_more_is_not_held_open() -> None:
    reads, writes = os.pipe()
    try:
        before = os.listdir("/proc/self/fd")
        assert tcp_connections_of(os.getpid(), {1: writes}) == {}
        assert os.listdir("/proc/self/fd") == before
    finally:
        os.close(reads)
        os.close(writes)


def test_a_slow_download_moves_although_it_uses_no_cpu_and_no_read(server: socket.socket) -> None:
    code = PROGRAMS["outside"].replace("{port}", str(server.getsockname()[1])) + "; s.recv(10, socket.MSG_WAITALL)"
    job = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert job.stdout is not None
        job.stdout.readline()
        connection = server.accept()[0]
        time.sleep(0.5)
        process = Process(job.pid, keep=False)
        still = Stillness()
        for second in range(4):
            process.refresh()
            still.note({job.pid: process}, {job.pid}, float(second))
        assert still.seconds(3.0) == 3
        connection.send(b"x")
        time.sleep(0.2)
        still.note({job.pid: process}, {job.pid}, 4.0)
        assert still.seconds(4.0) == 0
    finally:
        job.kill()
        job.communicate()
