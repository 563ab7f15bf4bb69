"""Every verb with its flags. A test freezes the list."""

from __future__ import annotations

import argparse
import os
import sys

from crashcart.numbers import to_count, to_float, to_int
from crashcart.version import __version__

__all__ = ["OUR_OWN_FAILURE", "parser"]

OUR_OWN_FAILURE = 125
_LONGEST_SECONDS = 1e9  # 31 years: no clock of the system waits longer

TYPE_CHECKING = False  # importing typing would cost a tenth of `--help`
if TYPE_CHECKING:
    from typing import Any, NoReturn

_EXAMPLES = {
    "why": """\
examples:
  crashcart why train.log                     one log
  crashcart why logs/ --exit-code 137         a folder with the log of every rank, and the exit code
  crashcart why train.log --kernel-log dmesg.txt --command 'torchrun --nproc-per-node 8 train.py'
  crashcart why                               the newest recorded run, or whatever this folder contains
  crashcart why --pid 4711                    a job that hangs or is slow now (the pid of any of its processes)
  kubectl logs job | crashcart why -          standard input
""",
    "run": """\
examples:
  crashcart run -- torchrun --nproc-per-node 8 train.py --lr 1e-4
  crashcart run -- bash train.sh
  crashcart run --notify 'mail -s crashcart me@example.org' --on-hang stop -- accelerate launch train.py
  nohup crashcart run -- python train.py > train.out 2>&1 &
  CRASHCART=off crashcart run -- python train.py    runs only the command; nothing is watched or recorded
""",
    "check": """\
examples:
  crashcart check train.sh                    a launch script, the program it starts, and the config it reads
  crashcart check configs/train.yaml          a config, and the code in its project that reads it
  crashcart check -- torchrun --nproc-per-node 8 train.py --lr 1e-4
  crashcart check .                           every job of a project
""",
    "doctor": """\
examples:
  crashcart doctor                            memory, limits, disks, kernel, GPUs, torch and network of this machine
  crashcart doctor train.sh                   the same, with the interpreter and environment of that job
  crashcart doctor --active                   also test the memory of idle GPUs, and connect two ranks
""",
    "runs": """\
examples:
  crashcart runs                              all recorded runs, newest first: how each ended, and why
  crashcart runs --json
""",
    "checkpoints": """\
examples:
  crashcart checkpoints out                   what is there, which are whole, and which one a resume would take
  crashcart checkpoints out --full            also compares all checksums, which reads every byte
  crashcart checkpoints out/checkpoint-2000   only this one; the exit code is 1 if it cannot be resumed from
""",
    "explain": """\
examples:
  crashcart explain                           lists all causes
  crashcart explain gpu-memory/eval-or-sample
""",
    "completion": """\
example:
  crashcart completion bash > ~/.local/share/bash-completion/completions/crashcart
""",
}


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the examples as they are, and asks for the width without importing shutil, which costs a third of the start."""

    def __init__(self, prog: str) -> None:
        try:
            width = to_count(os.environ["COLUMNS"], 80) if "COLUMNS" in os.environ else os.get_terminal_size().columns
        except OSError:
            width = 80
        super().__init__(prog, width=max(40, width - 2))


class _Parser(argparse.ArgumentParser):
    """A wrong flag of ``run`` has an exit code of its own: 2 could be the job's.

    Where a verb takes a job, what follows ``--`` is its command, word for word, and flags may stand after paths.
    """

    usage_code = 2
    takes_job = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:  # noqa: ANN401 - as argparse has it
        """Refuse what no flag of this verb is, with the verb's own usage."""
        command: list[str] = []
        if self.takes_job and "--" in args:
            at = args.index("--")
            args, command = args[:at], args[at + 1 :]
        known, rest = super().parse_known_args(args, namespace)
        if self.takes_job:
            known.command = command
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return known, rest

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self.usage_code, f"{self.prog}: error: {message}\n")


def _seconds(text: str) -> float:
    value = to_float(text, -1.0)
    if not 0 <= value < _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text[:40]} is not a number of seconds")
    return value


