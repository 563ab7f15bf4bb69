"""Hydra's composition, as far as it is plain: the defaults list, groups chosen on the command line, packages.

    defaults: [model: small, optimizer: adamw, _self_]      conf/config.yaml, conf/model/small.yaml, conf/optimizer/adamw.yaml
    python train.py model=large optimizer.lr=1e-3           the group's option is another file, the key a flag

A file of a group is put below the group's name unless its first lines say ``# @package _global_``. What the file itself says
comes after its defaults where ``_self_`` is not placed (Hydra 1.1 and later). Loops and missing files are told.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from crashcart.errors import CommandError
from crashcart.model import NotLooked
from crashcart.numbers import to_float
from crashcart.readers.job.config import read_config
from crashcart.readers.job.hydra_refusals import refused
from crashcart.readers.job.shell import text_of
from crashcart.record import field, record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case
    from crashcart.model import Fact

__all__ = ["Composed", "composed"]

PACKAGE = re.compile(r"^#\s*@package\s+(\S+)", re.MULTILINE)
NUMBER = re.compile(r"[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)[eE][-+]?\d+")
DEEPEST = 12
MOST_FILES = 500


@record
class Composed:
    """The facts of all files, later before earlier, and the files; and what Hydra would refuse of the command line."""

    facts: list[Fact] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    refused: list[Fact] = field(default_factory=list)


def composed(case: Case, facts: Sequence[Fact], places: Sequence[str], named: Sequence[str] = ()) -> Composed:
    """What the program's ``hydra.main`` or ``compose`` will read; a config that the user named is the one that is meant."""
    done = Composed()
    chosen = {fact.spelling.lstrip("+"): fact for fact in facts if fact.spelling}
    for entry in case.all("code.hydra"):
        path, name = entry.value["path"], entry.value["name"]
        for flag, key in (("--config-path", "path"), ("-cp", "path"), ("--config-name", "name"), ("-cn", "name")):
            if flag in chosen:
                path, name = (chosen[flag].value, name) if key == "path" else (path, chosen[flag].value)
        argument = entry.value.get("argument")
        given = next(
            (fact for key, fact in chosen.items() if argument and key.lstrip("-").replace("-", "_") == argument), None
        )
        name = given.value if given is not None else name
        own = os.path.dirname(entry.evidence.where.rsplit(":", 1)[0])
        if isinstance(path, str) and (isinstance(name, str) or named):
            folder = next((one for place in [own, *places] if os.path.isdir(one := os.path.join(place, path))), None)
            if folder is not None:
                name = _meant(folder, named) or name
            if folder is not None and isinstance(name, str):
                composition = _Composition(case, folder, chosen, done)
                composition.file(name, "")
                if entry.value.get("main") and not case.all("code.hydra_store") and done.facts:
                    done.refused = list(refused(composition.groups, done.facts, facts, folder, whole=composition.whole))
                return done
    return done


def _meant(folder: str, named: Sequence[str]) -> str | None:
    """The first of the named configs that lies at the top of this folder: those below it are options of a group."""
    for path in named:
        if os.path.realpath(os.path.dirname(path) or ".") == os.path.realpath(folder):
            return os.path.basename(path)
    return None


class _Composition:
    def __init__(self, case: Case, folder: str, chosen: dict[str, Fact], done: Composed) -> None:
        self.case, self.folder, self.chosen, self.done = case, folder, chosen, done
        self.open: list[str] = []
        self.groups: set[str] = set()
        self.whole = True

    def file(self, name: str, package: str) -> None:
        """One file with its defaults; ``name`` is relative to the folder of all configs."""
        path = os.path.normpath(os.path.join(self.folder, name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"))
        if len(self.done.files) > MOST_FILES:
            self.whole = False
            return
        if path in self.open or len(self.open) > DEEPEST:
            self.case.not_looked.append(NotLooked(path, "its defaults lead back to itself"))
            self.whole = False
            return
        try:
            text = text_of(path)
            own = read_config(path, prefix=self.package(text, package))
        except CommandError as problem:
            self.case.not_looked.append(NotLooked(path, str(problem)))
            self.whole = False
            return
        self.open.append(path)
        self.done.files.append(path)
        placed = False
        for group, option in _defaults(own, package):
            if option == "_self_":
                self.done.facts += _values(own)
                placed = True
            else:
                self.default(group, option, os.path.dirname(name))
        self.done.facts += [] if placed else _values(own)
        self.open.pop()

    def package(self, text: str, package: str) -> str:
        said = PACKAGE.search(text[:500])
        return package if said is None else "" if said[1] == "_global_" else said[1].replace("_group_", package)

    def default(self, group: str, option: str, below: str) -> None:
        """An entry of a defaults list: a file beside this one, or the option of a group."""
        group = group.removeprefix("override ").removeprefix("optional ").strip()
        at, _, package = group.partition("@")
        at = at.lstrip("/") if at.startswith("/") or not below else f"{below}/{at}".strip("/")
        self.groups.add(at)
        chosen = self.chosen.get(at)
        option = str(chosen.value).partition(",")[0] if chosen is not None else option  # of a sweep the first
        if option in {"None", "null", "???"}:
            return
        self.file(f"{at}/{option}".strip("/"), package or at.replace("/", "."))


def _defaults(own: list[Fact], package: str) -> Iterator[tuple[str, str]]:
    """Group and option of each entry of the defaults list, in order."""
    head = f"{package}.defaults" if package else "defaults"
    for fact in own:
        entry = re.fullmatch(rf"(?:{re.escape(head)}|defaults)\[\d+\](?:\.(?P<group>.+))?", fact.spelling)
        if entry is None or isinstance(fact.value, (list, dict)):
            continue
        value = str(fact.value)
        if entry["group"]:
            yield entry["group"], value
        else:
            group, slash, option = value.rpartition("/")
            yield (group, option) if slash else ("", value)


def _values(own: list[Fact]) -> list[Fact]:
    """The facts without the defaults list; a plain 1e-4 is a number for OmegaConf."""
    kept = [fact for fact in own if not re.search(r"(?:^|\.)defaults(?:\[\d+\]|$)", fact.spelling)]
    return [replace(fact, value=_number(fact)) for fact in kept]


def _number(fact: Fact) -> Any:  # noqa: ANN401 - a value of any type
    is_text = isinstance(fact.value, str) and NUMBER.fullmatch(fact.value) and '"' not in fact.evidence.quote
    return to_float(fact.value, fact.value, finite=False) if is_text else fact.value
