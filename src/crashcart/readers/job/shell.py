r"""Launch scripts as bash reads them: commands, variables, and continuations that do not continue.

What a reader of launch scripts must know, each tried with bash 5.2:

    --sample_batch_size=8 \   # was 64     the backslash quotes a blank: the command ends here with an argument " ",
    --num_workers=4                        and this line is run as a command (exit 127); ``bash -n`` accepts it all
    --a=1 \
    # note                                 a comment or blank line after a real continuation ends the command too
    --a=1 \<CR><LF>                        the backslash quotes the carriage return

Only what launch scripts use is understood: quotes, comments, here-documents, assignments, arrays, ``$A``, ``${A:-x}``,
lists, pipes, redirections, and the words of ``if`` and ``for`` as far as needed to find the commands within. What only the
shell of that day can tell (``$(nproc)``, ``$1``, a variable set outside) stays as written and is marked unknown.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from crashcart.model import Evidence, Fact, Span
from crashcart.readers.job.script_files import take_in, text_of
from crashcart.readers.job.words import UNIT, Expander, Word, joined, texts
from crashcart.record import field, record, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BROKEN", "Command", "Script", "lex", "text_of"]

BROKEN = "script.broken_continuation"
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?=)")
BLANK = re.compile(r"[ \t]+|\\\n|#[^\n]*")
BETWEEN_VALUES = re.compile(r"\s+|\\\n|#[^\n]*|[;&|(<>]")
USE = re.compile(r"\$\{?(\w+)")
SELF_DEFAULT = re.compile(r"(?:\b(?P<own>\w+)=[\"']?\$\{(?=(?P=own)\b)|\$\{(?=\w+:?=))(\w+)")
REDIRECT = re.compile(r"\d*(?:&>>?|>>|>\||>&|<<<|<<-?|<&|<>|[<>])")
SEPARATOR = re.compile(r"\|\||&&|;;&?|;&|\|&|[|&;()\n]")
DEAD_BACKSLASH = re.compile(r"\\([ \t]+(?:#[^\n]*)?)(?=\r?\n|$)")
NOT_CODE = re.compile(r"(?:[ \t]*(?:#[^\n]*|\r)?\n)+")
ARGUMENT = re.compile(r"[ \t]*(?:--?\w|[+~]+\w|[\w.]+\.(?:py|ya?ml|json)\b|[a-z_]\w*\.[\w.]+=)|[ \t]+[a-z_]\w*=")
MAYBE_ARGUMENT = re.compile(r"[ \t]+\S|[\"'$]")
OPENING = {"if", "for", "while", "until", "case", "select"}
CLOSING = {"fi", "done", "esac"}
KEYWORDS = {"if", "then", "else", "elif", "while", "until", "do", "!", "{", "}", "time", *CLOSING}
DECLARING = {"export", "declare", "local", "readonly", "typeset"}


@record(frozen=True)
class Command:
    """One simple command: its words, the assignments before it, and the operator that ended it."""

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    after: str = ""


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
    """Read a script or a command line; ``given`` are variables that are set before it begins (``1``, ``SLURM_NNODES``)."""
    lexer = _Lexer(text, file)
    for name, value in (given or {}).items():
        lexer.expander.variables[name] = [Word(value, Span(file, 0, 0, 0), places=(-1,) * len(value))]
    return lexer.read()


class _Lexer:
    """A cursor over the text; each method reads one thing and moves on."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.at = text, 0
        self.script = Script(file, text)
        self.line_starts = [match.end() for match in re.finditer("\n", text)]
        uses = Counter(USE.findall(text)) - Counter(match.group(2) for match in SELF_DEFAULT.finditer(text))
        self.expander = Expander({name for name, count in uses.items() if count > 1})
        self.depth, self.heredocs = 0, list[str]()
        self.above: tuple[str, ...] = ()  # the files that take this one in, which may not take themselves in
        self.before: dict[str, list[Word] | None] = {}

    def read(self) -> Script:
        if "\r\n" in self.text:
            at = self.text.index("\r\n")
            self.broken(at, at + 1, "CRLF line ends" + " after \\" * ("\\\r\n" in self.text))
        while self.at < len(self.text):
            self.command()
        return self.script

    def span(self, start: int, end: int) -> Span:
        return Span(self.script.file, start, end, bisect_right(self.line_starts, start) + 1)

    def broken(self, start: int, end: int, value: str) -> None:
        span = self.span(start, end)
        line = self.text[self.text.rfind("\n", 0, start) + 1 :].partition("\n")[0].rstrip()
        evidence = Evidence("script", line, f"{self.script.file}:{span.line}")
        self.script.broken.append(Fact(BROKEN, value, evidence, "file", "", span))

    def command(self) -> None:
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        after = ""
        self.before.clear()
        while self.at < len(self.text) and not after:
            if blank := BLANK.match(self.text, self.at):
                self.at = blank.end()
                self.continued(blank.group())
            elif redirect := REDIRECT.match(self.text, self.at):
                self.redirect(redirect)
            elif separator := SEPARATOR.match(self.text, self.at):
                self.at, after = separator.end(), separator.group()
            else:
                self.argument(words, assignments)
        if after == "\n":
            self.skip_heredocs()
        if words or assignments:
            self.script.commands.append(Command(tuple(words), tuple(assignments), after))
            self.remember(self.script.commands[-1])

    def argument(self, words: list[Word], assignments: list[tuple[str, Word]]) -> None:
        assignment = ASSIGNMENT.match(self.text, self.at)
        if assignment and (not words or words[0].text in DECLARING):
            assignments.append((assignment.group(1), self.assigned(assignment)))
            return
        if not words:
            self.restore()
        found = self.word()
        first = found[0].text if len(found) == 1 and not words and not assignments else ""
        self.depth += (first in OPENING) - (first in CLOSING)
        if first not in KEYWORDS:
            words.extend(found)

    def word(self, *, split: bool = True) -> list[Word]:
        """Read what bash takes for one word; it can become none or many."""
        start = self.at
        while unit := UNIT.match(self.text, self.at):
            dead = DEAD_BACKSLASH.match(self.text, self.at)
            self.at = unit.end()
            self.continued(unit.group())
            if dead:
                self.dead(dead)
            if unit.group() in {"'", '"'} and unit.group() not in self.text[self.at :]:
                self.script.open_quotes.append(self.span(unit.start(), unit.end()))
        self.expander.unset.clear()
        words = self.expander.expand(self.text[start : self.at], self.span(start, self.at), split=split)
        if self.script.open_quotes:  # all that follows is one text for bash, and no command
            words = [replace(one, known=False) for one in words]
        for name in self.expander.unset:
            self.script.unset.setdefault(name, self.span(start, self.at))
        return words

    def dead(self, backslash: re.Match[str]) -> None:
        """A backslash before blanks at the end of a line; without more arguments behind it, it must go as well."""
        between = NOT_CODE.match(self.text, backslash.end())
        rest = between.end() if between else backslash.end()
        wanted = ARGUMENT.match(self.text, rest) or MAYBE_ARGUMENT.match(self.text, rest)
        self.broken(backslash.start(1) if wanted else backslash.start(), backslash.end(), backslash.group())

    def continued(self, unit: str) -> None:
        """After a backslash and a line end: comment and blank lines end the command, though arguments follow them."""
        between = NOT_CODE.match(self.text, self.at) if unit == "\\\n" else None
        if between and ARGUMENT.match(self.text, between.end()):
            self.broken(between.start(), between.end(), between.group())

    def redirect(self, operator: re.Match[str]) -> None:
        self.at = operator.end()
        while self.text.startswith((" ", "\t"), self.at):
            self.at += 1
        if SEPARATOR.match(self.text, self.at):
            return
        target = self.word()
        if operator.group().lstrip("0123456789") in {"<<", "<<-"} and target:
            self.heredocs.append(target[0].text)

    def skip_heredocs(self) -> None:
        for delimiter in self.heredocs:
            end = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(self.text, self.at)
            self.at = end.end() if end else len(self.text)
        self.heredocs.clear()

    def assigned(self, match: re.Match[str]) -> Word:
        """Read and set ``NAME=value`` or ``NAME=(values)``; ``restore`` takes it back where a command follows."""
        name, self.at = match.group(1), match.end()
        start, variables = self.at, self.expander.variables
        is_array = self.text.startswith("(", start)
        values: list[Word] | None = (
            self.array() if is_array else self.word(split=False) or [Word("", self.span(start, start))]
        )
        old = variables.get(name)
        if match.group(2) == "+=" and name in variables:
            values = None if old is None else [*old, *(values or [])] if is_array else joined(old, values or [])
        self.before.setdefault(name, old)
        if self.depth and name in variables and texts(old) != texts(values):
            values = None
        variables[name] = values
        if values and not is_array:
            return values[0]
        return Word(self.text[start : self.at], self.span(start, self.at), known=False)

    def array(self) -> list[Word]:
        self.at += 1
        values: list[Word] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            blank = BETWEEN_VALUES.match(self.text, self.at)
            values.extend([] if blank else self.word())
            self.at = blank.end() if blank else self.at
        self.at += 1
        return values

    def restore(self) -> None:
        """``A=b command $A``: bash fills in ``$A`` as it was before."""
        for name, old in self.before.items():
            if old is None:
                self.expander.variables.pop(name, None)
            else:
                self.expander.variables[name] = old
        self.before.clear()

    def remember(self, command: Command) -> None:
        head = command.words[0].text if command.words else ""
        exported, variables = self.script.exported, self.expander.variables
        given = {name: word for name, word in command.assignments if head == "export" or (not head and name in exported)}
        exported.update(given)
        if head in {"source", "."} and len(command.words) > 1:
            take_in(self, command)
        for word in command.words[1:]:
            if head == "export" and (values := variables.get(word.text)):
                exported[word.text] = values[0]
            if head == "for" and word is command.words[1]:
                values = list(command.words[3:])
                variables[word.text] = values if len(values) == 1 else None
