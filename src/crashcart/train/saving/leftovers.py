"""Names for what is being written, and what becomes of them when the writer dies.

A temporary lies beside its target, begins with a dot, and is locked (flock) by its writer: the kernel lets go of the lock when the
writer is gone, whatever killed it, so another save can tell a leftover from a save that is going on. Where a lock cannot be had
(some network file systems), and for other machines during the first day, nothing is removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import socket
import stat
import time

__all__ = ["clean", "is_like", "publish_folder", "remove", "reserve_file", "reserve_folder", "sync_folder", "sync_tree"]

SAVING, REPLACED = ".crashcart-saving", ".crashcart-replaced"
_LONGEST_NAME = 150  # of the target's name in that of the temporary; a file system allows 255
_DAY = 86_400
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE, AT_FDCWD
_DIGITS = re.compile(r"\d+")


def _temporary(target: str, suffix: str) -> str:
    folder, name = os.path.split(target)
    host = re.sub(r"\W", "-", socket.gethostname())[:40]
    return os.path.join(folder, f".{name[:_LONGEST_NAME]}.{host}.{secrets.token_hex(4)}{suffix}")


def _locked(descriptor: int) -> bool:
    """Whether nobody else holds it; a file system without locks has no cleaners to fear either."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return os.fstat(descriptor).st_nlink > 0  # else a cleaner was quicker than the lock


def reserve_file(target: str) -> tuple[int, str]:
    """A new file beside the target, open for writing, and its name."""
    while True:
        path = _temporary(target, SAVING)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        if _locked(descriptor):
            return descriptor, path
        os.close(descriptor)


def reserve_folder(target: str) -> tuple[int, str]:
    """A new folder beside the target, and the descriptor that holds its lock."""
    while True:
        path = _temporary(target, SAVING)
        os.mkdir(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if _locked(descriptor):
            return descriptor, path
        os.close(descriptor)


def clean(folder: str) -> None:
    """Remove what saves that died have left in a folder; put back what a replacement had only moved aside."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith(".") and name.endswith(REPLACED):
            target = os.path.join(folder, name[1:].rsplit(".", 3)[0])
            with contextlib.suppress(OSError):
                remove(path) if os.path.lexists(target) else os.rename(path, target)
        elif name.startswith(".") and name.endswith(SAVING):
            with contextlib.suppress(OSError):
                _remove_if_left(path, name)


def _remove_if_left(path: str, name: str) -> None:
    found = os.lstat(path)
    ours = name.rsplit(".", 3)[-3] == re.sub(r"\W", "-", socket.gethostname())[:40]
    if not ours and time.time() - found.st_mtime < _DAY:
        return
    is_folder = stat.S_ISDIR(found.st_mode)
    if not is_folder and not stat.S_ISREG(found.st_mode):
        return
    descriptor = os.open(path, (os.O_RDONLY if is_folder else os.O_RDWR) | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its writer lives, and where there are no locks
        remove(path)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove a file, or a folder: that one first gets a name that nobody takes for a checkpoint."""
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    if not path.endswith((SAVING, REPLACED)):
        aside = _temporary(path, SAVING)
        os.rename(path, aside)
        path = aside
    shutil.rmtree(path, ignore_errors=True)


def publish_folder(path: str, target: str) -> None:
    """Give a finished folder its name; where one of that name is, both change places in one step if the kernel can."""
    if not os.path.lexists(target):
        os.rename(path, target)
        return
    if not os.path.isdir(target):
        raise NotADirectoryError(
            errno.ENOTDIR, "There is a file where the folder shall be; remove it or choose another name", target
        )
    library = ctypes.CDLL(None, use_errno=True)
    exchange = getattr(library, "renameat2", None)
    if exchange is not None and exchange(_HERE, os.fsencode(path), _HERE, os.fsencode(target), _EXCHANGE) == 0:
        remove(path)
        return
    aside = _temporary(target, REPLACED)
    os.rename(target, aside)
    os.rename(path, target)
    remove(aside)


def sync_folder(folder: str) -> None:
    """Make the names in a folder last; file systems that cannot are left alone."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES}:
            raise
    finally:
        os.close(descriptor)


def sync_tree(folder: str) -> None:
    """Make all of a folder last, the files before the names."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = os.path.join(place, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(place)


def is_like(name: str, other: str) -> bool:
    """Whether two names differ in their numbers at most: step-100.pt, step-200.pt."""
    return _DIGITS.sub("#", name) == _DIGITS.sub("#", other)
