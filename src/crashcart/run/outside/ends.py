"""What is behind a file descriptor, and who holds its other end: a rank, a loader's worker, a tracker, another machine.

A socket has two ends in the same table of the kernel with local and remote address exchanged; a pipe is one number that two
processes have open. Sample of ``/proc/net/tcp``: ``1: 0100007F:8AE3 0100007F:B4F2 01 ... inode`` as the tenth column.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from typing import TYPE_CHECKING

from crashcart.redact import clean
from crashcart.run.outside.roles import LOADER, RANK, TRACKER
from crashcart.run.outside.sockets import unix_peers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from crashcart.run.outside.process import Process

__all__ = ["Ends", "called"]

_INODE = 9
_LOCK_WORDS = 6
_REMOTE_TYPES = ("nfs", "cifs", "smb", "fuse", "lustre", "ceph", "gpfs", "beegfs", "9p", "virtiofs", "afs", "glusterfs")


class Ends:
    """All descriptors of the job's processes at one moment."""

    def __init__(self, processes: Mapping[int, Process]) -> None:
        self._processes = processes
        found = {pid: [*_links(pid)] for pid in processes}
        self.links = {pid: {number: link for number, link, _ in links} for pid, links in found.items()}
        self._holders: dict[str, list[int]] = {}
        self._readers: dict[str, list[int]] = {}
        for pid, links in found.items():
            for link in {link for _, link, writes in links if writes or not link.startswith("pipe:")}:
                self._holders.setdefault(link, []).append(pid)
            for link in {link for _, link, writes in links if not writes and link.startswith("pipe:")}:
                self._readers.setdefault(link, []).append(pid)
        self._lock_holders = _lock_holders()
        self._pairs, self._remote = _connections()
        peers = unix_peers()
        self._unix = {_socket_link(inode): _socket_link(peer) for inode, peer in peers.items()} if peers is not None else {}

    def behind(self, pid: int, descriptor: int) -> str:
        """In words: ``the connection with rank 0``, ``a pipe from loader worker 4711``, ``/data/x.bin (nfs4)``."""
        link = self.links.get(pid, {}).get(descriptor, "")
        if not link:
            return ""
        if link.startswith("socket:"):
            return self._socket(pid, link)
        if link.startswith("pipe:"):
            others = [one for one in self._holders.get(link, ()) if one != pid]
            return f"a pipe from {self._names(others)}" if others else "a pipe"
        if link.startswith("/") and not link.startswith("/dev/"):
            kind = _file_system(pid, link)
            return clean(link) + (f" ({kind})" if kind else "")
        return clean(link)

    def peers(self, pid: int) -> set[int]:
        """The processes of the job with which a process is connected."""
        mates = (self._pairs.get(link) for link in self.links.get(pid, {}).values())
        return {one for mate in mates if mate for one in self._holders.get(mate, ()) if one != pid}

    def abroad(self, pid: int) -> list[str]:
        """Addresses of other ends that are not of the job."""
        found = [
            self._remote[link]
            for link in self.links.get(pid, {}).values()
            if link in self._remote and not self._holders.get(self._pairs.get(link, ""), [])
        ]
        return sorted(set(found))

    def is_internal(self, pid: int, descriptor: int) -> bool:
        """Whether only the job's own processes can make a descriptor ready: nothing that comes from outside ends a wait for it."""
        link = self.links.get(pid, {}).get(descriptor, "")
        if link.startswith("pipe:"):
            return bool(self._holders.get(link))  # holders have it open for writing
        if link.startswith("socket:"):
            mate = self._pairs.get(link) or self._unix.get(link)
            return mate is not None and bool(self._holders.get(mate))
        return link == "anon_inode:[eventfd]"

    def holders(self, pid: int, descriptor: int) -> set[int]:
        """The processes of the job that can make a descriptor ready, without the process itself."""
        link = self.links.get(pid, {}).get(descriptor, "")
        mate = self._pairs.get(link) or self._unix.get(link) or link
        return set(self._holders.get(mate, ())) - {pid}

    def readers(self, pid: int, descriptor: int) -> set[int]:
        """The processes of the job that can make room in a full pipe, without the process itself."""
        return set(self._readers.get(self.links.get(pid, {}).get(descriptor, ""), ())) - {pid}

    def lock_holder(self, pid: int) -> int | None:
        """The process of the job that holds the file lock for which a process waits."""
        holder = self._lock_holders.get(pid)
        return holder if holder in self._processes else None

    def leads_outside(self, pid: int, descriptor: int) -> bool:
        """Whether it is a connection whose other end no process of the job holds: on another machine, or another program's."""
        link = self.links.get(pid, {}).get(descriptor, "")
        return link in self._remote and not self._holders.get(self._pairs.get(link, ""))

    def tracker(self, pid: int, descriptor: int) -> bool:
        """Whether a tracker's process is at the other end."""
        link = self.links.get(pid, {}).get(descriptor, "")
        mate = self._pairs.get(link, link)
        return any(self._processes[one].role == TRACKER for one in self._holders.get(mate, ()) if one != pid)

    def on_card(self, pid: int) -> bool:
        """Whether it has an NVIDIA card open: then waiting may look like work."""
        return any(link.startswith("/dev/nvidia") for link in self.links.get(pid, {}).values())

    def _socket(self, pid: int, link: str) -> str:
        mate = self._pairs.get(link)
        others = [one for one in self._holders.get(mate, ()) if one != pid] if mate else []
        if others:
            return f"the connection with {self._names(others)}"
        return f"the connection with {self._remote[link]}" if link in self._remote else "a socket"

    def _names(self, pids: Iterable[int]) -> str:
        chosen = sorted((self._processes[pid] for pid in pids), key=lambda one: (one.role not in {RANK, LOADER}, one.pid))
        names = list(dict.fromkeys(called(one) for one in chosen))
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004 - enough to see


