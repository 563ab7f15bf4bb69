"""Training is done, but the process does not exit.

What happens: the last epoch is trained and saved, then nothing; the job holds its cards until somebody kills it.

Why: a thread that is not a daemon (writers, samplers, queues), worker processes that do not end, a pool that is joined at
exit, a ``destroy_process_group`` that waits for a rank which is gone or still in a collective; one rank that never leaves
the loop.

How it shows: after Ctrl-C the stack is in ``threading._shutdown``, ``_python_exit``, ``_exit_function``, ``atexit``,
``__del__`` or ``destroy_process_group``, or only the launcher's ``process.wait()`` is there. A recording shows a
rank in the phase 'exit', and the threads that are still there.

What to do: close writers, loaders and pools yourself, barrier and ``destroy_process_group()`` on all ranks at the end of
the program. First check that the last checkpoint is complete: then the run itself is not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, weak
from crashcart.causes._joined import edits_of, ranks
from crashcart.causes.hang._recorded import stall
from crashcart.causes.hang._stacks import TRACKERS, before, frame_in, in_tracker, standing
from crashcart.deaths import order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line, Raised

title = "Training is done, but the process does not exit"
alike = ("hang/lock-or-io", "tracker/blocked")
LAST_WORD = r"^\W*(?:destroying|shutting down|cleaning up|closing|terminating) (?:the )?(?:process group|distributed|workers|dataloader)"

phrases = (
    weak("in _python_exit", "in _exit_function", "in _shutdown", "_run_exitfuncs", "destroy_process_group",
         "exit barrier. waiting", "for other agents to finish", "destroying process group", "destroy process group",
         "_finalize_join", says="a stack shows the process exiting", fatal=False),
)  # fmt: skip
AT_EXIT = (
    r"^(?:_shutdown|_python_exit|_exit_function|_run_exitfuncs|destroy_process_group|_exit_barrier|_run_finalizers|"
    r"_finalize_join|_finalize_close|_terminate_pool|_exit_handler|_at_?exit\w*|shutdown_default_executor)$"
)
CLOSES = r"^(?:__del__|_shutdown_workers|close|shutdown)$"
LAUNCHER = r"distributed[/\\](?:launch|run|launcher|elastic)|accelerate|deepspeed|multiprocessing[/\\]spawn"
WAITS = r"^(?:wait|_wait|_try_wait|join|poll)$"
STOOD = r"queue\.py|threading\.py|popen_fork|synchronize\.py|connection\.py"
RANK = r"rank\W{0,3}(\d+)"
LEAVES = r"\bdestroy(?:ing|s)? (?:the )?process group\W*$"
LEFT = r"\bdestroy(?:ed|ing)? (?:the )?process group.{0,4}(?:finished|done|complete)|\bprocess group (?:was )?destroyed"
BARRIER = r"Waiting \d+ seconds for other agents to finish"
AT_END = 5


def in_log(case: Case) -> Iterator[Sign]:
    """A stack in the interpreter's end, a launcher that waits, ranks that do not come back from their good-bye."""
    for raised in standing(case):
        frame = frame_in(raised, r".", AT_EXIT)
        if frame is None and any("atexit._run_exitfuncs" in line.text for line in before(case, raised, 2)):
            frame = raised.frames[-1]
        if frame is not None and "_bootstrap" in raised.functions:
            yield from _child(case, raised, frame.function)
        elif frame is not None and not in_tracker(raised):
            first = not any(one.kind and one.line.order < raised.line.order for one in case.log.raised)
            says = f"the program was stuck in {frame.function}" + (", after its work" if first else ", after another error")
            yield Sign("decisive" if first else "weak", says, (evidence(raised.line),), order=raised.line.order)
        elif frame_in(raised, LAUNCHER, r".") and compiled(WAITS).search(raised.frames[-1].function):
            alone = len(case.log.raised) == 1
            says = "only the launcher is visible; it waits for a process that does not end"
            yield Sign("strong" if alone else "weak", says, (evidence(raised.line),), order=raised.line.order)
        elif _done_but_joining(case, raised):
            says = "the work was done, and the program was stuck while stopping its loader's workers"
            yield Sign("decisive", says, (evidence(raised.line),), order=raised.line.order)
    yield from _closing(case)
    yield from _good_byes(case)
    yield from _last_word(case)


def _last_word(case: Case) -> Iterator[Sign]:
    """A log whose very last line begins the good-bye: weak, since a run that ended well can stop there too."""
    last = case.log.lines[-1] if case.log.lines else None
    if last is not None and compiled(LAST_WORD).search(last.text):
        yield Sign(
            "weak",
            "the last message is about destroying the process group",
            (evidence(last),),
            order=last.order,
        )


