"""What the program's own parser will make of the command line: argparse itself is asked, with the flags read from the code.

The parser is only rebuilt from what the code says in plain constants; a type of the program's own takes any text here. What the
launcher adds belongs to the command line too: DeepSpeed gives every process ``--local_rank``, ``torch.distributed.launch``
``--local-rank`` unless it is told ``--use_env``.
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

from crashcart.model import Evidence, Fact, Span
from crashcart.numbers import to_count
from crashcart.readers.job.field_flags import unknown_fields
from crashcart.readers.job.shell import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case

__all__ = ["refusals"]

TYPES = {"int": int, "float": float, "bool": bool}
SWITCHES = {"store_true", "store_false", "store_const", "append_const", "count", "help", "version"}
PLAIN = {"store", "append", "extend", None}


class _RefusedError(Exception):
    """What argparse would print before it exits with 2."""


def refusals(case: Case, facts: Sequence[Fact]) -> Iterator[Fact]:
    """``arguments.refused`` for everything for which the program would end at once: what, what to write instead, the flag."""
    last = {fact.name: fact for fact in facts}
    given, parsers = last.get("launch.arguments"), case.all("code.parser")
    for parser in case.all("code.field_parser") if given is not None and not parsers else ():
        for flag, instead in unknown_fields(parser, given.value if given is not None else ()):
            told = f"the program knows no {flag}" + (f": did you mean {instead}?" if instead else "")
            yield _refused(told, flag, _place(facts, flag, given or parser), instead)
    if given is None or len(parsers) != 1:
        return
    flags: list[dict[str, Any]] = parsers[0].value["flags"]
    names = [name for flag in flags for name in flag["names"] if name.startswith("-")]
    if parsers[0].value["complete"]:
        yield from _unknown(given, facts, [*names, "--help", "-h"], flags)
        yield from _from_launcher(last, names, parsers[0])
    if all(known for _, known in given.value) and parsers[0].value["complete"]:
        yield from _asked(given, facts, flags)


def _unknown(given: Fact, facts: Sequence[Fact], names: list[str], flags: list[dict[str, Any]]) -> Iterator[Fact]:
    """Flags that the parser does not know, abbreviations apart."""
    swallow = any(flag.get("nargs") in {"...", "A..."} or "nargs" in flag["odd"] for flag in flags)
    # An action of its own may know more names, as BooleanOptionalAction does.
    names = [*names, *(f"--no-{name.lstrip('-')}" for flag in flags if "action" in flag["odd"] for name in flag["names"])]
    for text, known in given.value if not swallow else ():
        flag = text.partition("=")[0]
        if not known or not flag.startswith("--") or flag == "--" or any(name.startswith(flag) for name in names):
            continue
        close = get_close_matches(flag, names, n=1, cutoff=0.75)
        told = f"the program knows no {flag}" + (f": did you mean {close[0]}?" if close else "")
        yield _refused(told, flag, _place(facts, flag, given), close[0] if close else "")


def _place(facts: Sequence[Fact], flag: str, given: Fact) -> Evidence:
    return next((fact.evidence for fact in facts if fact.spelling == flag), given.evidence)


def _refused(says: str, flag: str, evidence: Evidence, instead: str = "") -> Fact:
    return Fact("arguments.refused", {"says": says, "instead": instead}, evidence, "flag", flag, _span(evidence, flag))


def _span(evidence: Evidence, flag: str) -> Span | None:
    """Where a flag stands in its script, to be written otherwise."""
    path, _, digits = evidence.where.rpartition(":")
    line = to_count(digits)
    if line is None or not os.path.isfile(path):
        return None
    text = text_of(path)
    start = sum(len(one) + 1 for one in text.split("\n")[: line - 1])
    found = re.compile(rf"(?<![\w-]){re.escape(flag)}(?![\w-])").search(text, start)
    return Span(path, found.start(), found.end(), line) if found else None


def _from_launcher(last: dict[str, Fact], names: list[str], parser: Fact) -> Iterator[Fact]:
    kind = str(last["launch.kind"].value) if "launch.kind" in last else ""
    evidence = last["launch.kind"].evidence if kind else Evidence("command", "", "")
    if kind == "deepspeed" and "--local_rank" not in names and "flag.no_local_rank" not in last:
        told = "the deepspeed launcher gives every process --local_rank, which the program does not know"
        yield _refused(told, "--local_rank", evidence)
    elif (
        kind == "torch.distributed.launch"
        and not {"--local_rank", "--local-rank"} & set(names)
        and "--use" not in evidence.quote
    ):
        told = "torch.distributed.launch gives every process --local-rank, which the program does not know"
        yield _refused(told, "--local-rank", parser.evidence)


def _asked(given: Fact, facts: Sequence[Fact], flags: list[dict[str, Any]]) -> Iterator[Fact]:
    """Let argparse read the words; it says what it would say to the user."""
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise _RefusedError(message)

        def _print_message(self, message: str, file: object = None) -> None:
            """Say nothing: help and version are not ours to print."""

    parser = Parser(prog="", add_help=True)
    try:
        for flag in flags:
            parser.add_argument(*flag["names"], **_options(flag))
        parser.parse_known_args([text for text, _ in given.value])
    except _RefusedError as problem:
        name = str(problem).removeprefix("argument ").partition(":")[0].split("/")[-1]
        yield _refused(f"the program's parser says: {problem}", name, _place(facts, name, given))
    except (argparse.ArgumentError, ValueError, TypeError, SystemExit):
        return  # a parser that cannot be rebuilt is not asked


def _options(flag: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``add_argument`` that are plain; of what is not known the most forgiving."""
    action = flag.get("action") if "action" not in flag["odd"] else None
    if action in SWITCHES:
        return {
            "action": action,
            **({"const": 1} if "const" in str(action) else {}),
            **({"version": ""} if action == "version" else {}),
        }
    options: dict[str, Any] = {"type": TYPES.get(flag["type"], str)}
    if "action" in flag["odd"] or action not in PLAIN:
        return {"nargs": "*"}
    if action:
        options["action"] = action
    if "nargs" in flag["odd"]:
        options["nargs"] = "*"
    elif flag.get("nargs") is not None:
        options["nargs"] = flag["nargs"]
    if flag.get("choices") and flag["type"] in {"str", "int", "float"}:
        options["choices"] = list(flag["choices"])
    if flag.get("required") and flag["certain"] and flag["names"][0].startswith("-"):
        options["required"] = True
    return options
