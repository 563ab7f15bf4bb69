"""Files that come from outside: only regular ones are opened, none can make us wait, and none is read beyond a limit.

A named pipe waits for its writer, /dev/zero has no end, a tape rewinds when it is opened, a sparse file of a terabyte takes no room on
the disk, and a link in a folder that somebody else made may lead anywhere. So what is there is looked at before it is opened and
again afterwards, reading never believes a size, and ``no_links_below`` names a folder inside which links are not followed.
Everything that is wrong with a file is an ``OSError``, also a name that no file can have; ``problem_with`` makes a sentence of it.

What we name ourselves below /proc and /sys is opened directly.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys
import time
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "RefusedFileError",
    "belongs_to_us",
    "bounded_lines",
    "containing",
    "is_regular",
    "is_there",
    "names_in",
    "open_input",
    "open_regular",
    "open_standard_input",
    "problem_with",
    "read_end",
    "read_start",
    "read_whole",
    "walk",
    "why_unreadable",
]

MOST_NAMES = 100_000
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
# A pipe that the shell has opened for us: `crashcart why <(kubectl logs job)`.
_OPEN_ALREADY = ("/dev/fd", "/proc/self/fd")
_MEGABYTE = 1_000_000
_BLOCK = 512  # of st_blocks


class RefusedFileError(OSError):
    """A file that we will not open or read; ``reason`` goes on from its name: "is a named pipe, not a file"."""

    def __init__(self, number: int, reason: str, path: str) -> None:
        super().__init__(number, f"it {reason}", path)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.filename} {self.reason}"


def why_unreadable(problem: OSError) -> str:
    """Why a file cannot be read, to stand behind its name and a colon."""
    said = problem.strerror or str(problem)
    return said if said.startswith("it is ") else f"cannot be read: {said}"


def problem_with(path: str, problem: OSError) -> str:
    """Why a file cannot be read, in a sentence with its name and without its full stop."""
    return f"{path} {why_unreadable(problem).removeprefix('it ')}"


def open_regular(path: str | os.PathLike[str], *, no_links_below: str | None = None) -> BinaryIO:
    """Open a regular file for reading; ``OSError`` for everything else."""
    return open(_descriptor(os.fspath(path), no_links_below), "rb")


def open_input(path: str, *, no_links_below: str | None = None) -> tuple[io.RawIOBase, int | None]:
    """What the user may name as a log: a regular file and its size, or a pipe that the shell has opened for us, without one.

    Holes in a file are not read: where a log was cut to nothing under its writer, all that it had before is one.
    """
    folder, name = os.path.split(path)
    if path == "/dev/stdin" or (folder in _OPEN_ALREADY and name.isdecimal()):
        opened = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    else:
        opened = _descriptor(path, no_links_below)
    return _opened(opened)


def open_standard_input() -> tuple[Any, int | None]:
    """Standard input: a file that the shell has opened at its beginning is read as one that is named."""
    with contextlib.suppress(OSError, ValueError):  # no descriptor, or one that cannot be asked where it is
        handle = sys.stdin.fileno()
        if stat.S_ISREG(os.fstat(handle).st_mode) and os.lseek(handle, 0, os.SEEK_CUR) == 0:
            return _opened(os.dup(handle))
    return sys.stdin.buffer, None


def _opened(opened: int) -> tuple[io.RawIOBase, int | None]:
    status = os.fstat(opened)
    stream = open(opened, "rb", buffering=0)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(status.st_mode):
        return stream, None
    sparse = status.st_blocks * _BLOCK < status.st_size
    return (_WithoutHoles(stream, status.st_size) if sparse else stream), status.st_size


class _WithoutHoles(io.RawIOBase):
    """A file in which each hole, of any length, is one end of a line."""

    def __init__(self, file: io.RawIOBase, size: int) -> None:
        self._file, self._size = file, size

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - anything with bytes to write to
        place, handle = self._file.tell(), self._file.fileno()
        try:
            begin = os.lseek(handle, place, os.SEEK_DATA)
            end = os.lseek(handle, begin, os.SEEK_HOLE)
        except OSError:  # nothing but holes from here on
            return 0
        if begin >= self._size or not len(buffer):
            return 0
        os.lseek(handle, begin, os.SEEK_SET)
        if begin > place:
            buffer[:1] = b"\n"
            return 1
        return os.readv(handle, [memoryview(buffer)[: end - begin]])


def is_there(path: str, *, no_links_below: str | None = None) -> bool:
    """Whether there is anything of that name; a link that is not followed is something too."""
    try:
        _status(path, no_links_below)
    except OSError:
        return False
    return True


def is_regular(path: str, *, no_links_below: str | None = None) -> bool:
    """Whether there is a regular file."""
    try:
        return stat.S_ISREG(_status(path, no_links_below).st_mode)
    except OSError:
        return False


def read_whole(path: str | os.PathLike[str], limit: int, *, no_links_below: str | None = None) -> bytes:
    """All of a file; one that is larger than the limit is refused, whatever its size is said to be."""
    with open_regular(path, no_links_below=no_links_below) as file:
        content = file.read(limit + 1) or b""
    if len(content) > limit:
        size = f"{limit / _MEGABYTE:.3g} MB" if limit >= _MEGABYTE else f"{limit / 1000:.3g} kB"
        raise RefusedFileError(errno.EFBIG, f"is larger than {size}", os.fspath(path))
    return content


def read_start(path: str | os.PathLike[str], count: int) -> bytes:
    """The first bytes of a file."""
    with open_regular(path) as file:
        return file.read(count) or b""


def read_end(path: str | os.PathLike[str], count: int, *, no_links_below: str | None = None) -> tuple[bytes, int]:
    """The last bytes of a file, and how many stand before them."""
    with open_regular(path, no_links_below=no_links_below) as file:
        skipped = max(0, os.fstat(file.fileno()).st_size - count)
        file.seek(skipped)
        return file.read(count) or b"", skipped


def bounded_lines(file: BinaryIO, longest: int, total: int) -> Iterator[bytes]:
    """The lines of a file that are not too long, as far as ``total`` bytes."""
    left = total
    while left > 0 and (line := file.readline(longest + 1)):
        left -= len(line)
        if len(line) <= longest:
            yield line
            continue
        while left > 0 and line and not line.endswith(b"\n"):
            line = file.readline(longest)
            left -= len(line)


def names_in(folder: str, most: int = MOST_NAMES, *, no_links_below: str | None = None) -> list[str]:
    """The names in a folder, sorted; none where it cannot be listed."""
    try:
        descriptor = _open_folder(folder, no_links_below)
    except OSError:
        return []
    try:
        with os.scandir(descriptor) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(most), strict=False))
    except OSError:
        return []
    finally:
        os.close(descriptor)


def containing(path: str, folders: Sequence[str]) -> str | None:
    """The one of the folders in which a path lies, as both are written."""
    return next((folder for folder in folders if path.startswith(os.path.join(folder, ""))), None)


def belongs_to_us(folder: str) -> bool:
    """Whether a folder, or what a link to it leads to, is the user's own: in others' we only read."""
    try:
        return os.stat(folder).st_uid == os.geteuid()
    except (OSError, ValueError):
        return False


def walk(
    top: str,
    problems: list[tuple[str, str]] | None = None,
    *,
    most: int = MOST_NAMES,
    deepest: int = 64,
    seconds: float = 60.0,
    processor_seconds: float = 1.0,
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each folder with the names of its folders, which the caller may shorten, and of its files, as ``os.walk`` gives them.

    Names are sorted, and links to folders are not followed. It ends after so many entries, levels and seconds of the clock or of
    the processor; that, and folders that cannot be listed, are put in ``problems``, each with its reason.
    """
    told = problems if problems is not None else []
    until = time.monotonic() + seconds
    left = processor_seconds
    waiting = [(top, 0)]
    while waiting:
        folder, depth = waiting.pop()
        folders: list[str] = []
        files: list[str] = []
        start = time.thread_time()
        if left <= 0:
            most = 0
        try:
            with os.scandir(folder) as listed:
                for entry in listed:
                    if most <= 0 or time.monotonic() > until:
                        waiting, deepest = [], -1
                        told.append((folder, "there are too many files: the rest was not looked at"))
                        break
                    most -= 1
                    if not entry.is_dir():
                        files.append(entry.name)
                    elif not entry.is_symlink():
                        folders.append(entry.name)
        except (OSError, ValueError) as problem:
            told.append((folder, getattr(problem, "strerror", None) or str(problem)))
        folders.sort()
        files.sort()
        left -= time.thread_time() - start  # what the caller does with them is not counted
        yield folder, folders, files
        if depth < deepest:
            waiting += [(os.path.join(folder, name), depth + 1) for name in reversed(folders)]
        elif folders and deepest >= 0:
            told.append((folder, f"deeper than {deepest} folders: what is below it was not looked at"))


