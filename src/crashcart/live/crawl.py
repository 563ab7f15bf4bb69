"""What a job that moves mostly waits for, from a few looks: too short to blame anybody for it, long enough to say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.recording.tables import HOST, PROCESS
from crashcart.run.outside.ends import called

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crashcart.live.looks import Seen, Watch
    from crashcart.run.outside.process import Process

__all__ = ["crawls"]

_MOSTLY = 0.8
_OFTEN = 0.5
_PRESSED = 0.3
_FAULTS = 100.0  # pages read back each second by one process
_FAULT, _HOST = PROCESS.index("major_faults"), {name: at for at, name in enumerate(HOST)}


def crawls(watch: Watch) -> Iterator[str]:
    """Sentences: who waits for its loader, a file or memory in most of the looks."""
    for rank in watch.ranks:
        yield from _of(watch, rank, "for its loader", _at_loader, _MOSTLY)
        yield from _of(watch, rank, "for a disk or a file server", lambda seen: seen.state == "D", _OFTEN)
    yield from _memory(watch)


def _of(watch: Watch, one: Process, what: str, holds: Callable[[Seen], bool], share: float) -> Iterator[str]:
    seen = [look.seen[one.pid] for look in watch.looks if one.pid in look.seen]
    count = sum(map(holds, seen))
    if seen and count >= share * len(seen):
        about = next((item.wait.about for item in reversed(seen) if holds(item) and item.state == "D"), "")
        yield f"{called(one)} waits {what}{f' ({about})' if about else ''} in {count} of {len(seen)} looks"


def _at_loader(seen: Seen) -> bool:
    if seen.stack.frames:
        return seen.wait.call.name != "" and any("torch/utils/data/dataloader" in frame.file for frame in seen.stack.frames)
    return "loader worker" in seen.wait.about


def _memory(watch: Watch) -> Iterator[str]:
    first, last = watch.looks[0], watch.looks[-1]
    before = {row[0]: row[_FAULT] for row in first.tables["process"]}
    faults = sum(row[_FAULT] - before.get(row[0], row[_FAULT]) for row in last.tables["process"])
    rate = faults / max(last.now - first.now, 1.0)
    pressure = last.tables["host"][0][_HOST["pressure_memory"]]
    if rate > _FAULTS and pressure > _PRESSED:
        yield f"memory is short: {rate:.0f} pages a second are read back from disk or swap"
