"""The command line. A verb is imported only when it is chosen, so that ``--help`` costs little more than Python itself."""

from __future__ import annotations

import os
import sys

__all__ = ["main", "program"]

_LONGEST_SIZE = 6  # digits
_NEW_OBJECTS = 50_000  # between two looks for garbage: of what an answer makes, nearly everything stays
SOFTWARE = 70  # EX_SOFTWARE of sysexits.h: 1 and 2 are answers of the verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import NoReturn


def program() -> NoReturn:
    """The command: one verb, and the end of the process.

    What answers ends at once: taking everything apart costs a tenth of a small answer. PYTHONINSPECT of the job would have Python
    wait for its user instead.
    """
    code = main()
    threading = sys.modules.get("threading")
    is_alone = threading is None or threading.active_count() == 1
    if sys.flags.inspect or (is_alone and sys.argv[1:2] != ["run"]):
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        except (OSError, ValueError):  # Python says it in its own way
            pass
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    if arguments is None:
        _keep_to_ourselves()
    return _main(arguments)


def _keep_to_ourselves() -> None:
    """The variables that the user has set for the job are not for us: modules on PYTHONPATH come last, and warnings are not shown."""
    theirs = set(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    if theirs:
        sys.path.sort(key=theirs.__contains__)  # a stable sort
    if sys.warnoptions or sys.flags.dev_mode:
        import warnings

        warnings.simplefilter("ignore")


def _main(arguments: Sequence[str] | None) -> int:
    """Everything that we say goes through here: whatever a path or a log holds, no escape sequence reaches a terminal."""
    from crashcart.escapes import PlainStream

    output, errors = sys.stdout, sys.stderr
    for stream in (output, errors):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that knows ASCII only must not cost the answer
    if output is not None:  # it is where the caller has closed it
        sys.stdout = PlainStream(output)
    if errors is not None:
        sys.stderr = PlainStream(errors, _clean)
    try:
        return _answer(arguments)
    finally:
        sys.stdout, sys.stderr = output or sys.stdout, errors or sys.stderr


def _clean(text: str) -> str:
    """Errors quote arguments and paths, and argparse writes its own."""
    if text.isspace():
        return text
    from crashcart.redact import clean

    return clean(text)


def _answer(arguments: Sequence[str] | None) -> int:
    from crashcart.arguments import OUR_OWN_FAILURE, parser

    main_parser = parser()
    options = main_parser.parse_args(arguments)
    if options.verb is None:
        main_parser.print_help()
        return 0
    from crashcart.errors import CommandError

    if options.verb != "run":
        _forget_odd_sizes()
        _replace_closed_streams()
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
        return _complain("the input is nested too deeply to read.", 2)
    except (OSError, MemoryError) as problem:
        return _complain(f"{str(problem) or 'there is not enough memory for this input'}.", 2)
    except Exception as problem:
        from crashcart.errors import DEBUG, is_debugged, place_of, record_error

        if is_debugged():
            record_error(problem)
            raise
        sentence = f"internal error in crashcart, {place_of(problem)}. Please report it. {DEBUG}=1 shows the details."
        return _complain(sentence, OUR_OWN_FAILURE if options.verb == "run" else SOFTWARE)


def _forget_odd_sizes() -> None:
    """Sizes of the terminal that are none: rich takes every digit for a number, and ``int("²")`` raises."""
    for name in ("COLUMNS", "LINES"):
        if not os.environ.get(name, "").isascii() or len(os.environ.get(name, "")) > _LONGEST_SIZE:
            del os.environ[name]


def _replace_closed_streams() -> None:
    """Python has no stream where the descriptor was closed before it started; what we say goes nowhere then."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as we live
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _run(options: argparse.Namespace) -> int:
    if options.verb == "run":
        from crashcart.verbs import run as supervising

        return supervising.run(options)
    import gc

    from crashcart.deadline import interrupting

    gc.set_threshold(_NEW_OBJECTS)
    with interrupting():
        return _run_verb(options)


def _run_verb(options: argparse.Namespace) -> int:
    if options.verb == "why":
        from crashcart.verbs import why as verb
    elif options.verb == "check":
        from crashcart.verbs import check as verb  # type: ignore[no-redef]
    elif options.verb == "doctor":
        from crashcart.verbs import doctor as verb  # type: ignore[no-redef]
    elif options.verb == "runs":
        from crashcart.verbs import runs as verb  # type: ignore[no-redef]
    elif options.verb == "checkpoints":
        from crashcart.verbs import checkpoints as verb  # type: ignore[no-redef]
    elif options.verb == "explain":
        from crashcart.verbs import explain as verb  # type: ignore[no-redef]
    else:
        from crashcart.verbs import completion as verb  # type: ignore[no-redef]
    return verb.run(options)


def _complain(sentence: str, exit_code: int) -> int:
    from crashcart.escapes import one_line

    try:
        print(f"crashcart: {one_line(sentence)}", file=sys.stderr, flush=True)  # noqa: T201 - the one place that speaks to the user's terminal
    except OSError:  # a full device must not change the exit code, now or when Python writes what is left
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    return exit_code


if __name__ == "__main__":
    program()
