"""The processes of a job: everything below its first process, and whatever carries its mark and was adopted by another.

A process is known by pid and start time, so that a reused pid is another process. Looking at all of /proc is dear on a crowded
machine, so births are found through ``/proc/PID/task/PID/children`` of the processes that are known, and only when the kernel
has given out a pid since the last look (the last field of ``/proc/loadavg``). Children of other threads, and orphans, are found
by a walk through /proc every ten seconds; where the kernel has no ``children``, walks are as frequent as their cost allows.
"""

from __future__ import annotations

import os
import resource
import time
from typing import TYPE_CHECKING

from crashcart.run.outside.files import Kept, once
from crashcart.run.outside.process import FILES, Process
from crashcart.run.outside.roles import LAUNCHER, WRAPPER, only_launches, role_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Tree"]

_WALK_EVERY = 10.0
_WALK_SHARE = 5e-4  # of a core
_FORGET_EVERY = 300.0  # what was none of ours is looked at anew, in case its pid was given out again


class Tree:
    """The job's processes as of the last ``look``: ``processes`` by pid, those ``born`` since the one before, those ``ended``."""

    def __init__(self, root_pid: int, mark: str, *, without: Iterable[int] = (), proc: str = "/proc") -> None:
        """``mark`` is the entry ``NAME=value`` in the environment of each process of the job; ``without`` are pids of ours."""
        self.processes: dict[int, Process] = {}
        self.born: list[Process] = []
        self.ended: list[Process] = []
        self.root: Process | None = None
        self._begun = False
        self.root_pid = root_pid
        self._mark = b"\0" + os.fsencode(mark) + b"\0"
        self._without = {os.getpid(), *without}
        self._others: set[int] = set()
        self._proc = proc
        self._cursor = Kept(f"{proc}/loadavg", 128)
        self._last_pid = b""
        self._walk_due = self._forget_due = 0.0
        self._has_children = os.path.exists(f"{proc}/self/task/{os.getpid()}/children")
        # Descriptors are the supervisor's own, under the limit that the job inherits: half of them at most.
        self._room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 // len(FILES)
        self._reapers: list[Kept] = []

    def look(self, now: float | None = None, *, fresh: bool = False) -> None:
        """Read every process's ``stat``, notice births and deaths; ``fresh`` walks through /proc as well."""
        now = time.monotonic() if now is None else now
        self.born, self.ended = [], []
        if not self._begun:
            self._begin()
        changed = [process for process in self.processes.values() if process.refresh()]
        for process in [process for process in self.processes.values() if process.gone]:
            self._bury(process)
        last_pid = self._cursor.read(now, fresh=True).rpartition(b" ")[2].strip()
        if last_pid != self._last_pid or last_pid in (b"", b"0"):
            self._last_pid = last_pid
            self._find_children(now)
        if fresh or now >= self._walk_due:
            self._walk(now)
        changed.extend(self.born)
        for process in sorted(changed, key=lambda one: one.start):
            self._classify(process)

    def tell_rank(self, pid: int, rank: int) -> None:
        """Take over what the process itself said: ``torch.multiprocessing.spawn`` leaves no rank in the environment."""
        process = self.processes.get(pid)
        if process is not None and process.told != rank:
            process.told = rank
            self._classify(process)

    def tell_trained(self, pid: int) -> None:
        """Take over that a process has taken optimizer steps: then it is a rank, and what started it is not."""
        process = self.processes.get(pid)
        if process is not None and not process.trained:
            process.trained = True
            self._classify(process)

    def close(self) -> None:
        """Give all descriptors back."""
        for process in self.processes.values():
            process.close()
        for kept in (self._cursor, *self._reapers):
            kept.close()

    def _begin(self) -> None:
        self._begun = True
        self.root = self._add(self.root_pid)
        if self.root is not None and self._has_children:
            for pid in {os.getpid(), self.root.parent_pid} - {0, 1}:
                self._reapers.append(Kept(f"{self._proc}/{pid}/task/{pid}/children", 1 << 16))

    def _find_children(self, now: float) -> None:
        if not self._has_children:
            return
        to_ask = list(self.processes.values())
        while to_ask:
            pids = to_ask.pop().children()
            to_ask.extend(filter(None, [self._add(pid) for pid in pids if pid not in self.processes]))
        # Orphans come to the nearest subreaper, which is the supervisor or the keeper.
        adopted = [int(word) for kept in self._reapers for word in kept.read(now, fresh=True).split()]
        self._take_marked(pid for pid in adopted if pid not in self.processes)

    def _walk(self, now: float) -> None:
        begin = time.thread_time()
        if now >= self._forget_due:
            self._others.clear()
            self._forget_due = now + _FORGET_EVERY
        pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        self._others &= pids
        unknown = sorted(pids - self._others - self.processes.keys())
        parents = {pid: _parent(self._proc, pid) for pid in unknown}
        while found := [pid for pid, parent in parents.items() if parent in self.processes]:
            for pid in found:
                del parents[pid]
                self._add(pid)
        self._take_marked(parents)
        every = _WALK_EVERY if self._has_children else 1.0
        self._walk_due = now + max(every - 0.5, (time.thread_time() - begin) / _WALK_SHARE)

    def _take_marked(self, pids: Iterable[int]) -> None:
        for pid in pids:
            if pid in self._others or pid in self._without:
                continue
            try:
                ours = self._mark in b"\0" + once(f"{self._proc}/{pid}/environ", 1 << 18) + b"\0"
            except OSError:  # another user's, or gone
                ours = False
            if not ours or self._add(pid) is None:
                self._others.add(pid)

    def _add(self, pid: int) -> Process | None:
        if pid in self._without:
            return None
        try:
            process = Process(pid, proc=self._proc, keep=len(self.processes) < self._room)
        except (OSError, ValueError):
            return None
        process.parent = self.processes.get(process.parent_pid)
        self.processes[pid] = process
        self.born.append(process)
        return process

    def _bury(self, process: Process) -> None:
        process.close()
        del self.processes[process.pid]
        self.ended.append(process)

    def _classify(self, process: Process) -> None:
        process.describe()
        process.role, process.rank, process.assumed = role_of(process)
        starter = only_launches(process)
        if starter is not None:
            starter.launches = LAUNCHER if process.told is not None or process.stated is not None else WRAPPER
            for one in sorted(self.processes.values(), key=lambda one: one.start):
                one.role, one.rank, one.assumed = role_of(one)


def _parent(proc: str, pid: int) -> int:
    try:
        return int(once(f"{proc}/{pid}/stat", 512).rpartition(b")")[2].split(None, 2)[1])
    except (OSError, IndexError, ValueError):
        return -1
