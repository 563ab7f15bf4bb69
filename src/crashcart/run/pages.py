"""What the processes of the job write about themselves: their pages of numbers, and their events.

Both lie in memory while the job runs; here the pages become rows of the recording, and the events are copied out as they come,
so that they are kept even if nobody is left to copy them later.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from math import isnan
from typing import TYPE_CHECKING, Any

from crashcart.inside.layout import FIELDS, PHASES, SIZE
from crashcart.redact import clean_all

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Page", "Pages", "clean_event", "phase_name"]

_NUMBERS = struct.Struct(f"={len(FIELDS)}d")
_AT = {name: place for place, name in enumerate(FIELDS)}
_TRIES = 4
_EVERY = 10  # looks between two rows of a process that is no rank
_MOST_AT_ONCE = 1 << 20
_LONGEST = 1 << 16


class Page:
    """One process's numbers as they were at the last look."""

    def __init__(self, path: str) -> None:
        self.name = os.path.basename(path)[: -len(".page")]
        self.pid = int(self.name.split("-", 1)[0])
        self.folder = os.path.dirname(path)
        self.numbers: tuple[float, ...] = ()
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._copied = 0

    def look(self) -> None:
        """Read the numbers; they lie in memory until the run is over, also those of a process that is gone.

        Read again until they stand still, so that no number is from before and its neighbour from after a change.
        """
        with contextlib.suppress(OSError):
            data = os.pread(self._file, SIZE, 0)
            for _ in range(_TRIES):
                before, data = data, os.pread(self._file, SIZE, 0)
                if before == data:
                    break
            if len(data) >= _NUMBERS.size:
                self.numbers = _NUMBERS.unpack_from(data)

    def get(self, field: str) -> float:
        """One number; NaN where it is not known."""
        return self.numbers[_AT[field]] if self.numbers else float("nan")

    def whole(self, field: str) -> int | None:
        """A number that is a count, or nothing."""
        value = self.get(field)
        return int(value) if not isnan(value) else None

    @property
    def phase(self) -> str:
        """What the process says that it is doing."""
        return phase_name(self.get("phase"))

    @property
    def trained(self) -> bool:
        """Whether the process has taken optimizer steps or batches for them, and is no loader's worker."""
        return self.whole("worker") is None and bool(self.whole("steps") or self.whole("train_batches"))

    @property
    def trains(self) -> bool:
        """Whether the process has trained, or is one of several ranks: a lone ``RANK`` may be the user's shell's."""
        several = self.whole("worker") is None and self.whole("rank") is not None and (self.whole("world_size") or 1) > 1
        return several or self.trained

    def new_events(self, kept: str) -> Iterator[dict[str, Any]]:
        """Events since the last look, copied into the folder ``kept``; more than fit into memory at once come in pieces."""
        try:
            with open(os.path.join(self.folder, self.name + ".events"), "rb") as file:
                file.seek(self._copied)
                data = file.read(_MOST_AT_ONCE)
        except OSError:
            return
        data = data[: data.rfind(b"\n") + 1]
        if not data:
            return
        self._copied += len(data)
        events = [event for line in data.split(b"\n") if (event := clean_event(line)) is not None]
        with contextlib.suppress(OSError), open(os.path.join(kept, self.name + ".events"), "ab") as file:
            file.write(b"".join(json.dumps(event).encode() + b"\n" for event in events))
        for event in events:
            yield {**event, "pid": self.pid, "rank": self.whole("rank")}

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


class Pages:
    """All pages of a job."""

    def __init__(self, live: str, kept: str) -> None:
        self.live = live
        self.kept = kept
        self.pages: dict[str, Page] = {}
        self._looks = 0
        with contextlib.suppress(OSError):
            os.makedirs(kept, mode=0o700, exist_ok=True)

    def look(self, *, last: bool = False) -> tuple[list[list[float]], list[dict[str, Any]]]:
        """Rows for the recording and new events; the ``last`` look leaves nothing behind, since the pages go after it.

        Of a process that does not train a row every ten looks is enough, but one that lived for less must have its row too.
        """
        self._find()
        self._looks += 1
        now = last or self._looks % _EVERY == 0
        rows: list[list[float]] = []
        events: list[dict[str, Any]] = []
        for page in self.pages.values():
            page.look()
            if page.numbers and (page.trains or now):
                rows.append(list(page.numbers))
            new = list(page.new_events(self.kept))
            events += new
            while last and new:
                new = list(page.new_events(self.kept))
                events += new
        return rows, events

    @property
    def ranks(self) -> list[Page]:
        """Pages of processes that train: they belong to a rank or made steps, and are no loader's worker."""
        return [page for page in self.pages.values() if page.trains]

    def _find(self) -> None:
        try:
            names = os.listdir(self.live)
        except OSError:
            return
        for name in names:
            if name.endswith(".page") and name not in self.pages:
                with contextlib.suppress(OSError, ValueError):
                    self.pages[name] = Page(os.path.join(self.live, name))


def clean_event(line: bytes) -> dict[str, Any] | None:
    """One event without its secrets: messages of exceptions are the program's own words."""
    if not line or len(line) > _LONGEST:
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return clean_all(event) if isinstance(event, dict) else None


def phase_name(number: float) -> str:
    """The name of a phase by its number in the page."""
    return PHASES[int(number)] if not isnan(number) and 0 <= int(number) < len(PHASES) else "unknown"
