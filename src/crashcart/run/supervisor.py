"""Watches one job from its first process to its last: one loop, one owner of all state.

It starts the keeper, passes signals on, looks once a second from outside and inside, writes the recording, asks the watchers
whether something is wrong, and at the end says in a few lines how it went. It may die at any moment; the job goes on.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from crashcart.errors import our_errors
from crashcart.escapes import one_line
from crashcart.inside.layout import FIELDS, JOB
from crashcart.recording.folder import live_folder, make_folder, working_folder, write_json
from crashcart.recording.frames import Sample
from crashcart.recording.tables import TABLES
from crashcart.recording.writer import Writer
from crashcart.redact import clean
from crashcart.run.ends import Ends
from crashcart.run.environment import job_environment
from crashcart.run.exit import make_reserve
from crashcart.run.facts import describe, write_facts
from crashcart.run.link import Link
from crashcart.run.notify import Notifier
from crashcart.run.output import open_streams
from crashcart.run.pages import Pages
from crashcart.run.rank_output import listen
from crashcart.run.signals import Arrival, Delivery, Signals, Target, signal_name
from crashcart.run.starting import CANNOT_START, Start
from crashcart.run.status import die_of
from crashcart.run.stopping import GRACE_SECONDS, Stopping, end_leftovers, is_attached
from crashcart.run.suspending import can_be_resumed, suspend
from crashcart.run.terminal import Terminal, is_from_terminal
from crashcart.run.unwritten import add_unwritten
from crashcart.run.watchers import Watchers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crashcart.run.outside.process import Process
    from crashcart.run.outside.sampler import Sampler

__all__ = ["Options", "supervise"]

_SUBREAPER = 36
_TICK = 1.0
_URGENT = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP})
_KEEPER_SECONDS = 1.0  # for the keeper to be gone when nothing of the job is left
_UNRECORDED = {signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT}  # they ask for nothing
_WATCHED = ("rank", "launcher", "loader worker")  # whose end is noted to the millisecond, with how they ended
MOST_RESTARTS = 3


class Options(NamedTuple):
    """How a job is to be watched."""

    command: Sequence[str]
    inject: bool = True
    grace: float | None = None  # nobody is killed who is not hung
    on_hang: str = "tell"
    notify: str | None = None
    quiet: bool = False
    explain: Callable[[str], dict[str, Any]] | None = None  # the findings for a run folder, as plain data
    hang_seconds: float | None = None


class Supervisor:
    """One job."""

    def __init__(self, options: Options, signals: Signals, before: Sequence[str] = ()) -> None:
        """``before`` are the folders of earlier attempts."""
        self.options = options
        self.before = list(before)
        self.stopped_for_hang = False
        self.ended_badly = False  # some process of the job, whatever its script made of it
        self.folder, self.refused = make_folder(options.command)
        self.live = live_folder(self.folder or "/tmp")  # noqa: S108 - only where no folder could be made
        self.status: int | None = None
        self.job = 0
        self._signals = signals
        self.terminal = Terminal(None)
        self.interrupted = False  # from the keyboard
        self.lost = 0  # bytes of the log that found no room
        self.unread = ""  # the stream whose reader went away
        self._described: dict[tuple[int, int], tuple[str, int | None, str]] = {}

    def run(self) -> int:
        """Start the job, watch it to its end; its exit code as a shell tells it."""
        options, folder = self.options, self.folder or (self.live or "")
        environment, added = job_environment(self.folder, self.live, inject=options.inject)
        self.facts = describe(options.command, environment) | {
            "live": self.live,
            "variables": added,
            "attempt": len(self.before) + 1,
            "before": self.before,
        }
        if self.folder:
            os.makedirs(os.path.join(self.folder, "nccl"), exist_ok=True)
            write_facts(self.folder, self.facts, options.command)
            make_reserve(self.folder)
        os.makedirs(os.path.join(folder, "logs"), exist_ok=True)
        self._greet(added)
        streams = open_streams()
        self.terminal = Terminal(streams.keyboard)
        self.terminal.take()
        self.streams = streams
        self._signals.block()
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        listener = listen(self.live if options.inject else None, streams)
        start = Start(
            folder,
            options.command,
            environment,
            streams,
            self.terminal.modes,
            listener,
            self.terminal.taken,
            self._signals.mask_before,
        )
        self.link = Link(start, self._signals.waker)
        for end in streams.job_ends:
            os.close(end)
        if self.link.problem is not None:
            self.terminal.give_back()
            self.link.beside_us.end()
            self.link.beside_job.end()
            return self._not_started(self.link.problem)
        try:
            return self._watch(folder)
        finally:
            self._signals.stop()
            self.terminal.give_back()

    def _watch(self, folder: str) -> int:
        self._learn_pid()
        own_terminal = self.streams.master is not None
        self._signals.start(Target(self.job, own_terminal, self.link.beside_us, self.link.beside_job))
        self.stopping = Stopping(self.job, self.options.grace, time.monotonic)
        self.writer = Writer(os.path.join(folder, "recording"), {**TABLES, "page": FIELDS})
        self.notifier = Notifier(self.options.notify)
        self.pages = Pages(self.live or folder, os.path.join(folder, "recording", "inside"))
        self.sampler = self._sampler()
        self.watchers = Watchers(self)
        self.ends = Ends(self._gone)
        self.ends.watch(self.job)
        cards = [{"index": card.index, "bus": card.bus} for card in self.cards.cards]
        self._update(pid=os.getpid(), keeper=self.link.keeper, job=self.job, cards=cards)
        self.writer.event("started", job=self.job, command=self.facts["command"])
        due = time.monotonic()
        while self.status is None:
            self._wait(max(0.0, due - time.monotonic()))
            self._hear_signals()
            if time.monotonic() >= due:
                self.take_terminal()
                self.look()
                due = max(due + _TICK, time.monotonic() + _TICK / 2)
        return self._end(folder)

    def look(self, *, fresh: bool = False) -> None:
        """One look at everything, written down, then judged."""
        rows, events = self.pages.look(last=fresh)
        tables: dict[str, list[list[float]]] = {"page": rows}
        if self.sampler is not None:
            for page in self.pages.ranks:
                rank = page.whole("rank")
                known = self.sampler.tree.processes.get(page.pid)
                if rank is not None and known is not None and known.stated is None:  # else the tree knows better
                    self.sampler.tree.tell_rank(page.pid, rank)
                if page.trained:
                    self.sampler.tree.tell_trained(page.pid)
            seen = self.sampler.sample(fresh=fresh)
            tables |= {"host": [seen.host], "cgroup": [seen.cgroup], "process": seen.processes, "gpu": seen.gpus}
            self._note_processes()
            for ended in self.sampler.tree.ended:
                self.writer.event("ended", pid=ended.pid)
                self._add_unwritten(ended)
            for event in self.sampler.driver_events():
                self.writer.event(event.kind, card=event.index, number=event.number)
        self.writer.sample(Sample(time.time(), time.monotonic(), tables))
        self.watchers.look(tables, events)
        saving = any(page.phase == "checkpoint" for page in self.pages.ranks)
        sent = self.stopping.advance(saving=saving, before_kill=self._before_kill)
        if sent:
            self.writer.event("sent", signal=sent)

    def _note_processes(self) -> None:
        """Write down each process when it is new, and again when its role has become known."""
        from crashcart.run.outside.roles import recorded_role

        tree = self.sampler.tree if self.sampler is not None else None
        for process in tree.processes.values() if tree is not None else ():
            role = recorded_role(process)
            told = (role, process.rank, process.comm)  # a shell that becomes a program keeps its number
            if self._described.get((process.pid, process.start)) != told:
                self._described[process.pid, process.start] = told
                if role in _WATCHED or not process.forked:
                    self.ends.watch(process.pid, may_be_missed=role not in _WATCHED)
                self.writer.event(
                    "process",
                    pid=process.pid,
                    start=process.start,
                    parent=process.parent_pid,
                    role=role,
                    rank=process.rank,
                    command=process.command,
                    copy=process.forked,
                )

    def _add_unwritten(self, ended: Process) -> None:
        """Keep what a process of the job had printed and not written, as far as there is room for it."""
        if self.live is not None and self.folder is not None:
            add_unwritten(self.live, ended.name, os.path.join(self.folder, "logs"), ended.rank)

    def _gone(self, moment: float, pid: int, how: dict[str, int | str]) -> None:
        """A process has ended; comes from another thread. How the first one ended the keeper knows for sure."""
        self.ended_badly |= bool(how.get("code")) or "signal" in how
        if how or pid != self.job:
            self.writer.event("gone", t=moment, pid=pid, **how)

    def hangs(self) -> None:
        """The job was found to hang: it is not touched unless the user asked for it."""
        if self.options.on_hang in {"stop", "restart"}:
            self.stopped_for_hang = True
            self.writer.event("sent", signal="SIGTERM", why="it hung")
            self.stopping.stop()

    def say(self, sentence: str) -> None:
        """One line for the user, on standard error, whole also where a terminal is raw."""
        if not self.options.quiet:
            end = "\r\n" if self.terminal.taken else "\n"
            with contextlib.suppress(OSError):
                os.write(2, f"crashcart: {one_line(clean(sentence))}{end}".encode(errors="replace"))

    def _sampler(self) -> Sampler | None:
        from crashcart.run.outside.gpu import Cards
        from crashcart.run.outside.processes import Tree
        from crashcart.run.outside.sampler import Sampler

        mark = f"{JOB}={self.live}"
        self.cards = Cards()
        return Sampler(Tree(self.job, mark, without=(self.link.keeper,)), working_folder(), cards=self.cards)

    def held_by(self, pid: int) -> float:
        """Bytes of GPU memory that a process holds, on all cards."""
        return sum(held.get(pid, 0.0) for held in self.cards.holders.values())

    def _wait(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._signals.wake, select.POLLIN)
        if self.link.number is not None:
            poll.register(self.link.number, select.POLLIN)
        for number, _ in poll.poll(seconds * 1000):
            if number == self._signals.wake:
                os.read(number, 4096)
                self.link.collect()
            else:
                self._hear_keeper()

    def _hear_keeper(self) -> None:
        for message in self.link.hear():
            self.status = message.get("status", self.status)
            self.lost = message.get("lost", self.lost)
            if "interrupt" in message:  # the job has it; a terminal gives it to whoever stands beside us too
                self.interrupted = True
                os.killpg(os.getpgrp(), signal.SIGINT)
            if "broken" in message:
                self.unread = "standard output" if message["broken"] == 1 else "standard error"
                self.writer.event("unread", stream=self.unread)
            if "suspend" in message and can_be_resumed():
                os.killpg(os.getpgrp(), signal.SIGTSTP)  # ourselves, and whoever stands beside us in a pipeline
            elif "suspend" in message:
                self.link.let_type(allowed=True)
        if self.status is None and self.link.replace():
            self.writer.event("keeper", pid=self.link.keeper, note="the keeper was killed; another took over")

    def _learn_pid(self) -> None:
        while not self.link.job and self.status is None and self.link.number is not None:
            self._hear_keeper()
        self.job = self.link.job

    def _hear_signals(self) -> None:
        for heard in self._signals.heard():
            if isinstance(heard, Arrival):
                self._note_arrival(heard)
            else:
                self._note_delivery(heard)

    def is_urged(self) -> bool:
        """Whether somebody has asked us to end, since the job has."""
        return any(isinstance(heard, Arrival) and heard.number in _URGENT for heard in self._signals.heard())

    def _note_arrival(self, arrival: Arrival) -> None:
        number, sender = arrival.number, arrival.sender
        if number == signal.SIGWINCH:
            self.link.say(b"w")
        elif number == signal.SIGTSTP:
            suspend(self)
        elif number == signal.SIGCONT:
            self.watchers.stalls.resumed()
        if number in _UNRECORDED or (number == signal.SIGINT and sender == os.getpid()):
            return
        self.writer.event("signal", t=arrival.time, signal=signal_name(number), sender=sender, name=arrival.sender_name)
        if self._signals.is_hang_up(arrival):
            self.link.hang_up()
        self.interrupted |= number == signal.SIGINT and is_from_terminal(sender)
        self.stopping.ask(number)

    def _note_delivery(self, delivery: Delivery) -> None:
        number = delivery.arrival.number
        if delivery.reason == "closed terminal":
            self.link.hang_up()
        elif delivery.reason == "no job":  # it came between two attempts
            with contextlib.suppress(OSError):
                os.kill(self.job, number)
        if number not in _UNRECORDED:
            self.writer.event("passed", signal=signal_name(number), to=delivery.to, reason=delivery.reason)

    def take_terminal(self) -> None:
        """Let the job have the keys, once we are in the foreground."""
        if self.terminal.take():
            self.link.let_type(allowed=True)

    def _before_kill(self) -> list[int]:
        self.watchers.take_stacks("before it is killed")
        self.say(f"the job did not end within the grace period of {self.stopping.grace:g} s; killing it")
        return self._attached()

    def _attached(self) -> list[int]:
        """The processes of the job that are still there and have not left it on purpose."""
        if self.sampler is None:
            return [self.job]
        self.sampler.tree.look(fresh=True)
        reached = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        return [
            process.pid
            for process in self.sampler.tree.processes.values()
            if is_attached(process, self.job, hang_ups_reach_job=reached)
        ]

    def _end(self, folder: str) -> int:
        from crashcart.run.last import finish

        self._signals.stop()
        self._hear_signals()
        if self.stopping.by_us:
            grace = GRACE_SECONDS if self.stopping.grace is None else self.stopping.grace
            for name, pids in end_leftovers(self._attached, grace):
                self.writer.event("sent", signal=name, left=pids)
        self.ends.take()
        self.look(fresh=True)
        status = self.status or 0
        self.terminal.give_back()
        with contextlib.suppress(Exception), our_errors("the end of the run", self._say_unwritten):
            finish(self, folder, status)  # what we do after the job's end must not change how it ended
        self.ends.close()
        self.writer.close()
        self.link.end(0.0 if self.facts.get("left") else _KEEPER_SECONDS)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def _say_unwritten(self, what: str, why: str, how: str) -> None:
        self.say(f"{what} could not be recorded: {why}" + (f" ({how})" if how else ""))

    def _update(self, **facts: object) -> None:
        self.facts |= facts
        if self.folder:
            write_json(os.path.join(self.folder, "run.json"), self.facts)

    def _greet(self, added: list[str]) -> None:
        if self.folder is None:
            self.say("could not create a run folder (" + "; ".join(self.refused) + "): nothing will be recorded.")
            return
        where = os.path.relpath(self.folder, working_folder())
        self.say(
            f"recording in {where if not where.startswith('..') else self.folder}"
            + (f" (set {', '.join(added)})" if added else "")
        )
        if self.refused:
            self.say("it is there because " + "; ".join(self.refused))

    def _not_started(self, problem: OSError) -> int:
        self.say(f"{self.options.command[0]}: {problem.strerror}")
        code = CANNOT_START.get(problem.errno or 0, 125)
        if self.folder:
            write_json(os.path.join(self.folder, "run.json"), self.facts | {"state": "not started", "code": code})
        return code


def _open_closed_streams() -> None:
    """Streams that the caller closed (`>&-`) become /dev/null, or what we open next would take their place."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # noqa: PERF203 - three at most
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
            os.set_inheritable(number, True)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as we live
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def supervise(options: Options) -> int:
    """Run a job under a supervisor; again after a hang where that was asked for, each attempt in a folder of its own."""
    _open_closed_streams()
    sys.stdout.flush()
    sys.stderr.flush()
    before: list[str] = []
    signals = Signals()
    while True:
        attempt = Supervisor(options, signals, before)
        code = attempt.run()
        if options.on_hang != "restart" or not attempt.stopped_for_hang or len(before) >= MOST_RESTARTS:
            if attempt.status is not None and os.WIFSIGNALED(attempt.status):
                die_of(os.WTERMSIG(attempt.status))
            return code
        before.append(attempt.folder or "")
        attempt.say(f"it hung; restarting it (attempt {len(before) + 1})")
        attempt.notifier.tell("resume", {"attempt": len(before) + 1, "before": attempt.folder})
        attempt.notifier.finish()
