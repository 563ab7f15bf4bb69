"""What a project installs: its commands with the function behind each, and its packages.

[project.scripts]                                    pyproject.toml
train = "package.cli:main"
entry_points={"console_scripts": ["train = package.cli:main"]}        setup.py, setup.cfg
"""

from __future__ import annotations

import contextlib
import os
import re
from functools import lru_cache

from crashcart.errors import CommandError
from crashcart.readers.job.shell import text_of
from crashcart.regular_files import names_in

__all__ = ["installed_commands", "nearest_commands", "nearest_packages"]

_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_COMMAND = re.compile(
    r"""(?<![\w.-])["']?(?:scripts\.)?(?P<name>[A-Za-z][\w-]{0,100})["']?[ \t]{0,20}=[ \t]{0,20}["']?(?P<module>[A-Za-z_][\w.]{0,200}):(?P<function>[A-Za-z_][\w.]{0,100})"""
)
# ``where = ["pkg"]``, ``package-dir = {"" = "pkg"}``, ``package_dir={"": "pkg"}``
_PACKAGES = re.compile(
    r"""(?:\bwhere[ \t]{0,9}=[ \t]{0,9}\[?[ \t]{0,9}|package[-_]dir[ \t]{0,9}=[ \t]{0,9}\{[ \t]{0,9}["']{2}[ \t]{0,9}[=:][ \t]{0,9})["'](?P<folder>[\w./-]{1,100})["']"""
)
_MOST_FOLDERS = 4
_HIGHEST = 8  # folders above a script in which its project may begin


def nearest_commands(folder: str) -> frozenset[str]:
    """The commands that the project around a folder installs."""
    place = _nearest_project(folder)
    return frozenset(installed_commands(place)) if place is not None else frozenset()


def nearest_packages(folder: str) -> dict[str, str]:
    """The packages that the project around a folder installs, each with the folder in which it lies.

    ``examples/train.py`` imports the package above it also where ``examples`` has its own requirements.
    """
    place = _nearest_project(folder)
    found: dict[str, str] = {}
    for each in _package_folders(place) if place is not None else ():
        for name in names_in(each):
            if os.path.isfile(os.path.join(each, name, "__init__.py")):
                found.setdefault(name, each)
    return found


def _package_folders(place: str) -> list[str]:
    """The folders in which the packages of a project lie."""
    texts = []
    for file in _FILES:
        with contextlib.suppress(CommandError, OSError):
            texts.append(text_of(os.path.join(place, file)))
    said = [match["folder"] for text in texts for match in _PACKAGES.finditer(text)]
    return list(dict.fromkeys(os.path.relpath(os.path.join(place, name)) for name in (".", "src", *said[:_MOST_FOLDERS])))


def _nearest_project(folder: str) -> str | None:
    place = os.path.abspath(folder)
    for _ in range(_HIGHEST):
        if any(os.path.isfile(os.path.join(place, file)) for file in _FILES):
            return place
        above = os.path.dirname(place)
        if above == place:
            break
        place = above
    return None


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
