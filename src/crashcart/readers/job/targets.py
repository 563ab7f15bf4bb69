"""The program's own classes that a config names, and no file imports: ``_target_: data.kitti360.KITTI360Dataset``.

Hydra's ``_target_``, the ``target`` of ``instantiate_from_config`` and the ``class_path`` of a command line made from classes
are imported by name when the job runs. What lies in the project is part of the program; the rest is somebody's package.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program

__all__ = ["targets"]

_KEYS = {"_target_", "target", "class_path", "_class_"}
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def targets(facts: Iterable[Fact], program: Program, places: Sequence[str]) -> tuple[str, ...]:
    """The modules with such classes, where the program does not have them yet."""
    values = list(dict.fromkeys(_named(facts)))
    if not program.sources or not values:
        return ()
    near = [os.path.dirname(program.entry or "") or ".", *places]
    known = {os.path.realpath(source.path) for source in program.sources}
    found: dict[str, None] = {}
    for value in values:
        parts = value.split(".")
        for length in range(len(parts) - 1, 0, -1):
            file = _file(near, parts[:length])
            if file:
                if os.path.realpath(file) not in known:
                    found[".".join(parts[:length])] = None
                break
    return tuple(sorted(found))


def _named(facts: Iterable[Fact]) -> Iterator[str]:
    for fact in facts:
        last = fact.spelling.rpartition(".")[2]
        if last in _KEYS and isinstance(fact.value, str) and _DOTTED.fullmatch(fact.value):
            yield fact.value


def _file(places: Iterable[str], parts: list[str]) -> str | None:
    """The file of a module below one of these folders."""
    for place in dict.fromkeys(places):
        at = os.path.join(place, *parts)
        for file in (f"{at}.py", os.path.join(at, "__init__.py"), os.path.join(place, "src", *parts) + ".py"):
            if os.path.isfile(file):
                return file
    return None
