"""Where the ranks of a recorded job stood when it no longer moved, and which cause that is.

The supervisor writes a ``hang`` event about the rank that the others wait for, and has taken everybody's stacks: what its main
thread stands in, which system call that is, where its loader's workers stand and where the others wait decide together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.account import reported
from crashcart.cause import compiled
from crashcart.causes.hang._outside import from_outside
from crashcart.causes.tracker._frames import is_own_tracker
from crashcart.collective_frames import waits_for_ranks
from crashcart.deaths import finished, hung, partners
from crashcart.flight import clock, threads_of, took
from crashcart.log import evidence
from crashcart.model import Evidence, Fix
from crashcart.places import of_event, of_raised, own_place
from crashcart.record import record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case
    from crashcart.flight import Event, Flight, Frame, StackDump, Stood
    from crashcart.log import Raised
    from crashcart.model import Fact, Strength

PACKAGES = r"(?:site|dist)-packages/"
TRACKERS = (
    PACKAGES
    + r"(?:wandb|mlflow|tensorboardX?|comet_ml|neptune|clearml|swanlab|trackio|aim|dvclive)/|torch/utils/tensorboard/"
)
STANDARD = r"/lib/python3[^/]*/(?!site-packages|dist-packages)|^<frozen"
OURS = r"crashcart/inside/"
LOADER = r"torch/utils/data/(?:dataloader|_utils/\w+)\.py$"
QUEUE = r"^(?:_try_get_data|_get_data|_next_data|_shutdown_workers|_try_put_index)$"
IDLE_WORKER = r"multiprocessing/(?:queues|connection)\.py$"
AT_EXIT = r"^(?:_shutdown|_python_exit|_exit_function|_run_exitfuncs|_run_finalizers|_finalize_join)$"
ENDS = r"^(?:destroy_process_group|_exit_barrier)$"
NO_PARTNERS = frozenset({"loader worker", "tracker"})
PROCESS_WAIT = r"/multiprocessing/|/subprocess\.py$"
THREAD_WAIT = r"/(?:threading|queue|selectors|subprocess)\.py$|/concurrent/futures/|/multiprocessing/|/asyncio/"
LOCKS = r"file_baton|/filelock/|portalocker|fasteners|lockfile|/fcntl|cpp_extension|_inductor/(?:codecache|async_compile)|triton/runtime"
LOCK_LINE = r"\b(?:flock|lockf|acquire|FileLock|baton)\b|\.lock\b|fsync\(|\bopen\("
FILE_CALLS = frozenset({"flock", "fcntl", "fsync", "fdatasync", "open", "stat", "read", "write", "readv"})
OUTSIDE = "an answer from outside"
ENDED_THREAD = "code.ended_thread"  # what should answer a wait has no thread any more
PEER_CALLS = frozenset({"recvfrom", "recvmsg", "sendto", "connect", "accept", "poll", "select", "epoll_wait"})
FILE_WAITS = r"lock|nfs|rpc_|io_schedule|wait_on_page|folio_wait|fuse|ceph|lustre|jbd2"


TIME_OUT = Fix(
    "Give this wait a timeout, and handle it",
    "by-hand",
    "use `settimeout()` on a socket, or `timeout=` for a request, a join or a `get`: without a timeout, a server that does not "
    "answer causes a hang",
)


@record(frozen=True)
class Stall:
    """A hang that was noticed: which cause it is, what shows it, and whether that proves it."""

    cause: str
    says: str
    strength: Strength
    evidence: tuple[Evidence, ...]


def stall(case: Case) -> Stall | None:
    """The hang in which the recording ends, if it can be told what it is."""
    flight = case.flight
    if flight is None or not hung(case) or finished(case):  # one that came to its end after all did not hang
        return None
    event = [*flight.of_kind("hang")][-1]
    return _Told(flight, event, reported(case), case.all("code.waits_in_tracker"), case.all(ENDED_THREAD)).stall()


def passed(case: Case) -> Iterator[Event]:
    """Hangs that were noticed and from which the job went on."""
    events = [*case.flight.of_kind("hang", "goes-on")] if case.flight is not None else []
    for at, event in enumerate(events[:-1]):
        if event.kind == "hang" and events[at + 1].kind == "goes-on":
            yield event


def stood_at_hang(flight: Flight) -> tuple[Stood, ...]:
    """Where everybody stood when the hang was told in which the recording ends; nothing where it does not end in one."""
    told = [*flight.of_kind("hang", "goes-on")]
    return _Told(flight, told[-1]).stood if told and told[-1].kind == "hang" else ()


class _Told:
    """One hang, with the stacks that were taken last before it was told."""

    def __init__(
        self,
        flight: Flight,
        event: Event,
        written: Raised | None = None,
        in_tracker: Sequence[Fact] = (),
        ended_threads: Sequence[Fact] = (),
    ) -> None:
        self.flight = flight
        self.in_tracker, self.ended_threads = in_tracker, ended_threads
        self.written = written
        self.details = event.details
        self.event = event
        rank = event.details.get("rank")
        self.rank = rank if isinstance(rank, int) else None
        self.stood = self._dump(flight, event)
        pid = event.details.get("pid")
        self.odd = next((one for one in self.stood if one.pid == pid), None)
        self.ranks = [one for one in self.stood if one.role == "rank"]
        told = event.details.get("waiting") if event.details.get("stacks") is False else ()
        known = {*told} if isinstance(told, (list, tuple)) else set()
        self.waiting = [one for one in self.ranks if in_collective(one) or (not one.frames and one.rank in known)]

    @staticmethod
    def _dump(flight: Flight, event: Event) -> tuple[Stood, ...]:
        taken: list[StackDump] = [dump for dump in flight.stacks if dump.time <= event.time + 1 and dump.stood]
        return taken[-1].stood if taken else ()

    def stall(self) -> Stall | None:
        """The first of the explanations that fits."""
        others = [one for one in self.waiting if self.odd is not None and one.pid != self.odd.pid]
        seen = from_outside(self.details, self._who, self._long, _wait(others) if others else "")
        if seen is not None:
            return self._found(*seen, *([self.odd] if self.odd is not None else []), *others[:1])
        if self.details.get("stacks") is False:
            return None
        if self.details.get("partner_died"):
            return self._left_alone()
        if self.odd is not None and not in_collective(self.odd):
            return self._alone(self.odd)
        return self._together()

    def _left_alone(self) -> Stall | None:
        """A rank has ended by itself, and the others wait for it; one that ended badly is told as a death."""
        ended = {event.details.get("pid"): event.details for event in self.flight.of_kind("gone")}
        gone = [
            rank for rank in self.flight.ranks if rank.pid in ended and rank.pid not in {stood.pid for stood in self.ranks}
        ]
        if not gone or any(ended[one.pid].get("signal") or ended[one.pid].get("code") for one in gone):
            return None
        says = f"{self.details.get('proof')}, for {self._long}"
        return self._found("distributed/desync", says, "decisive", *self.waiting[:2])

    def _alone(self, odd: Stood) -> Stall | None:
        others = [one for one in self.waiting if one.pid != odd.pid]
        frame = _frame(_called_by_own(odd.frames), TRACKERS, r".")
        phase = self.details.get("phase")
        if frame is not None or phase == "tracker":
            where = (
                f"in {frame.function} of the tracker ({_short(frame)})" if frame is not None else "in a call of the tracker"
            )
            return self._found("tracker/blocked", f"{self._who} has been stuck {where} for {self._long}", "decisive", odd)
        dead = self._dead_partner(odd, others)
        if dead is not None:
            return dead
        ends = _frame(odd.frames, r"(?:threading|util|atexit|thread|process)\.py$", AT_EXIT)
        if ends is not None or phase == "exit":
            return self._at_exit(odd, others, ends)
        at_loader = _frame(odd.frames, LOADER, r".") is not None or phase == "data"
        return self._at_loader(odd) if at_loader and not _makes_a_sample(odd.frames) else self._by_itself(odd, others)

    def _by_itself(self, odd: Stood, others: list[Stood]) -> Stall | None:
        return self._at_lock(odd) or self._own_work(odd, others)

    def _at_exit(self, odd: Stood, others: list[Stood], frame: Frame | None) -> Stall:
        if others:
            says = f"{self._who} has left its training loop and is exiting, while {_wait(others)} in a collective"
            return self._found("distributed/desync", says, "decisive", odd, *others[:1])
        place = f"in {frame.function}" if frame is not None else "in its exit handlers"
        says = f"{self._who} has finished its program and has been stuck {place} for {self._long}"
        held = [one for _, frames in threads_of(odd.text) if frames != odd.frames and (one := own_frame(frames)) is not None]
        if held and frame is not None and frame.function == "_shutdown":
            says += "; threads still running: " + ", ".join(f"{one.file}:{one.line} in {one.function}" for one in held[:3])
        return self._found("hang/exit", says, "decisive", odd)

    def _at_loader(self, odd: Stood) -> Stall:
        workers = [one for one in self.stood if one.role == "loader worker" and one.rank == odd.rank]
        held = [worker for worker in workers if worker.frames and not _idle(worker)]
        own = [(one, place) for one in held if (place := own_frame(one.frames)) is not None]
        locked = [(one, place) for one, place in own if _frame(one.frames[:4], LOCKS, r".")]
        if locked or _file_wait(self.details):
            where = f"worker {locked[0][0].pid} at {_short(locked[0][1])}" if locked else self._call
            says = f"{self._who} waits for a batch, and the worker that prepares it waits for a file or its lock: {where}"
            return self._found("hang/lock-or-io", says, "decisive", odd, *(one for one, _ in locked[:1]))
        if own:
            one, place = own[0]
            says = (
                f"{self._who} has waited {self._long} for its loader, whose worker {one.pid} is stuck at {_short(place)} "
                f"in {place.function}"
            )
            return self._found("hang/dataloader", says, "decisive", odd, one)
        queue = _frame(odd.frames, LOADER, QUEUE)
        strength: Strength = "decisive" if queue is not None and workers else "strong"
        says = f"{self._who} has waited {self._long} for its loader" + (f", at {self._where}" if not workers else "")
        return self._found("hang/dataloader", says, strength, odd, *held[:1])

    def _at_lock(self, odd: Stood) -> Stall | None:
        frame = _frame(odd.frames[:6], LOCKS, r".")
        line, call = str(self.details.get("line") or ""), str(self.details.get("call") or "")
        if self.details.get("works"):
            return None
        if frame is not None or _file_wait(self.details):
            says = f"{self._who} has waited {self._long} for a lock or a file at {self._where}: {self._call}"
            return self._found("hang/lock-or-io", says, "decisive", odd)
        if self.details.get("proof") and self.details.get("waits") and call != "nanosleep":
            return self._proven(odd)
        if call == "futex" or compiled(LOCK_LINE).search(line):
            says = f"{self._who} has waited {self._long} for a lock at {self._where}" + (f": {line}" if line else "")
            return self._found("hang/lock-or-io", says, "decisive" if compiled(LOCK_LINE).search(line) else "strong", odd)
        return None

    def _dead_partner(self, odd: Stood, others: list[Stood]) -> Stall | None:
        """A thread or child process that died before, where the main thread waits for one: in a queue, a join, a future, a pipe."""
        if self.details.get("works") or not odd.frames or not compiled(THREAD_WAIT).search(odd.frames[0].file):
            return None
        at_loader = _frame(odd.frames, LOADER, r".") is not None
        threads = [
            event
            for event in self.flight.of_kind("exception")
            if event.pid == odd.pid
            and event.details.get("thread") not in {None, "MainThread"}
            and event.time <= self.event.time
            and (not at_loader or "pin_memory" in str(event.details.get("thread")))
        ]
        children = [] if at_loader else self._ended_children(odd.pid)
        shown: Evidence
        at_process = compiled(PROCESS_WAIT).search(odd.frames[0].file) is not None
        if children and (at_process or not threads):
            shown, who = children[0].evidence, _ended_in_words(children)
        elif threads:
            dead = threads[0]
            shown, place = dead.evidence, own_place(of_event(dead))
            who = f"its thread {dead.details.get('thread')} had died with {dead.details.get('type')}"
            who += f" at {place}" if place else ""
        elif self.written is not None and not at_loader:
            shown, place = evidence(self.written.line), own_place(of_raised(self.written))
            who = f"one of its threads had died with {self.written.kind}" + (f" at {place}" if place else "")
            who += f", which is only reported in {self.written.line.file}"
        elif self.ended_threads:
            shown = self.ended_threads[0].evidence
            who = f"no thread is left in {self.ended_threads[0].value['function']}, which should answer"
        else:
            return None
        says = f"{self._who} has waited {self._long} at {self._where}; {who}"
        says += f", and {_wait(others)} for it in a collective" if others else ""
        found = self._found("hang/dead-thread", says, "decisive", odd, *others[:1])
        return replace(found, evidence=(shown, *found.evidence))

    def _ended_children(self, pid: int) -> list[Event]:
        """The ends of processes that this one had started and that nobody had asked to end: bad ones, or all where none is left."""
        started = [process for process in partners(self.flight, {pid}) if process.role != "tracker"]
        children = {process.pid for process in started if process.role not in NO_PARTNERS}
        workers = {process.pid for process in started} - children  # of a loader, or of a pool: who fails is missed
        ends = [
            event
            for event in self.flight.of_kind("gone")
            if (event.details.get("pid") in children or (event.details.get("pid") in workers and event.details.get("code")))
            and event.time <= self.event.time
            and event.details.get("signal") not in {"SIGTERM", "SIGINT", "SIGHUP"}
        ]
        bad = [event for event in ends if event.details.get("code") or event.details.get("signal")]
        return bad or (ends if len(ends) == len(children) else [])

    def _proven(self, odd: Stood) -> Stall:
        """A wait of which the supervisor has shown that nothing is left that could end it."""
        others = [one for one in self.waiting if one.pid != odd.pid]
        says = f"{self._who} has waited {self._long} for {self.details['waits']} at {self._where}; {self.details['proof']}"
        says += f", and {_wait(others)} for it in a collective" if others else ""
        return self._found("hang/lock-or-io", says, "decisive", odd, *others[:1])

    def _own_work(self, odd: Stood, others: list[Stood]) -> Stall | None:
        call = str(self.details.get("call") or "")
        line = f" ({self.details['line']})" if self.details.get("line") else ""
        if others and (self.details.get("works") or call == "nanosleep"):
            does = "works alone" if self.details.get("works") else "sleeps"
            says = f"{self._who} {does} at {self._where}{line}, and {_wait(others)} for it in a collective for {self._long}"
            return self._found("distributed/slow-rank", says, "decisive", odd, *others[:1])
        if self.details.get("works"):
            return None
        who = f", and {_wait(others)} for it in a collective" if others else ""
        waits = OUTSIDE if call in PEER_CALLS else "something that never comes"
        says = f"{self._who} has waited {self._long} for {waits} at {self._where}{line}{who}"
        own = own_frame(odd.frames)
        if call not in PEER_CALLS or own is None or not (self._is_called_tracker(own) or self.in_tracker):
            return self._found("hang/lock-or-io", says, "strong", odd, *others[:1])
        found = self._found("tracker/blocked", says, "strong", odd, *others[:1])
        return replace(found, evidence=(*found.evidence, *(fact.evidence for fact in self.in_tracker)))

    def _is_called_tracker(self, own: Frame) -> bool:
        """Whether the file, its folder in the project, or the function is called after a tracker."""
        inner = own.file.removeprefix(f"{self.flight.facts.get('folder')}/") if self.flight.facts.get("folder") else ""
        folder = "" if inner.startswith("/") else inner.rpartition("/")[0].rpartition("/")[2]
        return is_own_tracker(own.file, own.function) or is_own_tracker(folder, "")

    def _together(self) -> Stall | None:
        """All ranks wait in collectives: for each other, if they are not the same ones."""
        places = {one.rank: own_frame(one.frames) or one.frames[0] for one in self.waiting}
        # In a framework all ranks stand at the same line of the user's own: then what that has called tells them apart.
        called = {one.rank: [(frame.file, frame.line) for frame in _called_by_own(one.frames)] for one in self.waiting}
        lines = {(place.file, place.line) for place in places.values()}
        calls = lines if len(lines) > 1 else {str(frames) for frames in called.values()}
        if len(self.waiting) < len(self.ranks) or len(places) < 2:
            return None
        if len(calls) == 1 and self.rank is None:
            if self.details.get("waits") != "each other":
                return None
            collectives = ", ".join(sorted({_collective(stood) for stood in self.waiting}))
            says = (
                f"all ranks have waited for each other in {collectives} for {self._long}, and nothing moves between them: "
            )
            says += "their collectives belong to different groups, or differ in order or number"
            return self._found("distributed/desync", says, "strong", *self.waiting[:2])
        if len(calls) > 1:
            told = "; ".join(
                f"rank {one.rank} in {_collective(one)} at {_short(places[one.rank])}" for one in self.waiting[:4]
            )
            says = f"all ranks have waited {self._long} in collectives, but not in the same one: {told}"
            return self._found("distributed/desync", says, "decisive", *self.waiting[:2])
        says = f"all ranks have waited {self._long} in the same place, but {self._who} has done fewer steps"
        return self._found("distributed/desync", says, "strong", *self.waiting[:2])

    @property
    def _who(self) -> str:
        if self.details.get("alone"):  # nobody said that it has a rank
            return "the process"
        if self.rank is not None:
            return f"rank {self.rank}"
        return "every rank" if len(self.ranks) > 1 else "the program"

    @property
    def _long(self) -> str:
        seconds, since = self.details.get("seconds"), self.details.get("since")
        if not isinstance(seconds, (int, float)):
            return "long"
        if self.flight.alive and self.flight.samples and isinstance(since, (int, float)):  # it still does
            seconds = max(seconds, self.flight.samples[-1][0] - since)
        return took(seconds)

    @property
    def _where(self) -> str:
        return str(self.details.get("where") or "an unknown place")

    @property
    def _call(self) -> str:
        return f"{self.details.get('call') or 'a system call'} {self.details.get('file') or ''}".strip()

    def _found(self, cause: str, says: str, strength: Strength, *stood: Stood) -> Stall:
        seen = tuple(_shown(one, self.event.time, self.rank) for one in stood if one.frames)
        if self.details.get("sure") is False and strength == "decisive" and cause != "outside/stopped":
            strength = "strong"  # it has stood still for less than what some phases take
        at = clock(self.event.time)
        return Stall(cause, says, strength, (Evidence("recorder", self._quote, f"recorder {at}", self.rank, at), *seen))

    @property
    def _quote(self) -> str:
        since = self.details.get("since")
        begun = f" since {clock(since)}" if isinstance(since, (int, float)) else ""
        told = [f"no progress for {self._long}{begun}"]
        if self.details.get("phase") != "unknown":
            told.append(f"phase {self.details.get('phase')}")
        if self.details.get("where"):
            told.append(f"{self._who} is at {self._where}")
        if self.details.get("line"):
            told.append(str(self.details["line"]))
        if self.details.get("call"):
            told.append(f"system call {self._call}")
        return "; ".join(told)


def in_collective(stood: Stood) -> bool:
    """Whether a rank waits for the others: the innermost frame that is not Python's own decides."""
    inner = next((frame for frame in stood.frames if not compiled(STANDARD).search(frame.file)), None)
    return waits_for_ranks(stood.frames) or (inner is not None and compiled(ENDS).search(inner.function) is not None)


