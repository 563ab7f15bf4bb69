"""The command line. A verb is imported only when it is chosen, so that ``--help`` costs little more than Python itself."""

from __future__ import annotations

import sys

__all__ = ["main", "parser"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_EXAMPLES = {
    "why": """\
examples:
  crashcart why train.log                     one log
  crashcart why logs/ --exit-code 137         every rank's log in a folder, and how the command ended
  crashcart why train.log --kernel-log dmesg.txt --command 'torchrun --nproc-per-node 8 train.py'
  crashcart why                               the log is lost: look at what this folder still holds
  kubectl logs job | crashcart why -          standard input
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


def parser() -> argparse.ArgumentParser:
    """Every verb with its flags. A test freezes the list."""
    import argparse

    from crashcart import __version__

    main_parser = argparse.ArgumentParser(
        prog="crashcart", description="Keeps PyTorch training runs alive, and says why one died."
    )
    main_parser.add_argument("--version", action="version", version=f"crashcart {__version__}")
    verbs = main_parser.add_subparsers(dest="verb", metavar="VERB")

    def verb(name: str, summary: str) -> argparse.ArgumentParser:
        return verbs.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=_EXAMPLES[name],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    why = verb("why", "why a run died: from whatever is left of it to the cause")
    why.add_argument("paths", nargs="*", metavar="PATH", help="logs, folders, or - for standard input (default: this folder)")
    why.add_argument("--command", metavar="CMD", help="the launch command, as it was typed")
    why.add_argument("--config", action="append", default=[], metavar="FILE", help="a config file of the run (repeatable)")
    why.add_argument("--exit-code", type=int, metavar="N", help="the exit status of the command (137 is decoded)")
    why.add_argument("--kernel-log", metavar="FILE", help="output of dmesg or journalctl -k, or a kernel log file")
    why.add_argument("--json", action="store_true", help="print the findings as JSON and nothing else")
    why.add_argument("--html", metavar="FILE", help="also write one self-contained page")

    explain = verb("explain", "the page of a cause, or the list of all causes")
    explain.add_argument("cause", nargs="?", metavar="CAUSE", help="an id such as gpu-memory/leak, or a part of one")

    completion = verb("completion", "a completion script for your shell")
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    return main_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    main_parser = parser()
    options = main_parser.parse_args(arguments)
    if options.verb is None:
        main_parser.print_help()
        return 0
    from crashcart.errors import CommandError

    try:
        return _run(options)
    except CommandError as problem:
        return _complain(str(problem), problem.exit_code)
    except KeyboardInterrupt:
        return _complain("interrupted.", 130)
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except RecursionError:
        return _complain("the input is nested too deeply to be read.", 2)
    except (OSError, MemoryError) as problem:
        return _complain(f"{problem or type(problem).__name__}.", 2)


def _run(options: argparse.Namespace) -> int:
    if options.verb == "why":
        from crashcart.verbs import why as verb
    elif options.verb == "explain":
        from crashcart.verbs import explain as verb  # type: ignore[no-redef]
    else:
        from crashcart.verbs import completion as verb  # type: ignore[no-redef]
    return verb.run(options)


def _complain(sentence: str, exit_code: int) -> int:
    from crashcart.redact import clean

    print(f"crashcart: {clean(sentence)}", file=sys.stderr)  # noqa: T201 - the one place that speaks to the user's terminal
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
