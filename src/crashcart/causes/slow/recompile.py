"""Graphs are recompiled over and over.

What happens: steps take seconds instead of milliseconds, at random or on each one, and after some compilations the
function falls back to eager for good.

Why: a guard of ``torch.compile`` fails: a shape that changes (sequence length, last batch), a Python number that is
part of the graph (a step counter, a length), an object made anew each step. CUDA graphs are recorded for each new size.
Under XLA every new shape is a new program.

How it shows: ``torch._dynamo hit config.cache_size_limit`` (``recompile_limit`` since 2.6), many ``Recompiling
function`` lines under ``TORCH_LOGS=recompiles``, a ``CompileTime`` counter that grows with the steps. One or two
recompilations in the first steps are normal: torch learns which sizes change.

What to do: read the last reason; pad to few lengths, mark the size as dynamic (``torch._dynamo.mark_dynamic``,
``dynamic=True``), make counters tensors, drop the last short batch. A higher limit only moves the cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, weak
from crashcart.causes.slow._pace import grade, lines_with
from crashcart.deaths import order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.flight import Event
    from crashcart.log import Line

title = "Graphs are recompiled over and over"
alike = ("slow/data", "code/compile")
LIMITS = (
    "hit config.cache_size_limit", "recompilation cache limit", "hit config.recompile_limit", "hit config.accumulated_cache_size_limit",
    "hit config.accumulated_recompile_limit", "recording too many cudagraphs", "tf.function retracing",
    "dynamo recompile limit reached", "recompiled more than once due to guard failures", "recompile limit exceeded",
    "recompilelimitexceeded", "failonrecompilelimithit", "recompile_limit reached", "cache_size_limit reached",
    "exceeded cache size limit", "exceeded recompile limit", "torch._dynamo hit recompile_limit", "excessive recompilation",
    "too many recompilations", "graph is recompiled every", "recompiles every step", "recompiling every step",
)  # fmt: skip
AGAIN = "recompiling function"
FINISHED = ("finished xla compilation of", "compilation successfully completed for", "compiling module jit_")
COMPILED = r"(?:compilation of|completed for|compiling module) ([\w().]*?)(?:[ _.(]|$)"
MANY = 6
SETTLED = 20  # steps
LONG_SECONDS = 60
TOLD = r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?"

phrases = (weak(*LIMITS, AGAIN, "metric: compiletime", says="a graph was recompiled", fatal=False, any_level=True),
           weak(*FINISHED, says="a program was compiled", fatal=False, any_level=True))  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """A limit that was hit, the same function compiled several times, or a counter of compilations that grows."""
    for line in lines_with(case, *LIMITS):
        says = "torch stopped recompiling a function" if "config." in line.lowered else "every new size is compiled again"
        yield Sign(grade(case, "decisive"), says, (evidence(line),), fatal=False, order=line.order)
        break
    for name, lines in _again(case).items():
        if len(lines) > 1:
            says = f"{name} was compiled {len(lines)} times or more"
            yield Sign(
                grade(case, "strong"), says, tuple(evidence(line) for line in lines[:2]), fatal=False, order=lines[0].order
            )
    programs = list(lines_with(case, *FINISHED))
    names = [match[1] for line in programs if (match := compiled(COMPILED).search(line.text))]
    often = max(set(names), key=names.count) if names else ""
    if often and names.count(often) >= MANY:
        says = f"{often} was compiled {names.count(often)} times"
        yield Sign(
            grade(case, "strong"),
            says,
            (evidence(programs[0]), evidence(programs[-1])),
            fatal=False,
            order=programs[0].order,
        )
    spent = _spent(case)
    if spent and spent[1] > LONG_SECONDS and spent[1] > spent[2]:
        says = f"{spent[1]:.0f} s went into compiling and {spent[2]:.0f} s into running"
        yield Sign(grade(case, "strong"), says, (evidence(spent[0]),), fatal=False, order=spent[0].order)
    counts = list(_xla(case))
    if len(counts) > 1 and counts[-1][1] > counts[0][1]:
        says = f"XLA compiled {counts[0][1]} programs, later {counts[-1][1]}"
        yield Sign(grade(case, "strong"), says, (evidence(counts[-1][0]),), fatal=False, order=counts[0][0].order)


def _again(case: Case) -> dict[str, list[Line]]:
    functions: dict[str, list[Line]] = {}
    for line in lines_with(case, AGAIN):
        match = compiled(r"recompiling function (\S+)").search(line.text)
        times = compiled(r"\[\d+/(\d+)\]").search(line.text)
        if match:
            functions.setdefault(match[1], []).extend([line] * (2 if times and to_int(times[1], 0) > 2 else 1))
    return functions


def _spent(case: Case) -> tuple[Line, float, float] | None:
    """What XLA's report says of compiling and of running, in seconds."""
    totals: dict[str, tuple[Line, float]] = {}
    for line in lines_with(case, "metric: compiletime", "metric: executetime"):
        for after in case.log.around(line, after=3):
            match = compiled(r"Accumulator: (\S+)").search(after.text)
            told = compiled(TOLD).match(match[1]) if match else None
            if told:
                hours, minutes, whole, thousandths = (to_int(group, 0) for group in told.groups())
                totals[line.lowered.rsplit(" ", 1)[-1]] = line, hours * 3600 + minutes * 60 + whole + thousandths / 1000
                break
    if "compiletime" not in totals or "executetime" not in totals:
        return None
    return (*totals["compiletime"], totals["executetime"][1])


def _xla(case: Case) -> Iterator[tuple[Line, int]]:
    for line in lines_with(case, "metric: compiletime"):
        for after in case.log.around(line, after=2):
            match = compiled(r"TotalSamples: (\d+)").search(after.text)
            if match:
                yield line, to_int(match[1], 0)


def in_recorder(case: Case) -> Iterator[Sign]:
    """Compilations counted by torch itself that go on after the first steps."""
    flight = case.flight
    for process in flight.ranks if flight is not None else ():
        told = [event for event in (flight.of_kind("recompile") if flight is not None else ()) if event.pid == process.pid]
        early = [event for event in told if _number(event, "step") < SETTLED]
        late = [event for event in told if _number(event, "step") >= SETTLED]
        before = max((_number(event, "count") for event in early), default=0)
        more = max((_number(event, "count") for event in late), default=0) - before
        if len(late) > 1 and more >= MANY:
            says = f"{process.name} recompiled {more} times after its first {SETTLED} steps"
            yield Sign(grade(case, "strong"), says, (late[0].evidence, late[-1].evidence), fatal=False, order=order(case))
            return


def _number(event: Event, name: str) -> int:
    return to_int(event.details.get(name), 0)


fixes = (
    Fix(
        "Use only a few sizes, or mark the ones that change as dynamic",
        "by-hand",
        "pad to multiples of 64 or 128, drop_last=True, torch.compile(dynamic=True) or torch._dynamo.mark_dynamic for "
        "the size that "
        "the last reason names; keep Python numbers that change out of the compiled function",
    ),
    Fix("Train without compilation", "exact", "eager is slower than a compiled step and faster than compiling each",
        settings={"train.compile": False}),
)  # fmt: skip
experiment = Experiment(
    title="200 steps with TORCH_LOGS=recompiles on one repeated batch, and 200 on the data",
    start_from="the beginning",
    stop_after="200 steps each",
    confirms="no recompilation and steady steps on the repeated batch, recompilations on the data with slow steps at each",
    refutes="the repeated batch is as slow, or slow steps come without a recompilation",
)
