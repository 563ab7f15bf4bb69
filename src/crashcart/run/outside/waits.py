"""What the main thread of a process waits for, from the kernel alone: no stack of the program is needed.

``/proc/PID/syscall`` gives the call and its arguments, and where the stack pointer is: equal at two looks means the same place.
It needs the rights of a debugger, which Yama and containers often refuse; the name of the wait channel needs less and says
nearly as much. The descriptors that ``poll`` and ``select`` wait for are in the process's own memory, eight bytes each, which is
read and never written. A thread of gloo that waits with a time-out is inside a collective; one without work has none.

Whose code waits the stack of a native thread tells: right above the C library's own frame is the address to which it returns.
Names of threads say it too, where there are some: NCCL names its own only with NCCL_SET_THREAD_NAME, gloo in newer releases of torch (2.13 does, 2.11 does not).
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from bisect import bisect
from typing import TYPE_CHECKING, NamedTuple

from crashcart.readers.standing import Call, call_name, call_of
from crashcart.redact import clean
from crashcart.run.outside.files import once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.run.outside.ends import Ends

__all__ = ["Libraries", "ThreadCall", "Wait", "communicates", "in_gloo", "thread_calls", "wait_of"]

_CHANNELS = {
    "futex": "futex", "hrtimer_nanosleep": "nanosleep", "do_nanosleep": "nanosleep", "pipe_read": "read", "anon_pipe_read": "read",
    "pipe_wait": "read", "n_tty_read": "read", "tty_read": "read", "poll_schedule_timeout": "poll", "do_poll": "poll", "do_sys_poll": "poll",
    "do_select": "select", "core_sys_select": "select", "ep_poll": "epoll_wait", "do_epoll_wait": "epoll_wait",
    "sk_wait_data": "recvfrom", "unix_stream": "recvfrom", "inet_csk_accept": "accept", "do_wait": "wait4",
    "locks_lock": "flock", "do_signal_stop": "stopped",
}  # fmt: skip
_MOST = 64
_RUNS = "pt_gloo_runloop"
_COLLECTIVE = ("gloo_", "pt_gloo", "pt_nccl")
_POLL_X86 = "7"  # poll takes milliseconds, ppoll a pointer
_FOR_EVER = 0xFFFFFFFF
_TRIES, _PAUSE = 4, 0.03
_FUTEX_COMMAND, _FUTEX_WAIT_BITSET, _FUTEX_REALTIME = 127, 9, 256
_CLOCK_NANOSLEEP, _NANOSLEEP = {"230", "115"}, {"35", "101"}  # on x86 and on ARM
_FRAME_BYTES = (
    512  # of the C library's functions that wait; measured: 40 for epoll_wait, 264 for a condition variable of C++
)
_HIGHEST = 1 << 64
_BELOW_CALLERS = ("libc.so", "libc-", "libpthread", "ld-linux", "libstdc++", "[vdso]")
_FUTEX = "202" if os.uname().machine != "aarch64" else "98"


class ThreadCall(NamedTuple):
    """The system call of one thread: empty where it runs or may not be asked; ``timed`` says that it ends by itself.

    ``seconds_left`` is how long that takes at most, where it is known.
    """

    thread_id: int
    name: str
    state: str
    call: str
    timed: bool
    descriptors: tuple[int, ...]
    seconds_left: float | None = None
    stack_pointer: int = 0


class Libraries:
    """The libraries that a process has in its memory, read when first asked for."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: list[tuple[int, int, str]] | None = None

    def behind(self, thread: ThreadCall) -> str:
        """The file name of the library whose code waits in a thread, as ``libnccl.so.2``; empty where that cannot be seen."""
        stack = _memory(self._pid, thread.stack_pointer, _FRAME_BYTES)
        for (address,) in struct.iter_unpack("<Q", stack[: len(stack) & ~7]):
            library = self._library_at(address)
            if library and not library.startswith(_BELOW_CALLERS):
                return library
        return ""

    def _library_at(self, address: int) -> str:
        if self._code is None:
            self._code = sorted(_executable_mappings(self._pid))
        at = bisect(self._code, (address, _HIGHEST, "")) - 1
        return self._code[at][2] if at >= 0 and address < self._code[at][1] else ""


