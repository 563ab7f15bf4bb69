"""A script run in thought: its statements in the order in which bash would run them, as far as that can be told.

A condition that is decided takes one branch. Where it is not, every branch may be the one: the commands of each are found,
marked as not certain, and what they set differently is unknown afterwards. A loop is run as often as bash would run it, or,
where nobody knows how often, once with everything unknown that it sets. All of it is bounded in steps and depth.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from crashcart.deadline import check
from crashcart.errors import CommandError
from crashcart.readers.job.arithmetic import UnknownNumberError, assigned_names
from crashcart.readers.job.conditions import Conditional, check_words, negated
from crashcart.readers.job.expansion import Expander
from crashcart.readers.job.patterns import Pattern, UnknownPatternError
from crashcart.readers.job.script_files import LARGEST_SCRIPT, sourced_path, text_of
from crashcart.readers.job.syntax import ATOMS, Source, pieces
from crashcart.readers.job.variables import UNKNOWN, UNSET, Function, State, Variable, joined
from crashcart.readers.job.words import Word, elsewhere, glued
from crashcart.record import record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tree_sitter import Node

    from crashcart.model import Span

__all__ = ["Command", "Evaluator", "TooMuchError"]

_DEEPEST = 40
_DEEPEST_CALL = 10
_DEEPEST_TEXT = 4  # eval in eval, a file that takes in a file
_MOST_STEPS = 6_000
_MOST_TURNS = 64
_REDIRECTS = {"file_redirect", "heredoc_redirect", "herestring_redirect"}
_STATUS = {
    ":": True,
    "true": True,
    "false": False,
    "echo": True,
    "printf": True,
    "trap": True,
    "shopt": True,
    "ulimit": None,
}
_LETTERS = {"e": "errexit", "u": "nounset", "a": "allexport", "f": "globs"}
_NAME = re.compile(r"[A-Za-z_]\w*")
_SETTING = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_EMPTY = r"[\"']?\$\{?(\w{1,60})(?::?[-+]\w{0,20})?\}?[\"']?"
_IS_EMPTY = re.compile(rf"(?:\[\[?|test)\s(?:(?:-z|! -n|!)\s{_EMPTY}|[\"']?x?{_EMPTY}\s==?\s(?:\"\"|''|x))(?:\s\]\]?)?")
_IS_FULL = re.compile(rf"(?:\[\[?|test)\s(?:-n |! -z )?{_EMPTY}(?:\s\]\]?)?")
# What a piece of script may set, by its text: rather too much than too little.
_SETS = re.compile(
    r"\b(?P<plain>[A-Za-z_]\w*)(?:\[[^\]\n]{0,9}\])?\+?=|\$\{(?P<default>[A-Za-z_]\w*)(?:\[[^\]]{0,9}\])?:?=|\b(?:for|select)\s+(?P<loop>[A-Za-z_]\w*)"
    r"|\b(?:read|mapfile|readarray|getopts|printf|let|unset|declare|local|typeset|export|readonly)\b(?P<names>[^\n;|&)]*)"
)
# What a program prints for ``eval`` to set up itself: functions and paths of its own, and no variable of the script.
_SETS_UP_ITSELF = re.compile(
    r"\$\([^()\s]{0,200}?(?:conda|mamba|micromamba|pyenv|pixi|direnv|ssh-agent|modulecmd|brew|dircolors)(?:\.sh)?[\"']?(?: [^()$`]{0,100})?\)"
)
_SETS_ANYTHING = re.compile(r"(?:^|[\s;&|({`])(?:eval|source|\.)\s")


@record(frozen=True)
class Command:
    """One simple command: its words, the assignments before it, the pipe behind it, and whether it certainly runs."""

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    after: str = ""
    certain: bool = True


class _LeftError(Exception):
    """``exit``, ``return``, ``break`` or ``continue``."""

    def __init__(self, kind: str, count: int = 1) -> None:
        super().__init__(kind)
        self.kind, self.count = kind, count


class _UndecidedError(Exception):
    """A loop or a call that may have been left: ``kind`` says which, and it is run again with what it sets unknown."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class TooMuchError(Exception):
    """More steps than a launch script takes."""


