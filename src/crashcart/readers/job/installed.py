"""The commands that a project installs, with the function behind each.

[project.scripts]                                    pyproject.toml
train = "package.cli:main"
entry_points={"console_scripts": ["train = package.cli:main"]}        setup.py, setup.cfg
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from crashcart.errors import CommandError
from crashcart.readers.job.shell import text_of

__all__ = ["installed_commands", "nearest_commands"]

_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_COMMAND = re.compile(
    r"""(?<![\w.-])["']?(?:scripts\.)?(?P<name>[A-Za-z][\w-]{0,100})["']?[ \t]{0,20}=[ \t]{0,20}["']?(?P<module>[A-Za-z_][\w.]{0,200}):(?P<function>[A-Za-z_][\w.]{0,100})"""
)
_HIGHEST = 8  # folders above a script in which its project may begin


def nearest_commands(folder: str) -> frozenset[str]:
    """The commands that the project around a folder installs."""
    place = os.path.abspath(folder)
    for _ in range(_HIGHEST):
        if any(os.path.isfile(os.path.join(place, file)) for file in _FILES):
            return frozenset(installed_commands(place))
        above = os.path.dirname(place)
        if above == place:
            break
        place = above
    return frozenset()


def installed_commands(folder: str) -> dict[str, tuple[str, str]]:
    """Each command that a project installs, with its module and function."""
    paths = [os.path.join(folder, file) for file in _FILES]
    return dict(_commands_of(tuple((path, os.stat(path).st_mtime_ns) for path in paths if os.path.isfile(path))))


@lru_cache(maxsize=64)
def _commands_of(files: tuple[tuple[str, int], ...]) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for path, _ in files:
        try:
            text = text_of(path)
        except (CommandError, OSError):
            continue
        for match in _COMMAND.finditer(text):
            found.setdefault(match["name"], (match["module"], match["function"]))
    return found