class Wait(NamedTuple):
    """The call, what it is about in words, the descriptors behind it, whether it ends by itself, and a mark of the place."""

    call: Call
    about: str
    descriptors: tuple[int, ...]
    timed: bool
    place: str

    @property
    def words(self) -> str:
        """For people: ``sleeps``, ``reads /data/x (nfs4)``, ``waits in futex``."""
        name = self.call.name
        if name == "nanosleep":
            return "sleeps"
        if not name:
            return "waits in the kernel" + (f" ({self.call.channel})" if self.call.channel else "")
        verb = {"futex": "waits for a lock or another thread (futex)", "wait4": "waits for a process that it started"}.get(
            name
        )
        return verb or f"waits in {name}" + (f" of {self.about}" if self.about else "")


def wait_of(pid: int, ends: Ends) -> Wait:
    """What the main thread waits for now; empty where it runs."""
    words = _syscall(pid)
    call = call_of(pid)
    if not call.name and call.channel:
        call = call._replace(name=next((name for part, name in _CHANNELS.items() if part in call.channel), ""))
    arguments = [int(word, 16) for word in words[1:7]] if len(words) > 6 else []  # noqa: PLR2004 - as the kernel has it
    descriptors = tuple(_descriptors(pid, call.name, arguments, ends))
    abouts = [about for descriptor in descriptors if (about := ends.behind(pid, descriptor))]
    about = ", ".join(list(dict.fromkeys(abouts))[:3]) or _path(pid, call.name, words)
    return Wait(call, about, descriptors, _timed(call.name, arguments), " ".join(words) or call.channel)


def thread_calls(pid: int, ends: Ends) -> list[ThreadCall]:
    """What each thread of a process does in the kernel, whether Python knows it or not."""
    found = []
    for folder, name in _threads(pid):
        for attempt in range(_TRIES):  # our own question may have woken it: who runs at every try does run
            call = _thread_call(pid, folder, name, ends)
            if call is None or call.state != "R" or attempt == _TRIES - 1:
                break
            time.sleep(_PAUSE)
        if call is not None:
            found.append(call)
    return found


def _thread_call(pid: int, folder: str, name: str, ends: Ends) -> ThreadCall | None:
    try:
        state = once(f"{folder}/stat", 512).rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return None  # it has ended
    try:
        words = once(f"{folder}/syscall", 256).decode("ascii", "replace").split()
    except OSError:
        words = []
    thread_id = int(folder.rpartition("/")[2])
    if len(words) <= 6 or not words[0].isdigit():  # noqa: PLR2004 - a number and six arguments
        return ThreadCall(thread_id, name, state, "", timed=False, descriptors=())
    arguments = [int(word, 16) for word in words[1:7]]
    call = call_name(words[0])
    if call == "select" and not arguments[0]:
        call = "nanosleep"
    descriptors = tuple(_descriptors(pid, call, arguments, ends))
    timed = _ends_by_itself(words[0], call, arguments)
    left = _seconds_left(pid, words[0], call, arguments) if timed else None
    stack_pointer = int(words[7], 16) if len(words) > 7 else 0  # noqa: PLR2004 - behind the arguments
    return ThreadCall(thread_id, name, state, call, timed, descriptors, left, stack_pointer)


def _ends_by_itself(number: str, call: str, arguments: list[int]) -> bool:
    """Whether a call has a time-out: a pointer to one, or milliseconds of which -1 means for ever."""
    if call == "futex":
        return bool(arguments[3])
    if call == "select":
        return bool(arguments[4])
    if call == "poll":
        return arguments[2] & 0xFFFFFFFF != _FOR_EVER if number == _POLL_X86 else bool(arguments[2])
    if call == "epoll_wait":
        return arguments[3] & 0xFFFFFFFF != _FOR_EVER
    return call == "nanosleep"


def _seconds_left(pid: int, number: str, call: str, arguments: list[int]) -> float | None:
    """How long a sleep, or a wait for a lock with a time-out, takes at most: the time or the moment that it was given."""
    pointer, is_moment, clock = 0, False, time.CLOCK_MONOTONIC
    if call == "futex":
        pointer, is_moment = arguments[3], arguments[1] & _FUTEX_COMMAND == _FUTEX_WAIT_BITSET
        clock = time.CLOCK_REALTIME if arguments[1] & _FUTEX_REALTIME else clock
    elif number in _CLOCK_NANOSLEEP:
        pointer, is_moment = arguments[2], bool(arguments[1])
        clock = time.CLOCK_REALTIME if arguments[0] == time.CLOCK_REALTIME else clock
    elif call == "nanosleep":
        pointer = arguments[4] if number not in _NANOSLEEP else arguments[0]
    elif call == "poll" and number == _POLL_X86:
        return (arguments[2] & _FOR_EVER) / 1000
    data = _memory(pid, pointer, 16)
    if len(data) < 16:  # noqa: PLR2004 - seconds and their parts
        return None
    seconds = float(struct.unpack("<q", data[:8])[0])
    return max(0.0, seconds - time.clock_gettime(clock)) if is_moment else seconds


