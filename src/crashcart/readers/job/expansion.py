"""Words as bash expands them: quotes, parameters, arithmetic, and the few substitutions whose output is certain.

What cannot be told stays as written, and each of its characters is marked unknown.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.deadline import check
from crashcart.model import Span
from crashcart.numbers import to_int
from crashcart.readers.job.arithmetic import UnknownNumberError, assigned_names, evaluate
from crashcart.readers.job.patterns import Pattern, UnknownPatternError
from crashcart.readers.job.syntax import ATOMS, pieces
from crashcart.readers.job.variables import Variable
from crashcart.readers.job.words import BREAK, KEEP, LONGEST, Cell, Kind, Site, Word, elsewhere, fields, glued, one_field
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from tree_sitter import Node

    from crashcart.readers.job.syntax import Source
    from crashcart.readers.job.variables import State

__all__ = ["Expander"]

_PARAMETER = re.compile(
    r"\$(?:(?P<bare>[A-Za-z_]\w*|[0-9@*#?$!-])"
    r"|\{(?P<prefix>[#!](?=[\w@*]))?(?P<name>[A-Za-z_]\w*|[0-9]+|[@*#?$!-])(?:\[(?P<index>[^\[\]]*)\])?"
    r"(?P<operator>:?[-=+?]|%%?|##?|/[/#%]?|\^\^?|,,?|:|@[A-Za-z])?)"
)
_REFUSABLE = re.compile(r"\(\(|\$\[|\$\{!|[:?]")  # what bash may refuse to expand
_ASSIGNING = re.compile(r"\$\{([A-Za-z_]\w*):?=")
_EXPANDING = {"expansion", "simple_expansion", "arithmetic_expansion", "command_substitution", "process_substitution"}
_STRUCTURED = {*_EXPANDING, "string", "raw_string", "ansi_c_string", "ERROR"}
_OF_THE_GRAMMAR = re.compile(r"(?<!\\)(?:\\\\)*(?:['\"`\s;&|<>()]|\$[{('])")
_OF_A_STRING = re.compile(r"(?<!\\)(?:\\\\)*(?:[\"`]|\$[{(])|\\\}")
_ANSI = re.compile(r"\\(?:([abefnrtvE?'\"\\])|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{1,4})|(.))", re.DOTALL)
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ELEMENT = re.compile(r"\[([^\[\]]*)\](\+?=)")
# Braces come first in bash: x{a,$B}y is xay and x$By, and each alternative expands what stands beside it anew.
_TWICE = re.compile(r"\$\w+[,}]|\$\{\w+:?=|\$\(\(")
_LIST = re.compile(r"\$@$|\$\{@[}:%#/^,]|\$\{[A-Za-z_]\w*\[@\][}:%#/^,](?![-+=?])")
_INTEGER = re.compile(r"-?\d{1,6}")
_DEEPEST = 30
_MOST_NUMBERS = 1000
_LONGEST_CHANGED = 500  # a pattern is tried at each place


class Expander:
    """Turns what is written into arguments, with what is known of the variables."""

    def __init__(self, state: State, shared: Container[str]) -> None:
        self.state, self.shared = state, shared
        self.unset: dict[str, Span] = {}
        self.script: Word | None = None  # what bash calls the script by
        self.given: dict[str, Word] = {}  # arguments that are known, though not how many there are
        self.were_shifted = False
        self.may_end = False  # an expansion can end the script: ${A:?}, or any unset variable under set -u
        self.depth = 0
        self.here = Span("", 0, 0, 0)

    # Written words.

    def arguments(self, source: Source, nodes: list[Node], start: int, end: int) -> list[Word]:
        """The arguments that stand between two places."""
        found: list[Word] = []
        for begin, stop, inside in pieces(source, nodes, start, end):
            cells = self.cells(source, inside, begin, stop)
            words = fields(cells, self.here, odd_globs="globs" in self.state.options)
            if len(words) > 1 and "{" in source.text[begin:stop] and _TWICE.search(source.text[begin:stop]):
                words = [replace(word, known=False, is_loose=True) for word in words]
            found += self.unsure(source, begin, words)
        return found

    def cells(self, source: Source, nodes: list[Node], start: int, end: int, *, split: bool = True) -> list[Cell]:
        """The characters of one written word."""
        check()
        out: list[Cell] = []
        self.here = source.span(start, end)
        self._run(source, nodes, start, end, "bare" if split else "whole", out)
        if len(out) > LONGEST:
            return [
                Cell(char, source.place(start + at), known=False) for at, char in enumerate(source.text[start:end][:100])
            ]
        return out

    def value(self, source: Source, nodes: list[Node], start: int, end: int) -> Word:
        """A word that is not split: the value of an assignment, the subject of ``case``."""
        cells = self.cells(source, nodes, start, end, split=False)
        for at in [0, *(at + 1 for at, cell in enumerate(cells) if cell.char == ":" and cell.kind == Kind.WRITTEN)]:
            if at < len(cells) and cells[at].char == "~" and cells[at].kind == Kind.WRITTEN:
                cells[at] = cells[at]._replace(known=False)
        return self.unsure(source, start, [one_field(cells, source.span(start, end))])[0]

    def unsure(self, source: Source, start: int, words: list[Word]) -> list[Word]:
        """Behind the first error of a text nothing is certain."""
        if start < source.wrong_from:
            return words
        return [replace(word, known=False, is_loose=True) for word in words]

    def elements(self, source: Source, array: Node, old: Variable | None, *, keys: bool) -> Variable:
        """``(a b [5]=c)``; with ``old`` they are added to it."""
        values: dict[int | str, Word] | None = {} if old is None else None if old.values is None else dict(old.values)
        for begin, stop, inside in pieces(source, array.children[1:-1], array.start_byte + 1, array.end_byte - 1):
            cells = self.cells(source, inside, begin, stop)
            text = "".join(cell.char for cell in cells)
            if cells and cells[0].char == "[" and cells[0].kind == Kind.WRITTEN and "]" in text:
                entry = _ELEMENT.match(text)
                index = self.index(entry[1], keys=keys) if entry and entry[2] == "=" else None
                if values is None or entry is None or index is None or not all(cell.known for cell in cells[: entry.end()]):
                    values = None
                    continue
                skipped = next(
                    at for at in range(len(cells) + 1) if len("".join(cell.char for cell in cells[:at])) == entry.end()
                )
                values[index] = one_field(cells[skipped:], self.here)
                continue
            words = fields(cells, self.here, odd_globs="globs" in self.state.options)
            values = None if values is None or keys else _followed(values, words)
        return Variable(values, is_array=True, has_keys=keys)

    # The parts of a word. A style is "bare" (split), "whole" (not split), "double" (in quotes).

    def _run(self, source: Source, nodes: Sequence[Node], start: int, end: int, style: str, out: list[Cell]) -> None:
        at = start
        for node in _structured(nodes):
            begin = node.start_byte
            if node.type in _EXPANDING:  # in a string the grammar takes blanks before it for part of it
                begin += len(source.text[begin : node.end_byte]) - len(source.text[begin : node.end_byte].lstrip())
            if begin > at:
                self._literal(source, at, begin, style, out)
            if node.end_byte > at:
                self._node(source, node, begin, style, out)
            at = max(at, node.end_byte)
        if end > at:
            self._literal(source, at, end, style, out)

    def _node(self, source: Source, node: Node, begin: int, style: str, out: list[Cell]) -> None:
        self.depth += 1
        kind, end = node.type, node.end_byte
        if self.depth > _DEEPEST or kind in {"ERROR", "process_substitution"} or node.is_missing:
            self._unknown(source, begin, end, out)
        elif kind == "string":
            self._string(source, node, begin, out)
        elif kind == "raw_string":
            self._raw(source, begin, end, style, out)
        elif kind == "ansi_c_string":
            self._ansi(source, begin, end, style, out)
        elif kind in {"expansion", "simple_expansion"}:
            self._parameter(source, node, begin, style, out)
        elif kind == "arithmetic_expansion":
            self._arithmetic(source, node, begin, style, out)
        else:
            self._substitution(source, node, begin, style, out)
        self.depth -= 1

    def _unknown(self, source: Source, begin: int, end: int, out: list[Cell], kind: int = Kind.QUOTED) -> None:
        text = source.text[begin:end]
        self.may_end = self.may_end or "nounset" in self.state.options or bool(_REFUSABLE.search(text))
        if "((" in text or "$[" in text:
            self.state.forget(assigned_names(text))
        self.state.forget(match[1] for match in _ASSIGNING.finditer(text))
        out.extend(Cell(source.text[at], source.place(at), known=False, kind=kind) for at in range(begin, end))

    def _literal(self, source: Source, begin: int, end: int, style: str, out: list[Cell]) -> None:
        text = source.text
        if style == "double":
            if _OF_A_STRING.search(text[begin:end]):
                self._unknown(source, begin, end, out)
                return
        elif _OF_THE_GRAMMAR.search(text[begin:end].replace("\\\n", "")):
            self._unknown(source, begin, end, out)
            return
        at = begin
        while at < end:
            char = text[at]
            escaped = char == "\\" and at + 1 < len(text) and (style != "double" or text[at + 1] in '$`"\\\n')
            if escaped:
                if text[at + 1] != "\n":
                    out.append(Cell(text[at + 1], source.place(at + 1)))
                at += 2
            elif char == "$" and style != "double" and at + 1 == end and text.startswith('"', end):
                at += 1  # $"text", which is the text where there is no translation
            elif char == "$" and (match := _PARAMETER.match(text, at, end)):  # where the grammar took it for text
                site = self._site(source, match["bare"], at, match.end())
                self._plain(source, (match["bare"], None), (at, match.end()), style, out, site)
                at = match.end()
            else:
                out.append(Cell(char, source.place(at), kind=Kind.QUOTED if style == "double" else Kind.WRITTEN))
                at += 1

    def _string(self, source: Source, node: Node, begin: int, out: list[Cell]) -> None:
        end = node.end_byte
        if end - begin < 2 or source.text[end - 1] != '"':  # noqa: PLR2004 - two quotes
            self._unknown(source, begin, end, out)
            return
        before = len(out)
        inner = [child for child in node.children if child.start_byte > begin and child.end_byte < end]
        self._run(source, inner, begin + 1, end - 1, "double", out)
        lists = [source.text[child.start_byte : child.end_byte] for child in inner] if len(out) == before else []
        if any(_LIST.match(text) for text in lists):
            return  # "$@" without arguments is no word at all
        if any("@" in text for text in lists):
            self._unknown(source, begin, end, out, Kind.VALUE)  # nor is it in a default, at times
            return
        out.insert(before, KEEP)

    def _raw(self, source: Source, begin: int, end: int, style: str, out: list[Cell]) -> None:
        if style == "double":  # quotes in a default that stands in quotes are text, and what is in them is not
            literal = not set("$`\\") & set(source.text[begin:end])
            out.extend(Cell(source.text[at], source.place(at), known=literal) for at in range(begin, end))
            return
        out.append(KEEP)
        out.extend(Cell(source.text[at], source.place(at)) for at in range(begin + 1, end - 1))

    def _ansi(self, source: Source, begin: int, end: int, style: str, out: list[Cell]) -> None:
        text = source.text[begin + 2 : end - 1]
        if style == "double" or any(_is_no_character(match) for match in _ANSI.finditer(text)):
            self._unknown(source, begin, end, out)
            return
        out.append(KEEP)
        out.extend(Cell(char) for char in _ANSI.sub(_ansi_character, text))

    # Parameters.

    def _parameter(self, source: Source, node: Node, begin: int, style: str, out: list[Cell]) -> None:
        match = _PARAMETER.match(source.text, begin, node.end_byte)
        if match is None:
            self._literal_dollar(source, begin, node.end_byte, style, out)
            return
        if match["bare"]:
            end = match.end()
            if source.text.startswith("\\\n", end) and not source.text[end + 2 : end + 3].isspace():
                self._unknown(source, begin, end, out, Kind.VALUE)  # the name goes on in the next line
                return
            site = self._site(source, match["bare"], begin, end)
            self._plain(source, (match["bare"], None), (begin, end), style, out, site)
            if node.end_byte > end:
                self._literal(source, end, node.end_byte, style, out)
            return
        operator, rest, end = match["operator"] or "", match.end(), node.end_byte
        children = [child for child in node.children if child.start_byte >= rest and child.end_byte < end]
        if source.text[end - 1] != "}" or (not operator and rest != end - 1):
            self._unknown(source, begin, end, out)
            return
        name, index = match["name"], match["index"]
        if match["prefix"]:
            self._prefixed(source, match, (begin, end), style, out)
        elif not operator:
            self._plain(source, (name, index), (begin, end), style, out, self._site(source, name, begin, end))
        elif operator[-1] in "-=+?":
            self._instead(source, match, children, (begin, end), style, out)
        else:
            words = self._changed(source, match, children, end)
            self.may_end = self.may_end or (words is None and operator == ":")  # a length below zero ends the command
            self._paste_or_unknown(source, words, (begin, end), style, out, is_list="@" in {index, name})

    def _site(self, source: Source, name: str, begin: int, end: int) -> tuple[int, int] | None:
        first, last = source.place(begin), source.place(end - 1)
        return (first, last + 1) if name in self.shared and 0 <= first <= last else None

    def _literal_dollar(self, source: Source, begin: int, end: int, style: str, out: list[Cell]) -> None:
        """A dollar that expands nothing: the grammar takes ``$ b`` in a string for a variable."""
        out.append(Cell("$", source.place(begin), known=source.text[begin] == "$"))
        self._literal(source, begin + 1, end, style, out)

    def values(self, name: str, index: str | None) -> tuple[str, list[Word]]:  # noqa: C901, PLR0911 - one line a kind of parameter
        """How a parameter stands (set, unset, outside, unknown), and its values; ``@`` gives many."""
        arguments = self.state.arguments
        if name in {"@", "*"}:
            return ("unknown", []) if arguments is None else ("set", list(arguments))
        if name.isdecimal() and name != "0":
            number = len(name) < 6 and _whole(name)  # noqa: PLR2004 - no script has so many arguments
            if arguments is None and self.state.outside_is_known and not self.were_shifted and name in self.given:
                return "set", [self.given[name]]
            if arguments is None:
                return ("argument" if self.state.outside_is_known and not self.were_shifted else "unknown"), []
            return ("set", [arguments[number - 1]]) if 0 < number <= len(arguments) else ("unset", [])
        if name == "0" and self.script is not None:
            return "set", [self.script]
        if name == "#":
            return ("unknown", []) if arguments is None else ("set", [elsewhere(str(len(arguments)), self.here)])
        if not name.isidentifier():
            return "unknown", []
        variable = self.state.find(name)
        if variable is None:
            return "outside", []
        if variable.values is None:
            return "unknown", []
        if index in {"@", "*"}:
            values = list(variable.values.values()) if not variable.has_keys or len(variable.values) < 2 else None  # noqa: PLR2004 - bash orders keys by its own hash
            return ("unknown", []) if values is None else ("set" if values else "unset", values)
        if any(word.is_loose for word in variable.values.values()):
            return "unknown", []
        key = self.index(
            index or "0", keys=variable.has_keys, last=max((at for at in variable.values if isinstance(at, int)), default=-1)
        )
        if key is None:
            return "unknown", []
        return ("set", [variable.values[key]]) if key in variable.values else ("unset", [])

    def index(self, text: str, *, keys: bool, last: int = -1) -> int | str | None:
        """The place in an array that an index names; None where that cannot be told."""
        if keys:
            return text.strip("\"'") if re.fullmatch(r"\w+|\"[^\"$`\\]*\"|'[^']*'", text) else None
        try:
            number = self.number(text)
        except UnknownNumberError:
            return None
        number += last + 1 if number < 0 else 0
        return number if 0 <= number <= LONGEST else None

    def number(self, text: str) -> int:
        """The value of an expression in which only names stand for variables."""
        if re.search(r"[$`'\"\\]", text):
            raise UnknownNumberError
        return evaluate(text, self._variable_text, self._assign_number)

    def _variable_text(self, name: str) -> str:
        how, values = self.values(name, None)
        if how == "unset":
            self.may_end = self.may_end or "nounset" in self.state.options
            return ""
        if how != "set" or not values[0].known:
            raise UnknownNumberError
        return values[0].text

    def _assign_number(self, name: str, text: str) -> None:
        if (old := self.state.variables.get(name)) is not None and old.is_array:
            self.state.forget([name])
            raise UnknownNumberError
        self._assign(name, elsewhere(text, self.here))

    def _assign(self, name: str, value: Word) -> None:
        """Set a variable amid a command; where bash may have refused something before, nobody knows whether it was set."""
        if self.may_end:
            self.state.forget([name])
        else:
            self.state.assign(name, Variable({0: value}))

    def _plain(
        self, source: Source, parameter: tuple[str, str | None], where: tuple[int, int], style: str, out: list[Cell],
        site: tuple[int, int] | None,
    ) -> None:  # fmt: skip
        name, index = parameter
        how, values = self.values(name, index)
        if how == "outside" and name.isidentifier():
            self.unset.setdefault(name, source.span(*where))
        self.may_end = self.may_end or (how != "set" and bool(index) and index not in {"@", "*"})  # an index may be refused
        if how in {"outside", "unknown", "argument"}:
            self._unknown(source, *where, out, Kind.QUOTED if style == "double" and "@" not in {name, index} else Kind.VALUE)
            return
        self.may_end = self.may_end or (how == "unset" and "nounset" in self.state.options)
        many = "@" in {name, index} or ("*" in {name, index} and style == "bare")
        if "*" in {name, index} and not many:
            values = [_spaced(values, self.here)] if values else []
        self._paste_or_unknown(source, values, where, style, out, site=site, is_list=many)

    def _paste_or_unknown(  # noqa: PLR0913 - what, where, and how it is shown
        self, source: Source, words: list[Word] | None, where: tuple[int, int], style: str, out: list[Cell], *,
        site: tuple[int, int] | None = None, is_list: bool = False,
    ) -> None:  # fmt: skip
        kind = Kind.QUOTED if style == "double" else Kind.VALUE
        other_blanks = "blanks" in self.state.options and (style == "bare" or len(words or ()) > 1)
        too_long = words is not None and sum(len(word.text) for word in words) > LONGEST
        if words is None or too_long or (other_blanks and any(word.text for word in words)):
            self._unknown(source, *where, out, Kind.VALUE if is_list else kind)
            return
        for number, word in enumerate(words):
            if number:
                out.append(BREAK)
            if is_list and style == "double":
                out.append(KEEP)
            self._paste(word, site if len(words) == 1 else None, kind, out, split=style == "bare")

    def _paste(self, word: Word, site: tuple[int, int] | None, kind: int, out: list[Cell], *, split: bool) -> None:
        """The value of a variable; with a ``site`` its characters are edited there and not where they were set."""
        whole = Site(*site, len(word.text)) if site else None
        sites: dict[int, Site] = {}
        for first, last, begin, stop in word.wholes:
            sites.update(dict.fromkeys(range(first, last), Site(begin, stop, last - first)))
        for at, (char, place) in enumerate(zip(word.text, word.places, strict=True)):
            known = word.is_known_at(at)
            if split and char in " \t\n" and known:
                out.append(BREAK)
            else:
                out.append(Cell(char, -1 if whole else place, known, kind, whole or sites.get(at)))

    def _prefixed(self, source: Source, match: re.Match[str], where: tuple[int, int], style: str, out: list[Cell]) -> None:
        """``${#A}``, ``${#A[@]}``, ``${!A}``, ``${!A[@]}``."""
        name, index, words = match["name"], match["index"], None
        how, values = self.values(name, index)
        plain = not match["operator"] and how in {"set", "unset"}
        plain = plain and not any(word.is_loose for word in values)
        if plain and match["prefix"] == "#" and (index in {"@", "*"} or name in {"@", "*"}):
            words = [elsewhere(str(len(values)), self.here)]
        elif plain and match["prefix"] == "#" and all(word.known and word.text.isascii() for word in values):
            self.may_end = self.may_end or (how == "unset" and "nounset" in self.state.options)
            words = [elsewhere(str(len(values[0].text) if values else 0), self.here)]
        elif plain and match["prefix"] == "!" and index is None and values and values[0].known:
            target = re.fullmatch(r"([A-Za-z_]\w*|[1-9]\d*)(?:\[(@|\d+)\])?", values[0].text)
            how, found = self.values(target[1], target[2]) if target else ("unknown", [])
            words = found if how == "set" or (how == "unset" and "nounset" not in self.state.options) else None
            index = target[2] if target else None
        elif plain and match["prefix"] == "!" and index == "@":
            variable = self.state.find(name)
            keys = list(variable.values or ()) if variable is not None else []
            words = [elsewhere(str(key), self.here) for key in keys]
        self.may_end = self.may_end or (words is None and match["prefix"] == "!")  # the name may be no name
        self._paste_or_unknown(source, words, where, style, out, is_list=index in {"@", "*"} and match["prefix"] == "!")

    def _instead(
        self, source: Source, match: re.Match[str], children: list[Node], where: tuple[int, int], style: str, out: list[Cell]
    ) -> None:
        """``${A:-x}``, ``${A:=x}``, ``${A:+x}``, ``${A:?x}``; with a colon an empty value counts as none."""
        name, index, operator = match["name"], match["index"], match["operator"]
        how, values = self.values(name, index)
        if how == "set" and operator[0] == ":":
            empty = not any(word.text for word in values)
            unsure = not any(word.known and word.text for word in values) and any(not word.known for word in values)
            how = "unknown" if unsure else "unset" if empty else "set"
            if empty and len(values) > 1:
                how = "unknown"
        if how == "set" and name in {"@", "*"} and not values:
            how = "unset"
        if how == "unknown" or (operator[-1] == "?" and how != "set"):
            self.may_end = self.may_end or operator[-1] == "?"
            self._unknown(
                source,
                *where,
                out,
                Kind.QUOTED if style == "double" and "@" not in source.text[slice(*where)] else Kind.VALUE,
            )
            if operator[-1] == "=":
                self.state.forget([name])
            return
        if (how == "set") != (operator[-1] == "+"):
            if how == "set":
                self._plain(source, (name, index), where, style, out, self._site(source, name, *where))
            return
        if operator[-1] == "=":
            cells: list[Cell] = []
            self._run(source, children, match.end(), where[1] - 1, "double" if style == "double" else "whole", cells)
            value = one_field(cells, source.span(*where))
            if index is None and name.isidentifier():
                self._assign(name, value)
            self._paste(value, None, Kind.QUOTED if style == "double" else Kind.VALUE, out, split=style == "bare")
            return
        self._default(source, children, match.end(), where[1] - 1, style, out)

    def _default(self, source: Source, children: list[Node], start: int, end: int, style: str, out: list[Cell]) -> None:
        if style != "bare":
            self._default_run(source, children, start, end, style, out)
            return
        # Blanks that are written in it split it as those of a value do; braces and files mean nothing new here.
        cells: list[Cell] = []
        if "blanks" in self.state.options:
            self._unknown(source, start, end, out, Kind.VALUE)
            return
        self._default_run(source, children, start, end, "bare", cells)
        out.extend(
            cell
            if cell.kind != Kind.WRITTEN
            else BREAK
            if cell.char in " \t\n" and cell.known
            else cell._replace(kind=Kind.VALUE)
            for cell in cells
        )

    def _default_run(self, source: Source, children: list[Node], start: int, end: int, style: str, out: list[Cell]) -> None:
        """What stands in braces: blanks and signs are text there."""
        at = start
        for begin, stop, node in [
            *((child.start_byte, child.end_byte, child) for child in _flat(children)),
            (end, end, None),
        ]:
            while at < begin:
                char = source.text[at]
                if char in "'\"`$" or (char == "\\" and style == "double"):
                    self._unknown(source, at, begin, out)
                    at = begin
                elif char == "\\":
                    out.extend([Cell(source.text[at + 1], source.place(at + 1))] if source.text[at + 1] != "\n" else [])
                    at += 2
                else:
                    out.append(Cell(char, source.place(at), kind=Kind.QUOTED if style == "double" else Kind.WRITTEN))
                    at += 1
            if node is None:
                break
            if (
                node.child_count == 0
                and node.type not in {"raw_string", "ansi_c_string"}
                and not _is_tricky(source.text[begin:stop])
            ):
                kind = Kind.QUOTED if style == "double" else Kind.WRITTEN
                out.extend(Cell(source.text[place], source.place(place), kind=kind) for place in range(begin, stop))
            else:
                skipped = (
                    len(source.text[begin:stop]) - len(source.text[begin:stop].lstrip()) if node.type in _EXPANDING else 0
                )
                out.extend(
                    Cell(" ", source.place(begin), kind=Kind.QUOTED if style == "double" else Kind.WRITTEN)
                    for _ in range(skipped)
                )
                self._node(source, node, begin + skipped, style, out)
            at = max(at, stop)

    def _changed(self, source: Source, match: re.Match[str], children: list[Node], end: int) -> list[Word] | None:
        """``${A%x}``, ``${A/x/y}``, ``${A:1:2}``, ``${A^^}`` of each value; None where it cannot be told."""
        how, values = self.values(match["name"], match["index"])
        self.may_end = self.may_end or (how == "unset" and "nounset" in self.state.options)
        many = "@" in {match["name"], match["index"]}
        if how not in {"set", "unset"} or "*" in {match["name"], match["index"]} or not all(word.known for word in values):
            return None
        operator, rest = match["operator"], match.end()
        try:
            if operator == ":":
                return self._substring(source, match["name"], values, children, (rest, end - 1), many=many)
            if operator[0] in "^,":
                plain = rest == end - 1 and all(word.text.isascii() for word in values)
                return [_in_case(word, operator) for word in values] if plain else None
            if operator[0] == "/":
                return self._replaced(source, operator, values, children, (rest, end - 1))
            if operator[0] in "%#":
                cells: list[Cell] = []
                self._run(source, children, rest, end - 1, "whole", cells)
                pattern = Pattern(cells)
                return [_trimmed(word, pattern, operator) for word in values]
        except (UnknownPatternError, UnknownNumberError):
            pass
        return None

    def _replaced(
        self, source: Source, operator: str, values: list[Word], children: list[Node], where: tuple[int, int]
    ) -> list[Word]:
        slash = next((child for child in children if child.type == "/"), None)
        middle = slash.start_byte if slash else where[1]
        cells: list[Cell] = []
        self._run(source, [child for child in children if child.end_byte <= middle], where[0], middle, "whole", cells)
        new: list[Cell] = []
        if slash is not None:
            self._run(source, [child for child in children if child.start_byte > middle], middle + 1, where[1], "whole", new)
        if not all(cell.known for cell in new) or any(cell.char in {"&", "\\"} for cell in new):
            raise UnknownPatternError  # an ampersand is the match in bash 5.2, and itself before
        if slash is None and "/" in source.text[where[0] : where[1]]:
            raise UnknownPatternError
        pattern, replacement = Pattern(cells), one_field(new, self.here)
        if not pattern.steps:
            return values
        return [_substituted(word, pattern, replacement, operator) for word in values]

    def _substring(
        self, source: Source, name: str, values: list[Word], children: list[Node], where: tuple[int, int], *, many: bool
    ) -> list[Word] | None:
        cells: list[Cell] = []
        self._run(source, children, *where, "double", cells)
        first, colon, second = "".join(cell.char for cell in cells).partition(":")
        if not all(cell.known for cell in cells) or "?" in first or "?" in second or ":" in second:
            return None
        start, length = self.number(first), self.number(second) if colon else None
        if many and (start < (1 if name == "@" else 0) or (length is not None and length < 0)):
            return None
        if many and name != "@":
            variable = self.state.find(name)
            entries = variable.values if variable is not None and variable.values is not None else {}
            values = [word for at, word in entries.items() if isinstance(at, int) and at >= start]
            return None if variable is not None and variable.has_keys else values[:length]
        if many:
            return values[start - 1 :][:length]
        text = values[0].text if values else ""
        begin = start + len(text) if start < 0 else start
        end = len(text) if length is None else begin + length if length >= 0 else len(text) + length
        if not 0 <= begin <= len(text):
            return []
        if end < begin:
            return None
        return [word.slice(begin, end) for word in values]

    # Arithmetic and substitutions.

    def arithmetic_text(self, source: Source, nodes: Sequence[Node], start: int, end: int) -> str:
        """An expression with its expansions filled in."""
        cells: list[Cell] = []
        self._run(source, nodes, start, end, "double", cells)
        text = "".join(cell.char for cell in cells)
        if not all(cell.known for cell in cells):
            self.may_end = True
            self.state.forget(assigned_names(text))
            raise UnknownNumberError
        return text

    def calculate(self, text: str) -> int:
        """The value of an expression; where it cannot be told, what it sets is unknown from here on."""
        try:
            return self.number(text)
        except UnknownNumberError:
            self.may_end = True  # a division by zero ends the command, under set -u a name ends the script
            self.state.forget(assigned_names(text))
            raise

    def _arithmetic(self, source: Source, node: Node, begin: int, style: str, out: list[Cell]) -> None:
        end = node.end_byte
        opening, closing = (3, 2) if source.text.startswith("$((", begin) else (2, 1)
        inner = [child for child in node.children if child.start_byte >= begin + opening and child.end_byte <= end - closing]
        try:
            text = str(self.calculate(self.arithmetic_text(source, inner, begin + opening, end - closing)))
        except UnknownNumberError:
            self._unknown(source, begin, end, out, Kind.QUOTED if style == "double" else Kind.VALUE)
            return
        first, last = source.place(begin), source.place(end - 1)
        site = Site(first, last + 1, len(text)) if 0 <= first <= last else None
        out.extend(Cell(char, -1, kind=Kind.QUOTED if style == "double" else Kind.VALUE, site=site) for char in text)

    def _substitution(self, source: Source, node: Node, begin: int, style: str, out: list[Cell]) -> None:
        commands = [child for child in node.children if child.is_named]
        raw = source.text[begin : node.end_byte]
        words: list[Word] | None = None
        if len(commands) == 1 and commands[0].type == "command" and raw.startswith("$("):
            words = self._output(source, commands[0], node.end_byte - 1)
        self._paste_or_unknown(source, words, (begin, node.end_byte), style, out)

    def _output(self, source: Source, command: Node, end: int) -> list[Word] | None:
        """What ``echo``, ``seq``, ``dirname`` and ``basename`` print, where their arguments are known."""
        atoms = [child for child in command.children if child.type in ATOMS or child.type in {"command_name", "$"}]
        if len(atoms) != command.child_count:
            return None
        state = self.state
        self.state = state.copy()
        words = self.arguments(source, atoms, command.start_byte, end)
        self.state = state
        if not words or not all(word.known for word in words) or words[0].text in state.functions:
            return None
        name, texts = words[0].text, [word.text for word in words[1:]]
        if name == "echo" and not any(text.startswith("-") or "\\" in text for text in texts):
            return [_without_last_lines(_spaced(words[1:], self.here))]
        if name == "seq" and 1 <= len(texts) <= 3 and all(_INTEGER.fullmatch(text) for text in texts):  # noqa: PLR2004
            return _counted([_whole(text) for text in texts], texts, self.here)
        if name in {"dirname", "basename"} and texts and not texts[0].startswith("-") and "\n" not in texts[0]:
            found = _dirname(texts) if name == "dirname" else _basename(texts)
            return None if found is None else [elsewhere(found, self.here)]
        return None


def _whole(text: str) -> int:
    return to_int(text, 0)


def _structured(nodes: Iterable[Node]) -> list[Node]:
    """What is more than text: quotes and expansions, however they are grouped."""
    found: list[Node] = []
    stack = list(nodes)[::-1]
    while stack:
        node = stack.pop()
        if node.type in _STRUCTURED or node.is_missing:
            found.append(node)
        else:
            stack.extend(reversed(node.children))
    return found


def _flat(nodes: list[Node]) -> list[Node]:
    """Concatenations taken apart, since blanks between their parts count in braces."""
    return [part for node in nodes for part in (_flat(node.children) if node.type == "concatenation" else [node])]


def _is_tricky(text: str) -> bool:
    return any(char in "'\"`$\\" for char in text)


def _followed(values: dict[int | str, Word], words: list[Word]) -> dict[int | str, Word]:
    start = max((at for at in values if isinstance(at, int)), default=-1) + 1
    return {**values, **{start + number: word for number, word in enumerate(words)}}


def _spaced(words: list[Word], span: Span) -> Word:
    blank = elsewhere(" ", span)
    return glued([part for word in words for part in (blank, word)][1:], span)


def _without_last_lines(word: Word) -> Word:
    return word.slice(0, len(word.text.rstrip("\n")))


def _ansi_character(match: re.Match[str]) -> str:
    if match[1]:
        return _ANSI_LETTERS.get(match[1], match[1])
    digits = match[2] or match[4]
    return chr(to_int(digits, 0, base=16)) if digits else chr(to_int(match[3], 0, base=8) & 0x7F)


def _is_no_character(match: re.Match[str]) -> bool:
    """An escape that bash does not know, or half of a character that takes several bytes."""
    return (
        bool(match[5])
        or bool(match[2] and to_int(match[2], 0, base=16) not in range(1, 0x80))
        or bool(match[3] and to_int(match[3], 0, base=8) not in range(1, 0x80))
    )


def _in_case(word: Word, operator: str) -> Word:
    change = str.upper if operator[0] == "^" else str.lower
    text = change(word.text) if len(operator) > 1 else change(word.text[:1]) + word.text[1:]
    return Word(text, word.span, word.known, (-1,) * len(text))


def _trimmed(word: Word, pattern: Pattern, operator: str) -> Word:
    text, longest = word.text, len(operator) > 1
    if len(text) > _LONGEST_CHANGED:
        raise UnknownPatternError
    if operator[0] == "#":
        lengths = pattern.lengths(text)
        return word.slice(lengths[-1 if longest else 0], len(text)) if lengths else word
    lengths = pattern.reversed().lengths(text[::-1])
    return word.slice(0, len(text) - lengths[-1 if longest else 0]) if lengths else word


def _substituted(word: Word, pattern: Pattern, replacement: Word, operator: str) -> Word:
    parts: list[Word] = []
    text, at, done = word.text, 0, False
    if len(text) > _LONGEST_CHANGED:
        raise UnknownPatternError
    while at < len(text):
        check()
        lengths = [] if done or (operator == "/#" and at) else pattern.lengths(text, at)
        if operator == "/%":
            lengths = [length for length in lengths if at + length == len(text)]
        if lengths and lengths[-1]:
            parts.append(replacement)
            at += lengths[-1]
            done = operator != "//"
        else:
            parts.append(word.slice(at, at + 1))
            at += 1
    if not text or (operator in {"/#", "/%"} and not done and 0 in pattern.lengths("")):
        raise UnknownPatternError  # what a pattern does with nothing
    return glued(parts, word.span)


def _counted(numbers: list[int], texts: list[str], span: Span) -> list[Word] | None:
    """``seq LAST``, ``seq FIRST LAST``, ``seq FIRST STEP LAST``."""
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) == 3 else 1  # noqa: PLR2004 - the longest form
    if not step or any(re.match(r"-?0\d", text) for text in texts):
        return None
    values = range(first, numbers[-1] + (1 if step > 0 else -1), step)
    return [elsewhere("\n".join(map(str, values)), span)] if len(values) <= _MOST_NUMBERS else None


def _dirname(texts: list[str]) -> str | None:
    path = texts[0].rstrip("/")
    if len(texts) > 1 or "//" in path or not path:
        return None
    return os.path.dirname(path) or "."


def _basename(texts: list[str]) -> str | None:
    path = texts[0].rstrip("/")
    if len(texts) > 2 or not path:  # noqa: PLR2004 - a path and a suffix
        return None
    name = os.path.basename(path)
    return name.removesuffix(texts[1]) if len(texts) > 1 and name != texts[1] else name
