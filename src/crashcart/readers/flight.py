"""Reads the folder of a run into a ``Flight``: also while it is being written, and when it was damaged or cut short."""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import zlib
from typing import Any

from crashcart.deaths import CHILD
from crashcart.documents import json_weight, load_json
from crashcart.flight import Event, Flight, Process, StackDump, Stood, frames_of, program_of
from crashcart.inside.layout import FIELDS, PHASES
from crashcart.numbers import to_count, to_float, to_int
from crashcart.readers import sound
from crashcart.recording.files import listed, opened, read_json
from crashcart.recording.frames import frames, header_of, unpack_sample
from crashcart.recording.meeting import lives
from crashcart.regular_files import bounded_lines
from crashcart.stages import set_stages

__all__ = ["bare_flight", "read_flight"]

_LONGEST_LINE = 1 << 16
_MOST_EVENTS = 50_000
_LONGEST_KIND = 60
_LATEST = 1e11  # seconds; no clock is that late
_MOST_STACKS = 8
_LARGEST_FILE = 32 << 20
_LARGEST_SAMPLE = 2 << 20
_LARGEST_STACKS = 8 << 20
# What the numbers of all samples and the events may take: 50 bytes a number, and as json_weight estimates it.
_MOST_CELLS, _LEAST_CELLS = 1_200_000, 30_000
_CELL_BYTES = 8  # in a file
_MOST_WEIGHT, _LEAST_WEIGHT = 48 << 20, 1 << 20
_OWN = frozenset({"t", "m", "kind", "pid", "rank"})


