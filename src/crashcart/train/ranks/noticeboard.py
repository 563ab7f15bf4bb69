"""Short notes that the ranks of a job leave for each other, without a collective and without one long wait.

The place is the store that torch's process group was built with, or the one that torchrun or rank 0 keeps at MASTER_ADDR before
there is a group, or files in a shared folder. Each look is bounded in time. A store is talked to over a connection of our own:
torch's is locked while a collective or a new group waits on it.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Board", "BoardGone", "FolderBoard", "StoreBoard", "bounded", "host_here", "serves"]

T = TypeVar("T")
ANSWER_SECONDS = 20.0  # a store that is up answers within milliseconds
RECONNECT_SECONDS = 10.0
REFUSED_SECONDS = 1.0  # a network may be down for a while, but who refuses has ended
FIRST_CONTACT_SECONDS = 1800.0  # as long as torch lets a group take to form


class BoardGone(RuntimeError):  # noqa: N818 - a state of the world; the caller makes the sentence
    """Nobody keeps the notes any more."""


class NobodyListens(OSError):  # noqa: N818 - a state of the world, as above
    """The machine answers, and the one that kept the store has ended."""


class Board(Protocol):
    """Where notes are pinned."""

    outlives: bool
    """Whether notes of an earlier attempt or job may still hang there."""

    def read(self, key: str) -> bytes | None:
        """The note under this key, if there is one."""

    def write(self, key: str, note: bytes) -> None:
        """Pin a note, over an older one."""

    def count(self, key: str, more: int) -> int:
        """Add to a number and give the sum."""

    def at_exit(self) -> None:
        """The interpreter ends: start no thread, try nothing twice."""


def bounded(action: Callable[[], T], seconds: float) -> T:
    """Do it in a thread and give up waiting after that time: a library's own time-outs do not cover a frozen peer."""
    answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((action(), None))
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            answers.put((None, error))

    threading.Thread(target=run, name="crashcart-board", daemon=True).start()
    try:
        value, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise BoardGone(f"no answer within {seconds:.0f} seconds") from None
    if error is not None:
        raise error
    given: T = value
    return given


class StoreBoard:
    """Notes in a store of torch.distributed; a lost connection is made again for a while."""

    def __init__(self, connect: Callable[[float], Any], address: str, *, outlives: bool) -> None:
        self.outlives = outlives
        self.address = address
        self._connect = connect
        self._store: Any = None
        self._met = self._gone = False
        self._exiting = False
        self._lock = threading.Lock()

    def read(self, key: str) -> bytes | None:
        """Look whether it is there before getting it, since getting waits."""
        return self._ask(lambda store: _look(store, key))

    def write(self, key: str, note: bytes) -> None:
        """Pin it."""
        self._ask(lambda store: store.set(key, note))

    def count(self, key: str, more: int) -> int:
        """Add, all ranks at once if they like."""
        return int(self._ask(lambda store: store.add(key, more)))

    def at_exit(self) -> None:
        """Python 3.12 starts no thread any more."""
        self._exiting = True

    def _ask(self, question: Callable[[Any], T]) -> T:
        with self._lock:
            patience = RECONNECT_SECONDS if self._met else FIRST_CONTACT_SECONDS
            deadline = time.monotonic() + (0.0 if self._exiting or self._gone else patience)
            while True:
                try:
                    return self._ask_once(question, deadline - time.monotonic())
                except (RuntimeError, OSError, ValueError) as error:  # noqa: PERF203 - one try of many
                    self._store = None
                    if time.monotonic() >= deadline or (self._met and isinstance(error, NobodyListens)):
                        self._gone = True
                        raise BoardGone(f"the store at {self.address} is gone ({_first_line(error)})") from None
                    time.sleep(0.5)

    def _ask_once(self, question: Callable[[Any], T], patience: float) -> T:
        if self._store is None:
            self._store = self._connect(min(patience, REFUSED_SECONDS) if self._met else patience)
        store = self._store
        answer = question(store) if self._exiting else bounded(lambda: question(store), ANSWER_SECONDS)
        self._met, self._gone = True, False
        return answer


def _look(store: Any, key: str) -> bytes | None:  # noqa: ANN401 - torch has no stubs for stores
    if hasattr(store, "check"):
        return bytes(store.get(key)) if store.check([key]) else None
    return bytes(store.compare_set(key, "", "")) or None  # older torch: gives what is there, or puts nothing in its place


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def client(host: str, port: int) -> Callable[[float], Any]:
    """A function that connects to the store at that address."""

    def connect(patience: float) -> Any:  # noqa: ANN401 - torch has no stubs for stores
        from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # made in C++

        deadline = time.monotonic() + patience
        while True:  # torch would fill the log with each of its tries
            failure = _knock(host, port)
            if failure is None:
                break
            if time.monotonic() >= deadline:
                refused = isinstance(failure, ConnectionRefusedError)
                raise (NobodyListens if refused else OSError)(f"nobody listens at {host}:{port}") from None
            time.sleep(0.2)
        limit = timedelta(seconds=ANSWER_SECONDS / 2)
        store = bounded(lambda: TCPStore(host, port, is_master=False, timeout=limit, wait_for_workers=False), ANSWER_SECONDS)
        return PrefixStore("crashcart", store)

    return connect


def serves(host: str, port: int) -> bool:
    """Whether somebody takes connections there."""
    return _knock(host, port) is None


def _knock(host: str, port: int) -> OSError | None:
    try:
        socket.create_connection((host, port), timeout=5.0).close()
    except OSError as error:
        return error
    return None


def host_here(host: str, port: int) -> Any:  # noqa: ANN401 - torch has no stubs for stores
    """Keep the store in this process, as init_process_group does on rank 0; `multi_tenant` lets that one share it later."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # made in C++

    limit = timedelta(seconds=ANSWER_SECONDS / 2)
    return TCPStore(host, port, is_master=True, timeout=limit, wait_for_workers=False, multi_tenant=True)


class FolderBoard:
    """Notes as files, for ranks that share a folder and nothing else."""

    outlives = True

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, ".crashcart-turns")
        os.makedirs(self._folder, exist_ok=True)

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in key))

    def read(self, key: str) -> bytes | None:
        """The file, if it is there."""
        try:
            with open(self._path(key), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BoardGone(f"the folder {self._folder} cannot be read ({error})") from None

    def write(self, key: str, note: bytes) -> None:
        """Whole or not at all: by renaming."""
        path = self._path(key)
        scratch = f"{path}.{socket.gethostname()}.{os.getpid()}.{threading.get_ident()}"
        try:
            with open(scratch, "wb") as file:
                file.write(note)
            os.replace(scratch, path)
        except OSError as error:
            raise BoardGone(f"the folder {self._folder} cannot be written ({error})") from None

    def count(self, key: str, more: int) -> int:
        """Files cannot be added to by all at once; nobody asks for it where the launcher tells the local rank."""
        raise BoardGone(f"set LOCAL_RANK: in a folder nobody can tell who of a machine came first ({key}, {more})")

    def at_exit(self) -> None:
        """Nothing to do: files need no thread."""