class Evaluator:
    """Runs statements against a state, and notes the commands."""

    def __init__(self, file: str, shared: set[str], *, loops_are_unknown: bool = False) -> None:
        self.file = file
        self.expander = Expander(State(), shared)
        self.commands: list[Command] = []
        self.certain, self.unsure, self.tolerant = True, 0, 0
        self.steps = self.depth = 0
        self.loops: list[bool] = []  # whether each loop around is run with unknown values
        self.calls: list[bool] = []  # the same for functions
        self.locals: list[dict[str, Variable | None]] = []
        self.texts: list[str] = []
        self.pipes: dict[int, str] = {}
        self.left: _LeftError | None = None
        self.ended: State | None = None  # what holds where the statement that runs now was ended by an error
        self.at_exit: Word | None = None
        self.loops_are_unknown = loops_are_unknown

    @property
    def state(self) -> State:
        """What the shell holds now."""
        return self.expander.state

    @state.setter
    def state(self, state: State) -> None:
        self.expander.state = state

    def run(self, source: Source) -> None:
        """Run a whole script, and what it wants done at its end."""
        try:
            with suppress(_LeftError):
                self.block(source, source.root.children, outermost=True)
            if self.at_exit is not None and self.at_exit.known:
                self.maybe(lambda: self.text(self.at_exit or elsewhere("", source.span(0, 0)), source.span(0, 0)))
        except _UndecidedError:
            self.certain = False

    # Statements.

    def block(self, source: Source, nodes: Sequence[Node], *, outermost: bool = False) -> bool | None:
        """Statements one after the other; what follows one in the background does not wait for it."""
        status: bool | None = True
        for number, node in enumerate(nodes):
            if not node.is_named or node.type in {"comment", "heredoc_body", "heredoc_end"}:
                continue
            if number + 1 < len(nodes) and nodes[number + 1].type == "&":
                self.isolated(lambda: self.statement(source, node))  # noqa: B023 - run at once
                status = True
                continue
            status = self.statement(source, node)
            if outermost and self.ended is not None:
                self.state, self.ended, status = joined(self.state, self.ended), None, None
            if status is not True and "errexit" in self.state.options and not self.tolerant:
                if status is False and node.type in {"command", "test_command"} and not self.unsure:
                    raise _LeftError("exit")
                self.certain = False
        return status

    def statement(self, source: Source, node: Node) -> bool | None:
        """Run one statement; its status is true, false or not known."""
        check()
        self.steps += 1
        self.depth += 1
        if self.steps > _MOST_STEPS:
            raise TooMuchError
        try:
            if self.depth > _DEEPEST:
                self.forget(source.text[node.start_byte : node.end_byte])
                self.certain = False
                return None
            handler = self._HANDLERS.get(node.type)
            if handler is not None:
                status = handler(self, source, node)
            elif node.type == "ERROR" or node.is_missing:
                self.maybe(lambda: self.block(source, [child for child in node.children if child.type in self._HANDLERS]))
                status = None
            else:
                status = None
        finally:
            self.depth -= 1
        self.notice_end()
        return status

    def notice_end(self) -> None:
        """An expansion that bash may refuse ends the statement of the script in which it stands, if not the script."""
        if self.expander.may_end:
            self.certain = self.expander.may_end = False
            self.ended = self.state.copy() if self.ended is None else joined(self.ended, self.state)

    def maybe(self, run: Callable[[], object]) -> State | None:
        """The state after something that may run; None where it leaves the script, the loop or the function."""
        self.notice_end()
        before, self.state = self.state, self.state.copy()
        self.unsure += 1
        try:
            run()
        except _LeftError as left:
            around = (
                self.loops[-left.count :]
                if left.kind in {"break", "continue"}
                else self.calls[-1:]
                if left.kind == "return"
                else []
            )
            if around and not all(around):
                raise _UndecidedError("loop" if left.kind != "return" else "call") from None
            if left.kind == "exit" or (left.kind == "return" and not self.calls):
                self.certain = False
            self.left = left
            return None
        else:
            return self.state
        finally:
            self.unsure -= 1
            self.state = before

    def isolated(self, run: Callable[[], bool | None]) -> bool | None:
        """A subshell: it sees everything and changes nothing."""
        self.notice_end()
        before, certain, loops, calls, ended = self.state, self.certain, self.loops, self.calls, self.ended
        self.state, self.loops, self.calls = before.copy(), [], []
        try:
            return run()
        except _LeftError:
            return None
        finally:
            self.state, self.certain, self.loops, self.calls, self.ended = before, certain, loops, calls, ended

    def conditionally(self, run: Callable[[], bool | None]) -> bool | None:
        """A status that is asked for, so that a failure ends nothing."""
        self.tolerant += 1
        try:
            return run()
        finally:
            self.tolerant -= 1

    def merge(self, states: Sequence[State | None], defaulted: str = "") -> None:
        """Go on with what is true after each of several ways; none may be left open."""
        open_ways = [state for state in states if state is not None]
        if not open_ways:
            raise self.left or _LeftError("exit")
        result = open_ways[0]
        for state in open_ways[1:]:
            result = joined(result, state, defaulted)
        self.state = result

    # Compound statements.

    def _if(self, source: Source, node: Node) -> bool | None:
        clauses = [_clause(node.children)]
        clauses += [_clause(child.children) for child in node.children if child.type == "elif_clause"]
        other = next((child.children[1:] for child in node.children if child.type == "else_clause"), [])
        ways: list[State | None] = []
        defaulted = ""
        for condition, body in clauses:
            status = self.conditionally(lambda: self.block(source, condition))  # noqa: B023 - run at once
            if status is True:
                return self._last_way(source, body, ways, defaulted)
            if status is None:
                text = source.text[condition[0].start_byte : condition[-1].end_byte] if condition else ""
                defaulted = defaulted or _name_in(_IS_EMPTY.fullmatch(_plain(text)))
                ways.append(self.maybe(lambda: self.block(source, body)))  # noqa: B023 - run at once
        return self._last_way(source, other, ways, defaulted)

    def _last_way(self, source: Source, body: Sequence[Node], ways: list[State | None], defaulted: str) -> bool | None:
        if not ways:
            return self.block(source, body)
        ways.append(self.maybe(lambda: self.block(source, body)))
        self.merge(ways, defaulted)
        return None

    def _case(self, source: Source, node: Node) -> bool | None:
        start = next(child.start_byte for child in node.children if child.type == "in")
        inside = [child for child in node.children[1:] if child.end_byte <= start]
        subject = self.expander.value(source, inside, inside[0].start_byte, inside[-1].end_byte) if inside else None
        ways: list[State | None] = []
        for item in (child for child in node.children if child.type == "case_item"):
            end = next((at for at, child in enumerate(item.children) if child.type == ")"), 0)
            body = [child for child in item.children[end + 1 :] if child.type not in {";;", ";&", ";;&"}]
            falls = any(child.type in {";&", ";;&"} for child in item.children)
            matches = self.matches(source, subject, item.children[:end])
            if matches is True and not falls and not ways:
                return self.block(source, body)
            if matches is not False or ways:
                ways.append(self.maybe(lambda: self.block(source, body)))  # noqa: B023 - run at once
            if matches is True and not falls:
                self.merge(ways)
                return None
        if ways:
            self.merge([*ways, self.state])
            return None
        return True

    def matches(self, source: Source, subject: Word | None, nodes: Sequence[Node]) -> bool | None:
        """Whether a text is one of the patterns of a case."""
        result: bool | None = False
        bars = [node for node in nodes if node.type == "|"]
        first = nodes[1:] if nodes and nodes[0].type == "(" else nodes
        edges = [first[0].start_byte if first else 0, *(bar.start_byte for bar in bars), nodes[-1].end_byte if nodes else 0]
        for number in range(len(edges) - 1):
            start, end = edges[number] + (number > 0), edges[number + 1]
            inside = [node for node in first if start <= node.start_byte < end and node.type != "|"]
            start = inside[0].start_byte if inside else start
            end = inside[-1].end_byte if inside else end
            cells = self.expander.cells(source, inside, start, end, split=False)
            try:
                if source.text[start:end] == "*":
                    return True if result is False else result
                found = Pattern(cells).matches(subject.text) if subject is not None and subject.known else None
            except UnknownPatternError:
                found = None
            if found is True and result is False:
                return True
            result = None if found is None or result is None else result
        return result

    def _list(self, source: Source, node: Node) -> bool | None:
        chain: list[tuple[str, Node]] = []
        while node.type == "list" and node.child_count == 3 and not node.children[1].is_named:  # noqa: PLR2004 - left, sign, right
            left, sign, right = node.children
            chain.append((sign.type, right))
            node = left
        text = source.text[node.start_byte : node.end_byte]
        status = self.conditionally(lambda: self.statement(source, node))
        for number, (operator, following) in enumerate(reversed(chain)):

            def run(following: Node = following) -> bool | None:
                return self.statement(source, following)

            last = number == len(chain) - 1
            if status is None:
                pattern = _IS_EMPTY if operator == "&&" else _IS_FULL
                self.merge(
                    [self.maybe(lambda: self.conditionally(run)), self.state], _name_in(pattern.fullmatch(_plain(text)))
                )
            elif status == (operator == "&&"):
                status = run() if last else self.conditionally(run)
        return status

    def _pipeline(self, source: Source, node: Node) -> bool | None:
        status: bool | None = None
        for child, following in zip(node.children, [*node.children[1:], None], strict=True):
            if child.is_named:
                if following is not None and following.type in {"|", "|&"}:
                    self.pipes[child.id] = following.type
                status = self.isolated(lambda: self.statement(source, child))  # noqa: B023 - run at once
        return status if "pipefail" not in self.state.options else None

    def _redirected(self, source: Source, node: Node) -> bool | None:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.children if child.type in _REDIRECTS]
        if body is None:
            return None
        if node.id in self.pipes:
            self.pipes[body.id] = self.pipes[node.id]
        may_fail = any(_may_fail(source, redirect) for redirect in redirects) or "nounset" in self.state.options
        self.unsure += may_fail
        try:
            status = self._command(source, body, redirects) if body.type == "command" else self.statement(source, body)
        finally:
            self.unsure -= may_fail
        status = None if may_fail else status
        for redirect in redirects:
            for child in redirect.children if redirect.type == "heredoc_redirect" else ():
                if child.type == "pipeline":
                    self._pipeline(source, child)
                    status = None
                elif child.type in self._HANDLERS:
                    self.merge([self.maybe(lambda: self.statement(source, child)), self.state])  # noqa: B023 - run at once
                    status = None
        return status

    def _subshell(self, source: Source, node: Node) -> bool | None:
        return self.isolated(lambda: self.block(source, node.children[1:-1]))

    def _group(self, source: Source, node: Node) -> bool | None:
        if source.text.startswith("((", node.start_byte):
            inner = [child for child in node.children if child.type not in {"((", "))"}]
            return self._calculation(source, inner, node.start_byte + 2, node.end_byte - 2)
        return self.block(source, node.children)

    def _calculation(self, source: Source, nodes: Sequence[Node], start: int, end: int) -> bool | None:
        try:
            return self.expander.calculate(self.expander.arithmetic_text(source, nodes, start, end)) != 0
        except UnknownNumberError:
            return None

    def _negated(self, source: Source, node: Node) -> bool | None:
        return negated(self.conditionally(lambda: self.block(source, node.children[1:])))

    def _test(self, source: Source, node: Node) -> bool | None:
        first, last = node.children[0], node.children[-1]
        if first.type == "((":
            return self._calculation(source, node.children[1:-1], first.end_byte, last.start_byte)
        atoms = [atom for child in node.children[1:-1] for atom in _atoms(child)]
        if first.type == "[":
            return check_words(self.expander.arguments(source, atoms, first.end_byte, last.start_byte))
        operands = [
            (source.text[begin:stop], self.expander.cells(source, inside, begin, stop, split=False))
            for begin, stop, inside in _apart(source, atoms, first.end_byte, last.start_byte)
        ]
        if first.start_byte >= source.wrong_from:
            return None
        return Conditional(operands, self.expander.calculate).status()

    # Loops and functions.

    def loop(self, source: Source, node: Node, turns: Callable[[], None]) -> None:
        """Run a loop as bash does, or else once with what it sets unknown."""
        self.notice_end()
        before, count, certain = self.state.copy(), len(self.commands), self.certain
        if not self.loops_are_unknown:
            self.loops.append(False)
            try:
                turns()
            except _UndecidedError as undecided:
                if undecided.kind != "loop":
                    raise
            else:
                return
            finally:
                self.loops.pop()
        self.state, self.certain = before, certain
        del self.commands[count:]
        self.loops.append(True)
        try:
            self._once_unknown(source, node)
        finally:
            self.loops.pop()

    def _once_unknown(self, source: Source, node: Node) -> None:
        text = source.text[node.start_byte : node.end_byte]
        self.forget(text)
        body = [child for child in node.children if child.type == "do_group"]
        condition = _before(node.children, "do_group")[1:] if node.type == "while_statement" else []
        after = self.maybe(lambda: self.block(source, [*condition, *(inner for group in body for inner in group.children)]))
        self.merge([after, self.state])
        self.forget(text)

    def forget(self, text: str, seen: Iterable[str] = ()) -> None:
        """What a piece of script may set is unknown."""
        for name, function in list(self.state.functions.items()):
            if name not in seen and function is not None and re.search(rf"(?<![\w$-]){re.escape(name)}(?![\w-])", text):
                body = function.source.text[function.body.start_byte : function.body.end_byte]
                self.forget(body, {*seen, name})
        if _SETS_ANYTHING.search(text):
            self.state.forget_all()
        names: set[str] = set()
        for match in _SETS.finditer(text):
            names |= {match[kind] for kind in ("plain", "default", "loop") if match[kind]}
            names |= set(_NAME.findall(match["names"] or ""))
        if "((" in text or "$[" in text:
            names |= assigned_names(text)
        self.state.forget(names)
        if re.search(r"\b(?:set|shift)\b", text):
            self.state.arguments, self.expander.were_shifted = None, True
        if "IFS" in names:
            self.state.options |= {"blanks"}

    def turn(self, source: Source, body: Sequence[Node]) -> bool:
        """One turn of a loop; whether there may be another."""
        try:
            self.block(source, body)
        except _LeftError as left:
            if left.kind not in {"break", "continue"}:
                raise
            if left.count > 1 and len(self.loops) > 1:
                raise _LeftError(left.kind, left.count - 1) from None
            return left.kind == "continue"
        return True

    def _for(self, source: Source, node: Node) -> bool | None:
        name = next(
            (source.text[child.start_byte : child.end_byte] for child in node.children if child.type == "variable_name"), ""
        )
        listed = next((at for at, child in enumerate(node.children) if child.type == "in"), None)
        group = next((child for child in node.children if child.type == "do_group"), None)
        if group is None:
            return None
        if listed is None:
            words = list(self.state.arguments) if self.state.arguments is not None else None
        else:
            inside = [
                child for child in node.children[listed + 1 :] if child.is_named and child.end_byte <= group.start_byte
            ]
            start = inside[0].start_byte if inside else 0
            end = inside[-1].end_byte if inside else 0
            words = self.expander.arguments(source, [child for child in inside if child.type != "comment"], start, end)

        def turns() -> None:
            if (
                words is None
                or len(words) > _MOST_TURNS
                or any(word.is_loose for word in words)
                or node.children[0].type != "for"
            ):
                raise _UndecidedError("loop")
            for word in words:
                self.state.assign(name, Variable({0: word}))
                if not self.turn(source, group.children):
                    break

        self.loop(source, node, turns)
        return None

    def _c_style_for(self, source: Source, node: Node) -> bool | None:
        begin = next((child.end_byte for child in node.children if child.type == "(("), 0)
        end = next((child.start_byte for child in node.children if child.type == "))"), begin)
        group = next((child for child in node.children if child.type in {"do_group", "compound_statement"}), None)
        parts = source.text[begin:end].split(";")
        inside = [child for child in node.children if begin <= child.start_byte < end]
        edges = [begin]
        for text in parts:
            edges.append(edges[-1] + len(text) + 1)

        def part(number: int) -> int | None:
            start, stop = edges[number], edges[number + 1] - 1
            if not source.text[start:stop].strip():
                return 1
            nodes = [child for child in inside if start <= child.start_byte and child.end_byte <= stop and child.is_named]
            try:
                return self.expander.calculate(self.expander.arithmetic_text(source, nodes, start, stop))
            except UnknownNumberError:
                return None

        def turns() -> None:
            if len(parts) != 3 or group is None or part(0) is None:  # noqa: PLR2004 - begin, condition, step
                raise _UndecidedError("loop")
            for number in range(_MOST_TURNS + 1):
                condition = part(1)
                if condition is None or number == _MOST_TURNS:
                    raise _UndecidedError("loop")
                if not condition or not self.turn(source, group.children):
                    break
                if part(2) is None:
                    raise _UndecidedError("loop")

        self.loop(source, node, turns)
        return None

    def _while(self, source: Source, node: Node) -> bool | None:
        group = next((child for child in node.children if child.type == "do_group"), None)
        condition = _before(node.children, "do_group")[1:]
        wanted = node.children[0].type == "while"

        def turns() -> None:
            for number in range(_MOST_TURNS + 1):
                status = self.conditionally(lambda: self.block(source, condition))
                if status is None or number == _MOST_TURNS or group is None:
                    raise _UndecidedError("loop")
                if status != wanted or not self.turn(source, group.children):
                    break

        self.loop(source, node, turns)
        return None

    def _function(self, source: Source, node: Node) -> bool | None:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name is not None and body is not None:
            text = source.text[name.start_byte : name.end_byte]
            self.state.functions[text] = Function(body, source) if name.start_byte < source.wrong_from else None
        return True

    def call(self, function: Function, words: Sequence[Word]) -> bool | None:
        """Run a function with its arguments; its local variables end with it."""
        if len(self.calls) >= _DEEPEST_CALL:
            self.state.forget_all()
            self.certain = False
            return None
        self.notice_end()
        before, count, certain = self.state.copy(), len(self.commands), self.certain
        loops, self.loops = self.loops, []
        try:
            for unknown in (False, True):
                self.calls.append(unknown)
                self.locals.append({})
                given, self.expander.given = self.expander.given, {}
                shifted, self.expander.were_shifted = self.expander.were_shifted, True
                self.state.arguments = None if any(word.is_loose for word in words) else tuple(words)
                try:
                    return self._body(function) if not unknown else self._body_once_unknown(function)
                except _UndecidedError as undecided:
                    if undecided.kind != "call" or unknown:
                        raise
                    self.state, self.certain = before.copy(), certain
                    del self.commands[count:]
                finally:
                    self.calls.pop()
                    self._end_locals(self.locals.pop())
                    self.state.arguments = before.arguments
                    self.expander.given, self.expander.were_shifted = given, shifted
        finally:
            self.loops = loops
        return None

    def _body(self, function: Function) -> bool | None:
        try:
            status = self.statement(function.source, function.body)
        except _LeftError as left:
            if left.kind == "exit":
                raise
            return None
        return status or None  # whether a failure ends the script depends on where in the function it was

    def _body_once_unknown(self, function: Function) -> bool | None:
        text = function.source.text[function.body.start_byte : function.body.end_byte]
        arguments = self.state.arguments
        self.forget(text)
        if not re.search(r"\b(?:set|shift)\b", text):
            self.state.arguments = arguments
        after = self.maybe(lambda: self._body(function))
        self.merge([after, self.state])
        self.forget(text)
        return None

    def _end_locals(self, kept: dict[str, Variable | None]) -> None:
        for name, variable in kept.items():
            if variable is None:
                self.state.variables.pop(name, None)
            else:
                self.state.variables[name] = variable

    def text(self, word: Word, span: Span, file: str = "") -> bool | None:
        """Run a text that the script makes or takes in."""
        if len(self.texts) >= _DEEPEST_TEXT:
            self.state.forget_all()
            return None
        places = tuple(word.places) if not file else (-1,) * len(word.text)
        self.texts.append(file)
        try:
            source = Source(word.text, self.file, places=places, span=span)
            return self.block(source, source.root.children)
        finally:
            self.texts.pop()

    # Assignments.

    def _assignments(self, source: Source, node: Node) -> bool | None:
        nodes = [child for child in node.children if child.type == "variable_assignment"] or [node]
        self._note((), [self.assign(source, each) for each in nodes])
        return None if any(_runs_something(each) for each in nodes) else True

    def assign(
        self, source: Source, node: Node, *, exported: bool = False, keys: bool = False, odd: bool = False
    ) -> tuple[str, Word]:
        """Carry out ``NAME=value``, ``NAME+=value``, ``NAME[i]=value``, ``NAME=(values)``."""
        target, sign = node.children[0], node.children[1]
        whole = source.text[target.start_byte : target.end_byte]
        name, _, index = whole.partition("[")
        adds = sign.type == "+="
        inside = node.children[2:]
        old = self.state.find(name)
        start, end = sign.end_byte, node.end_byte
        array = inside[0] if len(inside) == 1 and inside[0].type == "array" else None
        if array is not None:
            keys = keys or (old is not None and old.has_keys)
            before = (old or UNKNOWN) if adds else None
            variable = self.expander.elements(source, array, before, keys=keys)
            word = Word(source.text[start:end], source.span(start, end), known=False)
        else:
            word = self.expander.value(source, inside, start, end)
            if end < len(source.text) and source.text[end] not in " \t\n;&|()`#}\r":
                word = replace(word, known=False)  # the grammar ended the value early
            variable = self._single(index[:-1] if index else None, word, old, adds=adds)
        self.notice_end()
        if name == "IFS":
            plain = array is None and word.known and word.text == " \t\n"
            self.state.options = self.state.options - {"blanks"} if plain else self.state.options | {"blanks"}
        if node.start_byte >= source.wrong_from:
            variable = replace(variable, values=None)
        self.state.assign(
            name,
            replace(variable, is_exported=exported or variable.is_exported, has_keys=keys or variable.has_keys, is_odd=odd),
        )
        if array is None and adds and variable.values is not None and 0 in variable.values:
            word = variable.values[0]
        return name, word

    def _single(self, index: str | None, word: Word, old: Variable | None, *, adds: bool) -> Variable:
        values = old.values if old is not None else {} if not adds else None
        if old is not None and old.is_odd:
            return replace(old, values=None)
        keys = old is not None and old.has_keys
        is_array = index is not None or (old is not None and old.is_array)
        if values is None and (adds or is_array):
            return Variable(None, is_array, keys)
        if index is not None and re.search(r"[$`]", index):
            filled = self.filled(index)
            key = None if filled is None else filled if keys else self.expander.index(filled, keys=False)
        else:
            key = self.expander.index(index or "0", keys=keys) if index is not None or not keys else None
        if key is None or any(each.is_loose for each in (values or {}).values() if is_array):
            return Variable(None, is_array, keys)
        if adds and values and key in values:
            word = glued([values[key], word], word.span)
        kept = {at: each for at, each in (values or {}).items() if at != key} if is_array else {}
        entries = {**kept, key: word}
        ordered = entries if keys else dict(sorted(entries.items(), key=lambda entry: str(entry[0]).zfill(9)))
        return Variable(ordered, is_array, keys)

    def filled(self, index: str) -> str | None:
        """An index with the variables in it."""
        match = re.fullmatch(r"[\"']?\$\{?([A-Za-z_]\w*|\d)\}?[\"']?", index)
        how, values = self.expander.values(match[1], None) if match else ("unknown", [])
        return values[0].text if how == "set" and values[0].known else None

    def _declaration(self, source: Source, node: Node) -> bool | None:
        head = node.children[0]
        kind = source.text[head.start_byte : head.end_byte]
        words = [
            Word(
                kind,
                source.span(head.start_byte, head.end_byte),
                places=tuple(map(source.place, range(head.start_byte, head.end_byte))),
            )
        ]
        found: list[tuple[str, Word]] = []
        options = ""
        exports = kind == "export"
        is_local = kind == "local" or (kind in {"declare", "typeset"} and bool(self.locals))
        assigned, ends = "", -1
        for child in node.children[1:]:
            odd = kind == "readonly" or bool(set(options) & set("inulrc"))
            if child.start_byte == ends and assigned:  # the grammar parts ``A=$B:`pwd``` before the backtick
                self.state.forget([assigned])
                ends = child.end_byte
                continue
            if child.type == "variable_assignment":
                target = source.text[child.start_byte : child.end_byte].partition("=")[0].rstrip("+").partition("[")[0]
                if is_local and "g" not in options:
                    self._make_local(target)
                if kind == "readonly" or "r" in options:
                    odd = bool(set(options) & set("inulc"))
                if "n" in options:
                    self.state.forget_all()
                found.append(self.assign(source, child, exported=exports or "x" in options, keys="A" in options, odd=odd))
                assigned, ends = found[-1][0], child.end_byte
                continue
            for word in self.expander.arguments(source, [child], child.start_byte, child.end_byte):
                words.append(word)
                if word.known and word.text.startswith(("-", "+")):
                    options += word.text[1:]
                else:
                    self.declare(word, options, found, exports=exports, is_local=is_local)
        self._note(tuple(words), found)
        return None if any(_runs_something(child) for child in node.children) else True

    def declare(self, word: Word, options: str, found: list[tuple[str, Word]], *, exports: bool, is_local: bool) -> None:
        """A name, or ``"NAME=value"`` in one word."""
        setting = _SETTING.fullmatch(word.text)
        name = setting[1] if setting else word.text
        if (word.is_loose and not setting) or not _NAME.fullmatch(name):
            if not word.known:
                self.state.forget_all()
            return
        if set(options) & set("fF"):
            return
        if is_local and "g" not in options:
            self._make_local(name)
        old = self.state.variables.get(name)
        if setting:
            value = replace(word.slice(len(name) + 1, len(word.text)), known=word.known and not word.is_loose)
            self.state.assign(
                name, Variable({0: value}, is_exported=exports or "x" in options, is_odd=bool(set(options) & set("inulc")))
            )
            found.append((name, value))
        elif set(options) & set("inulc"):
            self.state.variables[name] = replace(old or UNKNOWN, values=None, is_odd=True)
        elif set(options) & set("aA"):
            self.state.variables[name] = replace(old or UNSET, is_array=True, has_keys="A" in options)
        elif (exports or "x" in options) and old is not None:
            self.state.variables[name] = replace(old, is_exported=True)

    def _make_local(self, name: str) -> None:
        if self.locals and name not in self.locals[-1]:
            self.locals[-1][name] = self.state.variables.get(name)
            self.state.variables[name] = UNSET

    def _unset(self, source: Source, node: Node) -> bool | None:
        functions = False
        for word in self.expander.arguments(source, node.children[1:], node.children[0].end_byte, node.end_byte):
            name, _, index = word.text.partition("[")
            if word.text.startswith("-"):
                functions = "f" in word.text
            elif not word.known:
                self.state.forget_all()
            elif functions or (name in self.state.functions and name not in self.state.variables):
                self.state.functions.pop(name, None)
            elif index or (name in self.state.variables and self.state.variables[name].is_odd) or self.locals:
                self.state.forget([name])
            else:
                self.state.variables[name] = UNSET
                self.state.options -= {"blanks"} if name == "IFS" else set()
        return None

    # Commands.

    def _command(self, source: Source, node: Node, redirects: Sequence[Node] = ()) -> bool | None:
        return self.simple(source, node.children, node.end_byte, redirects, self.pipes.get(node.id, ""))

    def simple(self, source: Source, nodes: Sequence[Node], end: int, redirects: Sequence[Node], pipe: str) -> bool | None:
        """Run a simple command: assignments, words, redirections."""
        own = [child for child in nodes if child.type not in {"variable_assignment", "comment", *_REDIRECTS}]
        if own and source.text[own[0].start_byte : own[0].end_byte] == "!":
            rest = [child for child in nodes if child.start_byte > own[0].start_byte]
            return negated(self.conditionally(lambda: self.simple(source, rest, end, redirects, pipe))) if rest else False
        before = [child for child in nodes if child.type == "variable_assignment"]
        inner = [child for child in nodes if child.type in _REDIRECTS]
        may_fail = any(_may_fail(source, child) for child in inner)
        words = self.words(source, own, sorted([*inner, *redirects], key=lambda child: child.start_byte), end)
        state = self.state.copy()
        found = [self.assign(source, child) for child in before]
        if words:
            assigned, self.state = self.state, state
            self.state.outside_is_known = assigned.outside_is_known
        head = words[0].text if words and words[0].known else ""
        function = self.state.functions.get(head)
        if function is not None:
            kept = {name: self.state.variables.get(name) for name, _ in found}
            self.state.variables.update({name: assigned.variables[name] for name, _ in found})
            status = self.call(function, words[1:])
            self._end_locals(kept)
            return status
        if words or found:
            self.unsure += may_fail
            self._note(tuple(words), found, pipe)
            self.unsure -= may_fail
        if words and words[0].is_loose:
            self.state.forget([name for name, _ in found])
        if head in self.state.functions:
            self.state.forget_all()
        return self.builtin(words, found) if words else None if any(map(_runs_something, before)) else True

    def words(self, source: Source, nodes: Sequence[Node], redirects: Sequence[Node], end: int) -> list[Word]:
        """The arguments of a command; some may stand behind a redirection."""
        found: list[Word] = []
        start = nodes[0].start_byte if nodes else redirects[0].start_byte if redirects else end
        for redirect in [*redirects, None]:
            stop = max(end, start) if redirect is None else redirect.start_byte
            if stop > start:
                inside = [node for node in nodes if start <= node.start_byte and node.end_byte <= stop]
                found += self.expander.arguments(source, inside, start, stop)
            if redirect is not None:
                found += self.behind(source, redirect)
                start = max(start, redirect.end_byte)
        return found

    def behind(self, source: Source, redirect: Node) -> list[Word]:
        """Words that the grammar counts to a redirection, though only the first is its target."""
        if redirect.type == "herestring_redirect":
            return []
        sign = next((at for at, child in enumerate(redirect.children) if child.type in _SIGNS), None)
        if sign is None:
            return []
        inside = [
            child for child in redirect.children[sign + 1 :]
            if child.type in ATOMS or child.type in {"heredoc_start", "ERROR"}
        ]  # fmt: skip
        if not inside:
            return []
        line = source.text.find("\n", redirect.start_byte) if redirect.type == "heredoc_redirect" else redirect.end_byte
        end = min(
            [
                line if line >= 0 else redirect.end_byte,
                *(
                    child.start_byte
                    for child in redirect.children[sign + 1 :]
                    if child not in inside and child.start_byte > inside[0].start_byte
                ),
            ]
        )
        flat = [atom for child in inside for atom in (child.children if child.type == "ERROR" else [child])]
        written = list(pieces(source, flat, redirect.children[sign].end_byte, max(end, inside[0].end_byte)))
        return [word for begin, stop, nodes in written[1:] for word in self.expander.arguments(source, nodes, begin, stop)]

    def _note(self, words: tuple[Word, ...], found: Sequence[tuple[str, Word]], pipe: str = "") -> None:
        self.notice_end()
        if self.texts and self.texts[-1]:
            return  # a file that was taken in is read on its own
        self.commands.append(Command(words, tuple(found), pipe, self.certain and not self.unsure))

    def builtin(self, words: Sequence[Word], found: Sequence[tuple[str, Word]]) -> bool | None:
        """What a command of the shell itself does to the state; the status of others is not known."""
        head = words[0].text if words[0].known else ""
        if head in {"command", "builtin", "time"} and len(words) > 1 and words[1].text != "-v":
            function = self.state.functions.get(words[1].text) if head == "time" else None
            return self.call(function, words[2:]) if function else self.builtin(words[1:], found)
        handler = self._BUILTINS.get(head)
        if handler is not None:
            return handler(self, words)
        return _STATUS.get(head)

    def _leave(self, words: Sequence[Word]) -> bool | None:
        kind = words[0].text
        count = 1
        if kind in {"break", "continue"}:
            if not self.loops:
                return True
            if len(words) > 1:
                if words[1].text not in set("12345") or not words[1].known:
                    raise _UndecidedError("loop") if not all(self.loops) else _LeftError(kind, 1)
                count = "012345".index(words[1].text)
        raise _LeftError(kind, count)

    def _execute(self, words: Sequence[Word]) -> bool | None:
        if len(words) > 1:
            raise _LeftError("exit")
        return None

    def _set_options(self, words: Sequence[Word]) -> bool | None:
        options, at = set(self.state.options), 1
        if any(word.is_loose for word in words):
            self.state.arguments, self.expander.were_shifted = None, True
            return None
        while at < len(words) and words[at].text[:1] in {"-", "+"} and words[at].text not in {"-", "--"}:
            letters = words[at].text
            named = {_LETTERS[letter] for letter in letters[1:] if letter in _LETTERS}
            if letters.endswith("o") and at + 1 < len(words):
                at += 1
                named |= {{"noglob": "globs"}.get(words[at].text, words[at].text)}
            options = options | named if letters[0] == "-" else options - named
            at += 1
        self.state.options = frozenset(options)
        if at < len(words):
            rest = words[at + 1 :] if words[at].text in {"-", "--"} else words[at:]
            if rest or words[at].text == "--":
                self.state.arguments, self.expander.were_shifted = tuple(rest), True
        return True

    def _shift(self, words: Sequence[Word]) -> bool | None:
        arguments, self.expander.were_shifted = self.state.arguments, True
        if arguments is None:
            return None
        text = words[1].text if len(words) > 1 else "1"
        if len(text) > 3 or not text.isdecimal() or not all(word.known for word in words):  # noqa: PLR2004 - no script has more
            self.state.arguments = None
            return None
        count = len(range(self.expander.number(text)))
        if count > len(arguments):
            return False
        self.state.arguments = arguments[count:]
        return True

    def _read_input(self, words: Sequence[Word]) -> bool | None:
        if any(not word.known for word in words[1:]):
            self.state.forget_all()
        self.state.forget(word.text for word in words[1:] if _NAME.fullmatch(word.text))
        return None

    def _print_into(self, words: Sequence[Word]) -> bool | None:
        if len(words) > 2 and words[1].text == "-v":  # noqa: PLR2004 - printf -v NAME
            self.state.forget([words[2].text.partition("[")[0]])
        return True if all(word.known for word in words) else None

    def _let(self, words: Sequence[Word]) -> bool | None:
        status: bool | None = None
        for word in words[1:]:
            status = None
            with suppress(UnknownNumberError):
                if word.known:
                    status = self.expander.calculate(word.text) != 0
                else:
                    self.state.forget(assigned_names(word.text))
        return status

    def _eval(self, words: Sequence[Word]) -> bool | None:
        if len(words) == 2 and _SETS_UP_ITSELF.fullmatch(words[1].text):  # noqa: PLR2004 - eval TEXT
            return None
        if not all(word.known for word in words):
            self.state.forget_all()
            self.certain = False
            return None
        blank = elsewhere(" ", words[0].span)
        parts = [part for word in words[1:] for part in (blank, word)][1:]
        return self.text(glued(parts, words[0].span), words[0].span)

    def take_in(self, words: Sequence[Word]) -> bool | None:
        """``source FILE``: what the file sets counts from here on."""
        file = next((text for text in reversed(self.texts) if text), self.file)
        path = sourced_path(file, self.commands, Command(tuple(words))) if len(words) > 1 else None
        if path is None or path in self.texts:
            return None
        if os.path.basename(path) == "parse_options.sh" and len(words) == 2:  # noqa: PLR2004 - . tools/parse_options.sh
            return self._take_options()
        try:
            text = text_of(path)
        except CommandError:
            return None
        if len(text) > LARGEST_SCRIPT:
            return None
        arguments = self.state.arguments
        if len(words) > 2:  # noqa: PLR2004 - source FILE ARGUMENT
            self.state.arguments = None if any(word.is_loose for word in words) else tuple(words[2:])
        try:
            self.text(elsewhere(text, words[0].span), words[0].span, path)
        except _LeftError as left:
            if left.kind != "return":
                raise
        if len(words) > 2:  # noqa: PLR2004
            self.state.arguments = arguments
        return None

    def _take_options(self) -> bool | None:
        """Kaldi's ``parse_options.sh``: ``--train-config x`` sets the variable ``train_config``, until a word that is no option."""
        arguments = self.state.arguments
        while arguments and arguments[0].known and arguments[0].text.startswith("--") and len(arguments) > 1:
            name = arguments[0].text[2:].replace("-", "_")
            if not _NAME.fullmatch(name) or arguments[0].is_loose or arguments[1].is_loose:
                arguments = None
                break
            self.state.variables[name] = Variable({0: arguments[1]})
            arguments = arguments[2:]
        if arguments is None or any(not word.known for word in arguments[:1]):
            self.state.forget_all()
            self.certain = False
            return None
        self.state.arguments, self.expander.were_shifted = arguments, True
        return True

    def _trap(self, words: Sequence[Word]) -> bool | None:
        if len(words) > 2 and {"EXIT", "0"} & {word.text for word in words[2:]}:  # noqa: PLR2004 - trap CODE SIGNAL
            self.at_exit = words[1]
        return True

    def _shopt(self, words: Sequence[Word]) -> bool | None:
        if any(word.text == "-s" for word in words):
            self.state.options |= {"globs"}
        return None

    def _test_words(self, words: Sequence[Word]) -> bool | None:
        return check_words(words[1:])

    _HANDLERS: ClassVar[dict[str, Callable[[Evaluator, Source, Node], bool | None]]] = {
        "command": _command, "list": _list, "pipeline": _pipeline, "if_statement": _if,
        "case_statement": _case, "for_statement": _for, "c_style_for_statement": _c_style_for,
        "while_statement": _while, "function_definition": _function, "subshell": _subshell,
        "compound_statement": _group, "redirected_statement": _redirected, "negated_command": _negated,
        "test_command": _test, "variable_assignment": _assignments, "variable_assignments": _assignments,
        "declaration_command": _declaration, "unset_command": _unset,
    }  # fmt: skip
    _BUILTINS: ClassVar[dict[str, Callable[[Evaluator, Sequence[Word]], bool | None]]] = {
        "exit": _leave, "return": _leave, "break": _leave, "continue": _leave,
        "exec": _execute, "set": _set_options, "shift": _shift, "read": _read_input,
        "mapfile": _read_input, "readarray": _read_input, "getopts": _read_input, "printf": _print_into,
        "let": _let, "eval": _eval, "source": take_in, ".": take_in, "trap": _trap,
        "shopt": _shopt, "test": _test_words,
    }  # fmt: skip