def _descriptor(path: str, no_links_below: str | None) -> int:
    """Look, open, and look again at what was opened: opening a device or a pipe has effects, and names change hands."""
    try:
        _refuse_special(path, _status(path, no_links_below))
        with _Parent(path, no_links_below) as (parent, name, flags):
            descriptor = os.open(name, _FLAGS | flags, dir_fd=parent)
    except ValueError:
        raise _bad_name(path) from None
    except OSError as problem:
        raise _explained(path, problem, no_links_below) from None
    try:
        status = os.fstat(descriptor)
        _refuse_special(path, status)
        if status.st_size:  # what waits though it is regular has no size: /proc/kmsg, trace_pipe
            os.set_blocking(descriptor, True)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _open_folder(path: str, no_links_below: str | None) -> int:
    try:
        with _Parent(path, no_links_below) as (parent, name, flags):
            return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags, dir_fd=parent)
    except ValueError:
        raise _bad_name(path) from None
    except OSError as problem:
        raise _explained(path, problem, no_links_below) from None


def _status(path: str, no_links_below: str | None) -> os.stat_result:
    try:
        with _Parent(path, no_links_below) as (parent, name, flags):
            return os.stat(name, dir_fd=parent, follow_symlinks=not flags)
    except ValueError:
        raise _bad_name(path) from None
    except OSError as problem:
        raise _explained(path, problem, no_links_below) from None


