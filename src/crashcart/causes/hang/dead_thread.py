"""A thread or child process died, and the program waits for it forever.

What happens: training stands still, often at its end or at a save. No rank is missing and no file is locked: the main thread waits in
``queue.join()``, ``queue.get()``, ``Event.wait()``, ``future.result()``, ``pool.join()`` or a pipe.

Why: the thread that was to answer (an uploader, a prefetcher, a writer) raised an exception and ended before ``task_done()``, before
it put its result, or before it set its event. Python prints the exception of a thread and goes on. A worker process that was killed
leaves the same wait behind.

How it shows: ``Exception in thread NAME`` in the log, perhaps long before the standstill. A recording has the exception of the
thread with its place, and the stack of the main thread.

What to do: correct the error of the thread; it would have stayed hidden without the wait. Then let the wait end: ``task_done()`` in a
``finally``, the exception handed over through the queue or a future, ``get(timeout=...)`` with a look at ``is_alive()``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.account import reported, thread_deaths
from crashcart.cause import compiled, weak
from crashcart.causes.hang._recorded import ENDED_THREAD, stall
from crashcart.causes.hang._stacks import LINES_PER_FRAME, standing
from crashcart.deaths import finished, first, hung, order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.places import of_event, of_raised, own_place, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Raised

title = "A thread or child process died, and the program waits for it"
piece = None
alike = ("hang/lock-or-io", "hang/exit")
phrases = (
    weak("exception in thread", "exception in thread:", says="a thread of the program died", fatal=False, any_level=True),
)  # fmt: skip
WAITS = r"^(?:join|get|wait|result|_wait_for_tstate_lock|acquire|recv|_recv|wait_for)$"


def in_log(case: Case) -> Iterator[Sign]:
    """A thread that died, and a stack that waits in a queue, an event or a join; or a log that goes no further."""
    dead = _dead_in_log(case)
    if dead is None or case.flight is not None:
        return
    for raised in standing(case):
        if raised.frames and compiled(WAITS).search(raised.frames[-1].function) and raised.line.order > dead.line.order:
            says = f"a thread had died with {dead.kind}, and the program was stuck in {raised.frames[-1].function}()"
            yield Sign("decisive", says, (evidence(dead.line), evidence(raised.line)), order=dead.line.order)
            return


def _dead_in_log(case: Case) -> Raised | None:
    """The first exception that ended a thread."""
    for raised in case.log.raised:
        near = case.log.around(raised.line, before=LINES_PER_FRAME * (len(raised.frames) + 1)) if raised.kind else ()
        if any("exception in thread" in line.lowered for line in near):
            return raised
    return None


def in_recorder(case: Case) -> Iterator[Sign]:
    """The standstill after the death of a thread; and a thread that died in a run that went on without it."""
    found = stall(case)
    if found is not None and found.cause == "hang/dead-thread":
        yield Sign(found.strength, found.says, found.evidence, order=order(case))
        return
    dead = thread_deaths(case)
    if dead and not hung(case) and (finished(case) or first(case) is None):
        event = dead[0]
        place = own_place(of_event(event))
        said = words_of(event)
        says = f"thread {event.details.get('thread')} died with {event.details.get('type')}" + (
            f" at {place}" if place else ""
        )
        says += f" ({said})" if said else ""
        yield Sign("strong", f"{says}; the program continued without it", (event.evidence,), fatal=False, order=order(case))


def in_code(case: Case) -> Iterator[Sign]:
    """How the thread can have ended for which the program waits."""
    for fact in case.all(ENDED_THREAD):
        yield Sign("strong", fact.value["how"], (fact.evidence,))
        if fact.value["shown"]:
            yield Sign("weak", "its handler had printed this", tuple(fact.value["shown"]), fatal=False)


def fix(case: Case) -> Iterator[Fix]:
    """The error of the thread first, by its line; then the wait."""
    dead = thread_deaths(case)
    logged = _dead_in_log(case) or reported(case)
    if dead:
        place, said = own_place(of_event(dead[0])), f"{dead[0].details.get('type')}: {words_of(dead[0])}"
    elif logged is not None:
        place, said = (
            own_place(of_raised(logged)),
            f"{logged.kind}: {logged.message.splitlines()[0] if logged.message else ''}",
        )
    else:
        place = said = ""
    for fact in case.all(ENDED_THREAD)[:1]:
        title = f"Keep the thread in {fact.value['function']} alive, or pass its end on to who waits"
        yield Fix(title, "by-hand", f"at {fact.evidence.where}: {fact.value['how']}")
    if place:
        yield Fix(f"Fix the thread's error at {place}", "by-hand", f"the thread died there with {said}")
    yield Fix(
        "Make the wait end if the thread or process is gone",
        "by-hand",
        "call `task_done()` in a `finally`, pass the exception on through the queue or a future, and wait with a timeout "
        "that checks `is_alive()`",
    )


experiment = Experiment(
    title="Run the thread's work in the main thread, with the same input",
    start_from="the newest complete checkpoint",
    stop_after="the place where the thread died",
    confirms="the same exception is raised, now in the calling code",
    refutes="it works: then the thread died because of something threads share (a file, a device, a signal)",
)
