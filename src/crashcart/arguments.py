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
  crashcart why logs/ --exit-code 137         every rank's log in a folder, and how the command ended
  crashcart why train.log --kernel-log dmesg.txt --command 'torchrun --nproc-per-node 8 train.py'
  crashcart why                               the newest run; without one, what this folder still holds
  crashcart why --pid 4711                    a job that hangs or crawls now: any process of it
  kubectl logs job | crashcart why -          standard input
""",
    "run": """\
examples:
  crashcart run -- torchrun --nproc-per-node 8 train.py --lr 1e-4
  crashcart run -- bash train.sh
  crashcart run --notify 'mail -s crashcart me@example.org' --on-hang stop -- accelerate launch train.py
  nohup crashcart run -- python train.py > train.out 2>&1 &
  CRASHCART=off crashcart run -- python train.py    the command alone: nothing is watched or recorded
""",
    "check": """\
examples:
  crashcart check train.sh                    a launch script, the program it starts, the config that this one reads
  crashcart check configs/train.yaml          a config, and the code in its project that reads it
  crashcart check -- torchrun --nproc-per-node 8 train.py --lr 1e-4
  crashcart check .                           every job of a project
""",
    "doctor": """\
examples:
  crashcart doctor                            memory, limits, disks, kernel, cards, torch and network of this machine
  crashcart doctor train.sh                   the same, for the interpreter and the variables of that job
  crashcart doctor --active                   also take and check the memory of idle cards, and let two ranks meet
""",
    "runs": """\
examples:
  crashcart runs                              newest first, with how each ended and why
  crashcart runs --json
""",
    "explain": """\
examples:
  crashcart explain                           every cause, a line each
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
        raise argparse.ArgumentTypeError(f"{text[:40]} is no length of time in seconds")
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
        description="Keeps PyTorch training runs alive, and says why one died.",
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

    _why(verb("why", "why a run died: from whatever is left of it to the cause"))
    _run(verb("run", "run a training command unchanged, with its log kept and a flight recorder beside it"))
    _check(verb("check", "what will kill a job, before it is started; nothing of it is run or imported"))
    _doctor(verb("doctor", "whether this machine is fit for training, from what you may read without root"))
    runs = verb("runs", "the runs that were recorded, newest first")
    runs.add_argument("--json", action="store_true", help="print them as JSON and nothing else")
    explain = verb("explain", "the page of a cause, or the list of all causes")
    explain.add_argument("cause", nargs="?", metavar="CAUSE", help="an id such as gpu-memory/leak, or a part of one")
    completion = verb("completion", "a completion script for your shell")
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    return main_parser


def _why(why: _Parser) -> None:
    why.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="logs, run folders, folders, or - for standard input (default: the newest run, else this folder)",
    )
    why.add_argument("--command", metavar="CMD", help="the launch command, as it was typed")
    why.add_argument("--config", action="append", default=[], metavar="FILE", help="a config file of the run (repeatable)")
    why.add_argument("--exit-code", type=_whole_number, metavar="N", help="the exit status of the command (137 is decoded)")
    why.add_argument("--kernel-log", metavar="FILE", help="output of dmesg or journalctl -k, or a kernel log file")
    why.add_argument(
        "--pid",
        type=_whole_number,
        metavar="PID",
        help="any process of a job that hangs or crawls now, started with or without crashcart",
    )
    why.add_argument("--fix", action="store_true", help="show and apply the first patch that leaves the training as it is")
    why.add_argument("--fix-all", action="store_true", help="also one that changes the training")
    why.add_argument("--long", action="store_true", help="also all evidence, other causes and fixes, and how to confirm")
    why.add_argument("--json", action="store_true", help="print the findings as JSON and nothing else")
    why.add_argument("--html", metavar="FILE", help="also write one self-contained page")


def _run(run: _Parser) -> None:
    run.usage_code = OUR_OWN_FAILURE
    run.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- CMD ...", help="the command, exactly as you would type it"
    )
    run.add_argument(
        "--on-hang", choices=("tell", "stop", "restart"), default="tell", help="what to do when it hangs (default: tell)"
    )
    run.add_argument(
        "--hang-seconds",
        type=_seconds,
        metavar="SECONDS",
        help="how long the job may go without progress before that is called a hang (60; a quarter of it where every "
        "process provably waits in vain; more where its phases have taken longer)",
    )
    run.add_argument(
        "--grace",
        type=_seconds,
        metavar="SECONDS",
        help="kill the job if it has not ended so long after INT or TERM (default: never; 30 after a hang)",
    )
    run.add_argument("--notify", metavar="CMD", help="a shell command that gets the verdict on its standard input")
    run.add_argument("--no-inject", action="store_true", help="put nothing into the job's processes; look from outside only")
    run.add_argument("--quiet", action="store_true", help="say nothing, only record")


def _check(check: _Parser) -> None:
    check.takes_job = True
    check.add_argument(
        "paths", nargs="*", metavar="JOB", help="a launch script, a config, a program, a folder, or -- CMD ... (default: .)"
    )
    check.add_argument("--against", metavar="VERSION", help="tell only what is new against a folder or a git revision")
    check.add_argument("--fix", action="store_true", help="show and apply the patches that leave the training as it is")
    check.add_argument("--fix-all", action="store_true", help="also those that change the training")
    check.add_argument(
        "--notes", action="store_true", help="also what is only worth knowing, and why something was not checked"
    )
    check.add_argument("--show-job", action="store_true", help="also print what was understood of the job, and from where")
    check.add_argument("--strict", action="store_true", help="exit with 1 also for what can kill it")
    check.add_argument("--json", action="store_true", help="print the findings as JSON and nothing else")


def _doctor(doctor: _Parser) -> None:
    doctor.takes_job = True
    doctor.add_argument(
        "paths", nargs="*", metavar="JOB", help="a launch script or a program that is to run here, or -- CMD ... (optional)"
    )
    doctor.add_argument("--active", action="store_true", help="also test the memory of idle cards and a process group")
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON and nothing else")
