"""Remarks in the files of a job that silence a cause at a place: ``# crashcart: ignore[family/cause] reason``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.readers.own_settings import unknown_cause
from crashcart.readers.project import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Remarks"]

IGNORE = re.compile(r"#\s*crashcart:\s*ignore\[([\w/*,\s-]+)\]")
LOST_REMARK = re.compile(r"#\s*crashcart:\s*(?!ignore\[[\w/*,\s-]+\])\S")
NOTHING = "this remark silences nothing"


class Remarks:
    """What the files of a job say to crashcart itself; each is read once, since many jobs share their code."""

    def __init__(self) -> None:
        self._silenced: dict[str, dict[str, frozenset[str]]] = {}
        self._odd: dict[str, list[tuple[str, str]]] = {}

    def silenced(self, paths: Iterable[str]) -> dict[str, frozenset[str]]:
        """The places where the user wants causes to be silent: the line of the remark, and the next where it stands alone."""
        found: dict[str, frozenset[str]] = {}
        for path in paths:
            self._read(path)
            found.update(self._silenced[path])
        return found

    def odd(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Remarks that silence nothing, each with its place and what is wrong with it."""
        for path in dict.fromkeys(paths):
            self._read(path)
            yield from self._odd[path]

    def _read(self, path: str) -> None:
        if path in self._odd:
            return
        silenced, odd = self._silenced.setdefault(path, {}), self._odd.setdefault(path, [])
        text = read_text(path)
        for number, line in enumerate(text.split("\n") if "crashcart:" in text else (), 1):
            remark = IGNORE.search(line)
            if remark is not None:
                names = [name.strip() for name in remark[1].split(",")]
                alone = not line[: remark.start()].strip()
                silenced[f"{path}:{number + alone}"] = frozenset(names)
                odd += [(f"{path}:{number}", f"{NOTHING}: {one}") for one in map(unknown_cause, names) if one]
            elif LOST_REMARK.search(line):
                odd.append((f"{path}:{number}", f"{NOTHING}: it needs a cause, # crashcart: ignore[family/cause] reason"))
