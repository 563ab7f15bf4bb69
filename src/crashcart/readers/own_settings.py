"""What a project says to crashcart in its ``pyproject.toml``.

[tool.crashcart]
ignore = ["config/schedule-collision", "tracker"]     a cause or a family, everywhere; at one place use a remark
exclude = ["legacy", "third_party/apex"]              folders that are not looked at

[tool.crashcart.names]
my_bs = "train.batch_size"                            the project's own word for a setting
"optim.peak" = "train.learning_rate"                  only below that parent
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from crashcart.documents import load_toml
from crashcart.errors import CommandError
from crashcart.model import NotLooked
from crashcart.names import SPELLINGS
from crashcart.readers.job.shell import text_of
from crashcart.record import field, record

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["OwnSettings", "own_settings", "unknown_cause"]

KNOWN = {"ignore", "exclude", "names"}


@record
class OwnSettings:
    """Silenced causes, folders left out, names of the project's own, and what of the file could not be used."""

    ignore: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    names: dict[str, str] = field(default_factory=dict)
    not_looked: list[NotLooked] = field(default_factory=list)


def own_settings(root: str) -> OwnSettings:
    """The settings of a project; empty where it has none."""
    path = os.path.join(root, "pyproject.toml")
    try:
        text = text_of(path) if os.path.isfile(path) else ""
        if "[tool.crashcart" not in text:
            return OwnSettings()
        table = load_toml(text)["tool"]["crashcart"]
    except ModuleNotFoundError:
        return OwnSettings(
            not_looked=[NotLooked(path, "Python 3.10 cannot read TOML", "start crashcart with 3.11 or later")]
        )
    except (CommandError, ValueError, KeyError, TypeError) as problem:
        return OwnSettings(not_looked=[NotLooked(path, f"cannot be read as TOML: {problem}")])
    if not isinstance(table, dict):
        return OwnSettings(not_looked=[NotLooked(path, "tool.crashcart is not a table")])
    return _taken(path, table)


def _taken(path: str, table: dict[str, Any]) -> OwnSettings:
    names = table.get("names", {})
    right = (
        {key: name for key, name in names.items() if isinstance(name, str) and name in SPELLINGS}
        if isinstance(names, dict)
        else {}
    )
    return OwnSettings(
        ignore=frozenset(_texts(table.get("ignore"))),
        exclude=frozenset(os.path.normpath(text) for text in _texts(table.get("exclude"))),
        names=right,
        not_looked=[NotLooked(path, why) for why in _odd(table, right)],
    )


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def unknown_cause(name: str) -> str:
    """What is wrong with the name of a cause or a family that is to be silent; nothing where there is one of that name."""
    from difflib import get_close_matches

    from crashcart.cause import identities

    every = identities()
    families = {one.split("/")[0] for one in every}
    if name in every or name in families or (name.endswith("/*") and name[:-2] in families):
        return ""
    close = get_close_matches(name, [*every, *sorted(families)], n=1)
    return f"there is no cause {name!r}" + (f": did you mean {close[0]!r}?" if close else "")


def _odd(table: dict[str, Any], right: dict[str, str]) -> Iterator[str]:
    """What we do not understand, each with what to write."""
    from difflib import get_close_matches

    for key in table:
        if key not in KNOWN:
            close = get_close_matches(key, KNOWN, n=1)
            yield f"[tool.crashcart] knows no {key!r}" + (f": did you mean {close[0]!r}?" if close else "")
    for key in ("ignore", "exclude"):
        if key in table and not isinstance(table[key], list):
            yield f"{key} of [tool.crashcart] must be a list: {key} = [{str(table[key])!r}]".replace("'", '"')
    for name in _texts(table.get("ignore")):
        if told := unknown_cause(name):
            yield f"ignore of [tool.crashcart]: {told}"
    for key, name in (table.get("names") or {}).items() if isinstance(table.get("names"), dict) else ():
        if key not in right:
            close = get_close_matches(str(name), SPELLINGS, n=1)
            yield f"crashcart has no setting {name!r}" + (f": did you mean {close[0]!r}?" if close else "")