def in_gloo(pid: int) -> bool:
    """Whether a thread of gloo is inside a collective."""
    for folder, name in _threads(pid):
        if name == _RUNS:
            with contextlib.suppress(OSError):
                words = once(f"{folder}/syscall", 256).decode().split()
                if len(words) > 4 and words[0] == _FUTEX and int(words[4], 16):  # noqa: PLR2004 - the time-out
                    return True
    return False


def communicates(pid: int) -> bool:
    """Whether a process has threads for collectives: then it is a rank, whatever its environment says."""
    return any(name.startswith(_COLLECTIVE) for _, name in _threads(pid))


def _threads(pid: int) -> Iterator[tuple[str, str]]:
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            folder = f"/proc/{pid}/task/{task}"
            with contextlib.suppress(OSError):
                yield folder, once(f"{folder}/comm", 32).decode("utf-8", "replace").strip()


def _descriptors(pid: int, name: str, arguments: list[int], ends: Ends) -> Iterator[int]:
    if not arguments:
        return
    if name == "poll":
        data = _memory(pid, arguments[0], 8 * min(arguments[1], _MOST))
        yield from (struct.unpack_from("<i", data, at)[0] for at in range(0, len(data) - 7, 8))
    elif name == "select":
        data = _memory(pid, arguments[1], (min(arguments[0], 1024) + 7) // 8)
        yield from (number for number in range(len(data) * 8) if data[number // 8] >> number % 8 & 1)
    elif name == "epoll_wait":
        yield from _watched(pid, arguments[0])
    elif name not in {"nanosleep", "futex", "wait4", "waitid", "open", "stat"} and arguments[0] in ends.links.get(pid, {}):
        yield arguments[0]


def _path(pid: int, name: str, words: list[str]) -> str:
    """The path that a file is opened or looked up by: the second argument of the calls that libraries use today."""
    if name not in {"open", "stat"} or words[0] in {"2", "4"} or len(words) < 3:  # noqa: PLR2004 - numbers of the old calls on x86
        return ""
    page = 4096 - int(words[2], 16) % 4096  # what lies behind may not be there
    return clean(os.fsdecode(_memory(pid, int(words[2], 16), min(page, 512)).partition(b"\0")[0]))


def _watched(pid: int, descriptor: int) -> Iterator[int]:
    """``tfd:        7 events:  2019 ...`` for each descriptor that an epoll watches."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in once(f"/proc/{pid}/fdinfo/{descriptor}", 1 << 14).decode().splitlines()[:_MOST]:
            if line.startswith("tfd:"):
                yield int(line.split()[1])


def _timed(name: str, arguments: list[int]) -> bool:
    """Whether a futex has a time-out; the others are asked again by loops anyway."""
    return name != "futex" or (len(arguments) > 3 and bool(arguments[3]))  # noqa: PLR2004 - the fourth argument


def _executable_mappings(pid: int) -> Iterator[tuple[int, int, str]]:
    """``7f15a2000000-7f15a4000000 r-xp 00001000 fe:00 123   /usr/lib/libtorch_cpu.so``: first and last address, file name."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            addresses, rights, *rest = line.split(maxsplit=5)
            if "x" in rights and len(rest) == 4:  # noqa: PLR2004 - it has a name
                first, _, end = addresses.partition("-")
                yield int(first, 16), int(end, 16), rest[3].strip().rpartition("/")[2]


def _memory(pid: int, address: int, size: int) -> bytes:
    if not address or size <= 0:
        return b""
    try:
        descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, size, address)
    except (OSError, OverflowError):
        return b""
    finally:
        os.close(descriptor)


def _syscall(pid: int) -> list[str]:
    try:
        return once(f"/proc/{pid}/syscall", 256).decode("ascii", "replace").split()
    except OSError:
        return []
