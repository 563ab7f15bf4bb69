"""Two threads between a program and its tracker: one writes the local copy, the other makes the tracker's calls and may hang.

The program only appends to a queue. The writer looks at it five times a second, writes rows down and hands them to the sender as
long as that one keeps up; it also notices a sender that does not come back. Nobody waits for the sender without a limit.
"""

from __future__ import annotations

import contextvars
import itertools
import logging
import os
import sys
import threading
import time
from collections import deque
from types import ModuleType
from typing import Any

from crashcart.train.tracking.copy import LocalCopy
from crashcart.train.tracking.kinds import OPENS, active_run, describe, end_service, ending
from crashcart.train.tracking.leaving import at_work, first_at_exit, leave_together, tell_missing
from crashcart.train.tracking.sender import Later, Row, Sender
from crashcart.train.tracking.values import Taken, ready, settled, take, written

__all__ = ["Channel"]

LOOK_SECONDS = 0.2
NOTED_SECONDS = 1.0
WAKE_ROWS = 2_000
KEPT_ROWS = 100_000  # until the writer comes to them
KEPT_BYTES = 256 << 20
_log = logging.getLogger("crashcart.train")


class Channel:
    """The queue, the two threads, the counts."""

    def __init__(self, kind: str, folder: str, rows: int, call_seconds: float, exit_seconds: float, *, local: bool) -> None:
        self.kind, self.rows, self.call_seconds, self.exit_seconds = kind, rows, call_seconds, exit_seconds
        self.local = local  # a forked or unpickled child: no tracker, only its own copy
        self.pid = os.getpid()
        self.copy = LocalCopy(folder, kind)
        self.counts = {"rows": 0, "lost": 0, "dropped": 0, "failed": 0}
        self._numbers = itertools.count(1)  # threads of the program may log at once
        self._waiting: deque[Row | Later] = deque()
        self._bytes = 0
        self.sender = Sender(call_seconds, self._answer, self._trouble)
        self._wake, self._stop, self._written = threading.Event(), threading.Event(), threading.Event()
        self._said: set[str] = set()
        self._started = False
        self._until = float("inf")
        self._given_up: tuple[float, str] | None = None  # the call that an end has waited for in vain: once is enough
        self._last: Later | None = None
        self.target: Any = None  # what is ended at exit
        self.opened: Later | None = None  # the last call that began a run
        self.ended = False

    def put(self, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ANN401
        """Queue a call; never waits, never raises."""
        try:
            counts = self.counts
            number = counts["rows"] = next(self._numbers)
            if len(self._waiting) >= KEPT_ROWS or self._bytes > KEPT_BYTES:
                counts["lost"] += 1  # the writer itself stands still, as on a file system that hangs
                return
            taken = Taken()
            row = Row(
                target,
                name,
                tuple([take(value, taken) for value in args]),
                {key: take(value, taken) for key, value in kwargs.items()} if kwargs else kwargs,
                active_run("mlflow") if self.kind == "mlflow" else None,
            )
            row.number, row.time = number, time.time()
            if taken.bytes:
                row.taken = taken
                self._bytes += taken.bytes
                if taken.devices:
                    taken.mark()
            self._waiting.append(row)
            if len(self._waiting) == WAKE_ROWS:
                self._wake.set()
            if not self._started:
                self.start()
        except Exception as error:  # noqa: BLE001 - ours or a value's own, but never the program's
            self._trouble(name, error)

    def ask(self, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], seconds: float) -> Later:  # noqa: ANN401
        """Have a call made after those before it, and wait for its result up to this time; not at all behind one that hangs."""
        later = self._ask_soon(target, name, args, kwargs)
        self._await(later, seconds)
        return later

    def _ask_soon(self, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Later:  # noqa: ANN401
        later = Later(Row(target, name, args, kwargs, active_run(self.kind)))
        if self.local:
            later.failed = True
            return later
        self._waiting.append(later)
        if not self._started:
            self.start()
        self._wake.set()
        return later

    def _await(self, later: Later, seconds: float) -> None:
        busy, name = self.sender.busy, later.row.name
        if self.local or self.sender.hung() or (busy is not None and busy is self._given_up):
            return  # that is said already
        if not later.over.wait(seconds):
            self._given_up = self.sender.busy if seconds >= self.exit_seconds else None
            late = name == "nothing" and self.counts["rows"] > self.sender.delivered + self.counts["failed"]
            if name == "nothing" and not late:
                return  # all rows have arrived: nothing is missed, whatever the tracker still does
            what = "what was logged has not reached it" if late else f"{self.sender.at(name)} has not returned"
            self._say(f"{self.kind}: {what} within {round(seconds, 1):g} s; the program goes on")

    def end(self, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], seconds: float) -> bool:  # noqa: ANN401
        """Have the last call of a run made, and what it took noted; whether that went in time."""
        return self._noted(self.ask(target, name, args, kwargs, seconds).over.is_set())

    def _noted(self, over: bool) -> bool:  # noqa: FBT001 - what it gives back, a little later
        until = time.monotonic() + NOTED_SECONDS
        while over and self.sender.took and time.monotonic() < until:
            self._wake.set()
            time.sleep(0.005)
        return over

    def start(self) -> None:
        """Start the threads, once."""
        self._started = True
        at_work(self)
        context = contextvars.copy_context()  # trackio keeps its run there
        threading.Thread(target=self._write, name="crashcart-tracker-copy", daemon=True).start()
        if not self.local:
            threading.Thread(target=lambda: context.run(self.sender.work), name="crashcart-tracker", daemon=True).start()
            if not isinstance(self.target, ModuleType):
                self.copy.describe(describe(self.kind, self.target))
        first_at_exit(self.exit)

    def _write(self) -> None:
        while True:
            stopping = self._stop.is_set()
            try:
                if self._look() or self.sender.busy is not None:
                    first_at_exit(self.exit)
            except Exception as error:  # noqa: BLE001 - the next look may go well
                self._trouble("local copy", error)
            if stopping:
                break
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
        self._written.set()
        if self.kind == "wandb" and (self.sender.hung() or not self.ended):
            sys.modules["wandb"].teardown()  # takes wandb's own hook away before it waits; this thread may wait for ever

    def _look(self) -> int:
        lines, going = [], []
        while self._waiting:
            item = self._waiting.popleft()
            if isinstance(item, Row):
                lines.append(self._line(item))
            going.append(item)
            if len(lines) >= WAKE_ROWS:
                break
        self.copy.add(lines)
        if self.copy.first_error:
            self._say(f"the local copy cannot be written ({self.copy.first_error})")
        for item in going:
            self._hand_on(item)
        if self.sender.took:
            self.copy.took([self.sender.took.popleft() for _ in range(len(self.sender.took))])
        busy = self.sender.busy
        if busy is not None and self.sender.hung():
            self._say(
                f"{self.kind}.{busy[1]} has not returned for {self.call_seconds:.0f} s; training goes on, rows are kept in "
                f"{self.copy.folder}"
            )
        if self._waiting:
            self._wake.set()
        return len(going)

    def _line(self, row: Row) -> str:
        if row.taken is not None:
            if ready(row.taken, self._until):
                row.args, row.kwargs = settled(row.args), settled(row.kwargs)
            else:
                row.args, row.kwargs = ("not kept: the GPU had not made the value yet",), {}
            self._bytes -= row.taken.bytes
        stem = str(row.number)
        args, kwargs = (written(part, self.copy.folder, stem + end) for part, end in ((row.args, "a"), (row.kwargs, "k")))
        return f'{{"n": {row.number}, "t": {row.time:.3f}, "call": "{row.name}", "args": {args}, "kwargs": {kwargs}}}'

    def _hand_on(self, item: Row | Later) -> None:
        if self.local:
            return
        if isinstance(item, Row) and self.sender.queue.qsize() >= self.rows:
            self.counts["dropped"] += 1
            self._say(f"{self.kind} does not keep up; rows that it misses are kept in {self.copy.folder}")
            return
        self.sender.queue.put(item)

    def _answer(self, later: Later) -> None:
        if later.row.name in OPENS:
            self.ended = False
            self.copy.describe(describe(self.kind, later.value))

    def _trouble(self, name: str, error: BaseException) -> None:
        self.counts["failed"] += 1
        if "error" not in self._said:
            self._said.add("error")
            _log.warning("%s.%s failed, training goes on: %s: %s", self.kind, name, type(error).__name__, error)

    def _say(self, sentence: str) -> None:
        key = sentence.partition("(")[0][:60]
        if key not in self._said:
            self._said.add(key)
            _log.warning("%s", sentence)

    def flush(self, seconds: float) -> bool:
        """Wait until the tracker has got all that was logged before; False if it has not by then."""
        return self.local or self.end(self, "nothing", (), {}, seconds)

    def nothing(self) -> None:
        """A call that ends when those before it have."""

    def ask_last(self) -> Later:
        """Ask for the call that ends the run, or for one that ends when all before it have; nobody waits here."""
        name = None if self.ended or self.target is None else ending(self.kind)
        self._last = self._ask_soon(self if name is None else self.target, name or "nothing", (), {})
        return self._last

    def exit(self) -> None:
        """At the end of the interpreter: end the run, write the rest, wait for neither longer than the limit."""
        if self.pid != os.getpid() or not self._started or self._stop.is_set():
            return
        deadline = leave_together() + self.exit_seconds
        last = self._last or self.ask_last()
        self._await(last, max(0.0, deadline - time.monotonic()))
        self.ended = self.local or self._noted(last.over.is_set())
        self._until = deadline
        self._stop.set()
        self._wake.set()
        if not self._written.wait(max(2.0, deadline - time.monotonic())):
            self._say("the local copy could not be finished: its disk does not answer")
        if self.kind == "wandb" and not self.ended:
            end_service()
        tell_missing(self)
