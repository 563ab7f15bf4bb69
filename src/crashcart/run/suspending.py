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

__all__ = ["can_be_resumed", "disposition", "group_members", "parent_of", "process_state", "suspend"]

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
    job.link.beside_job.suspend(suspended=True)
    _stop_ourselves()
    job.link.beside_job.suspend(suspended=False)
    stopped.go_on()
    job.writer.event("continued")
    job.take_terminal()
    job.watchers.stalls.resumed()


def can_be_resumed() -> bool:
    """Whether somebody of our session, a shell, waits for our group; else nobody could continue it, and the kernel stops none."""
    with contextlib.suppress(OSError):
        above = os.getppid()
        while os.getpgid(above) == os.getpgrp():
            above = parent_of(above)
        return os.getsid(above) == os.getsid(0)
    return False


def _stop_ourselves() -> None:
    """As Ctrl-Z stops a program, so that the shell tells it as such."""
    number = signal.SIGTSTP if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL else signal.SIGSTOP
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    if number == signal.SIGTSTP:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
    signal.pthread_kill(threading.get_ident(), number)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Stopped:
    """A job's process group that was stopped; what ignores Ctrl-Z runs on, and what handles it gets a moment to do so."""

    def __init__(self, group: int) -> None:
        self._stopped: list[int] = []
        members = {pid: disposition(pid, signal.SIGTSTP) for pid in group_members(group)}
        for pid in [pid for pid, how in members.items() if how == "default"]:
            self._stop(pid)
        handling = [pid for pid, how in members.items() if how == "caught"]
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


def parent_of(pid: int) -> int:
    """The process that a process is a child of."""
    return int(_stat(pid)[1])


def process_state(pid: int) -> str:
    """``R``, ``S``, ``T`` (stopped), ...; ``Z`` also for one that is gone."""
    try:
        return _stat(pid)[0]
    except (OSError, IndexError):
        return "Z"


def _await_stop(pids: list[int]) -> None:
    end = time.monotonic() + _POLITE
    while any(process_state(pid) not in "TtZX" for pid in pids) and time.monotonic() < end:
        time.sleep(0.01)


def group_members(group: int) -> list[int]:
    """The processes of a process group."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                if int(_stat(int(name))[2]) == group:
                    found.append(int(name))
    return found


def disposition(pid: int, number: int) -> str:
    """What a process does with a signal: ``caught``, ``ignored``, ``blocked`` (it may wait for it), or ``default``."""
    bit = 1 << (number - 1)
    masks = {"SigBlk": 0, "SigCgt": 0, "SigIgn": 0}
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in masks:
                masks[name] = int(value, 16)
    names = {"SigIgn": "ignored", "SigCgt": "caught", "SigBlk": "blocked"}
    return next((how for mask, how in names.items() if masks[mask] & bit), "default")
