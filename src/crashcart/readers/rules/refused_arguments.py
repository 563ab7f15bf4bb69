"""Arguments with which the program's own parser ends the program: an unknown flag, a value of the wrong type, a missing one.

The parser was asked itself, with the words of the launch; its message is the one that the user would see.
"""

from __future__ import annotations

import ast
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from crashcart.model import Evidence, Fact
from crashcart.readers.interpreter.values import Result
from crashcart.readers.job.argv import span_of_flag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Failure

_NAMED = re.compile(r"argument (?P<names>[^:]{1,200}):|(?P<flag>--?[A-Za-z][\w.-]{0,100})")


def look(execution: Execution) -> Iterator[Fact]:
    """``arguments.refused``: what the parser says, what was meant, and the flag."""
    if execution.launch.arguments is None:
        return
    for call in execution.trace.methods("parse_args", "parse_args_into_dataclasses", "parse_known_args"):
        parser = call.receiver
        if (
            isinstance(parser, Result)
            and hasattr(parser.data, "every")
            and parser.data.known
            and call.method == "parse_args"
        ):
            flags = [name for argument in parser.data.every() for name in argument.names if name.startswith("-")]
            yield call.fact("code.parsed", {"flags": flags})
    told: set[str] = set()
    for failure in execution.trace.failures:
        is_own_check = isinstance(failure.node, ast.stmt)  # which is told as what refuses a setting
        if failure.error != "SystemExit" or is_own_check or not failure.region.is_certain():
            continue
        spec, words = _details(failure)
        names = (
            [name for argument in spec.every() for name in argument.names if name.startswith("-")]
            if spec is not None
            else []
        )
        for flag in words or [_flag_in(failure.says)]:
            written = flag.partition("=")[0]
            close = get_close_matches(written, names, n=1, cutoff=0.75) if words else []
            says = f"the program has no option {written}" if words else f"the program's parser says: {failure.says}"
            says += f": did you mean {close[0]}?" if close else ""
            if says not in told:
                told.add(says)
                evidence = _place(execution, written, failure)
                yield Fact(
                    "arguments.refused",
                    {"says": says, "instead": close[0] if close else ""},
                    evidence,
                    "flag",
                    written,
                    span_of_flag(evidence, written),
                )


def _details(failure: Failure) -> tuple[Any, list[str]]:
    value = failure.values[0] if failure.values else None
    return value.data if isinstance(value, Result) and isinstance(value.data, tuple) else (None, [])


def _flag_in(message: str) -> str:
    """The flag that a message of argparse names."""
    match = _NAMED.search(message)
    if match is None:
        return ""
    return (match["names"] or match["flag"]).split("/")[-1].split(",")[0].strip()


def _place(execution: Execution, flag: str, failure: Failure) -> Evidence:
    found = execution.launch.flags.get(flag)
    if found is not None:
        return found.evidence
    program = execution.launch.program
    return program.evidence if program is not None else failure.evidence
