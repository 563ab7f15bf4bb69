"""Looks for hangs: decides when stacks are worth taking, and when what they show is worth an alarm.

A rank that waits for others in a collective may spin, so that its use of the processor proves nothing; what counts is whether the
rank that the others wait for still works. A job that the inside part did not reach is judged by its log and its processes alone.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from crashcart.readers.standing import at_prompt, call_of, source_line
from crashcart.run.hangs import FLOOR, START, Odd, Progress, apart, odd_one_out, place_of, same_places, waits_for_others
from crashcart.run.movement import Movement
from crashcart.run.outside.roles import RANK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crashcart.run.outside.process import Process
    from crashcart.run.pages import Page
    from crashcart.run.stacks import Stack
    from crashcart.run.supervisor import Supervisor

__all__ = ["Stalls", "floor_of"]

VARIABLE = "CRASHCART_HANG_SECONDS"  # for tests: the floor below which nothing is a hang
_COUNTED = ("steps", "train_batches", "eval_batches", "checkpoints")
_FRESH = 2.0  # seconds: somebody counted something just now
_MOST_TOLD = 8  # ranks whose places are written into the event


class Stalls:
    """The state of one job."""

    def __init__(self, job: Supervisor) -> None:
        self.job = job
        self.floor = floor_of()
        self.progress: dict[int, Progress] = {}
        self.movement = Movement(os.path.join(job.folder, "logs") if job.folder else None)
        self.hung: Odd | None = None
        self.said = False
        self._before: list[Stack] = []
        self._at_alarm: dict[int, tuple[float, ...]] = {}

    def look(self, rows: list[list[float]]) -> None:
        """Judge what was just seen."""
        now = time.monotonic()
        self.movement.note(rows, now)
        ranks = [page for page in self._ranks() if os.path.exists(f"/proc/{page.pid}")]
        for page in ranks:
            known = self.progress.setdefault(page.pid, Progress(now, self.floor))
            mark = page.get("last_progress")
            known.update(_counts(page), page.phase, now, mark if mark == mark else 0.0)  # noqa: PLR0124 - NaN
        if self.job.stopping.asked:
            return
        if ranks:
            self._look_inside(_trainers(ranks, self.progress), now)
        else:
            self._look_outside(now)

    def resumed(self) -> None:
        """The job was stopped by its user, and goes on: that time is none without progress."""
        now = time.monotonic()
        self._start_anew(now)
        self.movement.logged = now if self.movement.logged else 0.0

    def names(self) -> dict[int, tuple[str, int | None]]:
        """Role and rank of each process as the tree knows them."""
        return {process.pid: (process.role, process.rank) for process in self._tree.values()}

    @property
    def _tree(self) -> Mapping[int, Process]:
        return self.job.sampler.tree.processes if self.job.sampler is not None else {}

    def _ranks(self) -> list[Page]:
        """Pages of the processes that train: what a rank starts inherits its rank, but is none."""
        tree, trained = self._tree, set(self.job.pages.ranks)
        return [
            page
            for page in self.job.pages.pages.values()
            if page.numbers
            and page.whole("worker") is None
            and (tree[page.pid].role == RANK if page.pid in tree else page in trained)
        ]

    def _look_inside(self, ranks: list[Page], now: float) -> None:
        known = [self.progress[page.pid] for page in ranks]
        least = min(now - one.since for one in known)
        if least < _FRESH:
            self._before = []
            if self.said and self._counted(ranks):
                self._goes_on()
            return  # somebody still counts: a rank that is behind is a matter of speed
        suspicious = [page for page in ranks if self.progress[page.pid].suspicious(now)]
        if not suspicious:
            return
        if any(at_prompt(page.pid) for page in ranks):
            self._start_anew(now)
            return
        for page in suspicious:
            self.progress[page.pid].suspicions += 1
        stacks = self.job.watchers.take_stacks("suspicion")
        same = same_places(self._before, stacks)
        self._before = stacks
        if any(at_prompt(stack.pid, stack.frames) for stack in stacks):
            self._start_anew(now)
            return
        if self.said or not same:
            return
        odd = odd_one_out(
            stacks,
            {page.pid: _counts(page) for page in ranks},
            [page.pid for page in ranks if not self._moves(page.pid, now)],
        )
        mine = self._stack_of(odd, stacks)
        works = mine is not None and not waits_for_others(mine) and self._moves(mine.pid, now)
        if all(now - one.since > one.limit(moves=works) for one in known):
            self._alarm(odd, stacks, now, works=works)

    def _counted(self, ranks: list[Page]) -> bool:
        """Whether anything was done since the alarm: a rank that a time-out ends stirs, and does no more."""
        at_alarm, nothing = self._at_alarm, (0,) * len(_COUNTED)
        return not any(map(any, at_alarm.values())) or any(
            _counts(page) != at_alarm.get(page.pid, nothing) for page in ranks
        )

    def _start_anew(self, now: float) -> None:
        """The time for which a job waits for its user is no time without progress."""
        self._before = []
        for one in self.progress.values():
            one.since, one.suspicions = now, 0

    def _moves(self, pid: int, now: float) -> bool:
        since = self.progress[pid].since if pid in self.progress else now
        return self.movement.moves(Movement.family(pid, self._tree), since, now)

    def _look_outside(self, now: float) -> None:
        """Nobody of the job was reached: it hangs if it wrote before, and for long has neither written nor done anything."""
        if self.said:
            if now - self.movement.logged < _FRESH and self._counted([]):  # last words of ranks that hung are no progress
                self._goes_on()
            return
        python = [process for process in self._tree.values() if process.role == RANK]
        quiet = now - self.movement.logged
        if not python or quiet < START * self.floor or not self.movement.logged:
            return
        if self.movement.moves(self._tree, self.movement.logged, now) or any(at_prompt(pid) for pid in self._tree):
            return
        stacks = self.job.watchers.take_stacks("silence")
        call = call_of(python[0].pid)
        where = f"{call.name} {call.file}".strip() or "an unknown place"
        why = "nothing was written, and no process of the job does anything"
        self.progress[python[0].pid] = Progress(self.movement.logged, self.floor)
        self._alarm(Odd(python[0].rank, python[0].pid, where, why), stacks, now, works=False)

    def _alarm(self, odd: Odd | None, stacks: list[Stack], now: float, *, works: bool) -> None:
        self.said, self.hung = True, odd
        self._at_alarm = {page.pid: _counts(page) for page in self._ranks()}
        pages = [page for page in self.job.pages.pages.values() if page.pid in self.progress]
        page = next((page for page in pages if odd is None or page.pid == odd.pid), None)
        seconds = max((now - one.since for one in self.progress.values() if one.begun), default=0.0)
        if odd is not None and not seconds:
            seconds = now - self.progress[odd.pid].since
        phase = page.phase if page is not None else "unknown"
        details: dict[str, Any] = {"seconds": round(seconds, 1), "phase": phase, "since": time.time() - seconds}
        if odd is not None:
            details |= {"rank": odd.rank, "pid": odd.pid, "where": odd.where, "why": odd.why, "works": works}
            mine, call = self._stack_of(odd, stacks), call_of(odd.pid)
            details |= {"line": source_line(place_of(mine)) if mine else "", "call": call.name, "file": call.file}
        waiting = [stack.rank for stack in stacks if stack.role.startswith("rank") and waits_for_others(stack)]
        self.job.writer.event(
            "hang", **details, waiting=waiting[:_MOST_TOLD], channel=call_of(odd.pid).channel if odd else ""
        )
        split = apart(stacks) if odd is None else ""
        nobody = f"the ranks wait in different collectives: {split}" if split else "all ranks wait, and no rank stands out"
        who = f"{_name(odd)} at {odd.where}; {odd.why}" if odd is not None else nobody
        self.job.say(f"no progress for {seconds:.0f} s in the phase {phase}: {who}. Stacks are in the run folder.")
        self.job.notifier.tell("hang", details)
        self.job.hangs()

    def _goes_on(self) -> None:
        self.said, self.hung = False, None
        self.job.writer.event("goes-on")
        self.job.say("the job makes progress again.")
        self.job.notifier.tell("resume", {})

    @staticmethod
    def _stack_of(odd: Odd | None, stacks: list[Stack]) -> Stack | None:
        return next((stack for stack in stacks if odd is not None and stack.pid == odd.pid), None)


def _name(odd: Odd) -> str:
    return "all ranks stand" if odd.rank is None else f"rank {odd.rank} stands"


def _counts(page: Page) -> tuple[float, ...]:
    return tuple(page.whole(name) or 0 for name in _COUNTED)


def _trainers(ranks: list[Page], progress: dict[int, Progress]) -> list[Page]:
    """Once training has begun, a Python program beside it that neither trains nor has a rank does not count."""
    begun = [page for page in ranks if progress[page.pid].begun]
    return [page for page in ranks if page in begun or page.whole("rank") is not None] if begun else ranks


def floor_of() -> float:
    """Seconds without progress that are no hang."""
    text = os.environ.get(VARIABLE, "")
    try:
        return max(1.0, float(text)) if text else FLOOR
    except ValueError:
        return FLOOR
