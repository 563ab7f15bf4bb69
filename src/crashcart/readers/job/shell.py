r"""Launch scripts as bash reads them: commands, variables, and continuations that do not continue.

What a reader of launch scripts must know, each tried with bash 5.2:

    --sample_batch_size=8 \   # was 64     the backslash quotes a blank: the command ends here with an argument " ",
    --num_workers=4                        and this line is run as a command (exit 127); ``bash -n`` accepts it all
    --a=1 \
    # note                                 a comment or blank line after a real continuation ends the command too
    --a=1 \<CR><LF>                        the backslash quotes the carriage return

The grammar (``syntax``) gives the statements, ``evaluation`` runs them in thought. What only the shell of that day can tell
(``$(nproc)``, ``$1``, a variable set outside) stays as written and is marked unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from crashcart.deadline import TookTooLongError
from crashcart.model import Evidence, Fact, Span
from crashcart.readers.job.evaluation import Command, Evaluator, TooMuchError
from crashcart.readers.job.script_files import text_of
from crashcart.readers.job.syntax import Source
from crashcart.readers.job.variables import Variable
from crashcart.readers.job.words import Word, elsewhere
from crashcart.record import field, record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["BROKEN", "Command", "Script", "broken_continuations", "lex", "text_of"]

BROKEN = "script.broken_continuation"
USE = re.compile(r"\$\{?(\w+)")
SELF_DEFAULT = re.compile(r"(?:\b(?P<own>\w+)=[\"']?\$\{(?=(?P=own)\b)|\$\{(?=\w+:?=))(\w+)")
BACKSLASH = re.compile(r"\\(?:.|\n|\Z)")
DEAD_BACKSLASH = re.compile(r"\\[ \t]+(?:#[^\n]*)?(?=\r?\n|\Z)")
NOT_CODE = re.compile(r"(?:[ \t]*(?:#[^\n]*|\r)?\n)+")
ARGUMENT = re.compile(r"[ \t]*(?:--?\w|[+~]+\w|[\w.]+\.(?:py|ya?ml|json)\b|[a-z_]\w*\.[\w.]+=)|[ \t]+[a-z_]\w*=")
MAYBE_ARGUMENT = re.compile(r"[ \t]+\S|[\"'$]")
_LONGEST_SHOWN = 2000
NO_CODE = {"string", "raw_string", "ansi_c_string", "comment", "heredoc_body"}


@record
class Script:
    """A script as bash sees it; ``unset`` are the variables it uses and never sets, with the first use."""

    file: str
    text: str
    commands: list[Command] = field(default_factory=list)
    exported: dict[str, Word] = field(default_factory=dict)
    broken: list[Fact] = field(default_factory=list)
    unset: dict[str, Span] = field(default_factory=dict)
    open_quotes: list[Span] = field(default_factory=list)


def lex(text: str, file: str = "", given: Mapping[str, str] | None = None) -> Script:
    """Read a script or a command line; ``given`` are variables that are set before it begins (``SLURM_NNODES``).

    ``1``, ``2`` among them are its arguments; ``#`` says how many there are, where that is known.
    """
    return _lex(text, file, tuple((given or {}).items()))


@lru_cache(maxsize=2)  # a script that starts many programs is asked for each of them, and the file that it takes in
def _lex(text: str, file: str, given: tuple[tuple[str, str], ...]) -> Script:
    source = Source(text, file)
    evaluator = _evaluated(source, dict(given))
    unset = evaluator.expander.unset
    exported = {
        name: variable.values[0] if variable.values else elsewhere("", Span(file, 0, 0, 0), known=False)
        for name, variable in evaluator.state.variables.items()
        if variable.is_exported and (variable.values is None or 0 in variable.values)
    }
    open_quotes = list(_open_quotes(source))
    commands = evaluator.commands
    if open_quotes and commands:  # all that follows is one text for bash
        start = open_quotes[0].start
        rest = Word(
            text[start:], source.span(start, len(text)), known=False, places=tuple(range(start, len(text))), is_loose=True
        )
        commands[-1] = replace(commands[-1], words=(*commands[-1].words, rest))
    if source.wrong_from < len(text):
        # Which commands stand behind an error is not certain, so that any may be among them.
        rest = elsewhere(text[source.wrong_from :][:_LONGEST_SHOWN], source.span(len(text), len(text)), known=False)
        commands.append(Command((replace(rest, is_loose=True),), certain=False))
    return Script(file, text, commands, exported, list(_broken(source)), unset, open_quotes)


def broken_continuations(text: str) -> list[Fact]:
    """The continuations that do not continue."""
    return list(_broken(Source(text, "")))


def _evaluated(source: Source, given: Mapping[str, str]) -> Evaluator:
    uses = Counter(USE.findall(source.text)) - Counter(match.group(2) for match in SELF_DEFAULT.finditer(source.text))
    shared = {name for name, count in uses.items() if count > 1}
    for loops_are_unknown in (False, True):
        evaluator = Evaluator(source.file, shared, loops_are_unknown=loops_are_unknown)
        words = {name: elsewhere(value, Span(source.file, 0, 0, 0)) for name, value in given.items()}
        evaluator.state.variables = {name: Variable({0: word}) for name, word in words.items() if name.isidentifier()}
        evaluator.expander.script = words.get("0")
        evaluator.expander.given = {name: word for name, word in words.items() if name.isdecimal() and name != "0"}
        if "#" in given:
            evaluator.state.arguments = tuple(evaluator.expander.given.values())
        try:
            evaluator.run(source)
        except TooMuchError:
            continue
        return evaluator
    raise TookTooLongError("running the script in thought takes too long: it has thousands of steps.")


def _no_code(source: Source) -> bytearray:
    """For each character whether it stands in a text, a comment or a document rather than in a command."""
    mask = bytearray(len(source.text) + 1)
    stack = [source.root]
    while stack:
        node = stack.pop()
        if node.type in NO_CODE:
            mask[node.start_byte : node.end_byte] = b"\1" * (node.end_byte - node.start_byte)
        else:
            stack.extend(node.children)
    return mask


def _broken(source: Source) -> Iterator[Fact]:
    text = source.text
    if "\r\n" in text:
        at = text.index("\r\n")
        yield _broken_at(source, at, at + 1, "CRLF line ends" + " after \\" * ("\\\r\n" in text))
    if "\\" not in text:
        return
    mask = _no_code(source)
    for backslash in BACKSLASH.finditer(text):
        if mask[backslash.start()]:
            continue
        dead = DEAD_BACKSLASH.match(text, backslash.start())
        end = (dead or backslash).end()
        between = NOT_CODE.match(text, end)
        rest = between.end() if between else end
        if dead:
            # Without more arguments behind it, the backslash must go as well.
            wanted = ARGUMENT.match(text, rest) or MAYBE_ARGUMENT.match(text, rest)
            yield _broken_at(source, dead.start() + bool(wanted), end, dead.group())
        elif backslash.group() == "\\\n" and between and ARGUMENT.match(text, rest):
            yield _broken_at(source, between.start(), between.end(), between.group())


def _broken_at(source: Source, start: int, end: int, value: str) -> Fact:
    span = source.span(start, end)
    line = source.text[source.text.rfind("\n", 0, start) + 1 :].partition("\n")[0].rstrip()
    return Fact(BROKEN, value, Evidence("script", line, f"{source.file}:{span.line}"), "file", "", span)


def _open_quotes(source: Source) -> Iterator[Span]:
    """A quote that is never closed: the last of its kind, and no text ends with it."""
    if not source.root.has_error:
        return
    mask = _no_code(source)
    for quote in "\"'":
        at = source.text.rfind(quote)
        if at >= 0 and not mask[at] and source.text[at - 1 : at] != "\\":
            yield source.span(at, at + 1)
