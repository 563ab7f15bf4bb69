"""The program: its entry file and what it imports of its own folder, in the order in which Python would find it.

Nothing is imported or run. A module belongs to the program when its file lies beside the entry file, in the working folder
or below the project's root (``src/`` too). Installed packages are not the user's code and are left alone. Files that cannot
be parsed, that are too large or too many are named, and the rest is read.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import os
import re
import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING

from crashcart.deadline import Allowance, too_long
from crashcart.documents import DocumentError, parse_python
from crashcart.model import Evidence, Fact, NotLooked
from crashcart.readers.code.source import Source
from crashcart.readers.encoding import encoding_of
from crashcart.record import field, record
from crashcart.regular_files import read_whole, why_unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Program", "read_program", "reading_allowance", "without_collecting"]

_MOST_FILES = 3000
_LARGEST = 2_000_000
_MOST_CHARACTERS = 3_000_000  # whose trees are kept: they take thirty times as much memory
_ALL_SECONDS = 2.0
# What no rule would look at twice is not walked: most of a large project has nothing to do with training.
_OF_INTEREST = re.compile(
    r"torch|backward|DataLoader|accelerat|lightning|deepspeed|transformers|wandb|mlflow|h5py|lmdb|yaml|argparse|omegaconf|hydra"
    r"|draccus|tyro|pydantic|dataclass|click|fire|absl|requests|httpx|smtplib|ftplib|subprocess|urlopen|urlretrieve|threading|load_dataset|pickle\.dump|np\.save"
    r"|json\.dump|create_connection|DATA_|DATASET_|HDF5|hdf5|dataset_dir|data_dir|data_root|data_path"
    r"|num_workers|batch|chunk|per_gpu|per_device|RANK|environ|getenv|\blr\b|learning_rate|\bepochs\b|timeout"
    r"|def (?:update|log|add|record|push|store|append|track)\w*\(self"
    r"|download|huggingface_hub|extractall|unpack_archive|os\.system|queue\.|barrier|is_main|rank_zero"
)


@record
class Program:
    """The files of a job's own code, the entry first where it is known."""

    sources: list[Source] = field(default_factory=list)
    entry: str | None = None
    entries: list[str] = field(default_factory=list)
    not_looked: list[NotLooked] = field(default_factory=list)
    refused: list[Fact] = field(default_factory=list)  # files that are no Python here
    lines: int = 0

    def imports(self, *packages: str) -> bool:
        """Whether any file imports one of these packages."""
        return any(
            name == package or name.startswith(f"{package}.")
            for source in self.sources
            for name in source.names.values()
            for package in packages
        )


def read_program(entries: Iterable[str], roots: Iterable[str] = (), allowance: Allowance | None = None) -> Program:
    """Read the entry files and, through their imports, everything of their own project.

    Several programs can share one ``allowance`` of time; the files nearest to the entry come first.
    """
    listed = [os.path.normpath(entry) for entry in entries]
    reading = _Reading([os.path.normpath(root) for root in roots], listed, allowance or reading_allowance())
    with without_collecting():
        for entry in listed:
            reading.follow(entry)
    program = reading.program
    for source in program.sources:
        source.neighbours = program.sources
    program.entry = listed[0] if listed else None
    program.entries = listed
    return program


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Trees are many small objects without cycles: looking for garbage among them takes half of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def reading_allowance() -> Allowance:
    """The time in which all files of a program are read."""
    return Allowance(_ALL_SECONDS, _ALL_SECONDS)


