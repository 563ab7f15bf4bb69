"""The folder of a job: where its project begins, which of its files are programs, scripts and configs, what is left out."""

from __future__ import annotations

import os
import re
import time
from functools import partial
from typing import TYPE_CHECKING

from crashcart.deadline import Allowance, TookTooLongError, check, limited
from crashcart.errors import CommandError
from crashcart.readers.job.command import read_script
from crashcart.readers.job.makefile import is_makefile
from crashcart.readers.job.scripts import training_targets
from crashcart.readers.job.shell import text_of
from crashcart.regular_files import names_in, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

__all__ = [
    "CONFIGS",
    "NO_TRAINING",
    "SCRIPTS",
    "entries_of",
    "files_of",
    "found_in",
    "launches",
    "own_folders",
    "read_text",
    "readers_of",
    "root_of",
]

SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm")
CONFIGS = (".yaml", ".yml", ".json", ".toml")
ROOT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "environment.yml", "environment.yaml")
SKIPPED = {".git", "__pycache__", "node_modules", "crashcart_runs", "wandb", "mlruns", "outputs", "runs", "build", "dist"}
NO_TRAINING = re.compile(r"(?:^|/)(?:tests?|docs?|\.?venv|env|site-packages|third_?party|\.[^/]+)(?:/|$)")
# A program is started by its last lines, or it is a script that trains from top to bottom.
MAIN = re.compile(
    r"^if __name__ ==|^(?:for|while) |^(?:main|train\w*|\w+\.fit)\(|^(?:args|opt\w*|trainer|model)(?:: [^=\n]{1,80})? = ",
    re.MULTILINE,
)
STARTED = re.compile(r"^if __name__ ==", re.MULTILINE)
ACTS = re.compile(r"^(?:if __name__ ==|for |while )", re.MULTILINE)  # no file of settings, whatever else stands there
_MOST_STARTED = 20
TRAINS = re.compile(r"\.backward\(|Trainer\(|\.fit\(|DataLoader\(|\bopt\w*\.step\(|\btrain\w*\(")
LOADS = re.compile(
    r"yaml|omegaconf|hydra|json\.load|tomllib|jsonargparse|LightningCLI|draccus|pyrallis|simple_parsing|HfArgumentParser|Config"
    r"|spec_from_file_location|import_module|runpy|exec\("
)
MOST_FILES = 20_000
MOST_ENTRIES = 200_000
_SCRIPT_SECONDS, _ENTRIES_SECONDS = 1.5, 1.0
MOST_STARTED = 12
_MOST_IMPORTED = 2000
# The imports of a file, as they are written.
IMPORTS = re.compile(
    r"^[ \t]{0,40}(?:from[ \t]{1,8}(?P<dots>\.{0,8})(?P<module>[\w.]{0,200})[ \t]{1,8}import[ \t]{1,8}\(?(?P<names>[^()\n#]{0,400})"
    r"|import[ \t]{1,8}(?P<plain>[\w.]{1,200}))",
    re.MULTILINE,
)
NAME = re.compile(r"(?:^|,)[ \t]{0,8}(\w{1,100})")


def root_of(folder: str) -> str:
    """The project of a folder: the nearest one above with a mark of a project, else the nearest with programs in it."""
    for at in _above(os.path.abspath(folder)):
        if any(os.path.exists(os.path.join(at, mark)) for mark in ROOT_MARKS):
            return os.path.relpath(at)
    return _with_programs(folder)


def own_folders(paths: Iterable[str]) -> list[str]:
    """Where the files of a job lie: here, beside what was named, and in its project, unless that is all that a user or a machine has."""
    named = [os.path.realpath(path) for path in (".", *paths)]
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in named]
    projects = [os.path.realpath(root_of(folder)) for folder in dict.fromkeys(folders)]
    everything = {os.path.realpath(path) for path in ("/", os.path.expanduser("~"))}
    return list(dict.fromkeys([*folders, *(project for project in projects if project not in everything)]))


def _above(at: str) -> Iterator[str]:
    """A folder and those above it, up to the user's own."""
    yield at
    while os.path.dirname(at) != at and at != os.path.expanduser("~"):
        at = os.path.dirname(at)
        yield at


def _with_programs(folder: str) -> str:
    """The nearest folder that holds programs and is no package, not above where the user stands.

    ``configs/train.yaml`` and ``pkg/scripts/train.sh`` lie below the code that they belong to, also where nothing marks it.
    """
    here, start = os.path.abspath("."), os.path.abspath(folder)
    if os.path.commonpath([here, start]) != here:
        return folder
    for at in _above(start):
        names = names_in(at)
        programs = [os.path.join(at, name) for name in names if name.endswith(".py")]
        if at == here or (programs and "__init__.py" not in names and not _only_settings(programs)):
            return os.path.relpath(at)
    return folder


def _only_settings(files: list[str]) -> bool:
    """Whether a folder holds configs that are written in Python: nothing in them defines or starts anything."""
    return not any(
        re.search(r"^(?:def|class|if __name__|for|while|import|from) ?", read_text(file), re.MULTILINE) for file in files
    )


