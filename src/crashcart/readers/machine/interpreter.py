"""Which Python a job will run with, and where that one finds its packages; told from files, nothing is started.

python train.py              the first `python` on PATH
/opt/envs/vla/bin/torchrun   its first line names the interpreter: #!/opt/envs/vla/bin/python3.11
conda activate vla           in a script: unknown, as are containers and modules
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import shutil
from typing import TYPE_CHECKING

from crashcart.regular_files import read_start

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crashcart.model import Fact

__all__ = ["interpreter_of", "site_folders"]

PYTHON = re.compile(r"python[\d.]*")
LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed"})
ELSEWHERE = frozenset(
    {
        "conda",
        "mamba",
        "micromamba",
        "poetry",
        "pdm",
        "pipenv",
        "uv",
        "docker",
        "podman",
        "singularity",
        "apptainer",
        "enroot",
    }
)
ACTIVATES = re.compile(
    r"^[ \t]*(?:conda|mamba|micromamba|source|\.|module|pyenv|ml)[ \t]+\S{0,200}(?:activate|load|shell|env)", re.MULTILINE
)
_LONGEST = 1 << 16


def interpreter_of(facts: Mapping[str, Fact]) -> tuple[str | None, str]:
    """The interpreter and the place that names it; None and why where it cannot be told."""
    command = facts.get("command.text")
    if command is None:
        found = shutil.which("python") or shutil.which("python3")
        return _real(found, "PATH") if found else (None, "there is no python on PATH")
    script = command.evidence.where.rsplit(":", 1)[0]
    if os.path.isfile(script) and ACTIVATES.search(_text(script)):
        return None, f"{script} activates an environment of its own"
    try:
        words = shlex.split(str(command.value), comments=False)
    except ValueError:
        return None, "the command could not be taken apart"
    for word in words:
        name = os.path.basename(word)
        if name in ELSEWHERE:
            return None, f"{name} chooses it"
        if PYTHON.fullmatch(name) or name in LAUNCHERS:
            found = word if "/" in word and os.path.isfile(word) else shutil.which(word)
            if found is None:
                return None, f"{word} is not on PATH"
            return (
                _real(found, command.evidence.where) if PYTHON.fullmatch(name) else _named_by(found, command.evidence.where)
            )
    return None, "the command names none"


def _real(python: str, where: str) -> tuple[str | None, str]:
    """The interpreter itself: pyenv puts a script of its own before it, which asks a file for the version."""
    if not _text(python).startswith("#!"):
        return python, where
    root = os.path.dirname(os.path.dirname(python))
    chosen = os.environ.get("PYENV_VERSION") or _text(".python-version") or _text(os.path.join(root, "version"))
    found = os.path.join(root, "versions", (chosen.split() or ["-"])[0].replace(":", "/"), "bin", "python")
    return (found, where) if os.path.isfile(found) else (None, f"{python} is a script that chooses it")


def _named_by(script: str, where: str) -> tuple[str | None, str]:
    """The interpreter in the first lines of an installed script; long paths hide behind /bin/sh."""
    found = re.match(r"#!\s*(\S*python[\d.]*)\s|#!/bin/sh\n'''exec' \"?([^\s\"]+python[\d.]*)", _text(script))
    python = found and (found[1] or found[2])
    return (python, where) if python and os.path.isfile(python) else (None, f"{script} does not name its interpreter")


def site_folders(python: str) -> Iterator[str]:
    """The folders of packages of an interpreter, those that ``.pth`` files add included."""
    seen: set[str] = set()
    for folder in _sites(python):
        for inner in (folder, *_added(folder)):
            if os.path.isdir(inner) and os.path.realpath(inner) not in seen:
                seen.add(os.path.realpath(inner))
                yield inner


def _sites(python: str) -> Iterator[str]:
    """In the order of the import system: of a virtual environment its own, else the user's before the system's."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    settings = _text(os.path.join(prefix, "pyvenv.cfg"))
    version = re.search(r"python3\.\d+$", os.path.realpath(python))
    folder = version[0] if version else "python3*"
    if settings:
        yield from _below(prefix, folder)
        home = re.search(r"^home[ \t]*=[ \t]*(\S.*)$", settings, re.MULTILINE)
        if not home or not re.search(r"^include-system-site-packages\s*=\s*true", settings, re.MULTILINE):
            return
        prefix = os.path.dirname(home[1].strip())
    else:
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(python)))
    yield from _below(os.path.expanduser("~/.local"), folder)
    yield from _below(prefix, folder)


def _below(prefix: str, version: str) -> Iterator[str]:
    for inner in ("local/lib", "lib", "lib64"):
        yield from sorted(glob.glob(os.path.join(glob.escape(prefix), inner, version, "*-packages")))
    yield from sorted(glob.glob(os.path.join(glob.escape(prefix), "lib", "python3", "dist-packages")))


def _added(folder: str) -> Iterator[str]:
    for file in sorted(glob.glob(os.path.join(glob.escape(folder), "*.pth"))):
        for line in _text(file).splitlines():
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                yield os.path.join(folder, line.strip())


def _text(path: str) -> str:
    try:
        return read_start(path, _LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""