class _Reading:
    def __init__(self, roots: list[str], entries: list[str], allowance: Allowance) -> None:
        self.allowance = allowance
        self.roots = roots
        self.entries = entries
        self.program = Program()
        self.seen: set[str] = set()
        self.late = False
        self.characters = 0
        self.modules: dict[tuple[str, str], list[str]] = {}

    def follow(self, entry: str) -> None:
        places = list(dict.fromkeys([os.path.dirname(entry) or ".", *self.roots]))
        places += [os.path.join(root, "src") for root in self.roots if os.path.isdir(os.path.join(root, "src"))]
        waiting = [entry]
        while waiting:
            path = os.path.normpath(waiting.pop(0))
            real = os.path.realpath(path)
            if real in self.seen:
                continue
            if len(self.seen) == _MOST_FILES:
                self.miss(path, f"more than {_MOST_FILES} files: the rest was not read")
            self.seen.add(real)
            if len(self.seen) <= _MOST_FILES:
                nothing: list[str] = []
                found, in_time = self.allowance.attempt(partial(self.read, path, places), nothing)
                waiting += found
                if not in_time and not self.late:
                    self.late = True
                    self.miss(path, f"reading all of the code {too_long(_ALL_SECONDS)}: the rest was not read")

    def miss_all(self, path: str) -> list[str]:
        """The files from here on, told once."""
        told, self.late = self.late, True
        megabytes = _MOST_CHARACTERS // 1_000_000
        return [] if told else self.miss(path, f"the code is larger than {megabytes} MB: the rest was not read")

    def read(self, path: str, places: list[str]) -> list[str]:
        """Read one file; the files that it imports."""
        try:
            data = read_whole(path, _LARGEST)
            encoding = encoding_of(data)
            text = data.decode(encoding)
            self.program.lines += text.count("\n")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an odd escape in somebody's string is not our news
                if not _OF_INTEREST.search(text):
                    tree = parse_python(text)
                    return list(self.files(_wanted(tree), path, places))
                self.characters += len(text)
                if self.characters > _MOST_CHARACTERS:
                    return self.miss_all(path)
                source = Source(path, text)
        except OSError as problem:
            return self.miss(path, why_unreadable(problem))
        except UnicodeDecodeError:
            return self.miss(path, f"is not {encoding.upper().removesuffix('-SIG')} text")
        except SyntaxError as problem:
            return self.refuse(path, problem)
        except DocumentError as problem:
            return self.miss(path, f"it {problem}")
        except (ValueError, LookupError):  # a codec that decodes no text, a NUL
            return self.miss(path, "cannot be parsed")
        self.program.sources.append(source)
        return list(self.files(_wanted(source.tree), path, places))

    def refuse(self, path: str, problem: SyntaxError) -> list[str]:
        """A file that is no Python for the interpreter that we run in."""
        why = f"line {problem.lineno}: {problem.msg}" if problem.lineno else str(problem.msg)
        place = Evidence("code", (problem.text or problem.msg).strip(), f"{path}:{problem.lineno or 1}")
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        value = {"problem": problem.msg, "python": python, "entry": path in self.entries}
        self.program.refused.append(Fact("code.no_python", value, place, "code"))
        return self.miss(path, why)

    def miss(self, path: str, why: str) -> list[str]:
        self.program.not_looked.append(NotLooked(path, why))
        return []

    def files(self, wanted: Iterable[tuple[int, str]], path: str, places: list[str]) -> Iterator[str]:
        """The files of modules; the disk is asked once for each, since many files import the same."""
        for level, name in wanted:
            starts = places
            if level:
                start = os.path.dirname(path)
                for _ in range(level - 1):
                    start = os.path.dirname(start)
                starts = [start or "."]
            for start in starts:
                if (start, name) not in self.modules:
                    self.modules[start, name] = list(_module(start, name))
                found = self.modules[start, name]
                yield from found
                if any(map(_may_be_read, found)):
                    break


def _wanted(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The modules that a file may import, with the dots before their names."""
    for node in _statements(tree.body):
        if isinstance(node, ast.Import):
            yield from ((0, one.name) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield node.level, module
            yield from ((node.level, f"{module}.{one.name}".strip(".")) for one in node.names)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement at any depth, without the expressions in them, which are most of a tree."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        for part in ("body", "orelse", "finalbody"):
            waiting.extend(getattr(node, part, ()))
        for branch in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            waiting.extend(branch.body)


def _module(start: str, name: str) -> Iterator[str]:
    listed = [os.path.normpath(one) for one in _candidates(start, name.split(".") if name else [])]
    yield from (one for one in listed if os.path.islink(one) and not os.path.exists(one))  # Python passes over it
    yield from (one for one in listed if _may_be_read(one))


def _may_be_read(path: str) -> bool:
    """Whether there is something under that name; what is no file is told when its turn comes."""
    return os.path.exists(path) and not os.path.isdir(path)


def _candidates(start: str, parts: list[str]) -> Iterator[str]:
    """A module, a package, and the packages above it, whose ``__init__`` runs first."""
    for length in range(1, len(parts)):
        yield os.path.join(start, *parts[:length], "__init__.py")
    if parts:
        yield os.path.join(start, *parts) + ".py"
    yield os.path.join(start, *parts, "__init__.py")