def files_of(folder: str, excluded: Collection[str] = (), problems: list[tuple[str, str]] | None = None) -> Iterator[str]:
    """The files of a project, folders of output and of others' code left out; what could not be read is put in ``problems``."""
    told = problems if problems is not None else []
    count = 0
    for at, folders, names in walk(folder, told, most=MOST_ENTRIES):
        folders[:] = [name for name in folders if _is_wanted(name, os.path.join(at, name), folder, excluded)]
        for name in names:
            count += 1
            if count > MOST_FILES:
                told.append((folder, f"it has more than {MOST_FILES} files; the rest was not read"))
                return
            yield os.path.normpath(os.path.join(at, name))


def _is_wanted(name: str, path: str, folder: str, excluded: Collection[str]) -> bool:
    if name in SKIPPED or name.startswith(".") or os.path.exists(os.path.join(path, "pyvenv.cfg")):
        return False
    return name not in excluded and os.path.relpath(path, folder) not in excluded


def entries_of(files: Iterable[str], problems: list[tuple[str, str]] | None = None) -> Iterator[str]:
    """Python files that are started and train; where none does so itself, those that do in a module of their own.

    They are looked for as long as there is time; where it was not enough, that is put in ``problems``.
    """
    started: list[str] = []
    own = False
    left = _ENTRIES_SECONDS
    for path in files:
        if path.endswith(".py") and not NO_TRAINING.search(path):
            if left <= 0:
                if problems is not None:
                    problems.append((path, "there are too many programs: this one and the ones after it were not read"))
                break
            start = time.thread_time()
            text = read_text(path)
            left -= time.thread_time() - start
            if os.path.basename(path) == "__main__.py" or MAIN.search(text):
                if TRAINS.search(text):
                    own = True
                    yield path
                else:
                    started.append(path)
    allowance = Allowance(_ENTRIES_SECONDS, _ENTRIES_SECONDS)
    for path in started[:MOST_STARTED] if not own else ():
        above = os.path.dirname(os.path.dirname(path)) or "."
        if _below(path, [".", above], TRAINS, allowance):
            yield path


def _entries_below(files: Iterable[str], roots: Sequence[str]) -> Iterator[str]:
    """Python files that are started and whose modules train, where no file does both itself."""
    started = [path for path in files if path.endswith(".py") and not NO_TRAINING.search(path)]
    started = [path for path in started if STARTED.search(read_text(path))]
    allowance = Allowance(_ENTRIES_SECONDS, _ENTRIES_SECONDS)
    for path in started[:_MOST_STARTED]:
        if _below(path, roots, TRAINS, allowance):
            yield path


def readers_of(config: str, files: Sequence[str], roots: Sequence[str]) -> list[str]:
    """The programs of a project that may read a config: those that name it, else all that read YAML, JSON or Hydra configs.

    Where none does so itself, those that do in a module of their own.
    """
    entries = list(entries_of(files)) or list(_entries_below(files, roots))
    texts = {entry: read_text(entry) for entry in entries}
    name = os.path.basename(config)
    named = re.compile(rf"{re.escape(name)}\b|[\"']{re.escape(os.path.splitext(name)[0])}[\"']")
    naming = [entry for entry, text in texts.items() if named.search(text) and LOADS.search(text)]
    loading = naming or [entry for entry, text in texts.items() if LOADS.search(text) or name in text]
    allowance = Allowance(_ENTRIES_SECONDS, _ENTRIES_SECONDS)
    return loading or [entry for entry in texts if len(texts) == 1 or _below(entry, roots, LOADS, allowance)]


def _below(entry: str, roots: Sequence[str], what: re.Pattern[str], allowance: Allowance) -> bool:
    """Whether a program does something in any of the project's files that it imports; the files nearest to it first."""
    from crashcart.readers.interpreter.modules import Modules

    modules = Modules(entry, roots)
    waiting, seen = [modules.entry], {modules.entry}

    def look(path: str) -> bool:
        text = read_text(path)
        for found in IMPORTS.finditer(text):
            check()
            dots, module, names = found["dots"] or "", found["module"] or found["plain"], found["names"] or ""
            wanted = [module, *(f"{module}.{name}".strip(".") for name in NAME.findall(names))]
            for name in wanted:
                file = modules.find(name, len(dots), path)
                if file is not None and file.endswith(".py") and file not in seen:
                    seen.add(file)
                    waiting.append(file)
        return bool(what.search(text))

    while waiting and len(seen) < _MOST_IMPORTED:
        found, in_time = allowance.attempt(partial(look, waiting.pop(0)), False)
        if found or not in_time:
            return found
    return False


def launches(path: str) -> bool:
    """Whether a script, or a target of a Makefile, starts a training."""
    try:
        if is_makefile(path):
            return bool(training_targets(path))
        told = limited(lambda: read_script(path, whole=True), _SCRIPT_SECONDS)
        return any(fact.name == "launch.kind" for fact in told)
    except TookTooLongError:
        raise
    except CommandError:
        return False


def found_in(places: Sequence[str], name: str) -> str | None:
    """The file of that name in the first place that has it."""
    for place in places:
        path = os.path.normpath(os.path.join(place, name))
        if os.path.isfile(path):
            return path
    return None


def read_text(path: str) -> str:
    """The text of a file, empty where there is none to read."""
    try:
        return text_of(path) if os.path.isfile(path) else ""
    except CommandError:
        return ""