def _whole_number(text: str) -> int:
    value = to_int(text)
    if value is None:
        raise argparse.ArgumentTypeError(f"{text[:40]} is not a whole number")
    return value


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    main_parser = argparse.ArgumentParser(
        prog="crashcart",
        description="Keeps PyTorch training runs alive, and explains why one died.",
        formatter_class=_Formatter,
    )
    main_parser.add_argument("--version", action="version", version=f"crashcart {__version__}")
    verbs = main_parser.add_subparsers(dest="verb", metavar="VERB", prog="crashcart", parser_class=_Parser)

    def verb(name: str, summary: str) -> _Parser:
        return verbs.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=_EXAMPLES[name],
            formatter_class=_Formatter,
        )

    _why(verb("why", "explain why a run died, from its recording, log or other files"))
    _run(verb("run", "run a training command unchanged, keep its log and record what happens"))
    _check(verb("check", "find what will make a job fail before you start it; runs and imports none of its code"))
    _doctor(verb("doctor", "check whether this machine is fit for training; needs no root"))
    runs = verb("runs", "list the recorded runs, newest first")
    runs.add_argument("--json", action="store_true", help="print only JSON")
    _checkpoints(
        verb("checkpoints", "list checkpoints, which are whole, and which one a resume would take; loads none of them")
    )
    explain = verb("explain", "explain a cause, or list all causes")
    explain.add_argument("cause", nargs="?", metavar="CAUSE", help="an id such as gpu-memory/leak, or part of one")
    completion = verb("completion", "print a completion script for your shell")
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    return main_parser


def _why(why: _Parser) -> None:
    why.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="logs, run folders, other folders, or - for standard input (default: the newest run, else this folder)",
    )
    why.add_argument("--command", metavar="CMD", help="the launch command, as it was typed")
    why.add_argument("--config", action="append", default=[], metavar="FILE", help="a config file of the run (repeatable)")
    why.add_argument("--exit-code", type=_whole_number, metavar="N", help="the exit status of the command (for example 137)")
    why.add_argument("--kernel-log", metavar="FILE", help="output of dmesg or journalctl -k, or a kernel log file")
    why.add_argument(
        "--pid",
        type=_whole_number,
        metavar="PID",
        help="any process of a job that hangs or is slow now, started with or without crashcart",
    )
    why.add_argument("--fix", action="store_true", help="show and apply the first patch that does not change the training")
    why.add_argument("--fix-all", action="store_true", help="the same, and allow a patch that changes the training")
    why.add_argument("--long", action="store_true", help="print all evidence, other causes and fixes, and how to confirm")
    why.add_argument("--json", action="store_true", help="print the findings as JSON and nothing else")
    why.add_argument("--html", metavar="FILE", help="also write the report as a single HTML file")


def _run(run: _Parser) -> None:
    run.usage_code = OUR_OWN_FAILURE
    run.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- CMD ...", help="the command, exactly as you would type it"
    )
    run.add_argument(
        "--on-hang", choices=("tell", "stop", "restart"), default="tell", help="what to do if it hangs (default: tell)"
    )
    run.add_argument(
        "--hang-seconds",
        type=_seconds,
        metavar="SECONDS",
        help="how long the job may make no progress before it counts as hung (default: 60; a quarter of that if every "
        "process provably waits for something that cannot come; longer if its phases have taken longer)",
    )
    run.add_argument(
        "--grace",
        type=_seconds,
        metavar="SECONDS",
        help="kill the job if it is still running this long after INT or TERM (default: never; 30 after a hang)",
    )
    run.add_argument("--notify", metavar="CMD", help="a shell command that receives the verdict on its standard input")
    run.add_argument("--no-inject", action="store_true", help="load nothing into the job's processes; watch from outside")
    run.add_argument("--quiet", action="store_true", help="record without printing messages")


def _check(check: _Parser) -> None:
    check.takes_job = True
    check.add_argument(
        "paths", nargs="*", metavar="JOB", help="a launch script, a config, a program, a folder, or -- CMD ... (default: .)"
    )
    check.add_argument("--against", metavar="VERSION", help="report only what is new compared with a folder or git revision")
    check.add_argument("--fix", action="store_true", help="show and apply the patches that do not change the training")
    check.add_argument("--fix-all", action="store_true", help="the same, and allow patches that change the training")
    check.add_argument(
        "--notes", action="store_true", help="also print notes, more fixes, and why something was not checked"
    )
    check.add_argument("--show-job", action="store_true", help="also print the settings that were found, and where")
    check.add_argument("--strict", action="store_true", help="also exit with 1 if the job only might fail")
    check.add_argument("--json", action="store_true", help="print the findings as JSON and nothing else")


def _checkpoints(checkpoints: _Parser) -> None:
    checkpoints.add_argument(
        "paths", nargs="*", metavar="PATH", help="folders to search, or single checkpoints (default: .)"
    )
    checkpoints.add_argument("--full", action="store_true", help="also compare all checksums, which reads every byte")
    checkpoints.add_argument("--json", action="store_true", help="print only JSON")


def _doctor(doctor: _Parser) -> None:
    doctor.takes_job = True
    doctor.add_argument(
        "paths", nargs="*", metavar="JOB", help="the launch script or program you want to run here, or -- CMD ... (optional)"
    )
    doctor.add_argument("--active", action="store_true", help="also test the memory of idle GPUs and a process group")
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON and nothing else")
