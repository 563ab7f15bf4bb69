"""What the shell holds at one moment of a script: variables, arguments, functions, options.

Where one of two such moments was, and nobody can tell which, what is the same in both is still known. A variable that the script never set may come from outside. One that was set, but not to be told, is unknown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.record import record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tree_sitter import Node

    from crashcart.readers.job.syntax import Source
    from crashcart.readers.job.words import Word

__all__ = ["UNKNOWN", "UNSET", "Function", "State", "Variable", "joined"]

# What the shell sets itself, so that nobody's default counts.
OF_THE_SHELL = re.compile(
    r"BASH\w*|RANDOM|SRANDOM|SECONDS|LINENO|EPOCH(?:SECONDS|REALTIME)|FUNCNAME|GROUPS|DIRSTACK|PIPESTATUS|PWD|OLDPWD|PPID|UID|EUID|SHLVL|HOSTNAME"
    r"|HOSTTYPE|MACHTYPE|OSTYPE|SHELLOPTS|OPTIND|OPTARG|OPTERR|REPLY|COLUMNS|LINES|PATH|HOME|SHELL|TERM|IFS|PS\d|_|COMP_\w+|MAPFILE"
)
_NEVER_PLAIN = re.compile(
    r"RANDOM|SRANDOM|SECONDS|LINENO|EPOCH(?:SECONDS|REALTIME)|FUNCNAME|GROUPS|DIRSTACK|PIPESTATUS|BASH\w*|PWD|OLDPWD|_|REPLY"
)


@record(frozen=True)
class Variable:
    """A variable: its values by index or key (None: not known), and what ``declare`` said of it."""

    values: dict[int | str, Word] | None
    is_array: bool = False
    has_keys: bool = False
    is_exported: bool = False
    is_odd: bool = False  # an integer, a reference, read-only: an assignment does more or less than assign


UNSET = Variable({})
UNKNOWN = Variable(None)


@record(frozen=True)
class Function:
    """A function and the text in which it is written."""

    body: Node
    source: Source


class State:
    """Everything that an assignment, an option or a call can change."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.arguments: tuple[Word, ...] | None = None
        self.functions: dict[str, Function | None] = {}
        self.options: frozenset[str] = frozenset()
        self.outside_is_known = True  # whether a variable that the script never sets can be taken for unset

    def copy(self) -> State:
        """A state that can be changed without this one."""
        other = State()
        other.variables, other.functions = dict(self.variables), dict(self.functions)
        other.arguments, other.options, other.outside_is_known = self.arguments, self.options, self.outside_is_known
        return other

    def find(self, name: str) -> Variable | None:
        """A variable; None where only the outside can have set it."""
        if _NEVER_PLAIN.fullmatch(name):
            return UNKNOWN
        found = self.variables.get(name)
        if found is None and (not self.outside_is_known or OF_THE_SHELL.fullmatch(name)):
            return UNKNOWN
        return found

    def assign(self, name: str, variable: Variable) -> None:
        """Set a variable; what ``declare`` or ``export`` said of it stays."""
        old = self.variables.get(name)
        exported = variable.is_exported or (old is not None and old.is_exported) or "allexport" in self.options
        odd = variable.is_odd or (old is not None and old.is_odd)
        values = None if odd else variable.values
        keys = variable.has_keys or (old is not None and old.has_keys)
        self.variables[name] = Variable(values, variable.is_array, keys, exported, odd)

    def forget(self, names: Iterable[str]) -> None:
        """These were set, to nobody knows what."""
        for name in names:
            old = self.variables.get(name, UNKNOWN)
            self.variables[name] = replace(old, values=None)

    def forget_all(self) -> None:
        """Anything may have been set."""
        self.forget(list(self.variables))
        self.outside_is_known, self.arguments = False, None


def joined(first: State, second: State, defaulted: str = "") -> State:
    """What is true in both; ``defaulted`` is the variable whose emptiness chose between them, as in ``${A:-x}``."""
    result = first.copy()
    for name in {*first.variables, *second.variables}:
        one, other = first.variables.get(name), second.variables.get(name)
        if one is None or other is None:
            found = one or other or UNKNOWN
            result.variables[name] = found if name == defaulted else replace(found, values=None)
        elif not _same(one, other):
            exported, odd = one.is_exported or other.is_exported, one.is_odd or other.is_odd
            result.variables[name] = Variable(None, one.is_array, one.has_keys, exported, odd)
    for name in {*first.functions, *second.functions}:
        if first.functions.get(name) != second.functions.get(name):
            result.functions[name] = None
    if _texts(first.arguments) != _texts(second.arguments):
        result.arguments = None
    result.options = first.options | second.options
    result.outside_is_known = first.outside_is_known and second.outside_is_known
    return result


def _same(one: Variable, other: Variable) -> bool:
    if one.values is None or other.values is None:
        return one.values is other.values
    return (
        one.is_array == other.is_array
        and _texts(one.values.values()) == _texts(other.values.values())
        and list(one.values) == list(other.values)
    )


def _texts(words: Iterable[Word] | None) -> list[tuple[str, bool]] | None:
    return None if words is None else [(word.text, word.known) for word in words]
