"""The program waits for a file lock that is never released, or for a file system that does not respond.

What happens: start-up stops without an error, mostly at an extension build, a model or data cache, or a network folder.

Why: an interrupted build left its ``lock`` file in the extension cache; the cache lies on a file system without working
locks (NFS without lockd, object-store mounts); another rank holds the lock and died; a server does not answer.

How it shows: the stack is in ``file_baton.wait``, ``filelock``'s ``acquire`` or ``flock``; ``Lock ... not acquired ...,
waiting 0.05 seconds`` again and again; ``No locks available``; the last line is ``Using ... as PyTorch extensions
root...``; the kernel reports tasks blocked for more than 120 seconds. A recording names the system
call (``flock``, ``fsync``) and the file.

What to do: make sure that no build runs, then delete the lock file it names; put caches on a local disk
(``TORCH_EXTENSIONS_DIR``, ``HF_HOME``, ``TRITON_CACHE_DIR``); build once before the ranks start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong, weak
from crashcart.causes.hang._outside import asks, between_threads
from crashcart.causes.hang._recorded import OUTSIDE, TIME_OUT, stall
from crashcart.causes.hang._stacks import frame_in, standing
from crashcart.deaths import order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crashcart.case import Case

title = "The program is stuck waiting for a lock, a file system or an answer from outside"
alike = ("hang/dataloader", "distributed/slow-rank")
LAST_WORD = (
    r"Setting up PyTorch plugin|(?:Loading|Building|Compiling) extension module|Using .{0,100}torch_extensions.{0,100} as PyTorch extensions root|"
    r"Emitting ninja build file|Detected CUDA files, patching ldflags|[Ww]aiting (?:for|to acquire) (?:the )?(?:file ?)?lock"
)

phrases = (
    decisive("no locks available", unless=r"HDF5|H5|h5py|unable to (?:lock|open) file|MDB_",
             says="the file system has no working locks"),
    strong("the file lock", pattern=r"could not be acquired", says="a file lock could not be acquired in time"),
    strong("waited on lock file", "blocked for more than", pattern=r"lock file|task python\S{0,200}:?\d{0,20} blocked|"
           r"task \S{1,200}:\d{1,20} blocked", any_level=True,
           says="a task waits for the file system"),
    strong("alreadylocked", "lockfailed", "locktimeout", "lockacquireerror", "acquirelockerror",
           pattern=r"(?:^|[\s.:])(?:AlreadyLocked|LockFailed|LockTimeout|LockAcquireError|LockException)\b",
           says="a lock library gave up on a lock"),
    strong("rpc_wait_bit", "nfs4_wait", "nfs_wait", "in d state", "uninterruptible sleep", pattern=r"\bin D state|uninterruptible sleep|"
           r"rpc_wait_bit_killable|nfs4?_wait\w*", any_level=True, says="a task is blocked in the file system and cannot be interrupted"),
    strong("torch_extensions", ".lock", " lock", says="a stale lock file exists",
           pattern=r"^[-d]r[-rwxsSt]{8}\S?\s.{0,200}\s0 \w.{0,200}\s\S{0,200}\.?lock\s{0,20}$|rm (?:-\w{1,60} )?\S{0,200}(?:torch_extensions|\.cache|triton)\S{0,200}lock\b"),
    weak("stale file handle", "still waiting to acquire lock", "not acquired on", "pytorch extensions root", "file_baton",
         "filelock", "fcntl.flock", "nfs: server", "lock file exists in build",
         says="locks and caches on a network folder", fatal=False),
)  # fmt: skip
FILE = r"file_baton|filelock|portalocker|fasteners|lockfile|lockutils"
CALLS = r"fcntl\.(?:flock|lockf)|baton\.wait|FileLock\(|os\.link\(.{0,200}lock|\block\.acquire\(.{0,200}(?:file|path)"
LOCK = r"wait|acquire|lock|__enter__|sleep"
WAITING = r"not acquired on (\S+?),? |Still waiting to acquire lock on (\S+)"
TAKEN = r"acquired on|acquired lock|released on"
LAST_WORDS = (
    r"Lock file exists in build directory|not responding, still trying|as PyTorch extensions root\.\.\.\s*$|"
    r"^\s*Loading extension module \S+\.\.\.\s*$|Waiting for (?:the )?(?:file )?lock"
)
AT_END = 6
NO_LOCKS = (
    r"Errno (?:5|11|35|37|38|45|77|95|116|121|122|524)\]|Input/output error|not supported|not implemented|stale|timed? ?out"
)
stacks = (Stack(r"file_baton\.py:wait|/filelock/|portalocker/|:flock$", "the traceback ends where a file lock is awaited"),)


def in_log(case: Case) -> Iterator[Sign]:
    """A stack in a lock, a lock that is asked for again and again, or a build whose announcement is the last word."""
    last = case.log.lines[-1] if case.log.lines else None
    if last is not None and compiled(LAST_WORD).search(last.text) and "done" not in last.lowered:
        says = "the last message is about building an extension or waiting for a lock"
        yield Sign("strong", says, (evidence(last),), order=last.order)
    for raised in standing(case):
        frame = frame_in(raised, FILE, LOCK) or next(
            (one for one in raised.frames if compiled(CALLS).search(one.code)), None
        )
        if frame is not None:
            says = f"the program was stuck in {frame.file}, waiting for a lock"
            yield Sign("decisive", says, (evidence(raised.line),), order=raised.line.order)
    for raised in case.log.raised:
        if (
            not raised.kind
            or raised.survivable
            or not compiled(NO_LOCKS).search(f"{raised.line.text} {raised.message[:200]}")
        ):
            continue
        inner = raised.frames[-2:]
        if any(compiled(FILE).search(one.file) or compiled(CALLS).search(one.code) for one in inner):
            says = f"{raised.kind} from a lock: locks do not work properly on this file system"
            yield Sign("decisive", says, (evidence(raised.line),), order=raised.line.order)
    lines = case.log.lines
    asked = [line for line in lines if "acquire" in line.lowered and compiled(WAITING).search(line.text)]
    if asked and not any(
        compiled(TAKEN).search(line.text) and "not acquired" not in line.lowered for line in lines[-AT_END:]
    ):
        near_end = asked[-1].order >= lines[-min(AT_END, len(lines))].order
        says = f"a lock was requested {len(asked)} time(s) and not granted"
        yield Sign(
            "decisive" if near_end and len(asked) > 1 else "weak", says, (evidence(asked[-1]),), order=asked[-1].order
        )
    if lines and compiled(LAST_WORDS).search(lines[-1].text):
        says = "the log ends where an extension is built or loaded, or a file server is used: such waits print nothing"
        yield Sign("strong", says, (evidence(lines[-1]),), order=lines[-1].order)


def in_machine(case: Case) -> Iterator[Sign]:
    """Tasks that the kernel saw waiting, and file servers that did not answer."""
    for event in case.kernel:
        if event.kind in {"hung-task", "nfs"} and event.ours is not False:
            says = "the kernel reports that the program waits for a file system"
            yield Sign("strong" if event.ours else "weak", says, (event.evidence,))


def in_recorder(case: Case) -> Iterator[Sign]:
    """A rank whose system call or whose frames wait for a lock, a file or an answer."""
    found = stall(case)
    if found is not None and found.cause == "hang/lock-or-io":
        yield Sign(found.strength, found.says, found.evidence, order=order(case))


fixes = (
    Fix(
        "Delete the stale lock and move the cache to a local disk",
        "exact",
        "check with `fuser` that no build is running, then delete the `lock` file in the folder named in the log",
        environment={"TORCH_EXTENSIONS_DIR": "/tmp/torch_extensions", "TRITON_CACHE_DIR": "/tmp/triton_cache"},
    ),
)
ANSWER = Fix("Answer the prompt, or remove it", "by-hand", "a breakpoint() or input() was left in the code")
RELEASE = Fix(
    "Let the wait end when the other side is gone",
    "by-hand",
    "the stacks of all threads are in the run folder: find the one that should release it. A thread that may fail needs a `finally` "
    "(task_done(), release(), a sentinel in the queue) and must pass its exception on; always take two locks in the same order; "
    "`get(timeout=...)` or `join(timeout=...)` with a check of `is_alive()` turns a hang into an error",
)


def fix(case: Case) -> Iterable[Fix]:
    """A question needs an answer, a deadlock of threads a release, a server a time-out; only a lock in a file another folder."""
    if asks(case):
        return (ANSWER,)
    if between_threads(case):
        return (RELEASE,)
    found = stall(case)
    return (TIME_OUT,) if found is not None and OUTSIDE in found.says else fixes


experiment = Experiment(
    title="Start once with an empty cache folder on a local disk",
    start_from="the beginning",
    stop_after="the first step",
    confirms="it passes this point at once; with the old cache folder it hangs there again",
    refutes="it hangs at the same place with the new folder: then py-spy dump shows what it waits for",
)
