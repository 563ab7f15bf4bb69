r"""A bash script as a syntax tree, by the grammar tree-sitter-bash.

The tree is one of places: node positions are positions in the text, because the parser gets a copy in which every character
that the grammar takes otherwise than bash stands for itself as a letter (a carriage return and a no-break space are no blanks
to bash, and ``\ `` begins a word). Where the grammar leaves something out between two nodes, what is written there counts.
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_right
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from crashcart.deadline import TookTooLongError, ends_in_time
from crashcart.model import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node, Parser, Tree

__all__ = ["ATOMS", "GrammarMissingError", "Source", "leaves", "pieces"]

# Whole words, or parts of words that stand beside each other.
ATOMS = frozenset({
    "word", "number", "string", "raw_string", "ansi_c_string", "concatenation", "expansion", "simple_expansion", "regex",
    "command_substitution", "arithmetic_expansion", "process_substitution", "brace_expression", "extglob_pattern",
    "test_operator", "variable_name", "special_variable_name", "translated_string",
})  # fmt: skip
_MOST_ROUNDS = 8
_LETTER = "\x7f"
_PARSE_MICROSECONDS = 700_000  # the parser is quadratic in what is no script: 20 kB of ")" would take seconds
# While it recovers from an error it does not look at that limit: 4 kB of a log with "|" in each line would take for ever.
_SURELY_SHORT, _TRIAL_SECONDS = 500, 1.0
_NO_SCRIPT = "reading the script takes too long; it does not look like a handwritten script."
_NO_LETTERS = re.compile(r"[^\t\n -~]")
_ESCAPE = re.compile(r"\\(.)")
_AMID_A_WORD = re.compile(r"(?m)^([^\n]*[^\s;&|()<>\\])(\\\n)(?=[^\s;&|()<>#])")
_COMMENT = re.compile(r"(?:^|\s)#")
_SETTING_IN_TEST = re.compile(r"(?<=\[ )(\w{1,60})=(?=[^=\s])")  # [ a=1 == b ] is no assignment
_LAST_BACKSLASH = re.compile(r"\\(\s*)\Z")
_BETWEEN = re.compile(r"(?:[ \t\n]|\\\n|#[^\n]*(?:\n|\Z))*")


class GrammarMissingError(TookTooLongError):
    """Scripts cannot be read here, which must not cost the rest of the answer."""


class Source:
    """A text with its tree; ``places`` says for each character where it is written in the script, -1 for elsewhere."""

    def __init__(self, text: str, file: str, *, places: tuple[int, ...] | None = None, span: Span | None = None) -> None:
        self.text, self.file = text, file
        self.places, self.within = places, span
        self.tree = _parsed(text)
        self.root = self.tree.root_node
        self.line_starts = [match.end() for match in re.finditer("\n", text)] if span is None else []
        wrong = min(self._first_error(), self._unended_document())
        self.wrong_from = (
            text.rfind("\n", 0, wrong) + 1 if wrong < len(text) else wrong
        )  # what stands before it in the line too

    def _first_error(self) -> int:
        """Where the outermost statement with the first error begins; behind the text where there is none."""
        if not self.root.has_error:
            return len(self.text) + 1
        begin = end = 0
        for node in self.root.children if self.root.type != "ERROR" else ():
            if node.has_error or node.type == "ERROR" or node.is_missing:
                gap = self.text[end : node.start_byte].replace("\\\n", "")
                return node.start_byte if "\n" in gap or ";" in gap else begin
            if node.is_named:
                begin, end = node.start_byte, node.end_byte
        return 0

    def _unended_document(self) -> int:
        """Where the first statement with a here-document begins whose end is no line of its own, as bash wants it."""
        if "<<" not in self.text:
            return len(self.text) + 1
        for statement in self.root.children:
            for leaf in leaves(statement):
                line = self.text.rfind("\n", 0, leaf.start_byte) + 1
                if leaf.type == "heredoc_end" and (
                    self.text[line : leaf.start_byte].strip("\t")
                    or self.text[leaf.end_byte : leaf.end_byte + 1] not in {"", "\n"}
                ):
                    return statement.start_byte
        return len(self.text) + 1

    def place(self, index: int) -> int:
        """Where a character is written in the script."""
        return index if self.places is None else self.places[index] if index < len(self.places) else -1

    def span(self, start: int, end: int) -> Span:
        """A piece of this text; for a text that is not the script, the command that brought it in."""
        return self.within or Span(self.file, start, end, bisect_right(self.line_starts, start) + 1)


@cache
def _parser() -> Parser:
    try:
        import tree_sitter_bash
        from tree_sitter import Language, Parser
    except ImportError as problem:
        raise GrammarMissingError(f"shell scripts: the grammar cannot be loaded ({problem}).") from None
    with warnings.catch_warnings():
        # The callback that replaces the limit crashes the interpreter when it says stop (tree-sitter 0.25.2 and 0.26.0).
        warnings.simplefilter("ignore", DeprecationWarning)
        return Parser(Language(tree_sitter_bash.language()), timeout_micros=_PARSE_MICROSECONDS)


def _parsed(text: str) -> Tree:
    parser, text = _parser(), _for_the_parser(text)
    if len(text) > _SURELY_SHORT and not ends_in_time(lambda: parser.parse(text.encode("ascii")), _TRIAL_SECONDS):
        raise TookTooLongError(_NO_SCRIPT)
    try:
        for _ in range(_MOST_ROUNDS):
            tree = parser.parse(text.encode("ascii"))
            ends = _missed_line_ends(tree.root_node, text)
            if not ends:
                break
            text = "".join(";" if at in ends else char for at, char in enumerate(text))
    except ValueError:
        parser.reset()
        raise TookTooLongError(_NO_SCRIPT) from None
    return tree


def _missed_line_ends(root: Node, text: str) -> set[int]:
    """Where two assignments stand in a line the grammar goes on with them in the next line, which bash does not."""
    ends: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        children = [child for child in node.children if child.type != "comment"]
        stack.extend(children)
        if node.type in {"command", "variable_assignments"}:
            for child, following in pairwise(children):
                gap = text[child.end_byte : following.start_byte].replace("\\\n", "")
                if child.type == "variable_assignment" and "\n" in gap:
                    ends.add(child.end_byte)
    return ends


def _for_the_parser(text: str) -> str:
    text = _NO_LETTERS.sub(_LETTER, text)
    text = _ESCAPE.sub(lambda match: _LETTER * 2 if match[1] in " \t" else match[0], text)
    text = _AMID_A_WORD.sub(lambda match: match[1] + (_LETTER * 2 if not _COMMENT.search(match[1]) else match[2]), text)
    text = _SETTING_IN_TEST.sub(rf"\1{_LETTER}", text)
    text = _LAST_BACKSLASH.sub(lambda match: " " + match[1], text)
    return text.replace('$"', f'{_LETTER}"')


def leaves(node: Node) -> Iterator[Node]:
    """Every node without children, in order, however deep the tree."""
    stack = [node]
    while stack:
        node = stack.pop()
        if node.child_count:
            stack.extend(reversed(node.children))
        else:
            yield node


def pieces(source: Source, nodes: list[Node], start: int, end: int) -> Iterator[tuple[int, int, list[Node]]]:
    """The written words between two places: each from, to, and the nodes in it; what the grammar passed over is in it too."""
    text, at, begin = source.text, start, -1
    inside: list[Node] = []
    for node in [*(node for node in nodes if node.type != "comment"), None]:
        stop = end if node is None else node.start_byte
        while at < stop:
            blank = _BETWEEN.match(text, at, stop) if begin < 0 or not text.startswith("#", at) else None
            if blank is not None and blank.end() > at and not (begin >= 0 and _joins(blank.group())):
                if begin >= 0:
                    yield begin, at, inside
                    begin, inside = -1, []
                at = blank.end()
            else:
                begin = at if begin < 0 else begin
                at += 2 if text[at] == "\\" else 1
        if node is not None:
            begin = node.start_byte if begin < 0 else begin
            inside.append(node)
            at = max(at, node.end_byte)
    if begin >= 0:
        yield begin, min(at, max(end, start)), inside


def _joins(gap: str) -> bool:
    """A backslash and a line end amid a word."""
    return not gap.replace("\\\n", "")
