"""Flags of the command line that a parser made of a config class does not know."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.model import Fact

__all__ = ["unknown_fields"]

ALWAYS = {"--help", "--h", "--print_config", "--config", "--cfg", "--yaml", "--json"}


def unknown_fields(parser: Fact, words: Sequence[tuple[str, bool]]) -> Iterator[tuple[str, str]]:
    """Each flag that is not known, and the nearest that is; dashes and underscores are the same here."""
    known = {_plain(one): one for one in parser.value["flags"] if not one.endswith("*")}
    open_below = tuple(_plain(one[:-1]) for one in parser.value["flags"] if one.endswith("*"))
    for text, told in words:
        flag = text.partition("=")[0]
        plain = _plain(flag)
        if not told or not flag.startswith("--") or flag == "--" or flag in ALWAYS or ":" in flag:
            continue
        if any(one.startswith(plain) for one in known) or plain.startswith(open_below):
            continue
        close = get_close_matches(plain, [one for one in known if not one.startswith("--no_")], n=1, cutoff=0.75)
        yield flag, _like(flag, known[close[0]]) if close else ""


def _plain(flag: str) -> str:
    return "--" + flag[2:].replace("-", "_")


def _like(flag: str, found: str) -> str:
    """The flag that is meant, with dashes where the user writes dashes."""
    return "--" + found[2:].replace("_", "-") if "-" in flag[2:] and "_" not in flag else found
