"""A launch script made whole: what stands after a backslash or between continued lines is taken out, and nothing else.

Also what else is odd about a script: variables that nobody sets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.model import Evidence, Fact
from crashcart.readers.job.makefile import is_makefile
from crashcart.readers.job.shell import broken_continuations
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.job.shell import Script

__all__ = ["meant", "mend", "oddities", "superfluous"]

# What a login shell, Slurm or a container sets before the script runs.
OUTSIDE = re.compile(
    r"(?:SLURM|CONDA|CUDA|OMPI|PMI|BASH|SSH|PBS)_\w+|HOME|USER|PWD|PATH|PYTHONPATH|LD_LIBRARY_PATH|HOSTNAME|TMPDIR|RANDOM|SECONDS"
    r"|PIPESTATUS|FUNCNAME|LINENO|E?UID|PPID|OLDPWD|SHELL|LOGNAME|LANG|OSTYPE|HOSTTYPE|MACHTYPE|SHLVL|EPOCHSECONDS|VIRTUAL_ENV"
)


def oddities(script: Script) -> Iterator[Fact]:
    """What must go from a broken script, a quote that is never closed, which variables it uses and never sets, and (to compare with) which it sets.

    A script that reads another one first gets its variables there, so then nothing can be said of them.
    """
    if script.broken:
        yield replace(script.broken[0], name="script.mending", value=superfluous(script.text))
    for span in script.open_quotes[:1] if script.file and not is_makefile(script.file) else ():
        line = script.text[script.text.rfind("\n", 0, span.start) + 1 :].partition("\n")[0].strip()
        yield Fact(
            "script.open_quote", value=True, evidence=Evidence("script", line, f"{script.file}:{span.line}"), origin="file"
        )
    unset = {
        name: span for name, span in script.unset.items() if not OUTSIDE.fullmatch(name) and not _is_asked(script.text, name)
    }
    for name, span in unset.items():
        evidence = Evidence("command", f"${name}", f"{script.file}:{span.line}")
        yield Fact("script.unset_variable", name, evidence, "file", name, span)
    if unset and not any(command.words and command.words[0].text in {"source", "."} for command in script.commands):
        names = sorted({name for command in script.commands for name, _ in command.assignments})
        yield Fact("script.names", names, Evidence("script", "", script.file))


def _is_asked(text: str, name: str) -> bool:
    """Whether the script itself sees to a variable: ``[ -z "$X" ]``, ``read X``, ``local X``, ``${X:-}``, ``${X:?}``."""
    return bool(
        re.search(
            rf"-[zn]\s+\"?\$\{{?{name}\b|\b(?:read|local|declare)\s(?:[^\n;|&]{{0,200}}\s)?{name}\b|\$\{{{name}:?[-?+=]",
            text,
        )
    )


def mend(text: str) -> str:
    """The script with every continued command whole: plain line ends, and no comment or blank between its lines."""
    return "".join(text[at] for at in _kept(text))


def meant(text: str) -> str:
    """The same for a reader who needs every character at its place: what breaks a command becomes blanks before the backslash."""
    signs = list(text)
    for start, end in superfluous(text):
        signs[start:end] = " " * (end - start)
        if text[start - 1 : start] == "\\" and text[end : end + 1] == "\n":
            signs[start - 1], signs[end - 1] = " ", "\\"
    return "".join(signs)


def superfluous(text: str) -> list[tuple[int, int]]:
    """What must go from a script so that every continued command is whole, as pieces of its text."""
    kept = set(_kept(text))
    gone = [at for at in range(len(text)) if at not in kept]
    starts = [at for at in gone if at - 1 in kept or at == 0]
    ends = [at + 1 for at in gone if at + 1 in kept or at + 1 == len(text)]
    return list(zip(starts, ends, strict=True))


def _kept(text: str) -> list[int]:
    """The places of the characters that stay; one cut can show the next, so it goes on until nothing is broken."""
    kept = [at for at, char in enumerate(text) if char != "\r" or text[at + 1 : at + 2] != "\n"]
    while spans := [fact.span for fact in broken_continuations("".join(text[at] for at in kept)) if fact.span]:
        for span in reversed(spans):
            del kept[span.start : span.end]
    return kept
