"""One rank prepares, the others wait as long as it takes and then read what it left: `rank_zero_first` and `load_once`.

The usual `if rank == 0: download()` with a barrier dies when the work takes longer than the process group's time-out; without
the barrier every rank downloads. Here the others look at a store in short questions, so no collective runs and no time-out
applies. The preparing rank leaves a sign of life every two seconds; its error, or its death, ends the waiting.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from crashcart.train.ranks.meeting import Meeting, meeting
from crashcart.train.ranks.noticeboard import BoardGone, bounded
from crashcart.train.ranks.waiting import FirstRankError, note_now, wait

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["FirstRankError", "Turn", "load_once", "rank_zero_first"]

T = TypeVar("T")
Scope = Literal["job", "node"]
SIGN_OF_LIFE_SECONDS = 2.0
BEGIN_SECONDS = 5.0
_calls: Counter[tuple[str, str]] = Counter()  # how often this process came to each name: every rank counts alike
_calls_lock = threading.Lock()


def rank_zero_first(
    name: str | None = None,
    *,
    scope: Scope = "job",
    folder: str | os.PathLike[str] | None = None,
    limit_seconds: float | None = None,
    silence_seconds: float = 300.0,
) -> Turn:
    """Run the body on rank 0 first; on the others when that has ended well.

        with rank_zero_first():
            data = build_or_read_cache()

    scope: "job" for a cache that all machines see, "node" for one on the disk of each (then its local rank 0 is first).
    name: pairs the calls of different ranks; by default the file and function of the call, and how often it was reached.
    folder: a shared folder for the notes, where there is neither a process group nor MASTER_ADDR.
    limit_seconds: how long to wait at most; by default as long as the first rank lives.
    silence_seconds: how long a first rank on another machine may give no sign of life. A C call that keeps the interpreter
    lock silences it too; on the same machine the process itself is looked at instead.
    """
    if name is None:
        code = sys._getframe(1).f_code  # noqa: SLF001 - the place of the call, as warnings finds it
        name = f"{os.path.basename(code.co_filename)}:{code.co_name}"
    if scope not in ("job", "node"):
        raise ValueError(f'scope is "job" or "node", not {scope!r}')
    shared = None if folder is None else os.fspath(folder)
    return Turn(name, scope, shared, limit_seconds, silence_seconds)


def load_once(
    fn: Callable[..., T],
    *args: Any,  # noqa: ANN401 - whatever fn takes
    then: Callable[..., T] | None = None,
    scope: Scope = "job",
    folder: str | os.PathLike[str] | None = None,
    limit_seconds: float | None = None,
    **kwargs: Any,  # noqa: ANN401 - whatever fn takes
) -> T:
    """Call fn on the first rank; when it has returned there, call `then` (or fn, which finds its cache now) on the others.

        data = load_once(build_or_read, "train")

    scope, folder, limit_seconds: as of `rank_zero_first`; everything else goes to fn, and to `then`.
    """
    with rank_zero_first(_name_of(fn), scope=scope, folder=folder, limit_seconds=limit_seconds) as first:
        return (fn if first or then is None else then)(*args, **kwargs)


def _name_of(fn: Callable[..., object]) -> str:
    plain = getattr(fn, "func", fn)  # of a functools.partial
    plain = getattr(plain, "__func__", plain)
    code = getattr(plain, "__code__", None)
    name = getattr(plain, "__qualname__", type(plain).__qualname__)
    return f"{name}:{code.co_firstlineno}" if code is not None and "<lambda>" in name else name


class Turn:
    """The context manager behind `rank_zero_first`; entering gives whether this rank is the first."""

    def __init__(self, name: str, scope: Scope, folder: str | None, limit: float | None, silence: float) -> None:
        self.name, self.scope, self.folder, self.limit, self.silence = name, scope, folder, limit, silence
        self._open: list[tuple[Meeting, str, threading.Event] | None] = []  # one for each entry: a Turn may be entered twice

    def __enter__(self) -> bool:
        """Wait for the first rank, or begin if that is this one."""
        with _calls_lock:
            _calls[self.scope, self.name] += 1
            count = _calls[self.scope, self.name]
        met = meeting(self.scope, self.folder)
        if met is None:
            self._open.append(None)
            return True
        key = f"{met.circle}/{self.name}/{count}"
        if met.first(key):
            self._open.append((met, key, self._begin(met, key)))
            return True
        try:
            wait(met, key, self.name, self.limit, self.silence)
        finally:
            met.passed(key)
        self._open.append(None)
        return False

    def _begin(self, met: Meeting, key: str) -> threading.Event:
        over = threading.Event()

        def signs_of_life() -> None:
            beat = 0
            while not over.wait(SIGN_OF_LIFE_SECONDS):
                beat += 1
                try:
                    met.board.write(f"{key}/beat", str(beat).encode())
                except BoardGone:
                    return  # the others see that it is gone themselves

        with suppress(BoardGone):  # the one that keeps the notes may not be up yet; the work need not wait for it
            bounded(lambda: met.post(f"{key}/begun", note_now(met.rank)), BEGIN_SECONDS)
        threading.Thread(target=signs_of_life, name="crashcart-sign-of-life", daemon=True).start()
        return over

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        """Tell the others how it went."""
        mine = self._open.pop()
        if mine is None:
            return
        met, key, over = mine
        over.set()
        note = note_now(met.rank)
        if kind is not None and error is not None:
            text = "".join(traceback.format_exception(kind, error, error.__traceback__))
            note.update(error=kind.__name__, text=str(error)[:2000], trace=text[-20_000:])
        met.post(f"{key}/done", note)
        met.passed(key)
