"""Bytes that TCP sockets have moved, and which two unix sockets belong together, as the kernel's socket diagnostics tell it.

A ``recv`` that waits shows neither CPU time nor ``rchar``, so that a slow download looks like a process that does nothing. The
kernel counts the bytes of each TCP connection (``tcpi_bytes_received``, ``tcpi_bytes_acked``: what ``ss -ti`` prints), and gives
them to every user over a netlink socket, for the sockets of our own network namespace. Kernels that are built without INET_DIAG, as
some of small virtual machines, do not. There, and in other namespaces, we ask the sockets themselves, through a copy of the
descriptor that lives for the question alone (``pidfd_getfd``, Linux 5.6; allowed to whoever may trace the process).
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Connection", "same_network", "tcp_connections", "tcp_connections_of", "unix_peers"]

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_INET_REQUEST = struct.Struct("=BBBBI48x")
_INET_MESSAGE = 72  # struct inet_diag_msg; its last number is the inode
_WITH_TCP_INFO, _TCP_INFO = 1 << 1, 2
_COUNTERS = struct.Struct("=QQ")  # tcpi_bytes_acked and tcpi_bytes_received, Linux 4.1 and later
_COUNTERS_AT = 120
_UNIX_REQUEST = struct.Struct("=BBHIIIII")
_UNIX_MESSAGE = 16  # struct unix_diag_msg; the inode is its second word
_SHOW_PEER, _PEER = 0x4, 2
_LISTEN_STATE = 10
_ALL_STATES = 0xFFF & ~(1 << _LISTEN_STATE)
_PATIENCE = 1.0
_MAPPED = bytes(10) + b"\xff\xff"  # an IPv4 address in an IPv6 socket: ::ffff:127.0.0.1
_GET_DESCRIPTOR = 438  # pidfd_getfd; the number is the same on all architectures
_GONE = {errno.EBADF, errno.ESRCH}


class Connection(NamedTuple):
    """A TCP socket: the bytes that it has received and had acknowledged so far, and the addresses of its two ends."""

    moved: int
    here: bytes
    there: bytes


def tcp_connections() -> dict[int, Connection] | None:
    """The TCP sockets of this network by their inodes; None where the kernel does not tell."""
    found: dict[int, Connection] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        request = _INET_REQUEST.pack(family, socket.IPPROTO_TCP, _WITH_TCP_INFO, 0, _ALL_STATES)
        try:
            for message in _ask(request):
                inode = struct.unpack_from("=I", message, _INET_MESSAGE - 4)[0]
                counters = _attribute(message, _INET_MESSAGE, _TCP_INFO)
                if inode and len(counters) >= _COUNTERS_AT + _COUNTERS.size:
                    moved = sum(_COUNTERS.unpack_from(counters, _COUNTERS_AT))
                    # source port, destination port, source address, destination address
                    here, there = _end(message[4:6], message[8:24]), _end(message[6:8], message[24:40])
                    found[inode] = Connection(moved, here, there)
        except OSError:
            return None
    return found


def tcp_connections_of(pid: int, descriptors: Mapping[int, int]) -> dict[int, Connection] | None:
    """The TCP sockets among a process's descriptors, which are given by inode; None where we may not ask."""
    found: dict[int, Connection] = {}
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        for inode, descriptor in descriptors.items():
            copy = _system_call()(_GET_DESCRIPTOR, process, descriptor, 0)
            if copy < 0 and ctypes.get_errno() not in _GONE:
                return None
            borrowed = _as_socket(copy) if copy >= 0 else None
            if borrowed is not None:
                with borrowed:
                    connection = _ask_itself(borrowed)
                if connection is not None:
                    found[inode] = connection
    except OSError:
        return None
    finally:
        os.close(process)
    return found


def _as_socket(copy: int) -> socket.socket | None:
    """Our copy as a socket; given back at once where the number has become another thing's, whose end we must not hold open."""
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return None


def _ask_itself(borrowed: socket.socket) -> Connection | None:
    if borrowed.family not in {socket.AF_INET, socket.AF_INET6} or borrowed.type != socket.SOCK_STREAM:
        return None
    try:
        counters = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        ends = [borrowed.getsockname(), borrowed.getpeername()]
    except OSError as error:
        if error.errno == errno.ENOTCONN:  # one that listens
            return None
        raise
    if len(counters) < _COUNTERS_AT + _COUNTERS.size:
        raise OSError("the kernel does not count the bytes of a socket")
    here, there = (
        _end(struct.pack(">H", end[1]), socket.inet_pton(borrowed.family, end[0].partition("%")[0])) for end in ends
    )
    return Connection(sum(_COUNTERS.unpack_from(counters, _COUNTERS_AT)), here, there)


def _end(port: bytes, address: bytes) -> bytes:
    """Port and address, the same for an IPv4 address however it is written."""
    return port + address.removeprefix(_MAPPED).ljust(16, b"\0")


@lru_cache(maxsize=1)
def _system_call() -> Any:  # noqa: ANN401 - a foreign function
    return ctypes.CDLL(None, use_errno=True).syscall


def unix_peers() -> dict[int, int] | None:
    """The inode of the socket at the other end, by the inode of each unix socket; None where it is not told.

    A listening one is its own other end: it has a path or a name on this machine, which its owner gives to its own processes.
    """
    peers: dict[int, int] = {}
    request = _UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, _SHOW_PEER, 0xFFFFFFFF, 0xFFFFFFFF)
    try:
        for message in _ask(request):
            inode = struct.unpack_from("=I", message, 4)[0]
            peer = _attribute(message, _UNIX_MESSAGE, _PEER)
            if len(peer) >= 4:  # noqa: PLR2004 - one number
                peers[inode] = struct.unpack_from("=I", peer)[0]
            elif message[2] == _LISTEN_STATE:
                peers[inode] = inode
    except OSError:
        return None
    return peers


def same_network(pid: int) -> bool:
    """Whether a process is in our network namespace: the kernel tells of no other's sockets."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")
    except OSError:
        return False


def _ask(request: bytes) -> Iterator[bytes]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as channel:
        channel.settimeout(_PATIENCE)
        channel.bind((0, 0))
        channel.send(_HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + request)
        while True:
            data = channel.recv(1 << 17)
            at = 0
            while at + _HEADER.size <= len(data):
                length, kind, *_ = _HEADER.unpack_from(data, at)
                if kind == _DONE:
                    return
                if kind == _ERROR or length < _HEADER.size:
                    raise OSError("the kernel does not tell of its sockets")
                yield data[at + _HEADER.size : at + length]
                at += (length + 3) & ~3


def _attribute(message: bytes, at: int, wanted: int) -> bytes:
    """The value of one attribute behind the fixed part of a message."""
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if length < 4:  # noqa: PLR2004 - its own header
            break
        if kind == wanted:
            return message[at + 4 : at + length]
        at += (length + 3) & ~3
    return b""
