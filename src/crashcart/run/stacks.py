"""Stacks of every process of a job, taken without stopping it and without rights that a user may not have.

The inside part has asked Python itself to write its stacks on a real-time signal; that works while the interpreter is blocked
in C, and costs the process milliseconds. Who was not reached is looked at by py-spy where it is installed (without pausing it),
and else by what /proc tells: state, wait channel, system call.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from crashcart.flight import frames_of
from crashcart.readers.standing import call_of, spied
from crashcart.run.environment import STACK_SIGNAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crashcart.flight import Frame
    from crashcart.run.pages import Page

__all__ = ["Stack", "take"]

_PATIENCE = 2.0
_QUIET = 0.15
_LARGEST_BYTES = 1 << 18


class Stack(NamedTuple):
    """What one process was doing: the main thread's frames, innermost first, and the text of all threads."""

    pid: int
    rank: int | None
    role: str
    how: str
    frames: tuple[Frame, ...]
    text: str

    @property
    def place(self) -> tuple[tuple[str, str], ...]:
        """What must be equal for two stacks to be the same: files and functions; a loop may be at another line."""
        return tuple((frame.file, frame.function) for frame in self.frames)


def take(
    pages: Iterable[Page],
    others: Iterable[tuple[int, str]] = (),
    names: Mapping[int, tuple[str, int | None]] | None = None,
    *,
    else_spy: bool = True,
) -> list[Stack]:
    """Stacks of the processes with a page, by signal, and of ``others`` (pid and role) as far as they can be had.

    ``else_spy`` looks from outside at those that do not answer. ``names`` holds role and rank where the tree of processes knows them: what a rank starts inherits its rank.
    """
    names = names or {}
    asked = [(page, _size(page)) for page in pages if _asks(page)]
    for page, _ in asked:
        with contextlib.suppress(OSError):
            os.kill(page.pid, STACK_SIGNAL)
    stacks = []
    deadline = time.monotonic() + _PATIENCE
    for page, before in asked:
        text = _written(page, before, deadline)
        role, rank = names.get(page.pid, ("rank" if page.whole("rank") is not None else "process", page.whole("rank")))
        role = f"rank {rank}" if role == "rank" else role
        if page.whole("worker") is not None:
            role = f"loader worker {page.whole('worker')} of rank {rank}"
        how = "its own interpreter" if text else "nothing: it did not answer"
        if not text and else_spy:
            text, how = _otherwise(page.pid)
        stacks.append(Stack(page.pid, rank, role, how, frames_of(text), text))
    for pid, role in others:
        text, how = _otherwise(pid)
        rank = names[pid][1] if pid in names else None
        stacks.append(Stack(pid, rank, f"rank {rank}" if role == "rank" else role, how, frames_of(text), text))
    return stacks


def _asks(page: Page) -> bool:
    """Whether the process still has our handler: without it the signal would end it."""
    if page.whole("signal") != STACK_SIGNAL:
        return False
    try:
        with open(f"/proc/{page.pid}/stat", encoding="utf-8", errors="replace") as file:
            started = file.read().rsplit(")", 1)[-1].split()[19]
        with open(f"/proc/{page.pid}/status", encoding="utf-8", errors="replace") as file:
            caught = next(int(line.split()[1], 16) for line in file if line.startswith("SigCgt"))
    except (OSError, StopIteration, ValueError, IndexError):
        return False
    return page.name == f"{page.pid}-{started}" and bool(caught >> (STACK_SIGNAL - 1) & 1)


def _size(page: Page) -> int:
    try:
        return os.path.getsize(os.path.join(page.folder, page.name + ".stacks"))
    except OSError:
        return 0


def _written(page: Page, before: int, deadline: float) -> str:
    """What the process wrote since; it is complete once it has been quiet for a moment."""
    seen, since = before, time.monotonic()
    while time.monotonic() < deadline:
        size = _size(page)
        if size != seen:
            seen, since = size, time.monotonic()
        elif seen > before and time.monotonic() - since > _QUIET:
            break
        time.sleep(0.01)
    if seen <= before:
        return ""
    path = os.path.join(page.folder, page.name + ".stacks")
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(before)
        text = file.read().decode("utf-8", "replace")
        if seen > _LARGEST_BYTES:  # it is appended to, and may lie in shared memory that the job needs
            os.truncate(path, 0)
        return text
    return ""


def _otherwise(pid: int) -> tuple[str, str]:
    text, _ = spied(pid)
    if text:
        return text, "py-spy"
    call = call_of(pid)
    told = [f"{name}: {value}" for name, value in zip(("call", "file", "wait channel"), call, strict=True) if value]
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stack", encoding="ascii", errors="replace") as file:
        told.append(file.read().strip())
    return "\n".join(told), "/proc"
