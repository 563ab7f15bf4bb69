"""Looks at all processes of a job, half a second apart: states, processor time, stacks. Nothing is sent, stopped or written."""

from __future__ import annotations

import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from crashcart.flight import frames_of
from crashcart.live.clocks import Clocks, ran
from crashcart.live.ends import Ends
from crashcart.live.job import is_python
from crashcart.live.waits import Wait, communicates, in_gloo, wait_of
from crashcart.readers.standing import spied, spy
from crashcart.record import field, record
from crashcart.run.hangs import waits_for_others
from crashcart.run.outside.files import number_after, once
from crashcart.run.outside.gpu import Cards
from crashcart.run.outside.roles import LAUNCHER, LOADER, RANK, WRAPPER
from crashcart.run.outside.sampler import Sampler
from crashcart.run.stacks import Stack

if TYPE_CHECKING:
    from crashcart.live.job import Job
    from crashcart.run.outside.process import Process
    from crashcart.run.outside.processes import Tree

__all__ = ["Look", "Seen", "Watch"]

_MOST = 64  # processes whose stacks are taken at each look
_AT_ONCE = 4
_DRIVER = 3.0  # seconds that a card's driver may take to answer
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")


class Seen(NamedTuple):
    """One process at one look: times are of the process (``cpu``) and of its main thread (``ran``, ``turns``)."""

    state: str
    cpu: float
    bytes: float
    ran: float
    turns: int
    wait: Wait
    stack: Stack
    collective: bool


@record
class Look:
    """Everybody at one moment."""

    time: float
    now: float
    tables: dict[str, list[list[float]]] = field(default_factory=dict)
    seen: dict[int, Seen] = field(default_factory=dict)


class Watch:
    """A job while it is looked at."""

    def __init__(self, job: Job) -> None:
        self.tree = job.tree()
        _tell_ranks(self.tree)
        self.recorded = job.folder is not None  # then our own signals and threads wake its processes
        self.spies = spy() is not None
        self.refused = ""
        cards = Cards(patience=_DRIVER)
        self.cards = cards
        self.sampler = Sampler(self.tree, _folder(job.root), cards=cards)
        self.looks: list[Look] = []
        self.ends = Ends(self.tree.processes)
        self._pool = ThreadPoolExecutor(_AT_ONCE)

    @property
    def ranks(self) -> list[Process]:
        """The processes that train, by rank; what has only been taken for one does not count beside one that says it."""
        ranks = [one for one in self.tree.processes.values() if one.role == RANK]
        stated = [one for one in ranks if not one.assumed]
        return sorted(stated or ranks, key=lambda one: (one.rank or 0, one.pid))

    @property
    def watched(self) -> list[Process]:
        """Ranks, then workers; the launcher where there are none."""
        workers = [one for one in self.tree.processes.values() if one.role == LOADER]
        found = [*self.ranks, *workers][:_MOST]
        return found or [one for one in self.tree.processes.values() if one.role in {LAUNCHER, WRAPPER}][:1]

    def look(self) -> Look:
        """Look once."""
        sample = self.sampler.sample()
        self.ends = Ends(self.tree.processes)
        look = Look(time.time(), time.monotonic())
        look.tables = {
            "host": [sample.host], "cgroup": [sample.cgroup], "process": sample.processes, "gpu": sample.gpus,
        }  # fmt: skip
        watched = self.watched
        texts = self._pool.map(self._text, watched)
        for process, text in zip(watched, texts, strict=True):
            look.seen[process.pid] = self._seen(process, text)
        self.looks.append(look)
        return look

    def idle(self, pid: int) -> float:
        """Seconds for which the main thread of a process has not run, as the scheduler has it."""
        return Clocks().idle(pid)

    def close(self) -> None:
        """Give back what was opened."""
        self._pool.shutdown(wait=False)
        self.sampler.close()
        self.cards.close()
        self.tree.close()

    def _text(self, process: Process) -> str:
        if not self.spies:
            return ""
        text, why = spied(process.pid)
        if not text:  # it may have moved while it was read
            text, why = spied(process.pid)
        if why and not text:
            self.refused = why
        return text

    def _seen(self, process: Process, text: str) -> Seen:
        ran_for, turns = ran(process.pid)
        fields = process.fields
        role = f"rank {process.rank}" if process.role == RANK else process.role
        stack = Stack(process.pid, process.rank, role, "py-spy" if text else "/proc", frames_of(text), text)
        cpu = (int(fields[11]) + int(fields[12])) * _TICK
        wait = wait_of(process.pid, self.ends)
        collective = process.role == RANK and _in_collective(stack, wait)
        return Seen(fields[0].decode(), cpu, _bytes(process.pid), ran_for, turns, wait, stack, collective)


def _in_collective(stack: Stack, wait: Wait) -> bool:
    """By its stack; without one by what gloo's threads do."""
    return waits_for_others(stack) if stack.frames else wait.call.name in {"futex", ""} and in_gloo(stack.pid)


def _tell_ranks(tree: Tree) -> None:
    """``mp.spawn`` leaves no rank in the environment: whoever has threads for collectives is one, by the order of their births."""
    spawned = [one for one in tree.processes.values() if one.role == LOADER and is_python(one.pid) and communicates(one.pid)]
    for rank, one in enumerate(sorted(spawned, key=lambda one: one.start)):
        tree.tell_rank(one.pid, rank)


def _bytes(pid: int) -> float:
    """Read and written so far, pipes and page cache too."""
    try:
        text = once(f"/proc/{pid}/io", 256)
    except OSError:
        return math.nan
    return number_after(text, b"rchar:") + number_after(text, b"wchar:")


def _folder(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return "/"
