"""The file that a launch starts, and the folders in which its imports are looked for."""

from __future__ import annotations

import os
import re
from itertools import takewhile
from typing import TYPE_CHECKING

from crashcart.readers.job.installed import installed_commands
from crashcart.readers.project import found_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.model import Fact

__all__ = ["console_script", "entry_of", "nearest", "python_path"]

HERE = re.compile(r"^(?:\$\{?PWD\}?|\$\(pwd\)|`pwd`)(?:/|$)")


def nearest(config: str, entries: Sequence[str]) -> list[str]:
    """The programs that lie next to a config that nobody named: where a folder holds several projects, each has its own."""
    own = os.path.abspath(config).split(os.sep)
    shared = [
        sum(
            1
            for _ in takewhile(lambda both: both[0] == both[1], zip(own, os.path.abspath(entry).split(os.sep), strict=False))
        )
        for entry in entries
    ]
    return [one for one, count in zip(entries, shared, strict=True) if count == max(shared)]


def python_path(facts: Sequence[Fact], folders: Sequence[str]) -> list[str]:
    """The folders of ``PYTHONPATH=src:$PYTHONPATH`` in the launch, where they are there."""
    told = [str(fact.value) for fact in facts if fact.name == "environment.PYTHONPATH"]
    parts = [HERE.sub("./", part) for one in told for part in one.split(":")]
    found = [
        os.path.normpath(os.path.join(folder, part))
        for part in parts
        if part and "$" not in part
        for folder in (*folders, ".")
    ]
    return [one for one in dict.fromkeys(found) if os.path.isdir(one)]


def entry_of(facts: Sequence[Fact], places: Sequence[str]) -> str | None:
    """The file that the launch starts: a path, or a module of the project."""
    for fact in facts:
        if fact.name == "launch.script":
            name = str(fact.value)
            module = name.replace(".", "/")
            tries = [name] if name.endswith(".py") else [f"{module}.py", f"{module}/__main__.py"]
            for one in tries if name.endswith(".py") else [*tries, *(f"src/{attempt}" for attempt in tries)]:
                if path := found_in(places, one):
                    return path
            if (script := console_script(name, places)) is not None:
                return script[0]
    return None


def console_script(name: str, places: Sequence[str]) -> tuple[str, str] | None:
    """The file and the function of a command that the project installs: ``train = "package.cli:main"``."""
    for place in places:
        module, function = installed_commands(place).get(name, ("", ""))
        path = module.replace(".", "/")
        for tried in (f"{path}.py", f"{path}/__init__.py", f"src/{path}.py", f"src/{path}/__init__.py") if path else ():
            if source := found_in([place], tried):
                return source, function
    return None
