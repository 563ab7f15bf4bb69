"""The Python files of a program: where an import leads, read and parsed once.

A module belongs to the program when its file lies beside the entry file, on PYTHONPATH, in the working folder or below the project's
root (``src/`` too), or in a package that the project around it installs. Other installed packages are libraries. Files that cannot be read or parsed are named, and the rest is read.
"""

from __future__ import annotations

import ast
import os
import sys
import warnings
from typing import TYPE_CHECKING

from crashcart.documents import DocumentError
from crashcart.model import Evidence, Fact, NotLooked
from crashcart.readers.code.source import Source
from crashcart.readers.encoding import encoding_of
from crashcart.regular_files import names_in, read_whole, why_unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Modules"]

_MOST_FILES = 3000
_MOST_PLACES = 100  # folders in which each import is looked for
_LARGEST = 2_000_000


class Modules:
    """Finds and parses the files of a program."""

    def __init__(self, entry: str, roots: Sequence[str], packages: Mapping[str, str] | None = None) -> None:
        self.entry = os.path.normpath(entry)
        self.packages = packages or {}
        own = os.path.dirname(self.entry) or "."
        below = [os.path.join(root, "src") for root in roots]
        self.places = list(dict.fromkeys([own, *map(os.path.normpath, roots), *filter(os.path.isdir, below)]))
        self.sources: dict[str, Source | None] = {}
        self.not_looked: list[NotLooked] = []
        self.refused: list[Fact] = []
        self.lines = 0
        self._outlines: dict[str, tuple[bool, tuple[str, ...] | None]] = {}
        self._found: dict[tuple[str, str], str | None] = {}
        self._listed: dict[str, frozenset[str]] = {}

    def find(self, name: str, level: int = 0, importer: str = "") -> str | None:
        """The file of a module (``__init__.py`` of a package; a folder ending with / without one), None for a library."""
        if level:
            start = os.path.dirname(importer)
            for _ in range(level - 1):
                start = os.path.dirname(start)
            return self._in(start or ".", name)
        for place in self.places:
            found = self._in(place, name)
            if found is not None:
                return found
        package = self.packages.get(name.partition(".")[0])
        return self._in(package, name) if package is not None else None

    def look_in(self, folder: str, *, first: bool) -> None:
        """Look for modules in one more folder, before the others or behind them."""
        if folder not in self.places and len(self.places) < _MOST_PLACES:
            self.places.insert(0 if first else len(self.places), folder)

    def _in(self, place: str, name: str) -> str | None:
        key = (place, name)
        if key not in self._found:
            self._found[key] = self._look(place, name.split(".") if name else [])
        return self._found[key]

    def _look(self, place: str, parts: list[str]) -> str | None:
        folder = place
        for part in parts[:-1]:
            if part not in self._entries(folder):
                return None
            folder = os.path.join(folder, part)
        if not parts:
            return self._package(folder)
        entries = self._entries(folder)
        if parts[-1] in entries and (found := self._package(os.path.join(folder, parts[-1]))) is not None:
            return found
        path = os.path.join(folder, f"{parts[-1]}.py")
        if f"{parts[-1]}.py" in entries and not os.path.isdir(path):  # what is no file is told when it is read
            return os.path.normpath(path)
        return None

    def _package(self, folder: str) -> str | None:
        entries = self._entries(folder)
        if "__init__.py" in entries:
            return os.path.normpath(os.path.join(folder, "__init__.py"))
        has_python = any(entry.endswith(".py") for entry in entries) or any(
            "__init__.py" in self._entries(os.path.join(folder, entry)) for entry in sorted(entries)[:50] if "." not in entry
        )
        return os.path.join(os.path.normpath(folder), "") if has_python else None

    def _entries(self, folder: str) -> frozenset[str]:
        if folder not in self._listed:
            self._listed[folder] = frozenset(names_in(folder))
        return self._listed[folder]

    def names_of(self, package: str) -> list[str]:
        """The names of the modules in a package, or of those that lie in the places themselves."""
        parts = package.split(".") if package else []
        folders = [os.path.join(place, *parts) for place in self.places]
        names = {name.removesuffix(".py") for folder in folders for name in self._entries(folder) if name.endswith(".py")}
        return sorted(names - {"__init__"})

    def source(self, path: str) -> Source | None:
        """A parsed file; None where it cannot be read, which is told once."""
        path = os.path.normpath(path)
        if path not in self.sources:
            self.sources[path] = self._read(path) if len(self.sources) < _MOST_FILES else None
        return self.sources[path]

    def acts(self, path: str) -> bool:
        """Whether a module does something when it is imported."""
        return self._outline(path)[0]

    def exports(self, path: str) -> tuple[str, ...] | None:
        """The names that ``from module import *`` takes of a module; None where it takes them of others itself."""
        return self._outline(path)[1]

    def _outline(self, path: str) -> tuple[bool, tuple[str, ...] | None]:
        """What can be told of a module without following it; the tree of one that was not read yet is not kept."""
        path = os.path.normpath(path)
        if path not in self._outlines:
            is_known = path in self.sources
            source = self.source(path)
            self._outlines[path] = (_acts(source.tree), _exports(source.tree)) if source is not None else (False, None)
            if not is_known and source is not None:
                del self.sources[path]
                self.lines -= source.text.count("\n")
        return self._outlines[path]

    def _read(self, path: str) -> Source | None:
        encoding = "utf-8"
        try:
            data = read_whole(path, _LARGEST)
            encoding = encoding_of(data)
            text = data.decode(encoding)
            self.lines += text.count("\n")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an odd escape in somebody's string is not our news
                return Source(path, text)
        except OSError as problem:
            self._miss(path, why_unreadable(problem))
        except UnicodeDecodeError:
            self._miss(path, f"is not {encoding.upper().removesuffix('-SIG')} text")
        except SyntaxError as problem:
            self._refuse(path, problem)
        except DocumentError as problem:
            self._miss(path, f"it {problem}")
        except (ValueError, LookupError, RecursionError):  # a codec that decodes no text, a NUL
            self._miss(path, "cannot be parsed")
        return None

    def _refuse(self, path: str, problem: SyntaxError) -> None:
        """A file that is no Python for the interpreter that we run in."""
        why = f"line {problem.lineno}: {problem.msg}" if problem.lineno else str(problem.msg)
        place = Evidence("code", (problem.text or problem.msg).strip(), f"{path}:{problem.lineno or 1}")
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        value = {"problem": problem.msg, "python": python, "entry": path == self.entry}
        self.refused.append(Fact("code.no_python", value, place, "code"))
        self._miss(path, why)

    def _miss(self, path: str, why: str) -> None:
        self.not_looked.append(NotLooked(path, why))


def _acts(tree: ast.Module) -> bool:
    """Whether a module does something when it is imported, as registering what it defines."""
    branches = [part for statement in tree.body if isinstance(statement, ast.If) for part in statement.body]
    for statement in (*tree.body, *branches):
        if isinstance(statement, (ast.For, ast.With)) or (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        ):
            return True
        for decorator in getattr(statement, "decorator_list", ()):
            if isinstance(decorator, ast.Call) and "dataclass" not in ast.unparse(decorator.func):
                return True
    return False


def _exports(tree: ast.Module) -> tuple[str, ...] | None:
    """The public names that a module binds, or its ``__all__``; None where that cannot be told from its statements alone."""
    names: list[str] = []
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            names += [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            own = [target.id for target in targets if isinstance(target, ast.Name)]
            if "__all__" in own:
                return _listed(statement.value) if isinstance(statement, ast.Assign) else None
            names += own
    return None if "*" in names else tuple(dict.fromkeys(name for name in names if not name.startswith("_")))


def _listed(value: ast.expr) -> tuple[str, ...] | None:
    """The texts of a list that is written out."""
    parts = value.elts if isinstance(value, (ast.List, ast.Tuple)) else []
    texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return tuple(texts) if texts and len(texts) == len(parts) else None