def _child(case: Case, raised: Raised, function: str) -> Iterator[Sign]:
    """A child that was interrupted in its own end; where the main process shows a stack too, that one tells more."""
    others = any(
        one is not raised and one.frames and "_bootstrap" not in one.functions and not one.survivable
        for one in case.log.raised
    )
    says = f"a child process was stuck in {function} while exiting"
    yield Sign("weak" if others else "strong", says, (evidence(raised.line),), order=raised.line.order)


def _done_but_joining(case: Case, raised: Raised) -> bool:
    finished = case.log.finished
    ends = {"_shutdown_workers", "_shutdown_worker"} & set(raised.functions)
    return bool(ends) and finished is not None and finished.order < raised.line.order


def _good_byes(case: Case) -> Iterator[Sign]:
    """Ranks that began to leave and never said that they had, and agents that wait for others as their last word."""
    leaving: dict[str, Line] = {}
    left: set[str] = set()
    for line in case.log.lines:
        if "process group" not in line.lowered or "destroy" not in line.lowered:
            continue
        match = compiled(RANK).search(line.text)
        rank = match[1] if match else str(line.rank)
        if compiled(LEFT).search(line.text):
            left.add(rank)
        elif compiled(LEAVES).search(line.text):
            leaving[rank] = line
    stuck = [rank for rank in leaving if rank not in left]
    if left and stuck:
        says = f"rank(s) {', '.join(stuck)} never returned from destroy_process_group()"
        yield Sign("strong", says, (evidence(leaving[stuck[0]]),), order=leaving[stuck[0]].order)
    last = case.log.lines[-AT_END:]
    waits = next((line for line in last if "other agents" in line.lowered and compiled(BARRIER).search(line.text)), None)
    if waits is not None and not any("done waiting" in line.lowered for line in last):
        says = "an agent waits for others to finish, and this is its last message"
        yield Sign("strong", says, (evidence(waits),), fatal=False, order=waits.order)


def _closing(case: Case) -> Iterator[Sign]:
    """A finalizer that failed in a queue or a thread after the work was done: what it should have ended is still there."""
    finished = case.log.finished
    for raised in case.log.raised:
        if finished is None or not raised.survivable or raised.line.order < finished.order or not raised.frames:
            continue
        stood = compiled(STOOD).search(raised.frames[-1].file) and compiled(TRACKERS).search(
            " ".join(frame.file for frame in raised.frames)
        )
        if stood and any(compiled(CLOSES).search(name) for name in raised.functions):
            says = "a writer's thread was closed while the interpreter was shutting down"
            yield Sign("strong", says, (evidence(raised.line),), fatal=False, order=raised.line.order)


def in_code(case: Case) -> Iterator[Sign]:
    """A thread that never ends and that the interpreter waits for; a process group that is left standing."""
    for fact in case.all("code.endless_thread"):
        says = f"the thread of {fact.value['target']}() never ends and is not a daemon, so the process never exits"
        yield Sign("strong", says, (fact.evidence,))
    if (ranks(case) or 1) > 1:
        for fact in case.all("code.group_left"):
            says = "nothing calls destroy_process_group(): ranks that end at different times can block each other"
            yield Sign("weak", says, (fact.evidence,), fatal=False)


def in_recorder(case: Case) -> Iterator[Sign]:
    """A program that has ended and stands in its interpreter's end."""
    found = stall(case)
    if found is not None and found.cause == "hang/exit":
        yield Sign(found.strength, found.says, found.evidence, order=order(case))


def fix(case: Case) -> Iterator[Fix]:
    """Threads that do not hold the interpreter; then the general remedies."""
    edits = edits_of(case.all("code.endless_thread"))
    if edits:
        yield Fix(
            "Make the thread a daemon", "exact", "the interpreter does not wait for daemon threads at exit", edits=edits
        )
    yield from fixes


fixes = (
    Fix(
        "Close everything that was started",
        "by-hand",
        "call writer.close() and pool.shutdown(), delete the loader's iterator, then call dist.barrier() and "
        "dist.destroy_process_group() on every "
        "rank; make helper threads daemons",
    ),
)
experiment = Experiment(
    title="Run a few steps to the normal end, then `py-spy dump` each process that is still there after a minute",
    start_from="the newest complete checkpoint",
    stop_after="one minute after the last line",
    confirms="the stack is in the interpreter's shutdown and shows the thread or process it waits for",
    refutes="the process is gone, or a rank is still in the training loop (then the ranks took different paths)",
)
