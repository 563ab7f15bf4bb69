"""This process's page of numbers, its place in the live folder, and the short list of what must be renewed after a fork.

The page is 64 doubles in a file. Its blocks are allocated before it is mapped: a store into a hole of a file on a full disk is a
SIGBUS that kills the job. It is mapped once something is to be counted, through ctypes, which torch loads anyway: Python's own
mapping keeps a file handle with a low number, and a program sees how many it has left. Until then the file is written as a whole.
Where no file can be had the same numbers go into memory that nobody reads.
"""

from __future__ import annotations

import os
import time

from . import layout

TYPE_CHECKING = False  # importing typing would cost a third of our start-up
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FULL = 28  # ENOSPC, without the errno module
_library: list[Any] = []
_READ_AND_WRITE, _SHARED = 3, 1  # PROT_READ | PROT_WRITE, MAP_SHARED
NAN = float("nan")
_at = layout.FIELDS.index
BEATS, PHASE, PHASE_SINCE, PROGRESS, OWN_ERRORS = (
    _at("beats"),
    _at("phase"),
    _at("phase_since"),
    _at("last_progress"),
    _at("own_errors"),
)
STEPS = _at("steps")
_RANKS = (
    ("rank", "RANK"),
    ("local_rank", "LOCAL_RANK"),
    ("world_size", "WORLD_SIZE"),
    ("restart", "TORCHELASTIC_RESTART_COUNT"),
)


class Here:
    """What belongs to this process alone.

    Beats and phase are kept here too, so that hooks read nothing back. Where a training step has used up the processor's caches
    it counts how much code and how many objects a hook touches: four stores through a view cost about half of one
    `struct.pack_into` of the same numbers there.
    """

    __slots__ = ("beats", "mapped", "next_look", "numbers", "phase", "since", "stem")

    def __init__(self) -> None:
        self.stem = ""
        self.mapped = False
        self.begin()

    def begin(self) -> None:
        """Take a new page into use."""
        self.numbers: Any = memoryview(bytearray(layout.SIZE)).cast("d")
        self.next_look = 0.0
        self.beats = self.phase = 0
        self.since = time.monotonic()


here = Here()
after_fork: list[Callable[[], None]] = []
before_leaving: list[Callable[[], None]] = []


def at(name: str) -> int:
    """Where a field stands in the page."""
    return _at(name)


def put(name: str, value: float) -> None:
    """Write one number; for what is not done every step."""
    here.numbers[_at(name)] = value


def add(name: str, value: float = 1.0) -> None:
    """Add to a number that starts at nothing."""
    index = _at(name)
    before = here.numbers[index]
    here.numbers[index] = value if before != before else before + value


def open_page(folder: str) -> None:
    """Give this process its own page; mapped where that of the process that forked it was."""
    map_it, here.mapped = here.mapped, False
    here.stem = os.path.join(folder, "%d-%s" % (os.getpid(), _started()))
    here.begin()
    _fill(here.numbers)
    if map_it:
        map_page()


def write_page() -> None:
    """Bring the file up to date, where it is not mapped."""
    if not here.mapped and here.stem:
        os.close(_allocated(here.stem + ".page", bytes(here.numbers)))


def map_page() -> None:
    """From here on the numbers are in the file as soon as they are written."""
    if not here.mapped and here.stem:
        here.numbers = map_file(here.stem + ".page", layout.SIZE, bytes(here.numbers)).cast("d")
        here.mapped = True


def map_file(path: str, size: int, first: bytes = b"") -> memoryview:
    """A file of so many bytes, made if it is not there, as memory; it is never unmapped."""
    import ctypes

    if not _library:  # once: a forked child must not load anything
        _library.append(ctypes.CDLL(None))
        _library[0].mmap.restype = ctypes.c_void_p
        _library[0].mmap.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
        )  # fmt: skip
    handle = _allocated(path, first or bytes(size))
    try:
        address = _library[0].mmap(None, size, _READ_AND_WRITE, _SHARED, handle, 0)
    finally:
        os.close(handle)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError("the file cannot be mapped")
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def _allocated(path: str, content: bytes) -> int:
    """The handle of a file with this content, whose blocks are there."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            os.posix_fallocate(handle, 0, len(content))
        except OSError as error:
            if error.errno == _FULL:  # other answers: this file system has no such call, and then writing does it
                raise
        os.write(handle, content)
    except BaseException:
        os.close(handle)
        raise
    return handle


def leaving() -> None:
    """The program has ended; what still runs are exit handlers and threads."""
    for settle in before_leaving:
        settle()
    here.phase, here.since = layout.PHASES.index("exit"), time.monotonic()
    here.numbers[PHASE], here.numbers[PHASE_SINCE] = here.phase, here.since
    write_page()


def _fill(numbers: Any) -> None:
    for index in range(len(numbers)):
        numbers[index] = NAN
    zero = (
        "phase", "beats", "steps", "nonfinite", "own_errors", "train_batches", "eval_batches", "checkpoints", "torch",
        "backwards", "subgroups",
    )  # fmt: skip
    for name in zero:
        numbers[_at(name)] = 0.0
    now = time.monotonic()
    numbers[_at("version")] = layout.VERSION
    numbers[_at("pid")] = os.getpid()
    numbers[_at("started")] = time.time()
    numbers[PHASE_SINCE] = numbers[PROGRESS] = now
    for name, variable in _RANKS:
        text = os.environ.get(variable, "")
        if text.isdigit():
            numbers[_at(name)] = int(text)


def _started() -> str:
    """Field 22 of /proc/self/stat: with it a process number that is used again is another process."""
    try:
        handle = os.open("/proc/self/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, 1024).rpartition(b")")[2].split()[19].decode()
        finally:
            os.close(handle)
    except (OSError, IndexError):
        return "0"
