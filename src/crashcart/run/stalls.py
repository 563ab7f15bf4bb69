"""Looks for hangs: decides when stacks are worth taking, and when what they show is worth an alarm.

A hang that is proven is announced early: nothing of the job has moved, the stacks stayed the same, and every thread waits for
another one of the job, or for a tracker that does not answer (``waiting.py``). Then nothing is done to the job unless what it
waits for has died; ``--on-hang`` acts after the longer limit, as for hangs without a proof.

A rank that waits for others in a collective may spin, so that its use of the processor proves nothing; what counts is whether the
rank that the others wait for still works. A job that the inside part did not reach is judged by its log and its processes alone.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from crashcart.flight import during
from crashcart.numbers import to_float
from crashcart.readers.standing import at_prompt, call_of, source_line
from crashcart.recording.tables import GPU
from crashcart.run.hangs import (
    FLOOR,
    QUIET,
    QUIET_LEAST,
    START,
    Odd,
    Progress,
    apart,
    odd_one_out,
    place_of,
    same_places,
    waits_for_others,
)
from crashcart.run.movement import Movement, Stillness
from crashcart.run.outside.ends import Ends
from crashcart.run.outside.roles import COMPILE, LAUNCHER, RANK, SHELL, TRACKER
from crashcart.run.suspending import process_state
from crashcart.run.waiting import CLOSED, OPEN, STOPPED, find_deadlock, may_go_on, wait_of_process

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from crashcart.run.outside.process import Process
    from crashcart.run.pages import Page
    from crashcart.run.stacks import Stack
    from crashcart.run.supervisor import Supervisor
    from crashcart.run.waiting import Deadlock, ProcessWait

__all__ = ["Stalls", "floor_of"]

VARIABLE = "CRASHCART_HANG_SECONDS"  # what --hang-seconds sets: the floor below which nothing is a hang without a proof
_COUNTED = ("steps", "train_batches", "eval_batches", "checkpoints")
_FRESH = 2.0  # seconds: somebody counted something just now
_MOST_TOLD = 8  # ranks whose places are written into the event
_TOGETHER = 60.0  # seconds within which the ranks of a group are started
_INDEX, _BUSY = GPU.index("index"), GPU.index("busy")
_AGAIN = 3.0  # seconds between the first tries to prove a hang; then each interval is half as long again, up to the floor
_QUICK_TRIES = 4
_ABSENT = 10.0  # seconds between two looks: we were stopped ourselves, or the machine was
_SERVES = frozenset({LAUNCHER, SHELL, TRACKER, COMPILE})  # they wait for what the others do


class Stalls:
    """The state of one job."""

    def __init__(self, job: Supervisor) -> None:
        self.job = job
        asked = job.options.hang_seconds
        self.floor = max(1.0, asked) if asked is not None else floor_of()
        self.progress: dict[int, Progress] = {}
        self.movement = Movement(os.path.join(job.folder, "logs") if job.folder else None)
        self.hung: Odd | None = None
        self.said = False
        self._before: list[Stack] = []
        self._at_alarm: dict[int, tuple[float, ...]] = {}
        self._stillness = Stillness()
        self._try_due = 0.0
        self._tries = 0  # to prove a hang, since the last progress
        self._acted = False
        self._threads_died: set[int] = set()  # processes of which a thread ended by an exception
        self._looked = time.monotonic()
        self._suspended = _suspended()
        self._gpus: list[list[float]] = []
        self._ends = Ends({})
        self._undecided: list[str] = []
        self._slept: dict[int, float] = {}  # the longest sleep of each process since the last progress, in seconds

    def look(
        self, rows: list[list[float]], events: Iterable[Mapping[str, Any]] = (), gpus: Sequence[list[float]] = ()
    ) -> None:
        """Judge what was just seen: the tables of processes and cards, and what the processes have told of themselves."""
        self._gpus = list(gpus)
        try:
            self._look(rows, events)
        finally:
            self._looked = time.monotonic()  # taking stacks may take seconds, in which we are not absent

    def _look(self, rows: list[list[float]], events: Iterable[Mapping[str, Any]]) -> None:
        now = time.monotonic()
        self.movement.note(rows, now)
        self._note_absence(now)
        for event in events:
            if event.get("kind") == "exception" and event.get("thread") not in {None, "MainThread"}:
                self._threads_died.add(event["pid"])
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

    def _note_absence(self, now: float) -> None:
        """The time for which we or the machine slept is no time without progress."""
        suspended = _suspended()
        if now - self._looked > _ABSENT or suspended - self._suspended > 1:
            self._start_anew(now)
        self._suspended = suspended

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
            self._slept.clear()
            self._stillness.forget()
            self._tries, self._try_due = 0, 0.0
            if self.said and self._counted(ranks):
                self._goes_on()
            return  # somebody still counts: a rank that is behind is a matter of speed
        if all(process_state(page.pid) in "Tt" for page in ranks):  # somebody has stopped the job, and will let it go on
            self._start_anew(now)
            return
        family = Movement.family([page.pid for page in ranks], self._tree)
        self._stillness.note(self._tree, family, now)
        if self._may_be_proven(known, now):
            self._prove(ranks, now)
        suspicious = [page for page in ranks if self.progress[page.pid].suspicious(now)]
        if not suspicious:
            return
        if any(at_prompt(page.pid) for page in ranks):
            self._start_anew(now)
            return
        for page in suspicious:
            self.progress[page.pid].suspicions += 1
        stacks, same = self._stacks_again(now)
        if not same or (self.said and self._acted):
            return
        odd = odd_one_out(
            stacks,
            {page.pid: _counts(page) for page in ranks},
            [page.pid for page in ranks if not self._moves(page.pid, now)],
        )
        mine = self._stack_of(odd, stacks)
        works = mine is not None and not waits_for_others(mine) and self._moves(mine.pid, now)
        if all(now - one.since > one.limit(moves=works) for one in known):
            leaves = all(one.phase == "exit" for one in known)  # at its end nothing is waited for with a purpose
            if not leaves and self._pauses(stacks, ranks, known, now):
                return
            if not self.said:
                self._alarm(odd, stacks, now, works=works)
            self._act()

    def _pauses(self, stacks: list[Stack], ranks: list[Page], known: list[Progress], now: float) -> bool:
        """Whether a process of the job sleeps, or waits for something outside it, for less than such a pause may take."""
        waits = self._waits(stacks, [page.pid for page in ranks])
        self._note_sleeps(waits)
        known_sleeps = [wait._replace(seconds_left=self._slept[pid] or None) for pid, wait in waits.items()]
        open_ones = [wait for wait in known_sleeps if may_go_on(wait, self.floor)]
        if not open_ones:
            return False
        self._note_undecided(waits)
        is_moving = self._stillness.seconds(now) < self.floor / 2  # on a connection, say
        longest = max(
            wait.seconds_left or 0.0 for wait in open_ones
        )  # until a sleep is over; a loop that looks again is always near
        return any(now - one.since < one.limit(moves=is_moving, pauses=True) + longest for one in known)

    def _note_sleeps(self, waits: Mapping[int, ProcessWait]) -> None:
        """Near its end, a long sleep looks like a short one."""
        for pid, wait in waits.items():
            self._slept[pid] = max(self._slept.get(pid, 0.0), wait.seconds_left or 0.0)

    def _stacks_again(self, now: float) -> tuple[list[Stack], bool]:
        """Take everybody's stacks; whether all ranks stand where they stood, and nobody waits for the user."""
        stacks = self.job.watchers.take_stacks("suspicion")
        for stack in stacks:
            self._stillness.forgive(stack.pid, len(stack.text))
        same = same_places(self._before, stacks)
        self._before = stacks
        if any(at_prompt(stack.pid, stack.frames) for stack in stacks):
            self._start_anew(now)
            return stacks, False
        return stacks, same

    def _may_be_proven(self, known: list[Progress], now: float) -> bool:
        """Whether it is time to look for a proof that the job cannot go on."""
        if self.said or now < self._try_due:
            return False
        if any(not one.begun and one.phase != "tracker" for one in known):
            return False
        quiet = max(QUIET * self.floor, QUIET_LEAST)
        return all(now - one.since > one.early_limit() for one in known) and self._stillness.seconds(now) >= quiet

    def _prove(self, ranks: list[Page], now: float) -> None:
        """Announce a hang if every process of the job waits for another one of it, or for a tracker that does not answer."""
        self._tries += 1
        interval = _AGAIN * 1.5 ** min(max(0, self._tries - _QUICK_TRIES), 20)  # each look sends a signal to every process
        self._try_due = now + min(interval, self.floor if self._tries > _QUICK_TRIES else self.floor / 4)
        if any(at_prompt(page.pid) for page in ranks):
            self._start_anew(now)
            return
        first_time = not self._before
        stacks, same = self._stacks_again(now)
        if first_time or not same:
            return
        pids = [page.pid for page in ranks]
        waits = self._waits(stacks, pids)
        self._note_sleeps(waits)
        dead = self._dead_ranks(ranks)
        deadlock = find_deadlock(waits, pids, dead, cards_work=any(map(self._may_be_computing, pids)))
        if deadlock is None:
            self._note_undecided(waits)
            return
        if any(self._got_on(page) for page in ranks):
            return
        odd = self._odd_of(deadlock, stacks, ranks)
        self._alarm(odd, stacks, now, works=False, deadlock=deadlock)
        if deadlock.partner_died or deadlock.pid in self._threads_died:
            self._act()

    def _got_on(self, page: Page) -> bool:
        """Whether a rank made progress while we looked at it."""
        page.look()
        mark = page.get("last_progress")
        known = self.progress[page.pid]
        return _counts(page) != known.counted or (mark == mark and mark != known.mark)  # noqa: PLR0124 - NaN

    def _note_undecided(self, waits: Mapping[int, ProcessWait]) -> None:
        """Write down, once, why a job that stands still may yet go on."""
        reasons = [f"{pid}: {wait.reason or wait.kind}" for pid, wait in waits.items()]
        if reasons != self._undecided:
            self._undecided = reasons
            self.job.writer.event("undecided", reasons=reasons[:_MOST_TOLD])

    def _waits(self, stacks: list[Stack], ranks: list[int]) -> dict[int, ProcessWait]:
        """How the ranks wait, what they started, and whoever is at the other end of what these wait for."""
        ends = self._ends = Ends(self._tree)
        by_pid = {stack.pid: stack for stack in stacks if stack.frames}
        waits: dict[int, ProcessWait] = {}
        to_ask = sorted(Movement.family(ranks, self._tree))
        while to_ask:
            pid = to_ask.pop()
            process = self._tree.get(pid)
            if pid in waits or process is None or process.role in _SERVES or process.fields[0] in b"ZX":
                continue
            wait = wait_of_process(pid, by_pid.get(pid), ends, on_card=ends.on_card(pid))
            if wait.kind == CLOSED and self._may_be_computing(pid):
                wait = wait._replace(kind=OPEN, reason="its GPU works")
            waits[pid] = wait
            to_ask.extend(wait.partners)
        return waits

    def _odd_of(self, deadlock: Deadlock, stacks: list[Stack], ranks: list[Page]) -> Odd | None:
        if deadlock.pid is None:
            odd = odd_one_out(stacks, {page.pid: _counts(page) for page in ranks}, [])
            return odd._replace(why=deadlock.why) if odd is not None else None
        stack = next((stack for stack in stacks if stack.pid == deadlock.pid), None)
        frame = place_of(stack) if stack is not None else None
        where = f"{frame.file}:{frame.line} in {frame.function}" if frame is not None else "an unknown place"
        rank = next((page.whole("rank") for page in ranks if page.pid == deadlock.pid), None)
        known = self._tree.get(deadlock.pid)
        return Odd(known.rank if known is not None else rank, deadlock.pid, where, deadlock.why)

    def _dead_ranks(self, ranks: list[Page]) -> list[int]:
        """Ranks of the same group that have ended, while these have not."""
        size = max((page.whole("world_size") or 0 for page in ranks), default=0)
        here = {page.whole("rank") for page in ranks}
        began = min(page.get("started") for page in ranks)
        gone = {
            rank
            for page in self.job.pages.pages.values()
            if (rank := page.whole("rank")) is not None
            and page.whole("worker") is None
            and page.whole("world_size") == size
            and rank not in here
            and not os.path.exists(f"/proc/{page.pid}")
            and page.get("started") > began - _TOGETHER
        }
        return sorted(gone) if size > 1 else []

    def _may_be_computing(self, pid: int) -> bool:
        """Whether a process has a card that did anything at the last look; where that is not known, it may have."""
        if not self._ends.on_card(pid):
            return False
        cards = self.job.cards
        held = {index for index, holders in cards.holders.items() if pid in holders}
        if held and all(pid in cards.idle.get(index, ()) for index in held):  # what is busy there is another process
            return False
        rows = [row for row in self._gpus if not held or row[_INDEX] in held]
        return not rows or any(row[_BUSY] != 0 for row in rows)

    def _act(self) -> None:
        """Let the supervisor do what the user asked for, once."""
        if not self._acted:
            self._acted = True
            self.job.hangs()

    def _counted(self, ranks: list[Page]) -> bool:
        """Whether anything was done since the alarm: a rank that a time-out ends stirs, and does no more."""
        at_alarm, nothing = self._at_alarm, (0,) * len(_COUNTED)
        return not any(map(any, at_alarm.values())) or any(
            _counts(page) != at_alarm.get(page.pid, nothing) for page in ranks
        )

    def _start_anew(self, now: float) -> None:
        """The time for which a job waits for its user is no time without progress."""
        self._before = []
        self._stillness.forget()
        for one in self.progress.values():
            one.since, one.suspicions = now, 0

    def _moves(self, pid: int, now: float) -> bool:
        since = self.progress[pid].since if pid in self.progress else now
        return self.movement.moves(Movement.family([pid], self._tree), since, now)

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
        why = "nothing was written, and no process of the job is doing anything"
        self.progress[python[0].pid] = Progress(self.movement.logged, self.floor)
        self._alarm(Odd(python[0].rank, python[0].pid, where, why), stacks, now, works=False)
        self._act()

    def _alarm(
        self, odd: Odd | None, stacks: list[Stack], now: float, *, works: bool, deadlock: Deadlock | None = None
    ) -> None:
        self.said, self.hung = True, odd
        self._at_alarm = {page.pid: _counts(page) for page in self._ranks()}
        pages = [page for page in self.job.pages.pages.values() if page.pid in self.progress]
        page = next((page for page in pages if odd is None or page.pid == odd.pid), None)
        seconds = max((now - one.since for one in self.progress.values() if one.begun), default=0.0)
        if odd is not None and not seconds:
            seconds = now - self.progress[odd.pid].since
        phase = page.phase if page is not None else "unknown"
        details: dict[str, Any] = {"seconds": round(seconds, 1), "phase": phase, "since": time.time() - seconds}
        details["tier"] = "early" if deadlock is not None else "late"
        if deadlock is not None:
            details |= {"waits": deadlock.words, "proof": deadlock.why, "partner_died": deadlock.partner_died}
        if deadlock is not None and deadlock.kind == STOPPED:
            details["state"] = "T"
        if odd is not None:
            details |= {"rank": odd.rank, "pid": odd.pid, "where": odd.where, "why": odd.why, "works": works}
            mine, call = self._stack_of(odd, stacks), call_of(odd.pid)
            details |= {"line": source_line(place_of(mine)) if mine else "", "call": call.name, "file": call.file}
        waiting = [stack.rank for stack in stacks if stack.role.startswith("rank") and waits_for_others(stack)]
        self.job.writer.event(
            "hang", **details, waiting=waiting[:_MOST_TOLD], channel=call_of(odd.pid).channel if odd else ""
        )
        split = apart(stacks) if odd is None else ""
        nobody = (
            f"the ranks wait in different collectives: {split}"
            if split
            else "all ranks wait, and none differs from the others"
        )
        who = f"{_name(odd)} at {odd.where}; {odd.why}" if odd is not None else nobody
        if deadlock is not None and odd is not None:
            waits = "is stopped" if deadlock.kind == STOPPED else f"waits for {deadlock.words}"
            waits = "waits in a collective" if deadlock.words == "each other" and odd.rank is not None else waits
            who = f"{_subject(odd)} {waits} at {odd.where}; {odd.why}"
        self.job.say(f"no progress for {seconds:.0f} s {during(phase)}: {who}. Stacks are in the run folder.")
        self.job.notifier.tell("hang", details)

    def _goes_on(self) -> None:
        self.said, self.hung, self._acted = False, None, False
        self.job.writer.event("goes-on")
        self.job.say("the job makes progress again.")
        self.job.notifier.tell("resume", {})

    @staticmethod
    def _stack_of(odd: Odd | None, stacks: list[Stack]) -> Stack | None:
        return next((stack for stack in stacks if odd is not None and stack.pid == odd.pid), None)


def _suspended() -> float:
    """Seconds for which the machine has been suspended since it was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


def _subject(odd: Odd) -> str:
    return "every rank" if odd.rank is None else f"rank {odd.rank}"


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
    seconds = to_float(os.environ.get(VARIABLE), finite=False)
    return FLOOR if seconds is None else max(1.0, seconds)
