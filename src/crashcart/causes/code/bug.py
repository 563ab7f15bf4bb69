"""An exception in your code or a library that no other cause explains.

What happens: a process raises and nobody catches it.

Why: an ordinary programming error: a missing key, an attribute of None, a wrong argument, an assertion.

How it shows: a traceback. The last frame in your own files is mostly the place to look at; under several ranks the first
rank that raised counts, not the launcher's table. A recording knows the order, and a segmentation fault by its signal. ``terminate
called without an active exception`` with SIGABRT comes when a process ends while a thread of native code still works.

What to do: read the innermost frame of your own code; reproduce it on one process with ``CUDA_VISIBLE_DEVICES`` and
``num_workers=0`` so that nothing hides the place. Where a process aborts at its end, call ``destroy_process_group()`` and
drop the wrapped model before the program ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import strong
from crashcart.causes._joined import edits_of
from crashcart.causes.code._echoes import own
from crashcart.deaths import before, first, followers, order, swallowed
from crashcart.flight import clock, during
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign
from crashcart.places import in_words, of_event, of_raised, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.deaths import Death
    from crashcart.flight import Event
    from crashcart.log import Raised

title = "An exception in the program or a library"
breadth = 2
alike = ("code/version", "config/missing-or-wrong")
phrases = (
    strong("exception in main training loop", says="the training loop raised an exception"),
    strong("terminate called without an active exception",
           says="a native thread was still running when its process ended; in PyTorch this is mostly a gloo thread at the end of a "
           "program that had finished its work (pytorch#179291)"),
)  # fmt: skip
MESSAGE = 60
NOTICEABLE = 0.05  # seconds
FAULTS = {
    "SIGSEGV": "a segmentation fault", "SIGABRT": "an abort in C++ code", "SIGFPE": "an arithmetic fault",
    "SIGILL": "an instruction that the CPU does not support", "SIGBUS": "a bus error",
}  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """The first exception that nobody caught and that is no echo of another process."""
    leader = first(case)
    for raised in own(case):
        if leader is not None and leader.raised is not None and not _same(raised, leader.raised):
            continue  # a recording knows which one ended it
        place = in_words(of_raised(raised))
        says = f"{raised.kind} was raised" + (f" at {place}" if place else "")
        yield Sign("strong", says, (evidence(raised.line),), order=raised.line.order)
        return


def _same(raised: Raised, event: Event) -> bool:
    """Whether a traceback of the log is the recorded exception."""
    message = str(event.details.get("message", "")).split("\n", 1)[0].strip()[:MESSAGE]
    kind = str(event.details.get("type", "")).rpartition(".")[2]
    return raised.kind.rpartition(".")[2] == kind and message in raised.message


def in_recorder(case: Case) -> Iterator[Sign]:
    """The first process that ended by its own fault, and of earlier attempts those that ended them."""
    leader = first(case)
    if leader is not None and (says := _fault(leader)):
        rest = followers(case, leader)
        ahead = rest[0].time - leader.time if rest else 0.0
        alone = f"{ahead:.1f} s before any other rank ended" if ahead >= NOTICEABLE else ""
        if case.flight is not None and case.flight.ending.get("code") == 0:
            says += "; its parent process still exited with code 0"
        fatal = [evidence(line) for line in case.log.lines if "fatal python error:" in line.lowered]
        shown = (_last_stack(case, leader) or fatal[:1]) if leader.signal in FAULTS else []
        sure = leader.process.reached or leader.signal is not None or not case.log.uncaught()  # else the log knows more
        yield Sign(
            "strong" if sure else "weak", f"{says}{alone and f' ({alone})'}", (leader.evidence, *shown), order=order(case)
        )
    elif leader is None and case.flight is not None and case.exit is not None and case.exit.signal in FAULTS:
        says = f"the job was killed by {case.exit.signal}, {FAULTS[str(case.exit.signal)]}, before it could be examined"
        yield Sign("strong", says, (case.exit.evidence,), order=order(case))
    if (hidden := swallowed(case)) is not None and (says := _fault(hidden)):
        trained = hidden.process.page.get("steps", 0.0) > 0  # else it may be a helper that is allowed to fail
        told = f"{says}; its parent process still exited with code 0"
        yield Sign("strong", told, (hidden.evidence,), fatal=trained, order=order(case))
    for death in before(case):
        if says := _fault(death):
            again = f"{says} in attempt {death.attempt + 1} at {clock(death.time)}; the job was restarted after that"
            yield Sign("strong", again, (death.evidence,), fatal=False, order=order(case))


def _last_stack(case: Case, death: Death) -> list[Evidence]:
    """The stack that the interpreter wrote when the signal hit it."""
    for dump in case.flight.stacks if case.flight is not None else ():
        for stood in dump.stood:
            if stood.pid == death.process.pid and dump.reason == "a fatal signal" and stood.frames:
                quote = "; ".join(f"{frame.file}:{frame.line} in {frame.function}" for frame in stood.frames[:4])
                where = f"stacks/fatal-signal/process-{stood.pid}.txt"
                return [Evidence("stacks", quote, where, rank=stood.rank)]
    return []


def _fault(death: Death) -> str:
    """What it did, in words; nothing where a signal from outside ended it."""
    if death.raised is not None:
        place = in_words(of_event(death.raised))
        where = f" at {place}" if place else ""
        said = words_of(death.raised)
        return f"{death.how}{where} {during(death.raised.details.get('phase'))}" + (f": {said}" if said else "")
    if death.signal in FAULTS:
        phase = f" {during(death.process.phase)}" if death.process.phase != "unknown" else ""
        return f"{death.how}, {FAULTS[str(death.signal)]}{phase}"
    if not death.process.reached:
        return death.how if death.code else ""
    return f"{death.how}, without an exception" if death.code else ""


LOOK = Fix("Look at the innermost frame in your own code", "by-hand", "the traceback names the file and line")
SYNTAX = Fix("Fix the syntax error", "by-hand", "`python -m py_compile FILE` with the job's Python shows the line")
QUIET = Fix(
    "Find what ended the process without an exception",
    "by-hand",
    "os._exit, sys.exit in a handler, or exit() in native code: search the program and its launcher for the exit code, and add a "
    "print before each; the last line of output is close to the place",
)
NATIVE = Fix(
    "Look at the stack that was recorded when the signal arrived",
    "by-hand",
    "the innermost frame called native code. Usual reasons: an extension built for another version of torch or CUDA, a null pointer, "
    "a memory-mapped file that was truncated. gdb or `python -X faulthandler` on one process shows more",
)


def in_code(case: Case) -> Iterator[Sign]:
    """A file that is no Python; something that cannot be pickled, handed to a process that is spawned."""
    for fact in case.all("code.no_python"):
        says = f"this file raises a SyntaxError ({fact.value['problem']}), unless the job's Python is newer than {fact.value['python']}"
        yield Sign("strong" if fact.value["entry"] else "weak", says, (fact.evidence,), fatal=fact.value["entry"])
    for fact in case.all("code.unpicklable"):
        workers = fact.value["workers"] if fact.value["workers"] is not None else case.number("loader.workers")
        if workers == 0:
            continue
        says = f"{fact.value['what']} cannot be pickled, but {fact.value['to']} needs that with spawn"
        if workers is None:
            yield Sign("strong", f"{says}: it fails if there are workers", (fact.evidence,))
        else:
            yield Sign("decisive" if fact.value["sure"] else "strong", says, (fact.evidence,))


def fix(case: Case) -> Iterator[Fix]:
    """By how it ended: an exception has a place, a signal a stack, an exit code neither; a lambda can be given a name."""
    edits = edits_of(case.all("code.unpicklable"))
    if edits:
        yield Fix("Replace the lambda by a named function", "exact", "pickle finds functions by their name", edits=edits)
    if case.all("code.no_python"):
        yield SYNTAX
        return
    leader = first(case)
    if leader is None or leader.raised is not None:
        yield LOOK
    else:
        yield NATIVE if leader.signal in FAULTS else QUIET if leader.code else LOOK


experiment = Experiment(
    title="Run one process with num_workers=0 on the batch where it failed",
    start_from="the newest complete checkpoint",
    stop_after="the failing step",
    confirms="the same exception at the same place",
    refutes="it passes alone: then the error needs several ranks or workers; look at what they share",
)
