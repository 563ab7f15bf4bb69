"""What a launcher adds to the command line, and the program's own parser does not know.

DeepSpeed gives every process ``--local_rank``, ``torch.distributed.launch`` ``--local-rank`` unless it is told ``--use_env``.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.model import Evidence, Fact, Span
from crashcart.numbers import to_count
from crashcart.readers.job.shell import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case

__all__ = ["refusals", "span_of_flag"]


def refusals(case: Case, facts: Sequence[Fact]) -> Iterator[Fact]:
    """``arguments.refused`` for what the launcher adds to the words of the command, and the program's parser does not know."""
    last = {fact.name: fact for fact in facts}
    parsers = case.all("code.parsed")
    if parsers:
        yield from _from_launcher(last, [name for fact in parsers for name in fact.value["flags"]], parsers[-1])


def _refused(says: str, flag: str, evidence: Evidence, instead: str = "") -> Fact:
    return Fact(
        "arguments.refused", {"says": says, "instead": instead}, evidence, "flag", flag, span_of_flag(evidence, flag)
    )


def span_of_flag(evidence: Evidence, flag: str) -> Span | None:
    """Where a flag stands in its script, to be written otherwise."""
    path, _, digits = evidence.where.rpartition(":")
    line = to_count(digits)
    if line is None or not os.path.isfile(path):
        return None
    text = text_of(path)
    start = sum(len(part) + 1 for part in text.split("\n")[: line - 1])
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
