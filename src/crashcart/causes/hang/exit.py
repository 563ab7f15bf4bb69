"""The work is done, but the process never exits.

What happens: the last epoch is trained and saved, then nothing; the job holds its cards until somebody kills it.

Why: a thread that is not a daemon (writers, samplers, queues), worker processes that do not end, a pool that is joined at
exit, a ``destroy_process_group`` that waits for a rank which is gone or still in a collective; one rank that never leaves
the loop.

How it shows: after Ctrl-C the stack is in ``threading._shutdown``, ``_python_exit``, ``_exit_function``, ``atexit``,
``__del__`` or ``destroy_process_group``, or only the launcher's ``process.wait()`` is there.

What to do: close writers, loaders and pools yourself, barrier and ``destroy_process_group()`` on all ranks at the end of
the program. Check first that the last checkpoint is whole: then the run itself is not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, weak
from crashcart.causes.hang._stacks import TRACKERS, frame_in, in_tracker, standing
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "The work is done, but the process does not exit"
phrases = (
    weak("in _python_exit", "in _exit_function", "in _shutdown", "_run_exitfuncs", "destroy_process_group",
         "exit barrier. waiting",
         says="the end of the process is on a stack", fatal=False),
)  # fmt: skip
AT_EXIT = r"^(?:_shutdown|_python_exit|_exit_function|_run_exitfuncs|destroy_process_group|_exit_barrier|_run_finalizers)$"
CLOSES = r"^(?:__del__|_shutdown_workers|close|shutdown)$"
LAUNCHER = r"distributed[/\\](?:launch|run|launcher|elastic)|accelerate|deepspeed|multiprocessing[/\\]spawn"
WAITS = r"^(?:wait|_wait|_try_wait|join|poll)$"
STOOD = r"queue\.py|threading\.py|popen_fork|synchronize\.py|connection\.py"


def in_log(case: Case) -> Iterator[Sign]:
    """A stack in the interpreter's end, or nothing but a launcher that waits."""
    for raised in standing(case):
        frame = frame_in(raised, r".", AT_EXIT)
        if frame is not None and "_bootstrap" not in raised.functions and not in_tracker(raised):
            first = not any(one.kind and one.line.order < raised.line.order for one in case.log.raised)
            says = f"the program stood in {frame.function}" + (", after its work" if first else ", after another error")
            yield Sign("decisive" if first else "weak", says, (evidence(raised.line),), order=raised.line.order)
        elif frame_in(raised, LAUNCHER, r".") and compiled(WAITS).search(raised.frames[-1].function):
            alone = len(case.log.raised) == 1 and not case.log.metrics
            says = "only the launcher is seen, and it waits for a process that does not end"
            yield Sign("strong" if alone else "weak", says, (evidence(raised.line),), order=raised.line.order)
    yield from _closing(case)


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
            says = "a writer's thread was closed while the interpreter was going down"
            yield Sign("strong", says, (evidence(raised.line),), fatal=False, order=raised.line.order)


fixes = (
    Fix(
        "End what was started",
        "by-hand",
        "writer.close(), pool.shutdown(), del the loader's iterator, then dist.barrier() and "
        "dist.destroy_process_group() on every "
        "rank; make helper threads daemons",
    ),
)
experiment = Experiment(
    title="Run a few steps to the regular end, then `py-spy dump` each process that is still there after a minute",
    start_from="the newest whole checkpoint",
    stop_after="one minute after the last line",
    confirms="the stack is in the interpreter's shutdown, and names the thread or process that it waits for",
    refutes="the process is gone, or a rank is still in the training loop (then the ranks took different paths)",
)
