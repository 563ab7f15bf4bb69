"""The data that a job names, looked at before it starts: a sample of files, in bounded time, without the user's code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Evidence
from crashcart.readers.data.looking import Looking
from crashcart.readers.data.named import named
from crashcart.readers.data.told import facts_of, gaps_of
from crashcart.readers.data.weights import weight_facts
from crashcart.readers.machine.allowed import host_facts
from crashcart.readers.machine.room import room_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.case import Case
    from crashcart.readers.code.program import Program

__all__ = ["Looking", "data_facts"]


def data_facts(case: Case, program: Program, places: Sequence[str], looking: Looking) -> None:
    """Put what the data hold into the case."""
    base = next((str(one.value) for one in case.all("launch.folder")), ".")
    for one in (*host_facts(case), *room_facts(case, program, base)):
        case.seen.setdefault(one.name, []).append(one)
    own = [source.path for source in program.sources]
    known: set[str] = set()
    try:
        for path, fact in named(case, places, own):
            found = looking.at(path)
            case.not_looked += gaps_of(found)
            for one in facts_of(found, fact):
                case.seen.setdefault(one.name, []).append(one)
                known |= {one.value["file"]} if one.name == "data.stand_in" else set()
            if found.files > 1:
                kinds = ", ".join(f"{count:,} {kind}" for kind, count in found.kinds.items() if kind != "other")
                told = f"looked at {found.looked:,} of {found.files:,} data files" + (f" ({kinds})" if kinds else "")
                case.notes.append(Evidence("data", told, path))
    finally:
        looking.close()
    more = [one for one in weight_facts(case, program, places) if one.value["file"] not in known]
    case.seen.setdefault("data.stand_in", []).extend(more)
