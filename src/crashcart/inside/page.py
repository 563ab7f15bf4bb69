"""This process's page of numbers, its place in the live folder, and the short list of what must be renewed after a fork.

The page is 64 doubles in a mapped file. Its blocks are allocated before it is mapped: a store into a hole of a file on a full
disk is a SIGBUS that kills the job. Where no file can be had the same numbers go into a plain list that nobody reads.
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

    __slots__ = ("beats", "kept", "next_look", "numbers", "phase", "since", "stem")

    def __init__(self) -> None:
        self.stem = ""
        # A mapping closes a file handle when it goes; by then the number may be the program's own. So none ever goes.
        self.kept: list[Any] = []
        self.begin(bytearray(layout.SIZE))

    def begin(self, mapping: Any) -> None:
        """Take a page into use."""
        self.numbers: Any = memoryview(mapping).cast("d")
        self.next_look = 0.0
        self.beats = self.phase = 0
        self.since = time.monotonic()
        self.kept.append(mapping)


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
    """Give this process its own page, in a file if there can be one."""
    here.stem = os.path.join(folder, "%d-%s" % (os.getpid(), _started()))
    first = bytearray(layout.SIZE)
    here.begin(first)
    _fill(here.numbers)
    here.begin(_mapped(here.stem + ".page", first))


def leaving() -> None:
    """The program has ended; what still runs are exit handlers and threads."""
    for settle in before_leaving:
        settle()
    here.phase, here.since = layout.PHASES.index("exit"), time.monotonic()
    here.numbers[PHASE], here.numbers[PHASE_SINCE] = here.phase, here.since


def _mapped(path: str, first: bytearray) -> Any:
    import mmap

    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            os.posix_fallocate(handle, 0, layout.SIZE)
        except OSError as error:
            if error.errno == _FULL:  # other answers: this file system has no such call, and then writing does it
                raise
        os.write(handle, first)
        return mmap.mmap(handle, layout.SIZE)
    finally:
        os.close(handle)


def _fill(numbers: Any) -> None:
    for index in range(len(numbers)):
        numbers[index] = NAN
    zero = ("phase", "beats", "steps", "nonfinite", "own_errors", "train_batches", "eval_batches", "checkpoints", "torch")
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