def _may_fail(source: Source, redirect: Node) -> bool:
    """A file may not be there, or its folder; then the command is not run."""
    text = source.text[redirect.start_byte : redirect.end_byte]
    return redirect.type == "file_redirect" and not re.search(
        r"[<>]&\s*[\d-]+|/dev/(?:null|stdout|stderr|fd/\d)|<\(|>\(", text
    )


def _clause(children: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The condition and the body of ``if`` or ``elif``."""
    then = next((at for at, child in enumerate(children) if child.type == "then"), len(children))
    body = [child for child in children[then + 1 :] if child.type not in {"elif_clause", "else_clause", "fi"}]
    return [child for child in children[1:then] if child.type != ";"], body


def _before(children: Sequence[Node], kind: str) -> list[Node]:
    end = next((at for at, child in enumerate(children) if child.type == kind), len(children))
    return list(children[:end])


def _atoms(node: Node) -> list[Node]:
    """The words of a condition, out of its expressions."""
    found: list[Node] = []
    stack = [node]
    while stack:
        node = stack.pop()
        if node.type in ATOMS or not node.child_count:
            found.append(node)
        else:
            stack.extend(reversed(node.children))
    return found


def _apart(source: Source, atoms: list[Node], start: int, end: int) -> Iterable[tuple[int, int, list[Node]]]:
    """The words of ``[[``, where parentheses stand for themselves without blanks."""
    group: list[Node] = []
    for atom in atoms:
        if atom.type in {"(", ")", "&&", "||"}:
            yield from pieces(source, group, start, atom.start_byte)
            yield atom.start_byte, atom.end_byte, [atom]
            start, group = atom.end_byte, []
        else:
            group.append(atom)
    yield from pieces(source, group, start, end)


def _runs_something(node: Node) -> bool:
    """Whether an assignment takes its status from a command."""
    stack = [node]
    while stack:
        node = stack.pop()
        if node.type == "command_substitution":
            return True
        stack.extend(node.children)
    return False


def _plain(text: str) -> str:
    return " ".join(text.split())


def _name_in(match: re.Match[str] | None) -> str:
    return next((name for name in match.groups() if name), "") if match else ""


_SIGNS = {">", ">>", "<", "<<", "<<-", ">&", "<&", "&>", "&>>", ">|", "<>", ">&-", "<&-"}
