"""The data loader hangs: a worker is stuck and the next batch never comes.

What happens: no more steps, GPU at 0 %, no error. The main process waits in ``_try_get_data``, the workers wait for a
lock.

Why: workers are forked, and a lock that a thread held at that moment stays locked in the child for ever: OpenCV's and
OpenMP's thread pools, tokenizers, HDF5, network and tracing libraries used before the fork; a worker that was killed
while it held the queue's lock; a full ``/dev/shm``.

How it shows: after Ctrl-C, or in a ``py-spy dump``, the main thread is in ``__next__``, ``_next_data``,
``_try_get_data``, ``queue.get`` or ``poll``, the pin thread in ``do_one_step``; ``DataLoader timed out after N seconds``
where a time-out is set. A recording has the stacks of the
workers too, and says at which line of the data set they stand.

What to do: ``num_workers=0`` shows whether it is the loader; then ``cv2.setNumThreads(0)``, ``OMP_NUM_THREADS=1``,
``TOKENIZERS_PARALLELISM=false``, open files inside the worker, or start workers with ``spawn`` or ``forkserver``. Set
``timeout=`` on the loader so that it raises instead of standing still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, weak
from crashcart.causes.hang._recorded import stall
from crashcart.causes.hang._stacks import dumped, frame_in, in_tracker, interrupted, moved_before, standing
from crashcart.deaths import order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Frame, Raised
    from crashcart.model import Strength

title = "The data loader hangs"
alike = ("hang/lock-or-io", "outside/user")
phrases = (
    decisive("dataloader timed out after", says="the loader's timeout expired"),
    weak("_try_get_data", "data_queue.get()", "worker_result_queue", "in do_one_step", "_pin_memory_loop",
         "_shutdown_workers", "done_event.set", "multiprocessingdataloaderiter.__del__", "_dataloaderiter.__del__",
         "_worker_loop (", says="a stack shows the loader's queues", fatal=False),
    weak("<defunct>", "zombie process", "frame 0x", "py-bt", "pthread_cond_", "futex_wait",
         says="someone inspected hanging processes", fatal=False),
    weak("parallelism has already been used", "might cause the dataloader", "may lead to deadlocks in the child",
         "might get a freeze", says="a warning about forks and threads, usually harmless", fatal=False),
)  # fmt: skip
FILE = r"dataloader|data_utils|_utils[/\\]pin_memory|prefetch|data_loader"
WAITS = (
    r"^(?:get|_try_get_data|_get_next_batch|read_next\w*|share_outputs|_get_data|_get_batch|do_one_step|_pin_memory_loop|_shutdown_workers?|_shutdown_worker|_try_put_index|"
    r"_mark_worker_as_unavailable)$"
)
ITERATES = r"^(?:__next__|_next_data|next|__iter__|_reset|__init__)$"
ERRORS = r"^(?:_process_data|reraise|_raise_worker_error)$"
QUEUE = r"data_queue|worker_result_queue|\.get\(timeout|\bnext\(\w*iter|_wlock|_workers_done_event|\bw\.join\("
WORKS = r"^(?:fetch|__getitem__|__getitems__|default_collate|collate_fn|collate|load_image\w*|imread)$"
IDLE = r"index_queue|task_queue"
SLEEPS = r"^(?:wait|get|poll|select|_poll|_wait_for_tstate_lock|_recv|_recv_bytes|recv_bytes)$"
STOOD_FILE = r"(?:threading|queues?|connection|selectors|synchronize|popen_fork)\.py$"
ZOMBIE = r"<defunct>|\bzombie process"
OUR_CHILD = r"python|pt_|worker|loader|train"
NATIVE = r"pthread_cond_(?:timed)?wait|futex_(?:abstimed_)?wait|sem_wait|__lll_lock_wait|FUTEX_WAIT"
AT_END = 10
IN_LOADER = r"_worker_loop|DataLoader|cv::|libopencv|libgomp|omp_|tokenizers|pin_memory"
stacks = (
    Stack(
        r"utils/data/dataloader\.py:(?:_try_get_data|_get_data|_next_data|_shutdown_workers)$|multiprocessing/(?:queues|connection)\.py:"
        r"(?:get|poll|_poll|recv_bytes|_recv\w*|wait)$|selectors\.py:select$|/queue\.py:get$|:_worker_loop$|:_pin_memory_loop$",
        "the traceback ends where batches from the workers are awaited",
    ),
)


def in_log(case: Case) -> Iterator[Sign]:
    """A stack without an error that waits for the loader's queue, a worker that stands in its data set, dead children."""
    for raised in standing(case):
        if in_tracker(raised):
            continue
        if "_worker_loop" in raised.functions:
            yield from _worker(case, raised)
            continue
        frame = _waiting(case, raised)
        if frame is not None:
            busy = moved_before(case, raised)
            says = f"the program was stuck in {frame.function}, waiting for a batch or a worker" + (
                ", although steps ran just before" if busy else ""
            )
            strength: Strength = "weak" if raised.cut and case.log.deaths else "strong" if busy or raised.cut else "decisive"
            yield Sign(strength, says, (evidence(raised.line),), order=raised.line.order)
        elif dumped(case, raised) and _sleeps(raised):
            says = "a debugger found the program asleep in a queue or a condition"
            yield Sign("strong", says, (evidence(raised.line),), order=raised.line.order)
    yield from _children(case)
    yield from _forked(case)


