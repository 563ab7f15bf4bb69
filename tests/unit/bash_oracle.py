"""bash itself as the judge: a script is run with every program replaced by one that writes down its arguments.

What bash passed must be what we read, word for word; a word may be unknown to us, but not another one.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crashcart.readers.job.shell import lex

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from crashcart.readers.job.shell import Command
    from crashcart.readers.job.words import Word

PROGRAMS = ("python", "python3", "torchrun", "accelerate", "srun", "deepspeed")
REAL = ("basename", "dirname", "seq")
WRAPPERS = {"exec", "command", "time"}
BUILTINS = {
    "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete", "continue", "coproc", "declare", "dirs",
    "disown", "echo", "enable", "eval", "exec", "exit", "export", "false", "fc", "fg", "getopts", "hash", "help", "history", "jobs", "kill",
    "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift", "shopt",
    "source", "suspend", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait", ":", ".", "[", "[[",
}  # fmt: skip
STUB = '#!/bin/bash\nprintf \'%s\\0\' "$(($# + 1))" "${0##*/}" "$@" >> "$CRASHCART_RECORD"\n'
# For programs that have no stub.
PRELUDE = (
    'command_not_found_handle() { printf \'%s\\0\' "$#" "$@" >> "$CRASHCART_RECORD"; }\ndeclare -r PATH\ntrap wait EXIT\n'
)


@dataclass
class Tally:
    """How many words were equal, unknown to us, and wrong; with what was wrong."""

    equal: int = 0
    unknown: int = 0
    wrong: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.equal += other.equal
        self.unknown += other.unknown
        self.wrong += other.wrong
        self.problems += other.problems


def prepare(folder: Path) -> Path:
    """A folder with the stand-ins, and an empty one to run in."""
    (folder / "bin").mkdir(parents=True)
    (folder / "work").mkdir()
    stub = folder / "stub"
    stub.write_text(STUB)
    stub.chmod(0o755)
    for name in PROGRAMS:
        (folder / "bin" / name).symlink_to(stub)
    for name in REAL:
        real = next(path for path in (f"/usr/bin/{name}", f"/bin/{name}") if os.path.exists(path))
        (folder / "bin" / name).symlink_to(real)
    (folder / "prelude").write_text(PRELUDE)
    return folder


def passed_by_bash(
    script: str, folder: Path, arguments: Sequence[str] = (), user: int | None = None
) -> list[list[str]] | None:
    """The commands that bash runs, each with its words; None where it does not end."""
    path, recorded = folder / "script.sh", folder / "record"
    path.write_bytes(script.encode("utf-8", "surrogateescape"))
    recorded.write_bytes(b"")
    recorded.chmod(0o666)
    environment = {
        "PATH": str(folder / "bin"),
        "BASH_ENV": str(folder / "prelude"),
        "CRASHCART_RECORD": str(recorded),
        "LC_ALL": "C.UTF-8",
    }
    try:
        subprocess.run(
            ["/bin/bash", str(path), *arguments], cwd=folder / "work", env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=10, user=user,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    parts = recorded.read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]
    commands: list[list[str]] = []
    while parts:
        count = int(parts[0])
        commands.append(parts[1 : count + 1])
        parts = parts[count + 1 :]
    return commands


def read_by_us(script: str, arguments: Sequence[str] = ()) -> list[Command]:
    """The programs that we see started."""
    given = {str(number): text for number, text in enumerate(arguments, 1)}
    return programs(lex(script, "script.sh", {**given, "#": str(len(arguments))}).commands)


def programs(commands: Sequence[Command]) -> list[Command]:
    found: list[Command] = []
    for command in commands:
        words = command.words
        while len(words) > 1 and words[0].known and words[0].text in WRAPPERS and words[1].text not in {"-v", "-V"}:
            words = words[1:]
        if words and not (words[0].known and (words[0].text in BUILTINS or "/" in words[0].text)):
            found.append(type(command)(words, command.assignments, command.after, command.certain))
    return found


def compared(ours: Sequence[Command], theirs: Sequence[Sequence[str]]) -> Tally:
    """Each command of bash against the one of ours that fits it best."""
    tally = Tally()
    left = list(ours)
    for words in theirs:
        fits = [(fit, command) for command in left if (fit := _fit(command.words, words)) is not None]
        if not fits:
            tally.wrong += len(words)
            tally.problems.append(f"bash runs {words}")
            continue
        fit, command = max(fits, key=lambda both: (both[0], both[1].certain))
        tally.equal += fit
        tally.unknown += len(words) - fit
        if command.certain:
            left.remove(command)
    for command in left:
        if command.certain and not command.words[0].is_loose:
            tally.wrong += len(command.words)
            tally.problems.append(f"bash does not run {[word.text for word in command.words]}")
    return tally


def _fit(ours: Sequence[Word], theirs: Sequence[str]) -> int | None:
    """How many words are equal where the rest is unknown to us; None where something differs."""
    best: list[int | None] = [0] + [None] * len(theirs)
    for word in ours:
        after: list[int | None] = [None] * (len(theirs) + 1)
        for at in range(len(theirs) + 1):
            if word.is_loose:
                ways = [way for way in best[: at + 1] if way is not None]
                after[at] = max(ways, default=None)
            elif at and (before := best[at - 1]) is not None:
                after[at] = before + 1 if word.known and word.text == theirs[at - 1] else before if not word.known else None
        best = after
    return best[-1]
