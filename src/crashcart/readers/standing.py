"""What a process that stands still waits for, as the kernel tells it: its system call, the file behind it, a prompt.

``/proc/PID/syscall`` needs no rights but those over the process; ``wchan`` is ``0`` on many kernels. A sample: ``73 0x5 0x2 ...``
is ``flock`` on file 5.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from crashcart.numbers import to_int
from crashcart.redact import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.flight import Frame

__all__ = ["Call", "at_prompt", "call_name", "call_of", "source_line", "spied", "spy"]

_X86 = {
    0: "read", 1: "write", 2: "open", 7: "poll", 19: "readv", 23: "select", 35: "nanosleep", 42: "connect", 43: "accept",
    44: "sendto", 45: "recvfrom", 47: "recvmsg", 61: "wait4", 72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync",
    202: "futex", 230: "nanosleep", 232: "epoll_wait", 247: "waitid", 257: "open", 262: "stat", 270: "select", 271: "poll",
    281: "epoll_wait", 288: "accept", 299: "recvmsg",
}  # fmt: skip
_ARM = {
    22: "epoll_wait", 25: "fcntl", 32: "flock", 56: "open", 63: "read", 64: "write", 65: "readv", 72: "select", 73: "poll",
    79: "stat", 82: "fsync", 83: "fdatasync", 95: "waitid", 98: "futex", 101: "nanosleep", 115: "nanosleep", 202: "accept",
    203: "connect", 206: "sendto", 207: "recvfrom", 212: "recvmsg", 242: "accept", 243: "recvmsg", 260: "wait4",
}  # fmt: skip
_NAMES = _ARM if os.uname().machine == "aarch64" else _X86
_ON_FILE = frozenset({"read", "write", "readv", "fcntl", "flock", "fsync", "fdatasync", "recvfrom", "recvmsg", "sendto"})
_TERMINALS = ("/dev/pts/", "/dev/tty", "/dev/console")
_TTY_WAITS = ("n_tty_read", "tty_read")
_ASKS = ("/pdb.py", "/bdb.py", "/cmd.py", "/getpass.py", "/code.py", "/IPython/terminal/", "/prompt_toolkit/", "/_pyrepl/")
_LONGEST_LINE = 160
_PATIENCE = 5


class Call(NamedTuple):
    """The system call in which the main thread waits, the file that it is about, and the kernel's wait channel."""

    name: str = ""
    file: str = ""
    channel: str = ""


def call_of(pid: int) -> Call:
    """What the main thread of a process waits in; empty where it runs or may not be asked."""
    words = _text(pid, "syscall").split()
    channel = _text(pid, "wchan").strip()
    channel = "" if channel == "0" else channel
    if not words or not words[0].isdigit():
        return Call(channel=channel)
    name = call_name(words[0])
    if name == "select" and len(words) > 1 and not to_int(words[1], 0, base=16):  # of no file: Python's sleep before 3.11
        name = "nanosleep"
    file = ""
    if name in _ON_FILE and len(words) > 1:
        with contextlib.suppress(OSError):
            file = os.readlink(f"/proc/{pid}/fd/{to_int(words[1], -1, base=16)}")
    return Call(name, file, channel)


def call_name(number: str) -> str:
    """The name of a system call by its number; its number where we have no name for it."""
    return _NAMES.get(to_int(number, -1), f"system call {number}")


def at_prompt(pid: int, frames: Sequence[Frame] = ()) -> bool:
    """Whether a process waits for its user: it reads its terminal, or stands in a debugger or an ``input()``."""
    call = call_of(pid)
    if call.channel in _TTY_WAITS or (call.name == "read" and call.file.startswith(_TERMINALS)):
        return True
    try:
        keyboard = os.readlink(f"/proc/{pid}/fd/0")
    except OSError:
        return False
    reads = call.name == "read" and call.file == keyboard  # also where another program types
    if not frames or not (reads or keyboard.startswith(_TERMINALS)):
        return False
    asks = any(part in frame.file for frame in frames[:6] for part in _ASKS)
    return asks or (call.name in {"read", "select", "poll"} and "input(" in source_line(frames[0]))


def spy() -> str | None:
    """Where py-spy is: on the path, or beside the interpreter where its environment was not activated."""
    return shutil.which("py-spy") or shutil.which("py-spy", path=os.path.dirname(sys.executable))


def spied(pid: int) -> tuple[str, str]:
    """The stacks that py-spy reads without stopping the process, or why there are none; both empty where it is not installed."""
    tool = spy()
    if tool is None:
        return "", ""
    try:
        done = subprocess.run(  # noqa: S603 - a tool the user has installed
            [tool, "dump", "--nonblocking", "--full-filenames", "--pid", str(pid)],
            capture_output=True, text=True, timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as problem:
        return "", clean(str(problem))
    if done.returncode == 0 and "Thread" in done.stdout:
        return done.stdout, ""
    return "", clean((done.stderr.strip().splitlines() or ["py-spy failed"])[-1])


def source_line(frame: Frame | None) -> str:
    """The line of the program at which a frame stands."""
    if frame is None or not os.path.isfile(frame.file):
        return ""
    linecache.checkcache(frame.file)
    return clean(linecache.getline(frame.file, frame.line).strip())[:_LONGEST_LINE]


def _text(pid: int, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