def _forked(case: Case) -> Iterator[Sign]:
    """A warning about a fork of a process with threads, after which no step came."""
    last = case.log.lines[-AT_END:]
    warned = next((line for line in last if "parallelism" in line.lowered and "deadlock" in line.lowered), None)
    if warned is None or case.log.finished is not None or any(one.kind for one in case.log.raised) or case.log.deaths:
        return
    if not any(metric.line.order > warned.order and metric.step for metric in case.log.metrics):
        says = "workers were forked after a library had started threads, and no step came after it"
        yield Sign("strong", says, (evidence(warned),), fatal=False, order=warned.order)


def _waiting(case: Case, raised: Raised) -> Frame | None:
    """The frame that waits for the loader: its queue, its workers' end, or merely its next batch after Ctrl-C."""
    frame = frame_in(raised, FILE, WAITS) or next((one for one in raised.frames if compiled(QUEUE).search(one.code)), None)
    if frame is not None or frame_in(raised, FILE, ERRORS):
        return frame
    last = raised.frames[-1]
    starts = frame_in(raised, FILE, ITERATES) is not None and any("w.start()" in one.code for one in raised.frames)
    if starts and interrupted(case, raised) and not moved_before(case, raised):
        return last  # a worker that is still being started
    cut = raised.stack_only and interrupted(case, raised)  # the innermost frames are missing
    return last if cut and compiled(FILE).search(last.file) and compiled(ITERATES).search(last.function) else None


def _worker(case: Case, raised: Raised) -> Iterator[Sign]:
    """A worker that a debugger found inside its data set; one that waits for work is well."""
    if any(compiled(IDLE).search(frame.code) for frame in raised.frames):
        return
    frame = next((one for one in raised.frames if compiled(WORKS).search(one.function)), None)
    if frame is None or not interrupted(case, raised):
        return
    if dumped(case, raised):
        says = f"a worker was stuck in {raised.frames[-1].function}, called by {frame.function}"
        yield Sign("decisive", says, (evidence(raised.line),), order=raised.line.order)
    else:
        says = f"a worker was working in {frame.function} when it was interrupted"
        yield Sign("weak", says, (evidence(raised.line),), order=raised.line.order)


def _sleeps(raised: Raised) -> bool:
    last = raised.frames[-1]
    if "_shutdown" in raised.functions or "_exit_function" in raised.functions:
        return False
    return bool(compiled(SLEEPS).search(last.function) and compiled(STOOD_FILE).search(last.file))


def _children(case: Case) -> Iterator[Sign]:
    """Workers that have ended and that nobody joined, or a native stack that waits for a lock in a worker."""
    errors = any(one.kind and one.kind != "KeyboardInterrupt" and not one.survivable for one in case.log.raised)
    for line in case.log.lines:
        lowered = line.lowered
        if ("<defunct>" in lowered or "zombie" in lowered) and compiled(ZOMBIE).search(line.text) and not errors:
            ours = compiled(OUR_CHILD).search(line.text)
            says = "a child process is dead and its parent still waits for it"
            if ours and "avoid zombies" not in lowered:
                yield Sign("strong", says, (evidence(line),), order=line.order)
                return
        if ("pthread_cond" in lowered or "futex" in lowered or "sem_wait" in lowered or "lll_lock" in lowered) and (
            not errors and compiled(NATIVE).search(line.text)
        ):
            near = case.log.around(line, 20, 20)
            loader = any(compiled(IN_LOADER).search(other.text) for other in near)
            says = "a native stack waits for a lock" + (", in the loader's libraries" if loader else "")
            yield Sign("strong" if loader else "weak", says, (evidence(line),), order=line.order)
            return


def in_recorder(case: Case) -> Iterator[Sign]:
    """Where the rank that the others wait for stands, and its workers."""
    found = stall(case)
    if found is not None and found.cause == "hang/dataloader":
        yield Sign(found.strength, found.says, found.evidence, order=order(case))


fixes = (
    Fix(
        "Use no threads in forked workers",
        "exact",
        "OpenCV: cv2.setNumThreads(0) in the worker; OpenMP, tokenizers and BLAS by environment variables",
        environment={"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OPENBLAS_NUM_THREADS": "1"},
    ),
    Fix(
        "Start workers with spawn or forkserver",
        "same-recipe",
        "these inherit no locks; the dataset must be picklable",
        settings={"loader.context": "spawn"},
    ),
)
experiment = Experiment(
    title="Run past this point with num_workers=0, and once more with the old number and timeout=120 on the loader",
    change={"loader.workers": 0},
    confirms="it passes without workers, and the loader times out with them",
    refutes="it also hangs without workers: then py-spy dump shows where",
)
