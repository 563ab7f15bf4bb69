"""The tracker drops rows: the curves are wrong or empty, though training goes on.

What happens: metrics do not arrive in the run, or overwrite each other; the training itself is not harmed.

Why: steps must grow. After a resume, in a second trial, or where two callers count differently (training steps here,
samples there), the step goes backwards and the row is thrown away. Asynchronous logging gives up when the server does not
answer.

How it shows: ``Step must only increase in log calls``, ``Tried to log to step 0 that is less than the current step``,
``Dropping entry``, ``Failed to log run data``. One such line at step 0 or 1 costs one row.

What to do: one counter for all calls, or ``define_metric`` with an own step for each group; resume with the same run id
and the checkpoint's step; a new run for each trial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, weak
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "The experiment tracker dropped rows"
piece = "nonblocking"
lasting = True
alike = ("tracker/failed",)
WORDS = (
    "step must only increase", "less than the current step", "less than current step", "dropping entry",
    "failed to log run data",
    "dropped streaming file chunk", "to avoid data loss", "was not committed", "out of order event.step", "badlengthcrc",
)  # fmt: skip
phrases = (weak(*WORDS, says="the tracker dropped a row", fatal=False, any_level=True),)
LOST = (
    r"step must only increase in log calls|to log to step \d+ that is less|less than (?:the )?current step: ?\d|"
    r"step \d+ < \d+.{0,4}dropping|failed to log run data|dropped streaming file chunk|was not committed|"
    r"out of order event\.step|BadLengthCrc"
)


def in_log(case: Case) -> Iterator[Sign]:
    """Rows that were refused, unless something worse happened: then it is a side note."""
    lost = [line for line in case.log.index.saying(WORDS) if compiled(LOST).search(line.text)]
    if not lost:
        return
    worse = (
        case.log.deaths
        or case.log.memory
        or case.log.collectives
        or any(
            raised.kind and not raised.survivable and raised.line.order not in {line.order for line in lost}
            for raised in case.log.raised
        )
    )
    says = f"{len(lost)} line(s) report dropped rows"
    items = tuple(evidence(line) for line in (lost[0], lost[-1])[: len(lost)])
    yield Sign("weak" if worse else "strong", says, items, fatal=False, order=lost[0].order)


fixes = (
    Fix(
        "Use one step counter for all log calls",
        "exact",
        "leave `step` out and log the step as a metric (`define_metric('*', step_metric='global_step')`), or pass the "
        "same global "
        "step everywhere; a new run for each trial",
    ),
)
experiment = Experiment(
    title="Resume for 20 steps into a new run and count its rows",
    stop_after="20 steps",
    confirms="20 rows arrive, and no line says that one was dropped",
    refutes="rows are still missing: then compare what the program passes as step",
)
