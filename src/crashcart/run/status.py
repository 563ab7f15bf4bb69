"""How a process ended, in words; also one that is not our child: the ranks are children of their launcher.

A zombie's ``/proc/PID/stat`` tells its status to its own user, until the parent has collected it. Since Linux 6.15 the
descriptor of a process (``pidfd_open``) tells it afterwards. Where neither does, nothing is said.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import struct
import threading

__all__ = ["decoded", "die_of", "how_it_ended", "status_of"]

_PR_SET_DUMPABLE = 4

_INFO = struct.Struct("=QQ11Ii")  # mask, control group, eleven ids, exit status: struct pidfd_info of Linux 6.15
_GET_INFO = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11
_HAS_STATUS = 8
_STATUS = 49  # the field of /proc/PID/stat, counted from the state


def how_it_ended(descriptor: int, pid: int) -> dict[str, int | str]:
    """``code`` or ``signal`` of a process that has ended; nothing where it cannot be known."""
    status = status_of(descriptor, pid)
    if status is None:
        return {}
    code, name = decoded(status)
    return {"signal": name} if name is not None else {"code": code} if code is not None else {}


def status_of(descriptor: int | None, pid: int) -> int | None:
    """What a wait would give for a process that has ended."""
    status = _collected(descriptor)
    if status is None:
        status = _zombie(pid)
    if status is None:  # it was collected between the two questions
        status = _collected(descriptor)
    return status


def decoded(status: int) -> tuple[int | None, str | None]:
    """Exit code or name of the signal, from the status that a wait gives; real-time signals have numbers only."""
    try:
        code = os.waitstatus_to_exitcode(status)
    except ValueError:
        return None, None
    if code >= 0:
        return code, None
    try:
        return None, signal.Signals(-code).name
    except ValueError:
        return None, f"signal {-code}"


def _collected(descriptor: int | None) -> int | None:
    if descriptor is None:
        return None
    answer = bytearray(_INFO.pack(_HAS_STATUS, *[0] * 13))
    try:
        fcntl.ioctl(descriptor, _GET_INFO, answer)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(answer)
    return int(status) if mask & _HAS_STATUS else None


def _zombie(pid: int) -> int | None:
    with contextlib.suppress(OSError, IndexError, ValueError):
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read(1024).rpartition(b")")[2].split()
            may_see = os.geteuid() in {0, os.fstat(file.fileno()).st_uid, os.stat(f"/proc/{pid}").st_uid}
        if fields[0] in (b"Z", b"X") and (int(fields[_STATUS]) or may_see):  # others read 0
            return int(fields[_STATUS])
    return None


def die_of(number: int) -> None:
    """End by the signal that ended the job, so that whoever started us sees what it would see without us; no core is dumped."""
    with contextlib.suppress(OSError, ValueError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
        signal.pthread_kill(threading.get_ident(), number)  # to this thread: another one waits for signals
