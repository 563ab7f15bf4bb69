"""What whoever killed a process of the job wrote about it: SIGKILL carries no sender, but a guard mostly keeps a log.

    agent: killed 3530 (pt_data_worker), anon-rss 426 MB
    2026-11-19 17:36:00 WARNING kill -9 3530: memory 431 of 420 MB

Looked for in the output of the job, and in small text files of its folder that were written from then on: a line with the number of the
process and a word for killing. What Python, the shell or a launcher say of a process that somebody else killed is no such note.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crashcart.deaths import deaths, first
from crashcart.errors import CommandError
from crashcart.flight import Pid, program_of
from crashcart.log import evidence
from crashcart.model import Evidence, Fact
from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.readers.job.script_files import text_of
from crashcart.readers.own_reports import written_between
from crashcart.regular_files import read_end
from crashcart.stages import programs_beside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case

__all__ = ["GUARD_STARTED", "KILL_NOTE", "SCRIPT_KILLS", "guards_started", "kill_notes"]

KILL_NOTE = "kill.note"
SCRIPT_KILLS = "launch.kills"
GUARD_STARTED = "launch.service"
_BEFORE_SECONDS, _AFTER_SECONDS = 2.0, 5.0
_END_BYTES = 1 << 16
_MOST_FILES, _MOST_DEATHS, _LONGEST_LINE = 40, 4, 500
_KILLS = Pattern(r"(?i)\bkill(?:s|ed|ing)?\b|\bSIGKILL\b|\bterminat(?:e|es|ed|ing)\b")
# Wrappers that end nothing; ``timeout`` does.
_HARMLESS = frozenset(
    {"nohup", "env", "nice", "ionice", "taskset", "numactl", "stdbuf", "script", "time", "conda", "uv", "poetry"}
)
_WORKER = Pattern(r"worker \(pid(?:\(s\))? (\d{1,20})")
_SCRIPT_KILLS = Pattern(r"(?:^|[\s;|&(])(?:kill|pkill|killall)\s+(?:-s\s+)?-?(?:9|KILL|SIGKILL|15|TERM|SIGTERM)\b")
_READS_MEMORY = Pattern(r"(?i)\brss\b|vmrss|\bsmem\b|\bpmap\b|memavailable|\bfree -")
_SENT = frozenset({"SIGKILL", "SIGTERM"})
_PROCESSES = Pattern(r"(?i)\b(?:pid|process)\b[^\w\n]{0,4}(\d{1,20})\b")
_NUMBERS = Pattern(r"(?<![\d.])\d{1,20}(?![\d.]\d)")
_OF_MEMORY = Pattern(r"(?i)\b(?:rss|pss|uss|vms|mem|memory|oom|ram)\b|\d ?(?:[KMGT]i?B|[MG])\b")
# A parent that found it dead.
_HEARD = Pattern(
    r"(?i)killed by signal|exited unexpectedly|exit ?code|received by pid|line \d{1,9}: {1,20}\d{1,20} Killed|^[\s\[]{0,10}\d[\s\d\]+-]{0,30}Killed\b"
)


def kill_notes(case: Case) -> list[Fact]:
    """A note of a kill for each process that ended so first: its number, the words, whether they speak of memory."""
    flight = case.flight
    killed = _killed(case)
    if flight is None or not killed:
        return []
    times = [time for time, _ in killed]
    ended = flight.ending.get("time")
    last = ended if isinstance(ended, (int, float)) else max(times)
    texts = [*_files(str(flight.facts.get("folder") or ""), min(times) - _BEFORE_SECONDS, last + _AFTER_SECONDS)]
    found: list[Fact] = []
    for _, process in killed[:_MOST_DEATHS]:
        pid = process.number if isinstance(process, Pid) else process
        for place in [*_printed(case, pid), *_written(texts, pid)][:1]:
            value = {"pid": process, "of_memory": _OF_MEMORY.search(place.quote) is not None}
            found.append(Fact(KILL_NOTE, value, place, "file"))
    return found


def _killed(case: Case) -> list[tuple[float, int]]:
    """The processes that a signal ended, with the time; also workers of a loader that only their rank speaks of, since they died too early."""
    known = {death.process.pid: death.time for death in deaths(case) if death.signal in _SENT}
    leader = first(case)
    if leader is not None and leader.raised is not None:
        said = (
            str(leader.raised.details.get("message", "")),
            *(str(one) for one in leader.raised.details.get("because") or ()),
        )
        for match in (match for text in said for match in _WORKER.finditer(text)):
            known.setdefault(to_int(match[1], 0), leader.time)
    return sorted((time, pid) for pid, time in known.items())


def guards_started(case: Case, scripts: Sequence[str]) -> list[Fact]:
    """The lines of the launch scripts that start what runs beside the training or around it: which of it kills is not known."""
    flight = case.flight
    services = programs_beside(flight) if flight is not None else []
    around = flight.stage.wrappers if flight is not None and flight.stage is not None else []
    services += [
        name for pid in around if flight is not None and (name := program_of(flight.processes[pid].command)) not in _HARMLESS
    ]
    found: list[Fact] = []
    for path in scripts:
        try:
            lines = text_of(path).splitlines()
        except (CommandError, OSError):
            continue
        of_memory = any(_READS_MEMORY.search(text) for text in lines)
        for number, text in enumerate(lines, 1):
            words = text.partition("#")[0].split()
            if _SCRIPT_KILLS.search(" ".join(words)):
                place = Evidence("config", text.strip(), f"{path}:{number}")
                found.append(Fact(SCRIPT_KILLS, {"script": os.path.basename(path), "of_memory": of_memory}, place, "file"))
            started = {word.rpartition("/")[2] for word in words}.intersection(services)
            place = Evidence("config", text.strip(), f"{path}:{number}")
            found += [Fact(GUARD_STARTED, name, place, "file") for name in sorted(started)]
    return found


def _is_note(text: str, pid: int) -> bool:
    return _names(text, pid) and _KILLS.search(text) is not None


def _names(text: str, pid: int) -> bool:
    return any(match[0] == str(pid) for match in _NUMBERS.finditer(text)) and _HEARD.search(text) is None


def _printed(case: Case, pid: int) -> Iterator[Evidence]:
    for line in case.log.index.saying((str(pid),)):
        if _OF_MEMORY.search(line.text) is not None and _is_note(line.text[:_LONGEST_LINE], pid):
            yield evidence(line)


def _files(folder: str, first: float, last: float) -> Iterator[tuple[str, list[str]]]:
    """The last lines of text files."""
    if not os.path.isdir(folder):
        return
    for path, _ in zip(written_between(folder, first, last), range(_MOST_FILES), strict=False):
        try:
            data, size = read_end(path, _END_BYTES)
        except OSError:
            continue
        if b"\0" not in data and size <= _END_BYTES:
            yield path, data.decode("utf-8", "replace").splitlines()


def _written(texts: list[tuple[str, list[str]]], pid: int) -> Iterator[Evidence]:
    for path, lines in texts:
        naming = [
            (number, text[:_LONGEST_LINE]) for number, text in enumerate(lines, 1) if _names(text[:_LONGEST_LINE], pid)
        ]
        for number, text in naming:
            # Who writes of a process and its memory once, when it ends, ended it; who only watches writes again and again.
            is_told = (
                len(naming) == 1
                and _OF_MEMORY.search(text) is not None
                and any(match[1] == str(pid) for match in _PROCESSES.finditer(text))
            )
            if is_told or _KILLS.search(text) is not None:
                yield Evidence("process", text.strip(), f"{path}:{number}")
