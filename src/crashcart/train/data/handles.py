"""Handles that belong to one process: opened where they are used, never carried over a fork.

A handle that a data set opens in ``__init__`` is shared by all its workers. After a fork they share the position in the
file as well, so one worker reads where another has just moved to: wrong samples, and no error. Under spawn it cannot be
pickled at all.

After a fork the child lets go of what it inherited. A file of h5py or LMDB that was opened for reading is closed there, since
both libraries would hand out the inherited file again, or refuse to open it a second time. Anything else is left open and never
touched: to close it could write the parent's unfinished data a second time.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import weakref
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

__all__ = ["PerWorker", "per_worker"]

Handle = TypeVar("Handle")
_KWARGS = object()  # parts the positional arguments of a key from the named ones
_CELL = [object()]
_ALONE = sys.getrefcount(_CELL[0])  # what refers to an object that only lies in a list


def per_worker(
    open_fn: Callable[..., Handle],
    *,
    most: int = 16,
    per_thread: bool = False,
    close: Callable[[Handle], object] | None = None,
) -> PerWorker[Handle]:
    """Open each file once in each process that asks for it.

        files = per_worker(h5py.File)
        files(path, "r")["action"][5]       # or files[path], where the path is enough

    At most `most` stay open in a process, the least recently used goes first; one that somebody still holds is closed when
    they let go of it, and `with files.lease(path) as handle` keeps one open meanwhile. Threads of a process share a handle,
    as h5py and LMDB allow; `per_thread` gives each its own. `close` is called instead of ``handle.close()``.
    """
    return PerWorker(open_fn, most=most, per_thread=per_thread, close=close)


class _Open:
    """The handles of one process, with a lock that no other process has ever held."""

    def __init__(self) -> None:
        self.handles: OrderedDict[Hashable, Any] = OrderedDict()
        self.leases: dict[Hashable, int] = {}
        self.lock = threading.RLock()


class PerWorker(Generic[Handle]):
    """A cache of open handles for each process; pickles, and copies, without them."""

    def __init__(
        self, open_fn: Callable[..., Handle], *, most: int, per_thread: bool, close: Callable[[Handle], object] | None
    ) -> None:
        if not callable(open_fn):
            raise TypeError(
                f"per_worker takes what opens a file, such as h5py.File, and not an open {type(open_fn).__name__}."
            )
        if most < 1:
            raise ValueError(f"per_worker must be allowed at least 1 open handle, not {most}.")
        self._open, self._most, self._per_thread, self._close_fn = open_fn, most, per_thread, close
        self._by_process: dict[int, _Open] = {}
        weakref.finalize(self, _end, self._by_process, close)

    def __call__(self, *args: Any, **kwargs: Any) -> Handle:  # noqa: ANN401 - what open_fn takes
        """The handle for these arguments, opened now if this process has none."""
        key = self._key(args, kwargs)
        mine = self._mine()
        with mine.lock:
            return self._get(mine, key, args, kwargs)

    def __getitem__(self, path: Any) -> Handle:  # noqa: ANN401 - what open_fn takes
        """The handle of a file that needs no other argument."""
        return self(path)

    @contextlib.contextmanager
    def lease(self, *args: Any, **kwargs: Any) -> Iterator[Handle]:  # noqa: ANN401 - what open_fn takes
        """A handle that stays open until the end of the block, whatever else is opened meanwhile."""
        key = self._key(args, kwargs)
        mine = self._mine()
        with mine.lock:
            handle = self._get(mine, key, args, kwargs)
            mine.leases[key] = mine.leases.get(key, 0) + 1
        try:
            yield handle
        finally:
            with mine.lock:
                mine.leases[key] -= 1
                if not mine.leases[key]:
                    del mine.leases[key]
                self._make_room(mine, self._most)

    def close(self) -> None:
        """Close what this process has open; the next use opens it again."""
        mine = self._by_process.pop(os.getpid(), None)
        if mine is not None:
            _close_all(mine, self._close_fn)

    def __len__(self) -> int:
        return len(self._mine().handles)

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        again = partial(PerWorker, self._open, most=self._most, per_thread=self._per_thread, close=self._close_fn)
        return again, ()

    def __repr__(self) -> str:
        name = getattr(self._open, "__qualname__", repr(self._open))
        return f"per_worker({name}, most={self._most}): {len(self)} open in process {os.getpid()}"

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        parts = [os.fspath(part) if isinstance(part, os.PathLike) else part for part in args]
        named = [(_KWARGS, name, kwargs[name]) for name in sorted(kwargs)]
        key = (*parts, *named, threading.get_ident()) if self._per_thread else (*parts, *named)
        try:
            hash(key)
        except TypeError:
            raise TypeError(
                f"per_worker finds a handle by its arguments, so each must be hashable; these are {parts}."
            ) from None
        return key

    def _mine(self) -> _Open:
        mine = self._by_process.get(os.getpid())
        if mine is not None:
            return mine
        for process in [one for one in self._by_process if one != os.getpid()]:
            inherited = self._by_process.pop(process, None)  # another thread may be at it
            if inherited is not None:
                _let_go(inherited)
        mine = self._by_process.setdefault(os.getpid(), _Open())
        _close_with_worker(self)
        return mine

    def _get(self, mine: _Open, key: Hashable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handle:
        handle = mine.handles.get(key)
        if handle is None or _is_closed(handle):
            mine.handles.pop(key, None)
            self._make_room(mine, self._most - 1)
            handle = self._open(*args, **kwargs)
            mine.handles[key] = handle
        mine.handles.move_to_end(key)
        return handle

    def _make_room(self, mine: _Open, left: int) -> None:
        for key in [key for key in mine.handles if key not in mine.leases]:
            if len(mine.handles) <= left:
                return
            _evict([mine.handles.pop(key)], self._close_fn)


def _evict(cell: list[Any], close: Callable[[Any], object] | None) -> None:
    """Close the handle in the cell, unless somebody still uses it: then it goes when they let go of it.

    A data set of h5py keeps its file open by itself, and ``File.close`` would take it away from its user.
    """
    if close is not None:
        close(cell[0])
    elif sys.getrefcount(cell[0]) <= _ALONE and not _is(cell[0], "h5py", "File") and hasattr(cell[0], "close"):
        cell[0].close()


def _close_all(mine: _Open, close: Callable[[Any], object] | None) -> None:
    with mine.lock:
        while mine.handles:
            handle = mine.handles.popitem()[1]
            with contextlib.suppress(Exception):  # one that cannot be closed must not keep the others open
                close(handle) if close is not None else getattr(handle, "close", lambda: None)()


def _end(by_process: dict[int, _Open], close: Callable[[Any], object] | None) -> None:
    for process, handles in list(by_process.items()):
        if process == os.getpid():
            _close_all(handles, close)
        else:
            _let_go(handles)


def _let_go(inherited: _Open) -> None:
    """Give up what came over a fork; the parent goes on using it."""
    for handle in list(inherited.handles.values()):
        with contextlib.suppress(Exception):  # a library that cannot tell is treated as one that writes
            if _only_reads(handle):
                handle.close()
                continue
        ctypes.pythonapi.Py_IncRef(
            ctypes.py_object(handle)
        )  # never finalised: that would close, or flush, behind the parent


def _only_reads(handle: Any) -> bool:  # noqa: ANN401 - whatever was opened
    if _is(handle, "h5py", "File"):
        return bool(handle) and handle.mode == "r"
    return _is(handle, "lmdb", "Environment") and bool(handle.flags().get("readonly"))


def _is(handle: object, library: str, name: str) -> bool:
    """Whether it is of that library, which is not loaded for the question."""
    return isinstance(handle, getattr(sys.modules.get(library), name, ()))


def _is_closed(handle: Any) -> bool:  # noqa: ANN401 - whatever was opened
    """Whether a user has closed it, as ``with files[path] as file`` does."""
    return getattr(handle, "closed", False) is True or (_is(handle, "h5py", "File") and not handle)


def _close_with_worker(handles: PerWorker[Any]) -> None:
    """Close in a child of multiprocessing too, which ends without the usual exit of an interpreter."""
    from multiprocessing import process, util

    if process.parent_process() is not None:
        util.Finalize(handles, _end, (handles._by_process, handles._close_fn), exitpriority=10)  # noqa: SLF001 - our own class
