"""What each process of a job waits for, and whether anything is left that could end the wait.

A job in which every thread of every process waits for another one of them will never go on: that can be said after seconds, and
needs no knowledge of how long its phases take. What a thread waits for the kernel knows (``/proc/PID/task/TID/syscall``): a futex
without a time-out is a lock, a queue or another thread; a pipe or a socket has a process at its other end. Whoever waits for the
outside (a connection that leads out of the job, a user, a disk), sleeps or wakes by a time-out may go on, and then nothing is
decided. A few libraries ask again every few seconds for what only another process can bring; their source lines tell them apart
from a sleep: the loader's ``_try_get_data``, collectives, ``Queue.get(timeout=...)``, a tracker's client.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NamedTuple

from crashcart.flight import threads_of
from crashcart.pattern import Pattern
from crashcart.readers.standing import source_line
from crashcart.run.hangs import is_own, waits_for_others
from crashcart.run.outside.waits import Libraries, thread_calls
from crashcart.run.stacks import Stack
from crashcart.run.suspending import disposition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from crashcart.flight import Frame
    from crashcart.run.outside.ends import Ends
    from crashcart.run.outside.waits import ThreadCall

__all__ = [
    "CLOSED", "COLLECTIVE", "OPEN", "SPINS", "STOPPED", "TRACKER", "Deadlock", "ProcessWait", "find_deadlock", "in_tracker",
    "may_go_on", "wait_of_process", "waited_for",
]  # fmt: skip

CLOSED, COLLECTIVE, TRACKER, STOPPED, SPINS, OPEN = "closed", "collective", "tracker", "stopped", "spins", "open"

_TRACKER = Pattern(
    r"(?:site|dist)-packages/(?:wandb|mlflow|tensorboardX?|comet_ml|neptune|clearml|swanlab|trackio|aim|dvclive)/|"
    r"torch/utils/tensorboard/"
)
_LOADER = Pattern(r"torch/utils/data/(?:dataloader|_utils/\w+)\.py$")
_LOADER_WAITS = frozenset({"_try_get_data", "_get_data", "_next_data", "_shutdown_workers", "_try_put_index"})
_STANDARD = Pattern(r"/lib/python3[^/]*/(?!(?:site|dist)-packages)|^<frozen")
# Threads of libraries that look after something every few seconds, and bring nothing that the program waits for.
_MAINTENANCE = Pattern(
    r"(?:site|dist)-packages/(?:tqdm|wandb|mlflow|tensorboardX?|tensorboard|comet_ml|neptune|clearml|swanlab|trackio|aim|dvclive|"
    r"sentry_sdk|opentelemetry|prometheus_client|posthog|torch/utils/data|torch/utils/tensorboard|torch/_inductor)/"
)
# Native threads that serve collectives, the store of a process group, the driver of a card or an allocator.
_SERVES_COLLECTIVES = ("gloo_", "pt_gloo", "pt_nccl", "pt_tcpstore", "NCCL")
_SERVES_DRIVER = ("cuda", "jemalloc")
_NCCL, _TORCH = "libnccl", "libtorch_cpu"  # libraries whose threads serve collectives, by whatever name
_CHILD_WAITS = frozenset({"wait4", "waitid"})
_DESCRIPTOR_WAITS = frozenset({"read", "readv", "poll", "select", "epoll_wait", "recvfrom", "recvmsg", "accept"})
_LOCK_CALLS = frozenset({"flock", "fcntl"})
_TELLING = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGALRM, signal.SIGCONT)
_FOR_GOOD_SECONDS = 300.0  # a sleep that lasts longer is none from which a job goes on while somebody watches it
_SET_BY_HANDLERS = frozenset({"Event.wait()", "Condition.wait()"})
_QUEUE = Pattern(r"/(?:queue|multiprocessing/queues)\.py$")
_PRIMITIVES = (
    (Pattern(r"/queue\.py$"), {"get": "Queue.get()", "put": "Queue.put()", "join": "Queue.join()"}),
    (Pattern(r"/multiprocessing/queues\.py$"), {"get": "Queue.get()", "put": "Queue.put()", "join": "JoinableQueue.join()"}),
    (Pattern(r"/multiprocessing/pool\.py$"), {"get": "AsyncResult.get()", "join": "Pool.join()"}),
    (Pattern(r"/multiprocessing/process\.py$"), {"join": "Process.join()"}),
    (Pattern(r"/multiprocessing/connection\.py$"), {"recv": "Connection.recv()", "recv_bytes": "Connection.recv()"}),
    (Pattern(r"/concurrent/futures/\w+\.py$"), {"result": "Future.result()", "wait": "futures.wait()", "shutdown": "Executor.shutdown()"}),
    (Pattern(r"/subprocess\.py$"), {"wait": "Popen.wait()", "communicate": "Popen.communicate()"}),
    (Pattern(r"/threading\.py$"), {"join": "Thread.join()", "_shutdown": "the end of its threads"}),
)  # fmt: skip
_LOCK_LINE = Pattern(r"\bacquire\(|\bwith\b.{0,200}(?:lock|mutex|semaphore|condition)", 2)
_EVENT_WAIT = 2  # Condition.wait below Event.wait


class ProcessWait(NamedTuple):
    """How one process waits: one of the kinds above, what for in words, and why the wait may still end where it is open.

    ``partners`` are the processes at the other ends of what its threads wait for; ``seconds_left`` is the longest time after which a
    thread of it wakes by itself; ``main_sleeps`` says that the main thread is one of these.
    """

    pid: int
    kind: str
    words: str = ""
    reason: str = ""
    partners: frozenset[int] = frozenset()
    seconds_left: float | None = None
    main_sleeps: bool = False


class Deadlock(NamedTuple):
    """A job that cannot go on: the process that keeps the others (none where all wait for each other), and why that is sure."""

    pid: int | None
    kind: str
    words: str
    why: str
    partner_died: bool = False


def wait_of_process(pid: int, stack: Stack | None, ends: Ends, *, on_card: bool = False) -> ProcessWait:
    """How a process waits, from its stacks (none where it is no Python program) and its threads in the kernel."""
    threads = thread_calls(pid, ends)
    main = next((thread for thread in threads if thread.thread_id == pid), None)
    if main is None:
        return ProcessWait(pid, OPEN, reason="it ended")
    if main.state in "Tt":
        return ProcessWait(pid, STOPPED, "to be continued")
    frames = stack.frames if stack is not None else ()
    kind, words = _main_wait(frames, stack)
    if main.state == "R" and on_card and frames:
        return ProcessWait(pid, SPINS, "its GPU")
    if kind == TRACKER:  # what its other threads do is not what it waits for
        waits = main.state == "S" and main.call in _DESCRIPTOR_WAITS | {"futex", "nanosleep"}
        return (
            ProcessWait(pid, TRACKER, words)
            if waits
            else ProcessWait(pid, OPEN, words, "it is running, or writing to a disk")
        )
    others = [Stack(pid, 0, "rank 0", "", one, "") for one in _other_threads(stack)]
    in_collective = [waits_for_others(other) for other in others]
    communicates = kind == COLLECTIVE or any(in_collective)
    asks_again = kind == COLLECTIVE or _asks_again(frames)
    threads = [*(thread for thread in threads if thread is not main), main]
    libraries = Libraries(pid)
    reasons = [_why_helper_is_open(pid, thread, ends, libraries, communicates=communicates) for thread in threads[:-1]]
    reasons.append(_why_open(pid, main, ends, communicates=communicates, asks_again=asks_again))
    reason = next((reason for reason in reasons if reason and reason != _WAKES), "")
    excused = sum(_is_maintenance(other.frames) for other in others) + sum(in_collective)
    if not reason and reasons.count(_WAKES) > excused:
        reason = _WAKES
    words = words or ("the end of a sleep" if main.call == "nanosleep" else waited_for(frames))
    if not reason and kind == CLOSED and words in _SET_BY_HANDLERS and _handles_signals(pid):
        reason = "a signal may end the wait: it has a handler"
    partners = frozenset().union(*(_partners(pid, thread, ends) for thread in threads))
    sleepers = [thread for thread, why in zip(threads, reasons, strict=True) if why == _WAKES]  # no time-out of a collective
    left = max((thread.seconds_left for thread in sleepers if thread.seconds_left is not None), default=None)
    return ProcessWait(pid, OPEN if reason else kind, words, reason, partners, left, main_sleeps=reasons[-1] == _WAKES)


def find_deadlock(
    waits: Mapping[int, ProcessWait], ranks: Collection[int], dead_ranks: Sequence[int] = (), *, cards_work: bool = False
) -> Deadlock | None:
    """Why a job cannot go on, if that is sure.

    ``dead_ranks`` have ended while the others of their group have not; ``cards_work`` says that a rank's GPU may still compute.
    """
    if dead_ranks:  # a connection with a rank that has ended leads nowhere
        lost = {pid: wait for pid, wait in waits.items() if wait.reason == _ELSEWHERE}
        waits = {**waits, **{pid: wait._replace(kind=COLLECTIVE) for pid, wait in lost.items()}}
    if any(wait.kind == OPEN for wait in waits.values()) or not ranks:
        return None
    of_ranks = [waits[pid] for pid in ranks if pid in waits]
    stopped = [wait for wait in of_ranks if wait.kind == STOPPED]
    if len(of_ranks) < len(ranks) or len(stopped) == len(of_ranks):
        return None  # a job that somebody has stopped waits for that person
    stuck = [wait for wait in of_ranks if wait.kind in {CLOSED, TRACKER}]
    others = len(of_ranks) > 1
    stopped += [wait for wait in waits.values() if wait.kind == STOPPED and wait not in stopped]  # a helper of the ranks
    if stopped:
        return Deadlock(stopped[0].pid, STOPPED, "to be continued", "it was stopped (SIGSTOP), and others wait for it")
    if dead_ranks and any(wait.kind in {COLLECTIVE, SPINS} for wait in of_ranks):
        names = ", ".join(map(str, dead_ranks[:4]))
        rest = "the other rank waits" if len(of_ranks) == 1 else f"the other {len(of_ranks)} wait"
        why = f"rank {names} has ended, and {rest} for it in a collective"
        return Deadlock(None, COLLECTIVE, "a rank that has ended", why, partner_died=True)
    if stuck:
        odd = next((wait for wait in stuck if wait.kind == TRACKER), stuck[0])
        why = _TRACKER_WHY if odd.kind == TRACKER else "no thread or process of the job that could end this wait is left"
        same = len({(wait.kind, wait.words) for wait in of_ranks}) == 1 and others
        return Deadlock(None if same else odd.pid, odd.kind, odd.words, why)
    if any(wait.kind == SPINS for wait in of_ranks) or cards_work:
        return None  # they may wait for work that their cards still do
    return Deadlock(None, COLLECTIVE, "each other", "all ranks wait in collectives, and no data moves between them")


def may_go_on(wait: ProcessWait, floor: float) -> bool:
    """Whether a process waits for something outside the job, or pauses, rather than for ever.

    A main thread that sleeps may look for something every few seconds; beside one that waits for ever, a thread that does so has
    looked in vain.
    """
    if wait.kind != OPEN or wait.reason in {_ELSEWHERE, _RUNS}:
        return False
    if wait.reason != _WAKES or wait.seconds_left is None:
        return True
    return wait.main_sleeps or wait.seconds_left > floor / 4


def waited_for(frames: Sequence[Frame]) -> str:
    """What the innermost frames wait in, as people write it: ``Queue.join()``, ``Thread.join()``, ``a lock``."""
    inner = []
    for frame in frames:
        if is_own(frame):
            break
        inner.append(frame)
    for frame in reversed(inner):
        for file, names in _PRIMITIVES:
            if frame.function in names and file.search(frame.file):
                return names[frame.function]
    waits = [frame for frame in inner if frame.function == "wait" and frame.file.endswith("/threading.py")]
    if waits:
        return "Event.wait()" if len(waits) >= _EVENT_WAIT else "Condition.wait()"
    if frames and _LOCK_LINE.search(source_line(frames[0])):
        return "a lock"
    return "a lock or another thread"


def in_tracker(frames: Sequence[Frame]) -> bool:
    """Whether a program stands in its tracker; a tracker that runs the program (``wandb.agent``) is above it."""
    return any(_TRACKER.search(frame.file) for frame in _above_own(frames))


_WAKES = "one of its threads wakes up by itself"
_RUNS = "it runs"
_ELSEWHERE = "it waits for ranks outside this machine"
_TRACKER_WHY = "it waits for its tracker, which does not respond or transfer data"


def _partners(pid: int, thread: ThreadCall, ends: Ends) -> set[int]:
    """The processes of the job that could end the wait of a thread."""
    if thread.call in _LOCK_CALLS:
        holder = ends.lock_holder(pid)
        return {holder} if holder is not None else set()
    find = ends.readers if thread.call == "write" else ends.holders
    return {other for descriptor in thread.descriptors for other in find(pid, descriptor)}


def _handles_signals(pid: int) -> bool:
    """Whether the program has handlers for signals that are sent to tell it something, rather than to end it."""
    return any(disposition(pid, number) == "caught" for number in _TELLING)


def _main_wait(frames: Sequence[Frame], stack: Stack | None) -> tuple[str, str]:
    if in_tracker(frames):
        return TRACKER, "its tracker"
    if stack is not None and waits_for_others(stack):
        return COLLECTIVE, "the other ranks"
    inner, _ = _innermost(frames)
    if inner is not None and _LOADER.search(inner.file) and inner.function in _LOADER_WAITS:
        return CLOSED, "its loader"
    return CLOSED, ""


def _above_own(frames: Sequence[Frame]) -> list[Frame]:
    """The frames that the program's own code has called; all of them where it has none."""
    at = next(
        (at for at, frame in enumerate(frames) if is_own(frame) and "crashcart/inside/" not in frame.file), len(frames)
    )
    return list(frames[:at])


