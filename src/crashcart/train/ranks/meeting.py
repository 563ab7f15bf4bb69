"""Where the ranks of this job meet to take turns, and which of them is first."""

from __future__ import annotations

import atexit
import json
import logging
import os
import time
import warnings
from contextlib import suppress
from typing import Any

from crashcart.record import record
from crashcart.train.ranks.identity import Here, here
from crashcart.train.ranks.noticeboard import Board, BoardGone, FolderBoard, StoreBoard, client, host_here, serves
from crashcart.train.ranks.waiting import note_now

__all__ = ["Meeting", "meeting"]

LINGER_SECONDS = 20.0
_log = logging.getLogger("crashcart.train")
_boards: dict[tuple[int, str], Board] = {}  # by process, since a connection must not be shared with a fork
_hosted: list[Any] = []  # stores that may live in this process, kept until it ends
_passed: list[str] = []  # the calls that this process has been through
_signed: set[tuple[int, int]] = set()


@record
class Meeting:
    """The board, and this rank's part in one circle of ranks."""

    board: Board
    rank: int
    world: int
    circle: str
    first_rank: int | None
    """Who prepares where that is known by its number: rank 0 of the job."""
    is_first: bool | None
    """None where no launcher told the local ranks: then the first who comes to a machine's board."""

    def first(self, key: str) -> bool:
        """Whether this rank prepares."""
        if self.is_first is not None:
            return self.is_first
        return self.board.count(f"{key}/claim", 1) == 1

    def post(self, key: str, note: dict[str, Any]) -> None:
        """Tell the others; where nobody keeps the notes any more, they see that themselves."""
        try:
            self.board.write(key, json.dumps(note).encode())
        except BoardGone as error:
            _log.warning("the other ranks could not be told that rank %d is through: %s", self.rank, error)

    def get(self, key: str) -> dict[str, Any] | None:
        """What was told, if it was."""
        text = self.board.read(key)
        return None if text is None else dict(json.loads(text))

    def passed(self, key: str) -> None:
        """Leave word that this rank is through, one way or the other: rank 0, if it keeps the notes, may end when all are."""
        if not self.board.outlives:
            _passed.append(key)
            with suppress(BoardGone):
                self.board.count("passed", 1)


def meeting(scope: str, folder: str | None) -> Meeting | None:
    """The meeting of this rank's job or machine; None for one process alone."""
    place = here(any_launcher=folder is not None)
    if place.world <= 1:
        _warn_if_unseen(place)
        return None
    board = _board(place, folder)
    if scope == "job":
        met = Meeting(board, place.rank, place.world, "job", 0, place.rank == 0)
    else:
        is_first = None if place.local_rank is None else place.local_rank == 0
        met = Meeting(board, place.rank, place.world, f"node {place.node}", None, is_first)
    _sign(met)
    return met


def _warn_if_unseen(place: Here) -> None:
    """Tasks of srun or mpirun that have no group yet look like single processes; rank 0 cannot tell, the others can."""
    hidden = here(any_launcher=True)
    if not place.joined and hidden.rank > 0:
        warnings.warn(
            f"rank_zero_first: task {hidden.rank} of {hidden.world} has neither a process group nor MASTER_ADDR and RANK, "
            "so it cannot wait for task 0; call it after init_process_group, or give folder=",
            stacklevel=5,
        )


def _sign(met: Meeting) -> None:
    """Leave word who rank 0 is, and at its end that it has left: others may wait for a call that it never makes."""
    mine = (os.getpid(), met.rank)
    if met.rank != met.first_rank or mine in _signed:
        return
    _signed.add(mine)
    met.post(f"rank {met.rank}", {**note_now(met.rank), "left": False})
    atexit.register(_leave, met, os.getpid())


def _leave(met: Meeting, pid: int) -> None:
    if pid != os.getpid():
        return
    met.board.at_exit()
    with suppress(BoardGone):
        met.board.write(f"rank {met.rank}", json.dumps({**note_now(met.rank), "left": True}).encode())


def _linger(board: Board, ranks: int, pid: int) -> None:
    """The notes end with this process: let the others read them, who came to as many calls."""
    deadline = time.monotonic() + LINGER_SECONDS
    board.at_exit()
    with suppress(BoardGone):
        while pid == os.getpid() and time.monotonic() < deadline and board.count("passed", 0) < ranks * len(_passed):
            time.sleep(0.05)


def _board(place: Here, folder: str | None) -> Board:
    store = None
    if folder is not None:
        where = f"folder {os.path.abspath(folder)}"
    elif place.joined:
        store = _store_of_group()
        where = _address(store) or f"store {id(store)}"
    else:
        where = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
    key = (os.getpid(), where)
    if key not in _boards:
        _boards[key] = (
            FolderBoard(folder) if folder is not None else _of_group(store) if place.joined else _of_environment(place)
        )
        if place.rank == 0 and not _boards[key].outlives:
            atexit.register(_linger, _boards[key], place.world, os.getpid())
    return _boards[key]


def _store_of_group() -> Any:  # noqa: ANN401 - torch has no stubs for stores
    """The store at the bottom of the process group, whatever it is."""
    from torch.distributed.distributed_c10d import _get_default_store

    store: Any = _get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if store is None:
        raise RuntimeError("This process group has no store (MPI): give rank_zero_first a shared folder=.")
    return store


def _address(store: Any) -> str:  # noqa: ANN401 - torch has no stubs for stores
    return f"{store.host}:{store.port}" if hasattr(store, "host") and hasattr(store, "port") else ""


def _of_group(store: Any) -> Board:  # noqa: ANN401 - torch has no stubs for stores
    """Notes in the store of the process group; it stays when rank 0 destroys the group before the others have read them."""
    from torch.distributed import PrefixStore  # type: ignore[attr-defined]  # made in C++

    _hosted.append(store)
    if _address(store):
        under_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
        return StoreBoard(client(store.host, store.port), _address(store), outlives=under_torchrun)
    return StoreBoard(
        lambda _patience: PrefixStore("crashcart", store), type(store).__name__, outlives=hasattr(store, "path")
    )


def _of_environment(place: Here) -> Board:
    """Notes in the store at MASTER_ADDR: torchrun's, or one that rank 0 keeps as init_process_group would."""
    host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    if not host or not port.isdecimal():
        raise RuntimeError(
            f"rank_zero_first: {place.world} ranks, but no process group and no MASTER_ADDR and MASTER_PORT to meet at; "
            "call it after init_process_group, or give a shared folder=."
        )
    by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if place.rank == 0 and not by_agent and not serves(host, int(port)):
        _hosted.append(host_here(host, int(port)))
    return StoreBoard(client(host, int(port)), f"{host}:{port}", outlives=by_agent)
