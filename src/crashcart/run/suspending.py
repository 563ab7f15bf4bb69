"""Ctrl-Z: the job and ourselves are stopped as any program is, and go on together when the shell continues us.

The job is in a session of its own, where nobody could continue it, so that the kernel does not stop it for Ctrl-Z: we do.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crashcart.run.supervisor import Supervisor

__all__ = ["can_be_resumed", "suspend"]

_STOP = 1 << (signal.SIGTSTP - 1)
_POLITE = 0.3  # seconds for a program that has a handler for Ctrl-Z


def suspend(job: Supervisor) -> None:
    """Stop the job and ourselves, until the shell continues us."""
    if not can_be_resumed():
        return
    job.link.let_type(allowed=False)
    job.terminal.give_back()
    job.writer.event("suspended")
    if job.streams.master is None:  # else its terminal has given it to the job
        with contextlib.suppress(OSError):
            os.killpg(job.job, signal.SIGTSTP)
    stopped = _Stopped(job.job)
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    stopped.go_on()
    job.writer.event("continued")
    job.take_terminal()
    job.watchers.stalls.resumed()


def can_be_resumed() -> bool:
    """Whether somebody of our session, a shell, waits for our group; else nobody could continue it, and the kernel stops none."""
    with contextlib.suppress(OSError):
        above = os.getppid()
        while os.getpgid(above) == os.getpgrp():
            above = _parent(above)
        return os.getsid(above) == os.getsid(0)
    return False


class _Stopped:
    """A job's process group that was stopped; what ignores Ctrl-Z runs on, and what handles it gets a moment to do so."""

    def __init__(self, group: int) -> None:
        self._stopped: list[int] = []
        members = [(pid, *_dispositions(pid)) for pid in _members(group)]
        for pid, caught, ignored in members:
            if not caught and not ignored:
                self._stop(pid)
        handling = [pid for pid, caught, _ in members if caught]
        _await_stop(handling)
        for pid in handling:
            self._stop(pid)
        _await_stop(self._stopped)  # so that the shell's prompt comes after the job's last words

    def _stop(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
            self._stopped.append(pid)

    def go_on(self) -> None:
        """Continue them."""
        for pid in self._stopped:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third on: state, parent, group."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _state(pid: int) -> str:
    try:
        return _stat(pid)[0]
    except (OSError, IndexError):
        return "Z"


def _await_stop(pids: list[int]) -> None:
    end = time.monotonic() + _POLITE
    while any(_state(pid) not in "TtZX" for pid in pids) and time.monotonic() < end:
        time.sleep(0.01)


def _members(group: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                if int(_stat(int(name))[2]) == group:
                    found.append(int(name))
    return found


def _dispositions(pid: int) -> tuple[bool, bool]:
    """Whether a process has a handler for Ctrl-Z, and whether it ignores it."""
    masks = {"SigCgt": 0, "SigIgn": 0}
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in masks:
                masks[name] = int(value, 16)
    return bool(masks["SigCgt"] & _STOP), bool(masks["SigIgn"] & _STOP)