def _asks_again(frames: Sequence[Frame]) -> bool:
    """Whether the main thread asks again and again for what only another thread or process can bring."""
    inner, waiting = _innermost(frames)
    at_loader = inner is not None and _LOADER.search(inner.file) and inner.function in _LOADER_WAITS
    return bool(at_loader) or any(_QUEUE.search(frame.file) and frame.function in {"get", "put"} for frame in waiting)


def _innermost(frames: Sequence[Frame]) -> tuple[Frame | None, Sequence[Frame]]:
    """The innermost frame that is not Python's own, and Python's own frames above it."""
    at = next((at for at, frame in enumerate(frames) if not _STANDARD.search(frame.file)), None)
    return (None, frames) if at is None else (frames[at], frames[:at])


def _other_threads(stack: Stack | None) -> list[tuple[Frame, ...]]:
    return [frames for _, frames in threads_of(stack.text) if frames and frames != stack.frames] if stack is not None else []


def _is_maintenance(frames: Sequence[Frame]) -> bool:
    return any(_MAINTENANCE.search(frame.file) for frame in _above_own(frames)) and not any(map(is_own, frames))


def _why_helper_is_open(pid: int, thread: ThreadCall, ends: Ends, libraries: Libraries, *, communicates: bool) -> str:
    """Why a thread beside the main one may go on by itself; empty too for those that only serve collectives or a driver."""
    if thread.name.startswith(_SERVES_DRIVER):
        return ""
    leads_outside = any(ends.leads_outside(pid, descriptor) for descriptor in thread.descriptors)
    if thread.name.startswith(_SERVES_COLLECTIVES):
        return _ELSEWHERE if communicates and leads_outside else ""
    reason = _why_open(pid, thread, ends, communicates=communicates)
    if reason and thread.call in _DESCRIPTOR_WAITS:
        library = libraries.behind(thread)
        if library.startswith(_NCCL):
            return _ELSEWHERE if communicates and leads_outside else ""
        # A loop of gloo or of a store. It listens too, for ranks that have long since come.
        if library.startswith(_TORCH) and thread.call == "epoll_wait" and not leads_outside:
            return ""
    return reason


