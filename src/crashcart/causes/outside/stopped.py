"""A process of the job is stopped and does nothing until it is continued.

What happens: one rank, or the whole job, stands still. It uses no CPU, answers no signal but SIGKILL and SIGCONT, and the other
ranks wait for it in a collective until their time-out.

Why: SIGSTOP or Ctrl-Z; a job in the background that reads its terminal (SIGTTIN); a scheduler that suspends jobs (gang scheduling,
``scontrol suspend``); a debugger that is attached (gdb, ``py-spy dump`` with ``--blocking``).

How it shows: the state ``T`` or ``t`` in ``ps`` and ``/proc/PID/stat``; ``[1]+  Stopped`` from the shell. A recording, and a look
at the running job, name the process.

What to do: ``kill -CONT PID``, ``fg``, or let the debugger go on. Nothing is lost, unless a time-out has ended the other ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import decisive
from crashcart.causes.hang._recorded import stall
from crashcart.deaths import order
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "A process of the job is stopped (SIGSTOP, Ctrl-Z, a debugger)"
alike = ("outside/user",)
phrases = (
    decisive(
        "suspended (tty",
        "stopped",
        says="the shell reports that the job is stopped",
        any_level=True,
        pattern=r"suspended \(tty|^(?:\[\d+\])?[+-]  Stopped\s",
    ),
)


def in_recorder(case: Case) -> Iterator[Sign]:
    """A rank that was stopped when the job stood still."""
    found = stall(case)
    if found is not None and found.cause == "outside/stopped":
        yield Sign(found.strength, found.says, found.evidence, order=order(case))


fixes = (
    Fix(
        "Continue the stopped processes",
        "exact",
        "`kill -CONT PID` for each stopped process; `fg` in the shell where Ctrl-Z was pressed",
    ),
)
experiment = Experiment(
    title="Look at the states of the job's processes (`ps -o pid,stat,cmd`), and continue the stopped ones",
    confirms="a process has the state T or t, and the job continues after `kill -CONT PID`",
    refutes="no process has it: then the job waits for something else",
)
