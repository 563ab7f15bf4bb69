"""What Hydra would refuse of a command line: an option of a group that has no file, a key that the config does not have.

python train.py optim=sgdd             Could not find 'optim/sgdd'
python train.py data.batchsize=4       Key 'batchsize' is not in struct; ``+data.batchsize=4`` would add it
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING

from crashcart.model import Fact
from crashcart.regular_files import names_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["refused"]

OWN = ("hydra.", "hydra/", "hydra@")


def refused(
    groups: set[str], composed: Sequence[Fact], given: Sequence[Fact], folder: str, *, whole: bool
) -> Iterator[Fact]:
    """``arguments.refused`` for each; keys only where the ``whole`` config could be read."""
    keys = {fact.spelling for fact in composed}
    open_ended = any(isinstance(fact.value, str) and "${" in fact.value for fact in composed)
    for fact in given:
        name, mark, option = fact.evidence.quote.partition("=")
        if (
            not mark
            or name != fact.spelling
            or fact.origin != "flag"
            or name.startswith(("-", "+", "~", *OWN))
            or "@" in name
        ):
            continue
        if name in groups:
            yield from _option(fact, name, option, folder)
        elif whole and not open_ended and not _has(keys, name) and not os.path.isdir(os.path.join(folder, name)):
            close = get_close_matches(name, sorted(keys), n=1, cutoff=0.75)
            told = f"Hydra refuses {name}, which the config does not have" + (f": did you mean {close[0]}?" if close else "")
            yield _fact(told, fact, f"{close[0]}={option}" if close else "")


def _option(fact: Fact, group: str, option: str, folder: str) -> Iterator[Fact]:
    """A file that a group does not have; several at once are a sweep."""
    beside = os.path.join(folder, group)
    if not option or any(sign in option for sign in ",[{$\"'") or option in {"null", "None"} or not os.path.isdir(beside):
        return
    there = sorted(one.rsplit(".", 1)[0] for one in names_in(beside) if one.endswith((".yaml", ".yml")))
    if option.removesuffix(".yaml") not in there and not os.path.isfile(os.path.join(beside, f"{option}.yaml")):
        close = get_close_matches(option, there, n=1, cutoff=0.5)
        told = f"Hydra finds no {option} for {group}; there is {', '.join(there) or 'nothing'}"
        yield _fact(told, fact, f"{group}={close[0]}" if close else "")


def _fact(told: str, fact: Fact, instead: str) -> Fact:
    return Fact("arguments.refused", {"says": told, "instead": instead}, fact.evidence, "flag", fact.evidence.quote)


def _has(keys: set[str], name: str) -> bool:
    return any(key == name or key.startswith((f"{name}.", f"{name}[")) for key in keys)
