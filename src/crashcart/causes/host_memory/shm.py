"""Shared memory (``/dev/shm``) is too small for what loader workers or NCCL put there.

What happens: a worker writes a batch into shared memory, the file system behind it is full, and the kernel answers with
SIGBUS or ``No space left on device``.

Why: containers get 64 MB of ``/dev/shm`` by default. Every prefetched batch of every worker lies there, NCCL puts
buffers of some megabytes for each pair of ranks beside them, and files of killed runs stay until someone removes them.

How it shows: ``DataLoader worker (pid ...) is killed by signal: Bus error``, ``unable to write to file </torch_...>``,
NCCL's ``posix_fallocate failed`` or ``failed to extend /dev/shm/nccl-...``, and ``Errno 28`` when a semaphore is
created. It speaks of space on a device, but not of the disk. A worker that ``exited unexpectedly`` without a word is
mostly this in a container. A recording shows how full ``/dev/shm`` was when it happened.

What to do: ``docker run --ipc=host`` or ``--shm-size=16g``; in Kubernetes an ``emptyDir`` with ``medium: Memory`` on
``/dev/shm``; fewer workers, less prefetch; remove stale ``/dev/shm/torch_*`` and ``nccl-*``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes.host_memory._before import prefetched, smaller
from crashcart.causes.host_memory._kills import ECHOES
from crashcart.causes.host_memory._recorded import gib, last_of
from crashcart.deaths import deaths, finished, hung, order
from crashcart.flight import clock
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign
from crashcart.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Raised

title = "Shared memory (/dev/shm) is too small"
phrases = (
    decisive("killed by signal: bus", "bus error encountered in", "workers are out of shared memory",
             "insufficient shared memory", says="a loader worker died of a bus error in shared memory"),
    decisive("unable to write to file </torch_", "unable to allocate shared memory(shm)", "unable to mmap",
             "unable to resize file", says="torch could not place a tensor in shared memory",
             pattern=r"</torch_|filename not specified|shared memory\(shm\)|to the right size"),
    decisive("posix_fallocate failed", "failed to extend /dev/shm", "shared memory segment /dev/shm", "/dev/shm/nccl",
             says="NCCL could not allocate shared memory", any_level=True,
             pattern=r"fail|error|no space|unable|could not", unless=r"NCCL INFO"),
    decisive("/dev/shm", says="/dev/shm is full", any_level=True,
             pattern=r"/dev/shm.{0,80}(?:no space left|errno 28|\(28\))|(?:no space left|errno 28|\(28\)).{0,80}/dev/shm"),
    strong("torch_shm_manager", says="torch's shared memory helper failed", pattern=r"error|unable|fail|not start"),
    weak("errno 28] no space left", says="joblib fell back to serial mode because shared memory is too small", pattern="joblib",
         fatal=False, any_level=True),
    weak("unable to open shared memory object", says="a shared memory file had disappeared", pattern=r"no such file|No space"),
    weak("bus error", "总线错误", "bus-zugriffsfehler", says="a process died of a bus error"),
    weak("exited unexpectedly", says="a loader worker vanished", pattern="DataLoader worker|worker"),
)  # fmt: skip
_SEMAPHORE = frozenset({"SemLock", "Lock", "RLock", "Semaphore", "BoundedSemaphore", "_make_name"})
_BUS_ERROR = (
    r"^.{0,40}(?:总线错误|总线出错|Bus-Zugriffsfehler|Erreur du bus|Error del bus|Errore di bus|Ошибка "
    r"шины|バスエラー)|^Fatal Python error: Bus error"
)
_RECORDED = Pattern(r"[Bb]us error|shared memory|/dev/shm|</torch_|SemLock|exited unexpectedly")
_FULL = 0.02
_MAPPED = r"lmdb|memmap|safetensors|mmap_mode|nfs|num_workers\W{1,3}0\b|hardware memory corruption"


def in_log(case: Case) -> Iterator[Sign]:
    """Errno 28 at a semaphore, a bus error without another explanation, a worker that vanished without a word."""
    for raised in case.log.raised:
        if at_semaphore(raised):
            says = "a semaphore could not be created; semaphores live in /dev/shm, although the message says 'device'"
            yield Sign("decisive", says, (evidence(raised.line),), order=raised.line.order)
    mapped = any(compiled(_MAPPED).search(line.text) for line in case.log.lines[-60:])
    for death in case.log.deaths:
        if death.signal == "SIGBUS":
            says = "a process died with SIGBUS, which happens when shared memory is full"
            yield Sign("weak" if mapped else "strong", says, (evidence(death.line),), order=death.line.order)
            break
    else:
        for line in case.log.lines:
            if compiled(_BUS_ERROR).search(line.text):
                says = "the shell reports a bus error, which happens when shared memory is full"
                yield Sign("weak" if mapped else "strong", says, (evidence(line),), order=line.order)
                break
    yield from _vanished(case)


def in_recorder(case: Case) -> Iterator[Sign]:
    """How full /dev/shm was when a process died as it does without it; or that a worker died of something else.

    That there was room a second before says nothing: one large batch fills it at once.
    """
    if finished(case) or hung(case):
        return
    ends = deaths(case)
    fitting = next((end for end in ends if end.signal == "SIGBUS" or end.says(_RECORDED)), None)
    used, free = (last_of(case, "host", f"shm_{what}", fitting.time) if fitting else None for what in ("used", "free"))
    if fitting is not None and used is not None and free is not None and free < _FULL * (used + free):
        at = clock(fitting.time)
        says = f"{gib(used)} of /dev/shm were used and {gib(free)} were free"
        seen = Evidence("recorder", says, f"recorder {at}", rank=fitting.process.rank, time=at)
        yield Sign("decisive", f"{says} when {fitting.how}", (seen, fitting.evidence), order=order(case))
    worker = next((end for end in ends if end.process.role == "loader worker"), None)
    if worker is not None and worker.signal != "SIGBUS":
        yield Sign("against", f"{worker.how}, not by a bus error", (worker.evidence,), order=order(case))


def _vanished(case: Case) -> Iterator[Sign]:
    echoes = ECHOES - {"KeyboardInterrupt"}
    own = [one for one in case.log.raised if one.kind and not one.survivable and one.kind not in echoes]
    alone = all("exited unexpectedly" in one.message or "DataLoader worker" in one.message for one in own)
    killed = any(death.signal not in {None, "SIGTERM"} for death in case.log.deaths)
    for line in case.log.index.saying(("exited unexpectedly",)):
        if "dataloader worker" in line.lowered:
            if alone and not killed and "with exit code" not in line.lowered:  # a bus error leaves none
                says = "a loader worker exited without an error message; full shared memory is the most common reason, the OOM killer the next"
                yield Sign("strong", says, (evidence(line),), order=line.order)
            return


def at_semaphore(raised: Raised) -> bool:
    """Whether the exception comes from creating a semaphore, which needs room in /dev/shm."""
    if not compiled(r"Errno (?:28|38|13)\b").search(f"{raised.line.text} {raised.message[:200]}"):
        return False
    inner = raised.frames[-3:]
    return any(frame.function in _SEMAPHORE or "synchronize.py" in frame.file or "SemLock" in frame.code for frame in inner)


def in_data(case: Case) -> Iterator[Sign]:
    """Before the start: batches that workers make ahead, against the size of /dev/shm, where the job runs here."""
    yield from prefetched(case, next(iter(case.all("host.shm_bytes")), None), "/dev/shm", shared=True)


def fix(case: Case) -> Iterator[Fix]:
    """Before the start the numbers that fit; more room, or less in it."""
    if case.before:
        yield from smaller(case, next(iter(case.all("host.shm_bytes")), None), shared=True)
    yield from by_hand


by_hand = (
    Fix(
        "Give the container more shared memory",
        "exact",
        "use docker run --ipc=host or --shm-size=16g; in Kubernetes mount an emptyDir of medium Memory at /dev/shm",
    ),
    Fix(
        "Prefetch fewer batches into shared memory",
        "same-recipe",
        "workers x prefetch factor x batch size must fit into /dev/shm",
        settings={"loader.workers": "half", "loader.prefetch": 2},
    ),
)
experiment = Experiment(
    title="Watch `df /dev/shm` while the first batches load, once unchanged and once with num_workers=0",
    change={"loader.workers": 0},
    start_from="the beginning",
    stop_after="past the batch where it failed",
    confirms="/dev/shm reaches 100 % right before the error with workers, and the run without workers passes",
    refutes="/dev/shm stays far from full and it still fails: look for a damaged memory-mapped file or a full disk",
)