class _Parent:
    """The folder of a path, held open, with the last name and the flag for links; none is held where links may be followed."""

    def __init__(self, path: str, no_links_below: str | None) -> None:
        self._path, self._top = path, no_links_below
        self._held: int | None = None

    def __enter__(self) -> tuple[int | None, str, int]:
        if self._top is None:
            return None, self._path, 0
        names = os.path.relpath(self._path, self._top or ".").split(os.sep)
        if names[0] == os.pardir:
            raise OSError(errno.EXDEV, "it lies outside the folder", self._path)
        self._held = os.open(self._top or ".", _FOLDER)
        try:
            for name in names[:-1]:
                inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self._held)
                os.close(self._held)
                self._held = inner
        except BaseException:
            os.close(self._held)
            raise
        return self._held, names[-1], os.O_NOFOLLOW

    def __exit__(self, *_: object) -> None:
        if self._held is not None:
            os.close(self._held)


def _refuse_special(path: str, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISLNK(status.st_mode):
        raise _link(path)
    kind = next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "something else")
    number = errno.EISDIR if kind == "a folder" else errno.EINVAL
    raise RefusedFileError(number, f"is {kind}, not a file", path)


def _explained(path: str, problem: OSError, no_links_below: str | None) -> OSError:
    """The same in words, where a link is the reason."""
    if isinstance(problem, RefusedFileError) or problem.errno not in {errno.ENOENT, errno.ELOOP, errno.ENOTDIR}:
        return problem
    if no_links_below is not None:
        return _link(path) if problem.errno in {errno.ELOOP, errno.ENOTDIR} else problem
    if problem.errno == errno.ELOOP:
        return RefusedFileError(errno.ELOOP, "is a link that leads in a circle", path)
    if problem.errno == errno.ENOENT and os.path.islink(path):
        return FileNotFoundError(errno.ENOENT, "it is a link that leads nowhere", path)
    return problem


def _link(path: str) -> RefusedFileError:
    return RefusedFileError(
        errno.ELOOP, "is or lies behind a symbolic link, which is not followed inside a run folder", path
    )


def _bad_name(path: str) -> RefusedFileError:
    return RefusedFileError(errno.EINVAL, "is no name that a file can have", path)