def called(process: Process) -> str:
    """What people call a process."""
    if process.role == RANK:
        return f"rank {process.rank}"
    return f"{process.role} {process.pid}"


def _links(pid: int) -> Iterator[tuple[int, str, bool]]:
    """Each descriptor, what it is, and whether it is open for writing: the mode of the link says that."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                path = f"/proc/{pid}/fd/{name}"
                yield int(name), os.readlink(path), bool(os.lstat(path).st_mode & 0o200)


def _lock_holders() -> dict[int, int]:
    """Who waits for the file lock of whom: ``7: FLOCK ADVISORY WRITE 4711 ...``, and below it ``7: -> FLOCK ADVISORY WRITE 4712 ...``."""
    holders: dict[str, int] = {}
    waiting: dict[int, int] = {}
    with contextlib.suppress(OSError, ValueError), open("/proc/locks", encoding="ascii", errors="replace") as file:
        for line in file:
            words = line.split()
            if len(words) > _LOCK_WORDS and words[1] == "->" and words[0] in holders:
                waiting[int(words[5])] = holders[words[0]]
            elif len(words) > _LOCK_WORDS and words[1] != "->":
                holders[words[0]] = int(words[4])
    return waiting


def _socket_link(inode: int) -> str:
    return f"socket:[{inode}]"


def _connections() -> tuple[dict[str, str], dict[str, str]]:
    """By the name of a socket: the socket at the other end where it is on this machine, and the address of the other end."""
    ends: dict[tuple[str, str], str] = {}
    remote: dict[str, str] = {}
    for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        with contextlib.suppress(OSError), open(f"/proc/net/{name}", encoding="ascii") as file:
            for line in list(file)[1:]:
                words = line.split()
                if len(words) > _INODE and words[_INODE] != "0":
                    link = f"socket:[{words[_INODE]}]"
                    here, there = _address(family, words[1]), _address(family, words[2])
                    ends[here, there] = link
                    if not there.endswith(":0"):
                        remote[link] = there
    pairs = {link: ends[there, here] for (here, there), link in ends.items() if (there, here) in ends}
    return pairs, remote


def _address(family: int, text: str) -> str:
    raw, _, port = text.partition(":")
    data = bytes.fromhex(raw)
    swapped = b"".join(struct.pack(">I", word) for word in struct.unpack(f"<{len(data) // 4}I", data))
    shown = socket.inet_ntop(family, swapped).removeprefix("::ffff:")
    return f"{shown}:{int(port, 16)}"


def _file_system(pid: int, path: str) -> str:
    """The kind of a file system on which files can keep one waiting; nothing for local disks."""
    best, kind = "", ""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/mounts", encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            inside = len(words) > 2 and (path == words[1] or path.startswith(words[1].rstrip("/") + "/"))  # noqa: PLR2004
            if inside and len(words[1]) >= len(best):
                best, kind = words[1], words[2]
    return kind if kind.startswith(_REMOTE_TYPES) else ""
