"""``crashcart run``: the job unchanged, nothing lost, everything seen."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from crashcart.arguments import OUR_OWN_FAILURE
from crashcart.errors import CommandError
from crashcart.inside.layout import FOLDER, OFF, SWITCH

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]

_NAME = "crashcart"
_OUR_NAMES = frozenset({_NAME, "cli.py", "__main__.py"})


def run(options: argparse.Namespace) -> int:
    """Run the command and return its own exit code."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise CommandError("name the command to run: crashcart run -- python train.py", OUR_OWN_FAILURE)
    if os.environ.get(SWITCH) == OFF:
        return _become(command, f"{SWITCH}={OFF}: running the command without crashcart", quiet=options.quiet)
    if _is_recorded_already():
        return _become(command, "an outer `crashcart run` already records this", quiet=options.quiet)
    from crashcart.run.supervisor import Options, supervise
    from crashcart.run.witness import take_name

    if os.path.basename(sys.argv[0]) in _OUR_NAMES:  # else another program called us
        with contextlib.suppress(OSError, ValueError, IndexError):
            take_name(_NAME, "run")
    return supervise(
        Options(
            command=command,
            inject=not options.no_inject,
            grace=options.grace,
            on_hang=options.on_hang,
            notify=options.notify,
            quiet=options.quiet,
            explain=_explain,
            hang_seconds=options.hang_seconds,
        )
    )


def _is_recorded_already() -> bool:
    """Whether a `crashcart run` above us has this process among those of its job."""
    if not os.path.isdir(os.environ.get(FOLDER, "")):
        return False
    from crashcart.run.suspending import parent_of

    with contextlib.suppress(OSError, ValueError, IndexError):
        pid = os.getppid()
        while pid > 1:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                if file.read().strip() == _NAME:
                    return True
            pid = parent_of(pid)
    return False


def _become(command: list[str], why: str, *, quiet: bool) -> int:
    """Run the command in our place: the same process, no recording of our own."""
    from crashcart.run.starting import CANNOT_START, exec_command

    if not quiet:
        sys.stderr.write(f"crashcart: {why}.\n")
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        exec_command(command, dict(os.environ))
    except OSError as problem:
        sys.stderr.write(f"crashcart: {command[0]}: {problem.strerror}\n")
        return CANNOT_START.get(problem.errno or 0, OUR_OWN_FAILURE)


def _explain(folder: str) -> dict[str, Any]:
    """The answer of ``why`` for a run folder."""
    from crashcart.report.data import plain
    from crashcart.report.terminal import headline
    from crashcart.verbs.why import why

    diagnosis = why([folder], look_around=False)
    return {**plain(diagnosis), "headline": headline(diagnosis)}