def read_flight(folder: str, share: int = 1) -> Flight:
    """Everything that was recorded, as far as it fits into memory; ``share`` is how many such recordings are kept at once."""
    flight = bare_flight(folder)
    _read_samples(flight, folder, max(_LEAST_CELLS, _MOST_CELLS // share))
    events = _Events(flight, max(_LEAST_WEIGHT, _MOST_WEIGHT // share))
    events.read(folder, "recording", "events.jsonl")
    live = flight.facts.get("live")
    if isinstance(live, str) and not flight.ending and _is_live(live, folder):
        events.read_inside(live)  # still there: the supervisor was killed, or the job runs
    else:
        events.read_inside(folder, "recording", "inside")
    flight.events.sort(key=lambda event: event.time)
    _name_processes(flight)
    _read_pages(flight)
    set_stages(flight)
    _name_children(flight)
    _read_stacks(flight, folder)
    if listed(folder, "nccl"):
        from crashcart.readers.nccl import read_dumps

        flight.collectives = read_dumps(os.path.join(folder, "nccl"))
    return flight


def bare_flight(folder: str) -> Flight:
    """How a run was started and how it ended, without its recording."""
    flight = Flight(
        name=os.path.basename(os.path.abspath(folder)),
        facts=sound.facts(read_json(os.path.join(folder, "run.json"))),
        ending=sound.ending(read_json(os.path.join(folder, "exit.json"))),
    )
    flight.alive = not flight.ending and lives(folder, flight.facts)
    return flight


def _is_live(live: str, folder: str) -> bool:
    """Whether a folder is one that ``run`` made for the job of this run, and not any folder that a run.json names."""
    try:
        status, owner = os.lstat(live), os.stat(folder).st_uid
    except (OSError, ValueError):
        return False
    ours = status.st_uid in {owner, os.geteuid()}  # a file server may call the owner by another number
    return stat.S_ISDIR(status.st_mode) and ours and os.path.basename(live).startswith("crashcart-")


def _read_samples(flight: Flight, folder: str, most_cells: int) -> None:
    names = [name for name in listed(folder, "recording") if name.startswith("samples-") and not name.endswith(".new")]
    packed: list[tuple[list[str], bytes]] = []
    size = 0
    for name in sorted(names, key=lambda one: to_int(one.removesuffix(".z").rpartition("-")[2], 0)):
        order: list[str] = []
        for kind, payload in frames(_data(folder, name)):
            if kind == b"H":
                order = _read_header(flight, payload)
            elif kind == b"S" and order and len(payload) <= _LARGEST_SAMPLE:
                packed.append((order, payload))
                size += len(payload)
            if size > most_cells * _CELL_BYTES:
                size -= _thin(packed)
    for order, payload in packed:
        with contextlib.suppress(ValueError, struct.error):  # whole by its checksum, and yet no sample
            sample = unpack_sample(payload, order)
            tables = {table: _whole_rows(flight, table, rows) for table, rows in sample.tables.items()}
            if 0 <= sample.time < _LATEST:
                flight.samples.append((sample.time, tables))
    flight.samples.sort(key=lambda sample: sample[0])


def _read_header(flight: Flight, payload: bytes) -> list[str]:
    try:
        columns = header_of(payload)
    except ValueError:
        return []
    flight.columns |= {table: list(map(str, names)) for table, names in columns.items() if isinstance(names, list)}
    return list(columns)


def _thin(packed: list[tuple[list[str], bytes]]) -> int:
    """Leave out every second sample but for the newest quarter; how many bytes that were."""
    older = len(packed) * 3 // 4
    dropped = sum(len(payload) for _, payload in packed[1:older:2])
    packed[:] = [*packed[:older:2], *packed[older:]]
    return dropped


def _whole_rows(flight: Flight, table: str, rows: list[list[float]]) -> list[list[float]]:
    """Rows that have all of their columns, with numbers that can be calculated with."""
    columns = flight.columns.get(table, [])
    return [sound.row(columns, row) for row in rows if len(row) == len(columns)]


def _data(folder: str, name: str) -> bytes:
    try:
        with opened(folder, "recording", name) as file:
            data = file.read(_LARGEST_FILE) or b""
        if name.endswith(".z"):
            return zlib.decompressobj().decompress(data, _LARGEST_FILE)
    except (OSError, zlib.error):
        return b""
    return data


class _Events:
    """Reads events into a flight, until they would take more memory than there is for them."""

    def __init__(self, flight: Flight, most_weight: int) -> None:
        self._flight = flight
        self._left = most_weight

    def read(self, folder: str, *names: str, pid: int | None = None) -> None:
        try:
            file = opened(folder, *names)
        except OSError:
            return
        with file:
            for line in bounded_lines(file, _LONGEST_LINE, _LARGEST_FILE):
                self._left -= json_weight(line)
                if len(self._flight.events) >= _MOST_EVENTS or self._left < 0:
                    return
                event = _event(line, pid)
                if event is not None:
                    self._flight.events.append(event)

    def read_inside(self, folder: str, *names: str) -> None:
        for name in listed(folder, *names):
            pid = to_count(name.split("-", 1)[0])
            if name.endswith(".events") and pid is not None:
                self.read(folder, *names, name, pid=pid)


def _event(line: bytes, pid: int | None) -> Event | None:
    try:
        told: Any = load_json(line)
    except ValueError:
        return None
    if not isinstance(told, dict):
        return None
    time, kind = sound.finite(told.get("t")), told.get("kind")
    if time is None or not 0 <= time < _LATEST or not isinstance(kind, str):
        return None
    details = sound.event_details({name: value for name, value in told.items() if name not in _OWN})
    rank = sound.place(told.get("rank"))
    if pid is None:  # the supervisor speaks of others
        spoken = {"pid": sound.place(told.get("pid")), "rank": rank}
        details |= {name: value for name, value in spoken.items() if value is not None}
    return Event(float(time), kind[:_LONGEST_KIND], details, pid, rank)


def _name_processes(flight: Flight) -> None:
    for event in flight.events:
        details = event.details
        if event.kind == "process" and isinstance(details.get("pid"), int):
            one = flight.processes.setdefault(details["pid"], Process(details["pid"], born=event.time))
            one.role, one.command = str(details.get("role", one.role)), str(details.get("command", ""))
            one.rank, one.parent = details.get("rank", None if one.role == "launcher" else one.rank), details.get("parent")
            one.copy = details.get("copy") is True
        elif event.kind == "ended" and details.get("pid") in flight.processes:
            flight.processes[details["pid"]].ended = event.time
        elif event.kind == "hello" and event.pid is not None:
            one = flight.processes.setdefault(event.pid, Process(event.pid, born=event.time))
            one.reached = True
            if details.get("how") == "fork":
                one.copy = True
            elif not one.command and isinstance(details.get("argv"), list):  # it ended before anybody could look
                one.command = " ".join(["python", *details["argv"]])
            if one.parent is None and isinstance(details.get("parent"), int):
                one.parent = details["parent"]
            if event.rank is not None and one.rank is None:
                one.rank = event.rank
    _end_unseen(flight)
    _undo_titles(flight)
    root = flight.processes.get(flight.facts.get("job", 0))
    if root is not None and root.reached and root.role == "other" and not flight.ranks:  # it ended before anybody could look
        root.role, root.rank = "program", 0
    told = any(event.details.get("pid") == root.pid for event in flight.of_kind("gone")) if root is not None else True
    if root is not None and not told and flight.ending:  # the keeper knows how it ended
        ending = flight.ending
        root.ended = to_float(ending.get("time")) or root.born
        details = {"pid": root.pid, "code": ending.get("code"), "signal": ending.get("signal")}
        flight.events.append(Event(root.ended, "gone", details))
    # What a process says about itself carries the rank that its page or the tree knows.
    flight.events = [
        Event(event.time, event.kind, event.details, event.pid, flight.processes[event.pid].rank)
        if event.pid in flight.processes and event.rank is None and event.pid is not None
        else event
        for event in flight.events
    ]


def _undo_titles(flight: Flight) -> None:
    """A process that writes over its command line (``setproctitle``) is called by the script that it says it runs."""
    for event in flight.of_kind("hello"):
        process, arguments = flight.processes.get(event.pid or 0), event.details.get("argv")
        if process is None or event.details.get("how") == "fork" or not isinstance(arguments, list) or not arguments:
            continue
        script = os.path.basename(str(arguments[0]))
        if script.endswith(".py") and script != program_of(process.command):
            process.command = " ".join(["python", *map(str, arguments)])


def _end_unseen(flight: Flight) -> None:
    """Of a process that lived for less than a second only itself has told that it ended."""
    seen = {event.details.get("pid") for event in flight.of_kind("process")}
    for event in flight.of_kind("exit"):
        if event.pid is not None and event.pid in flight.processes and event.pid not in seen:
            flight.processes[event.pid].ended = event.time


def _read_pages(flight: Flight) -> None:
    columns = flight.columns.get("page", list(FIELDS))
    if "pid" not in columns:
        return
    at = columns.index("pid")
    for _, tables in flight.samples:
        for row in tables.get("page", ()):
            pid = sound.place(row[at])
            if pid is not None:
                one = flight.processes.setdefault(pid, Process(pid))
                one.page = sound.page_numbers(dict(zip(columns, row, strict=False)))
                one.reached = True
    for one in flight.processes.values():
        phase = to_int(one.page.get("phase"), -1)
        if 0 <= phase < len(PHASES):
            one.phase = PHASES[phase]
        if one.rank is None:
            one.rank = to_int(one.page.get("rank"))


def _name_children(flight: Flight) -> None:
    """Processes that the program started for work of its own: what a loader's worker raises never gets to its own hook."""
    for event in flight.of_kind("exception"):
        one = flight.processes.get(event.pid or 0)
        if one is not None and one.role in {"loader worker", "other"} and event.details.get("thread") == "MainThread":
            one.role = CHILD
            above = flight.processes.get(one.parent or 0)
            one.rank = one.rank if one.rank is not None or above is None else above.rank


def _read_stacks(flight: Flight, folder: str) -> None:
    ranks = flight.ranks
    taken = [event for event in flight.of_kind("stacks") if isinstance(event.details.get("folder"), str)]
    chosen = _worth_reading(taken, [hang.time for hang in flight.of_kind("hang")])
    for event in chosen:
        inner = os.path.basename(event.details["folder"])
        stood = []
        left = _LARGEST_STACKS // len(chosen)
        with contextlib.suppress(OSError):
            for name in listed(folder, "stacks", inner):
                with opened(folder, "stacks", inner, name) as file:
                    text = (file.read(min(left, 1 << 20)) or b"").decode("utf-8", "replace")
                left -= len(text)
                pid = to_count(name.removesuffix(".txt").rpartition("-")[2], 0)
                process = flight.processes.get(pid, Process(pid))
                role = "rank" if process in ranks else process.role
                stood.append(Stood(pid, role, process.rank, frames_of(text), text))
        flight.stacks.append(StackDump(event.time, str(event.details.get("reason", "")), tuple(stood)))


def _worth_reading(taken: list[Event], hangs: list[float]) -> list[Event]:
    """The last stacks of all, and those that were taken when a hang was told: a long hang has many after that."""
    told = [next((event for event in reversed(taken) if event.time <= hang + 1), None) for hang in hangs[-_MOST_STACKS:]]
    return [event for event in taken if event in told or event in taken[-_MOST_STACKS:]]