def own_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """The innermost frame of the user's own program."""
    libraries = f"{PACKAGES}|{STANDARD}|{OURS}"
    return next((frame for frame in frames if not compiled(libraries).search(frame.file)), None)


def _collective(stood: Stood) -> str:
    """The collective in which a rank waits, as it is called: the innermost public function of torch.distributed."""
    functions = (
        frame.function for frame in stood.frames if "distributed" in frame.file and not frame.function.startswith("_")
    )
    return next((name for name in functions if name != "wrapper"), "a collective")


def _called_by_own(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The frames that the program's own code has called: a tracker that runs the program is below it."""
    own = own_frame(frames)
    return frames[: frames.index(own)] if own is not None else frames


def _idle(worker: Stood) -> bool:
    """Whether a loader's worker only waits for its next order: what its loop has called is the queue."""
    loop = next((at for at, frame in enumerate(worker.frames) if frame.function == "_worker_loop"), None)
    called = worker.frames[loop - 1] if loop else worker.frames[0]
    return compiled(IDLE_WORKER).search(called.file) is not None


def _frame(frames: tuple[Frame, ...], file: str, function: str) -> Frame | None:
    return next(
        (frame for frame in frames if compiled(file).search(frame.file) and compiled(function).search(frame.function)), None
    )


def _file_wait(details: dict[str, object]) -> bool:
    """Whether the kernel says that it waits for a file or its lock: not for a queue, a pipe or a peer."""
    call, file = str(details.get("call") or ""), str(details.get("file") or "")
    if call in {"flock", "fsync", "fdatasync", "open", "stat"}:
        return True
    if call in FILE_CALLS and file.startswith("/") and not file.startswith("/dev/"):
        return True
    channel = str(details.get("channel") or "")
    return bool(compiled(FILE_WAITS).search(channel)) and "futex" not in channel


def _short(frame: Frame) -> str:
    return f"{frame.file.rsplit('/', 1)[-1]}:{frame.line}"


def _ended_in_words(ends: list[Event]) -> str:
    """`its child process 7 had ended by SIGKILL`; of several how many."""
    how = ends[0].details.get("signal") or f"exit code {ends[0].details.get('code')}"
    if len(ends) == 1:
        return f"its child process {ends[0].details.get('pid')} had ended with {how}"
    return f"{len(ends)} of its child processes had ended, the first with {how}"


def _makes_a_sample(frames: tuple[Frame, ...]) -> bool:
    """Whether a loader without workers has called the program's own data set, which stands there: the loader waits for nobody."""
    own = own_frame(frames)
    loader = next((place for place, frame in enumerate(frames) if compiled(LOADER).search(frame.file)), None)
    return own is not None and loader is not None and frames.index(own) < loader


def _wait(stood: list[Stood]) -> str:
    """`rank 0 waits`, `ranks 0, 2 wait`."""
    ranks = sorted(one.rank for one in stood if one.rank is not None)
    more = f" and {len(ranks) - 4} more" if len(ranks) > 4 else ""
    names = ", ".join(str(rank) for rank in ranks[:4])
    return f"rank {names} waits" if len(ranks) == 1 else f"ranks {names}{more} wait"


def _shown(stood: Stood, time: float, rank: int | None) -> Evidence:
    """A stack; it carries its rank only where that is the one to blame."""
    who = f"rank {stood.rank}" if stood.role == "rank" else f"{stood.role} {stood.pid} of rank {stood.rank}"
    frames = [frame for frame in stood.frames if not compiled(OURS).search(frame.file)]
    places = " < ".join(f"{frame.function} ({_short(frame)})" for frame in frames[:5])
    blamed = rank if stood.rank == rank else None
    return Evidence("recorder", f"stack of {who}: {places}", f"recorder {clock(time)} stacks", blamed, clock(time))