def _why_open(pid: int, thread: ThreadCall, ends: Ends, *, communicates: bool = False, asks_again: bool = False) -> str:
    """Why this thread may go on by itself; empty where only another thread or process of the job can wake it.

    ``communicates`` says that the process waits in a collective, ``asks_again`` that a time-out of this thread only lets it ask
    once more for what another one must bring.
    """
    leads_outside = any(ends.leads_outside(pid, descriptor) for descriptor in thread.descriptors)
    if thread.state != "S":
        return _RUNS if thread.state == "R" else "it waits for a device"
    for_good = thread.seconds_left is not None and thread.seconds_left > _FOR_GOOD_SECONDS
    wakes = "" if asks_again or for_good else _WAKES
    if thread.call == "futex":
        return wakes if thread.timed else ""
    if thread.call in _CHILD_WAITS:
        return ""
    if thread.call in _LOCK_CALLS:
        return "" if ends.lock_holder(pid) is not None else "another program may hold the lock on the file"
    if thread.call == "write" and any(ends.readers(pid, one) for one in thread.descriptors):
        return ""
    if thread.call not in _DESCRIPTOR_WAITS or not thread.descriptors:
        asleep = thread.call == "nanosleep" or (thread.call in _DESCRIPTOR_WAITS and thread.timed)
        return wakes if asleep else f"it is in {thread.call or 'an unknown call'}"
    if not all(ends.is_internal(pid, one) for one in thread.descriptors):
        return _ELSEWHERE if communicates and leads_outside else "it waits for something outside the job"
    return wakes if thread.timed else ""
