"""Config files that a launch names by a word, and those that a file builds upon, as the program's own code finds them.

python launch.py --config lora_b        open(os.path.join(folder, f"{name}.yaml"))
python train.py configs.large           importlib.import_module(sys.argv[1])
defaults: [default]                     for parent in cfg.pop("defaults"): merge(load(parent), cfg)
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.readers.job.config import read_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case
    from crashcart.model import Fact

__all__ = ["FOLDERS", "by_module", "by_word", "with_parents"]

FOLDERS = ("config", "configs", "conf", "confs", "cfg", "cfgs")
WORD = re.compile(r"[\w.-]+(?:/[\w.-]+)*")
MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
FLAG = re.compile(r"(?i)conf|cfg|^-*exp(?:eriment)?$")
DEEPEST = 6
MOST_PARENTS = 200


def by_word(case: Case, fact: Fact, places: Sequence[str]) -> Iterator[str]:
    """The config file that a flag names without its ending."""
    if not isinstance(fact.value, str) or not WORD.fullmatch(fact.value):
        return
    if fact.name != "config.path" and not FLAG.search(fact.spelling or ""):
        return
    for template in case.all("code.config_template"):
        own = os.path.dirname(template.evidence.where.rsplit(":", 1)[0]) or "."
        if path := _found(str(template.value).replace("{}", fact.value), [*places, own]):
            yield path
            return


def by_module(case: Case, facts: Sequence[Fact], places: Sequence[str]) -> Iterator[str]:
    """The module of settings that the launch names: ``python train.py configs.large``, ``--cfg configs.large``."""
    if not case.all("code.config_module"):
        return
    words = [str(word) for fact in facts if fact.name == "launch.arguments" for word, known in fact.value if known]
    words += [fact.value for fact in facts if isinstance(fact.value, str) and FLAG.search(fact.spelling or "")]
    for word in words:
        if MODULE.fullmatch(word):
            tries = [os.path.normpath(os.path.join(place, word.replace(".", "/") + ".py")) for place in places]
            yield from (one for one in tries[:] if os.path.isfile(one))


def with_parents(
    case: Case, path: str, facts: list[Fact], depth: int = DEEPEST, left: list[int] | None = None
) -> tuple[list[Fact], list[str]]:
    """What a file says together with what it takes over from the files below it, and these files, the lowest first.

    Of a setting that both give only the nearer one is kept: the program never sees the other.
    """
    left = [MOST_PARENTS] if left is None else left
    keys = {str(key.value) for key in case.all("code.config_parents")}
    said = {fact.spelling for fact in facts}
    below: list[Fact] = []
    files: list[str] = []
    for fact in facts:
        if fact.spelling not in keys or not depth:
            continue
        for name in fact.value if isinstance(fact.value, list) else [fact.value]:
            parent = _parent(case, path, str(name))
            if parent is None or os.path.realpath(parent) == os.path.realpath(path) or left[0] <= 0:
                continue
            left[0] -= 1
            more, lower = with_parents(case, parent, read_config(parent), depth - 1, left)
            given = {one.spelling for one in more}
            below = [*(one for one in below if one.spelling not in given), *more]
            files += [*lower, parent]
    return [*(one for one in below if one.spelling not in said), *facts], files


def _parent(case: Case, path: str, name: str) -> str | None:
    if not WORD.fullmatch(name):
        return None
    beside = os.path.dirname(path) or "."
    endings = ["", *(os.path.basename(str(one.value)).removeprefix("{}") for one in case.all("code.config_template"))]
    tries = [os.path.normpath(os.path.join(place, f"{name}{ending}")) for ending in endings for place in (beside, ".")]
    return next((one for one in tries if one.endswith((".yaml", ".yml", ".json")) and os.path.isfile(one)), None)


def _found(name: str, places: Sequence[str]) -> str | None:
    below = [os.path.join(place, folder) for place in places for folder in FOLDERS]
    tries = [os.path.normpath(os.path.join(place, name)) for place in [*places, *below]]
    return next((one for one in tries if os.path.isfile(one)), None)
