"""The ends of processes are told at once and in their order, whatever else goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from crashcart.run.ends import Ends

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs descriptors of processes"),
]

Told = list[tuple[float, int, dict[str, int | str]]]


def _child(code: str = "input()") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE)


def _until(told: Told, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(told) < count and time.monotonic() < deadline:
        time.sleep(0.01)


def test_deaths_are_told_in_their_order_while_nobody_looks() -> None:
    """The last one watched dies first, and the first last; the watcher's own loop is busy all the time."""
    told: Told = []
    ends = Ends(lambda *one: told.append(one))
    children = [_child() for _ in range(4)]
    for child in children:
        assert ends.watch(child.pid)
        assert ends.watch(child.pid)  # told once all the same
    killed = []
    for child in reversed(children):
        killed.append(time.time())
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is dead now, and nobody has collected it
    _until(told, 4)
    assert [pid for _, pid, _ in told] == [child.pid for child in reversed(children)]
    assert [how for _, _, how in told] == [{"signal": "SIGKILL"}] * 4
    assert all(0 <= moment - before < 5 for before, (moment, _, _) in zip(killed, told, strict=True))
    for child in children:
        child.communicate()
    ends.close()


def test_the_order_holds_where_the_thread_had_no_turn() -> None:
    """On a machine that is too busy all of them are found at once: the kernel's order is kept."""
    told: Told = []
    ends = Ends(lambda *one: told.append(one))
    children = [_child() for _ in range(8)]
    for child in children:
        ends.watch(child.pid)
    order = [*children[4:], *children[:4]]
    with ends._lock:
        for child in order:
            child.send_signal(signal.SIGKILL)
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    ends.take()
    _until(told, 8)
    assert [pid for _, pid, _ in told] == [child.pid for child in order]
    assert sorted(moment for moment, _, _ in told) == [moment for moment, _, _ in told]
    for child in children:
        child.communicate()
    ends.close()


def test_who_is_dead_already_is_told_and_who_was_collected_is_not() -> None:
    told: Told = []
    ends = Ends(lambda *one: told.append(one))
    dead, gone = _child("raise SystemExit(3)"), _child("pass")
    gone.wait()
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    assert not ends.watch(gone.pid)
    assert ends.watch(dead.pid)
    _until(told, 1)
    assert [(pid, how) for _, pid, how in told] == [(dead.pid, {"code": 3})]
    dead.wait()
    ends.close()


def test_a_failure_to_write_one_down_does_not_lose_the_next() -> None:
    told: list[int] = []

    def tell(_moment: float, pid: int, _how: dict[str, int | str]) -> None:
        told.append(pid)
        raise OSError

    ends = Ends(tell)
    children = [_child("pass") for _ in range(2)]
    watched = [child for child in children if ends.watch(child.pid)]
    for child in children:
        child.wait()
    deadline = time.monotonic() + 30
    while len(told) < len(watched) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(told) == sorted(child.pid for child in watched)
    ends.close()
