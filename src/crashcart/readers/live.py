"""A job that was started without us and hangs or crawls now: what can be seen of it without touching it.

Stacks come from py-spy where it is installed and allowed (it reads, and does not stop the process); /proc tells the rest: state,
what a process waits for in the kernel, its files, its connections and their other ends, its memory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
from typing import TYPE_CHECKING

from crashcart.errors import CommandError
from crashcart.model import Evidence, NotLooked
from crashcart.readers.standing import call_of, spied
from crashcart.redact import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Live", "look_at"]

_MOST = 256
_STATES = {
    "R": "running",
    "S": "asleep",
    "D": "waiting for a device",
    "Z": "ended, not collected",
    "T": "stopped",
    "t": "traced",
}
_ESTABLISHED = "01"


class Live:
    """What was seen: the text of stacks as a debugger prints it, facts, and what could not be looked at."""

    def __init__(self) -> None:
        self.text = ""
        self.notes: list[Evidence] = []
        self.not_looked: list[NotLooked] = []


def look_at(pid: int) -> Live:
    """Look at a process and everything below it."""
    if not os.path.isdir(f"/proc/{pid}"):
        raise CommandError(f"there is no process {pid}.")
    live = Live()
    pids = list(_family(pid))[:_MOST]
    installed = shutil.which("py-spy") is not None
    if not installed:
        live.not_looked.append(
            NotLooked(
                "stacks", "py-spy is not installed", "`pip install py-spy`, or start the next run with `crashcart run`"
            )
        )
    connections = _connections()
    for one in pids:
        live.notes.append(Evidence("process", _described(one, connections), f"/proc/{one}"))
        if installed and _is_python(one):
            _take_stack(live, one)
    return live


def _family(pid: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            parent = _field(int(name), 1)
            if parent.isdigit():
                children.setdefault(int(parent), []).append(int(name))
    todo = [pid]
    while todo:
        one = todo.pop(0)
        yield one
        todo += sorted(children.get(one, []))


def _take_stack(live: Live, pid: int) -> None:
    text, why = spied(pid)
    live.text += text + "\n" if text else ""
    if why:
        how = "as the owner of the process, or with CAP_SYS_PTRACE"
        live.not_looked.append(NotLooked(f"the stack of process {pid}", why, how))


def _described(pid: int, connections: dict[str, str]) -> str:
    state = _STATES.get(_field(pid, 0), "unknown")
    told = [f"{pid} {_command(pid)}: {state}"]
    call = call_of(pid)
    if call.channel:
        told.append(f"waits in {call.channel}")
    if call.name:
        told.append(f"in {call.name}" + (f" of {connections.get(call.file, call.file)}" if call.file else ""))
    pages = _read(pid, "statm").split()
    if len(pages) > 1:
        told.append(f"{int(pages[1]) * os.sysconf('SC_PAGE_SIZE') / (1 << 30):.2f} GB resident")
    peers = [peer for link in _links(pid) if (peer := connections.get(link))]
    if peers:
        told.append("connected to " + ", ".join(sorted(set(peers))[:4]))
    return "; ".join(told)


def _links(pid: int) -> list[str]:
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def _connections() -> dict[str, str]:
    """The other end of each TCP connection on this machine, by the name of its socket."""
    found: dict[str, str] = {}
    for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        with contextlib.suppress(OSError), open(f"/proc/net/{name}", encoding="ascii") as file:
            for line in list(file)[1:]:
                words = line.split()
                if len(words) > 9 and words[3] == _ESTABLISHED:  # noqa: PLR2004 - columns of the kernel
                    found[f"socket:[{words[9]}]"] = _address(family, words[2])
    return found


def _address(family: int, text: str) -> str:
    raw, _, port = text.partition(":")
    data = bytes.fromhex(raw)
    swapped = b"".join(struct.pack(">I", word) for word in struct.unpack(f"<{len(data) // 4}I", data))
    return f"{socket.inet_ntop(family, swapped)}:{int(port, 16)}"


def _command(pid: int) -> str:
    words = _read(pid, "cmdline").replace("\0", " ").strip()
    return clean(words[:120]) or _read(pid, "comm")


def _is_python(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "python" in os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return False


def _field(pid: int, number: int) -> str:
    """A field of /proc/PID/stat behind the name of the process."""
    words = _read(pid, "stat").rsplit(")", 1)[-1].split()
    return words[number] if len(words) > number else ""


def _read(pid: int, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
