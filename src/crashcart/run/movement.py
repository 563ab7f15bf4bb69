"""Which processes of a job do anything: use the processor, read or write, send or receive; and when its logs last grew."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from crashcart.recording.tables import PROCESS
from crashcart.run.outside.files import number_after, once
from crashcart.run.outside.roles import LAUNCHER, SHELL, TRACKER
from crashcart.run.outside.sockets import same_network, tcp_connections, tcp_connections_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crashcart.run.outside.process import Process
    from crashcart.run.outside.sockets import Connection

__all__ = ["Movement", "Stillness"]

_PID, _CPU, _READ, _WRITTEN = (PROCESS.index(name) for name in ("pid", "cpu", "read", "written"))
_IDLE = 0.05  # seconds of processor time between two looks that are nothing
_IDLE_BYTES = 1 << 16
_RECENT = 6.0
_SHARE = 1 / 3  # of the time since the last progress: who moved only at its beginning stands still now
_CPU_SHARE = 0.02  # of a core, over the time looked at: asking for news takes less
_CPU_LEAST = 0.1
_CHARACTERS = 1 << 14
_TRACKER_BYTES = 1 << 12  # a tracker's signs of life
_OWN_BYTES = 1 << 10  # between processes of the job: a store that is asked again, no data


class Movement:
    """When each process last moved, by the monotonic clock."""

    def __init__(self, logs: str | None = None) -> None:
        self._logs = logs
        self._used: dict[int, tuple[float, float]] = {}
        self._moved: dict[int, float] = {}
        self._size = -1
        self.logged = 0.0

    def note(self, rows: Iterable[list[float]], now: float) -> None:
        """Compare the rows of the process table with those of the look before."""
        seen = {}
        for row in rows:
            pid = int(row[_PID])
            bytes_moved = sum(value for value in (row[_READ], row[_WRITTEN]) if value == value)  # noqa: PLR0124 - NaN
            cpu, moved = self._used.get(pid, (-1.0, -1.0))
            if row[_CPU] - cpu > _IDLE or bytes_moved - moved > _IDLE_BYTES:
                self._moved[pid] = now
            seen[pid] = (row[_CPU], bytes_moved)
        self._used = seen
        size = self._log_size()
        if size != self._size:
            self._size, self.logged = size, now

    def moves(self, pids: Iterable[int], since: float, now: float) -> bool:
        """Whether any of them did something of late; ``since`` is when the job last made progress."""
        recent = max(_RECENT, (now - since) * _SHARE)
        return any(now - self._moved.get(pid, -recent) < recent for pid in pids)

    def _log_size(self) -> int:
        try:
            return sum(entry.stat().st_size for entry in os.scandir(self._logs or ""))
        except OSError:
            return -1

    @staticmethod
    def family(pids: Iterable[int], tree: Mapping[int, Process]) -> set[int]:
        """Processes and what they started."""
        found = set(pids)
        while born := {one.pid for one in tree.values() if one.parent_pid in found} - found:
            found |= born
        return found


class _Used(NamedTuple):
    """What one process had used by a moment: seconds, and bytes by files and pipes, by connections out of the job and inside it.

    ``outside`` is None where it cannot be known.
    """

    cpu: float
    characters: float
    outside: int | None
    inside: int


class Stillness:
    """Since when no process of a job has used the CPU or moved a byte; looked at only while a job makes no progress.

    Launchers and shells look after their children and tell each other that they live; a tracker does so with its server. Whoever
    has a card open may spin while it waits for it, so that its CPU time says nothing.
    """

    def __init__(self) -> None:
        self._since = 0.0
        self._before: dict[int, _Used] = {}
        self._family: set[int] = set()

    def note(self, tree: Mapping[int, Process], family: set[int], now: float) -> None:
        """Look at everybody; ``family`` are the ranks and what they started."""
        there = {pid: process for pid, process in tree.items() if process.fields[0] not in b"ZX"}
        used = _used(there)
        span = now - self._since
        still = family & used.keys() == self._family
        known = used.keys() & self._before.keys()  # a monitor beside the job may start and end its own helpers
        if not (still and self._before and all(_is_still(tree[pid], self._before[pid], used[pid], span) for pid in known)):
            self._since, self._before, self._family = now, used, family & used.keys()

    def forgive(self, pid: int, characters: int) -> None:
        """What a process wrote because we asked it for its stacks is none of its own doing."""
        if pid in self._before:
            before = self._before[pid]
            self._before[pid] = before._replace(characters=before.characters + characters)

    def seconds(self, now: float) -> float:
        """For how long nothing has moved."""
        return now - self._since if self._before else 0.0

    def forget(self) -> None:
        """The job goes on: begin anew at the next look."""
        self._before = {}


def _used(tree: Mapping[int, Process]) -> dict[int, _Used]:
    all_connections = tcp_connections()
    connections = {pid: _connections(pid, all_connections) for pid in tree}
    ends_of_job = {connection.here for held in connections.values() for connection in held or ()}
    used = {}
    for pid, process in tree.items():
        cpu = sum(int(process.fields[at]) for at in (11, 12)) / os.sysconf("SC_CLK_TCK")
        held = connections[pid]
        inside = sum(connection.moved for connection in held or () if connection.there in ends_of_job)
        outside = None if held is None else sum(each.moved for each in held if each.there not in ends_of_job)
        used[pid] = _Used(cpu, _characters(pid), outside, inside)
    return used


def _connections(pid: int, all_connections: Mapping[int, Connection] | None) -> list[Connection] | None:
    """The TCP connections of a process; None where nobody may know."""
    sockets = _sockets(pid)
    if sockets and (all_connections is None or not same_network(pid)):
        asked = tcp_connections_of(pid, sockets)
        return None if asked is None else [*asked.values()]
    known = all_connections or {}
    return None if sockets is None else [known[inode] for inode in sockets if inode in known]


def _characters(pid: int) -> float:
    try:
        text = once(f"/proc/{pid}/io", 256)
    except OSError:
        return float("nan")
    return number_after(text, b"rchar:") + number_after(text, b"wchar:")


def _sockets(pid: int) -> dict[int, int] | None:
    """The sockets that a process holds, by inode, each with a descriptor; None where nobody may know."""
    descriptors = {}
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                link = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:  # closed just now
                continue
            if link.startswith("socket:["):
                descriptors[int(link[8:-1])] = int(name)
    except OSError:
        return None
    return descriptors


def _is_still(process: Process, before: _Used, now: _Used, span: float) -> bool:
    if now.cpu - before.cpu > max(_CPU_LEAST, _CPU_SHARE * span) and process.role != TRACKER and not _on_card(process.pid):
        return False
    if process.role in {LAUNCHER, SHELL}:
        return True
    if now.outside is None or before.outside is None:
        return False
    if process.role == TRACKER:
        return abs(now.outside - before.outside) < _TRACKER_BYTES
    inside = abs(now.inside - before.inside) < _OWN_BYTES
    return inside and now.outside == before.outside and abs(now.characters - before.characters) < _CHARACTERS


def _on_card(pid: int) -> bool:
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{name}").startswith("/dev/nvidia") for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False
