"""Looks at all processes of a job, half a second apart: states, processor time, stacks. Nothing is stopped.

Processes that have our hooks are asked for their stacks by the signal that they registered, every few seconds; of the others py-spy
reads them where it is installed, without a signal and without a pause.
"""

from __future__ import annotations

import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from crashcart.flight import frames_of
from crashcart.inside.layout import FOLDER
from crashcart.live.clocks import Clocks, ran
from crashcart.live.job import entry, is_python
from crashcart.numbers import to_int
from crashcart.readers.standing import spied, spy
from crashcart.record import field, record
from crashcart.run.hangs import waits_for_others
from crashcart.run.outside.ends import Ends
from crashcart.run.outside.files import number_after, once
from crashcart.run.outside.gpu import Cards
from crashcart.run.outside.roles import LAUNCHER, LOADER, RANK, WRAPPER
from crashcart.run.outside.sampler import Sampler
from crashcart.run.outside.waits import Wait, communicates, in_gloo, wait_of
from crashcart.run.pages import Page
from crashcart.run.stacks import Stack, take

if TYPE_CHECKING:
    from crashcart.live.job import Job
    from crashcart.run.outside.process import Process
    from crashcart.run.outside.processes import Tree

__all__ = ["Look", "Seen", "Watch"]

_MOST = 64  # processes whose stacks are taken at each look
_AT_ONCE = 4
_DRIVER = 3.0  # seconds that a card's driver may take to answer
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_ASK_EVERY = 2.0  # seconds between two signals to a process that answers them


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
        self._answers: dict[int, str] = {}
        self._asked = -math.inf

    @property
    def ranks(self) -> list[Process]:
        """The processes that train, by rank; what has only been taken for one does not count beside one that says it."""
        ranks = [process for process in self.tree.processes.values() if process.role == RANK]
        stated = [rank for rank in ranks if not rank.assumed]
        return sorted(stated or ranks, key=lambda one: (one.rank or 0, one.pid))

    @property
    def watched(self) -> list[Process]:
        """Ranks, then workers; the launcher where there are none."""
        workers = [process for process in self.tree.processes.values() if process.role == LOADER]
        found = [*self.ranks, *workers][:_MOST]
        return found or [process for process in self.tree.processes.values() if process.role in {LAUNCHER, WRAPPER}][:1]

    def look(self) -> Look:
        """Look once."""
        sample = self.sampler.sample()
        self.ends = Ends(self.tree.processes)
        look = Look(time.time(), time.monotonic())
        look.tables = {
            "host": [sample.host], "cgroup": [sample.cgroup], "process": sample.processes, "gpu": sample.gpus,
        }  # fmt: skip
        watched = self.watched
        self._ask(watched)
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

    @property
    def answered(self) -> bool:
        """Whether every process that is watched gave its own stacks."""
        return all(one.pid in self._answers for one in self.watched)

    def _ask(self, watched: list[Process]) -> None:
        """Have the processes with our hooks write down their stacks."""
        if time.monotonic() - self._asked < _ASK_EVERY:
            return
        self._asked = time.monotonic()
        pages = [page for process in watched if (page := _page_of(process)) is not None]
        try:
            self._answers = {one.pid: one.text for one in take(pages, else_spy=False) if one.frames}
        finally:
            for page in pages:
                page.close()

    def _text(self, process: Process) -> str:
        if process.pid in self._answers:
            return self._answers[process.pid]
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
        cpu = (to_int(fields[11], 0) + to_int(fields[12], 0)) * _TICK
        wait = wait_of(process.pid, self.ends)
        collective = process.role == RANK and _in_collective(stack, wait)
        return Seen(fields[0].decode(), cpu, _bytes(process.pid), ran_for, turns, wait, stack, collective)


def _page_of(process: Process) -> Page | None:
    """The page that a process keeps about itself, if it has one."""
    folder = (entry(process.pid, FOLDER) or "").partition("=")[2]
    if not folder:
        return None
    try:
        page = Page(os.path.join(folder, f"{process.name}.page"))
    except (OSError, ValueError):
        return None
    page.look()
    return page


def _in_collective(stack: Stack, wait: Wait) -> bool:
    """By its stack; without one by what gloo's threads do."""
    return waits_for_others(stack) if stack.frames else wait.call.name in {"futex", ""} and in_gloo(stack.pid)


def _tell_ranks(tree: Tree) -> None:
    """``mp.spawn`` leaves no rank in the environment: whoever has threads for collectives is one, by the order of their births."""
    spawned = [
        process
        for process in tree.processes.values()
        if process.role == LOADER and is_python(process.pid) and communicates(process.pid)
    ]
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
