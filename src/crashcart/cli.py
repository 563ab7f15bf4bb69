"""The command line. A verb is imported only when it is chosen, so that ``--help`` costs little more than Python itself."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    if arguments is None:
        _keep_to_ourselves()
    code = _main(arguments)
    if arguments is None and sys.flags.inspect:  # PYTHONINSPECT of the job: Python would wait for its user now
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _keep_to_ourselves() -> None:
    """The variables that the user has set for the job are not for us: modules on PYTHONPATH come last, and warnings are not shown."""
    theirs = set(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    if theirs:
        sys.path.sort(key=theirs.__contains__)  # a stable sort
    if sys.warnoptions or sys.flags.dev_mode:
        import warnings

        warnings.simplefilter("ignore")


def _main(arguments: Sequence[str] | None) -> int:
    from crashcart.arguments import parser

    main_parser = parser()
    options = main_parser.parse_args(arguments)
    if options.verb is None:
        main_parser.print_help()
        return 0
    from crashcart.errors import CommandError

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that knows ASCII only must not cost the answer
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
        return _complain(f"{str(problem) or 'there is not enough memory for this input'}.", 2)


def _run(options: argparse.Namespace) -> int:
    if options.verb == "run":
        from crashcart.verbs import run as supervising

        return supervising.run(options)
    from crashcart.deadline import interrupting

    with interrupting():
        return _answer(options)


def _answer(options: argparse.Namespace) -> int:
    if options.verb == "why":
        from crashcart.verbs import why as verb
    elif options.verb == "check":
        from crashcart.verbs import check as verb  # type: ignore[no-redef]
    elif options.verb == "doctor":
        from crashcart.verbs import doctor as verb  # type: ignore[no-redef]
    elif options.verb == "runs":
        from crashcart.verbs import runs as verb  # type: ignore[no-redef]
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
