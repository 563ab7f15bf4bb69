"""Proves from a regular expression alone that a search with it takes time proportional to the text, whatever the text.

A backtracking matcher walks every path of the expression's automaton that reads a piece of the text. So its time is proportional
to the text where the number of paths that are alive at one place has a bound. Paths multiply in two ways (Weber and Seidl 1991, "On
the degree of ambiguity of finite automata"): two different cycles at one state read the same word, and the number doubles with each
round; or one word leads from a cycle back to it, from there to a later cycle, and from that back to it, and each round adds a path.
The search itself is a cycle too: it tries every place of the text.

To find what multiplies what, a repeat with an upper bound is taken for an endless one; then the bounds tell by how much. ``paths`` is
the product of the bounds along the worst chain of cycles. Lookaheads are taken as passed, and walked as a branch of their own; a
reference to a group is a copy of the group. A repeat at the very end of an expression cannot fail and is left out.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    from re import _compiler as sre_compile
    from re import _constants as sre_constants
    from re import _parser as sre_parse
else:
    import sre_compile
    import sre_constants
    import sre_parse

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["paths"]

_WRITTEN_OUT = 4  # repeats up to here become copies; above, a cycle
_MOST_TRAILS = 400
_SINGLE = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY"})
# Beyond ASCII: blanks, digits, letters with and without case, marks.
_OTHERS = "\x85\xa0\u00b2\u00df\u00e9\u0130\u0131\u017f\u0663\u2003\u2026\u212a\u2588\u4e2d\ufeff"


def paths(pattern: str | bytes, flags: int = 0, *, anchored: bool = False, whole: bool = False) -> tuple[float, str]:
    """How many paths can be alive at one place of a text, and the repeats that multiply; infinite where there is no bound.

    ``anchored`` is for ``match``, ``whole`` for ``fullmatch``; otherwise every place of the text is tried.
    """
    automaton = _Automaton(pattern, flags, anchored=anchored or whole, whole=whole)
    return automaton.worst()


class _Automaton:
    """States are numbers; an edge reads one character of a set, or nothing on a condition about its neighbours."""

    def __init__(self, pattern: str | bytes, flags: int, *, anchored: bool, whole: bool) -> None:
        parsed: Any = sre_parse.parse(pattern, flags)  # type: ignore[arg-type] # bytes too, whatever the stubs say
        self.flags = parsed.state.flags
        self.is_bytes = isinstance(pattern, bytes)
        text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
        beyond = [] if self.is_bytes else [*_OTHERS, *sorted({char for char in text if not char.isascii()})]
        self.alphabet = tuple(dict.fromkeys([*map(chr, range(128)), *beyond]))
        self.everything = frozenset(range(len(self.alphabet)))
        word = re.compile(r"\w", self.flags & re.ASCII)
        self.word = frozenset(index for index, char in enumerate(self.alphabet) if word.match(char))
        self.reads: list[list[tuple[frozenset[int], int]]] = []
        self.skips: list[list[tuple[tuple[str, frozenset[int]] | None, int]]] = []
        self.bounds: dict[int, float] = {}
        self.words: dict[int, str] = {}  # what a cycle stands for
        self.groups: dict[int, Any] = {}
        self.start = self._state()
        state = self._state()
        self._skip(self.start, state)
        if not anchored:
            self.reads[self.start].append((self.everything, self.start))
            self.bounds[self.start] = inf
            self.words[self.start] = "the search"
        items = list(parsed)
        self._sequence(items if whole else _without_tail(items), state)
        self.characters = self._representatives()
        self.kinds = self._kinds()
        self._steps: dict[tuple[int, int | None, int], list[int]] = {}
        self._edges: dict[int, set[int]] = {}
        self._back: dict[int, set[int]] = {}
        self._found: dict[tuple[int, int | None, frozenset[int]], dict[int, frozenset[int]]] = {}

    # The automaton.

    def _state(self) -> int:
        self.reads.append([])
        self.skips.append([])
        return len(self.reads) - 1

    def _skip(self, source: int, target: int, condition: tuple[str, frozenset[int]] | None = None) -> None:
        self.skips[source].append((condition, target))

    def _after(self, state: int) -> int:
        after = self._state()
        self._skip(state, after)
        return after

    def _sequence(self, items: Any, state: int) -> int:
        for kind, value in items:
            state = self._item(str(kind), value, (kind, value), state)
        return state

    def _item(self, kind: str, value: Any, item: Any, state: int) -> int:
        if kind in _SINGLE:
            after = self._state()
            self.reads[state].append((self._matching(item), after))
            return after
        if kind == "SUBPATTERN":
            self.groups[value[0]] = value[3]
            return self._sequence(value[3], state)
        if kind == "ATOMIC_GROUP":
            return self._sequence(value, state)
        if kind == "BRANCH":
            return self._branches(value[1], state)
        if kind == "GROUPREF_EXISTS":
            return self._branches([value[1], value[2] or ()], state)
        if kind == "GROUPREF":
            return self._sequence(self.groups[value], state)
        if kind.endswith("_REPEAT"):
            low, high, body = value
            return self._repeat(low, high, body, state)
        after = self._state()
        if kind == "AT":
            self._skip(state, after, (str(value), frozenset()))
            return after
        if kind in {"ASSERT", "ASSERT_NOT"}:
            direction, body = value
            self._skip(state, after, self._assertion(kind, direction, body, state))
            return after
        raise NotImplementedError(kind)

    def _branches(self, branches: Any, state: int) -> int:
        after = self._state()
        for branch in branches:
            self._skip(self._sequence(branch, self._after(state)), after)
        return after

    def _repeat(self, low: int, high: int, body: Any, state: int) -> int:
        if high != sre_constants.MAXREPEAT and high <= _WRITTEN_OUT:
            after = self._state()
            for count in range(high):
                if count >= low:
                    self._skip(state, after)
                state = self._sequence(body, self._after(state))
            self._skip(state, after)
            return after
        for _ in range(min(low, _WRITTEN_OUT)):
            state = self._sequence(body, state)
        begin = self._after(state)
        self._skip(self._sequence(body, begin), begin)
        bound = inf if high == sre_constants.MAXREPEAT else high
        for inner in range(begin, len(self.reads)):
            self.bounds[inner] = self.bounds.get(inner, 1) * bound
            self.words.setdefault(inner, f"{_told(body)}{{{low},{'' if bound == inf else high}}}")
        return self._after(begin)

    def _assertion(self, kind: str, direction: int, body: Any, state: int) -> tuple[str, frozenset[int]] | None:
        items = list(body)
        single = len(items) == 1 and str(items[0][0]) in _SINGLE
        if single:
            allowed = self._matching(items[0])
            allowed = allowed if kind == "ASSERT" else self.everything - allowed
            return ("behind" if direction < 0 else "ahead", allowed)
        if direction > 0:
            self._sequence(items, self._after(state))
        return None

    def _matching(self, item: Any) -> frozenset[int]:
        key = (repr(item), self.flags, self.alphabet, self.is_bytes)
        _ITEMS[key] = item
        return _matching(key)

    def _representatives(self) -> list[int]:
        """One character of each kind that the expression tells apart."""
        told = {allowed for edges in self.reads for allowed, _ in edges} | {self.word}
        told |= {condition[1] for edges in self.skips for condition, _ in edges if condition}
        told.add(frozenset({self.alphabet.index("\n")}))
        kinds: dict[tuple[bool, ...], int] = {}
        listed = list(told)
        for char in range(len(self.alphabet)):
            kinds.setdefault(tuple(char in allowed for allowed in listed), char)
        return sorted(kinds.values())

    def _kinds(self) -> dict[int, int]:
        """For each character one that no condition tells from it when it stands before."""
        conditions = [condition for edges in self.skips for condition, _ in edges if condition]
        told = {allowed for where, allowed in conditions if where == "behind"}
        told |= {self.word} if any("BOUNDARY" in where for where, _ in conditions) else set()
        told |= (
            {frozenset({self.alphabet.index("\n")})} if any(where == "AT_BEGINNING" for where, _ in conditions) else set()
        )
        listed = list(told)
        first: dict[tuple[bool, ...], int] = {}
        return {char: first.setdefault(tuple(char in allowed for allowed in listed), char) for char in self.characters}

    # Reading.

    def _passes(self, condition: tuple[str, frozenset[int]] | None, before: int | None, char: int) -> bool:
        """Whether a condition holds between two characters within a text; ``before`` is None where it may be any."""
        if condition is None:
            return True
        where, allowed = condition
        if where == "ahead":
            return char in allowed
        if where == "behind":
            return before is None or before in allowed
        if where == "AT_BEGINNING":
            return bool(self.flags & re.MULTILINE) and (before is None or before == self.alphabet.index("\n"))
        if where == "AT_END":
            return char == self.alphabet.index("\n")
        if where in {"AT_BEGINNING_STRING", "AT_END_STRING"}:
            return False
        return before is None or ((before in self.word) != (char in self.word)) == (where == "AT_BOUNDARY")

    def steps(self, state: int, before: int | None, char: int) -> list[int]:
        """Where reading a character leads: a state stands there as often as there are ways to it."""
        key = (state, before, char)
        if key not in self._steps:
            found: list[int] = []
            trails = 0
            todo: list[tuple[int, frozenset[tuple[int, int]]]] = [(state, frozenset())]
            while todo and trails < _MOST_TRAILS:
                trails += 1
                here, used = todo.pop()
                found += [target for allowed, target in self.reads[here] if char in allowed]
                for place, (condition, target) in enumerate(self.skips[here]):
                    if (here, place) not in used and self._passes(condition, before, char):
                        todo.append((target, used | {(here, place)}))
            self._steps[key] = found
        return self._steps[key]

    def edges(self, state: int) -> set[int]:
        """The states that any single character leads to."""
        if state not in self._edges:
            self._edges[state] = {target for char in self.characters for target in self.steps(state, None, char)}
        return self._edges[state]

    # What multiplies what.

    def worst(self) -> tuple[float, str]:
        """The most paths that can be alive at one place, and why."""
        components = self._components()
        cycles = [one for one in components if len(one) > 1 or next(iter(one)) in self.edges(next(iter(one)))]
        for cycle in cycles:
            if self._doubles(cycle):
                told = max((self.words.get(state, "") for state in cycle), key=len)
                bound = max(self.bounds.get(state, inf) for state in cycle)
                if bound > 2 * _WRITTEN_OUT:
                    return inf, f"{told} reads the same text in two ways"
        order = {id(cycle): index for index, cycle in enumerate(cycles)}  # components come in topological order
        best: dict[int, tuple[float, str]] = {}
        reached = {id(cycle): self._reach(cycle) for cycle in cycles}
        for later in cycles:
            best[id(later)] = (1, "")
            for earlier in cycles:
                if order[id(earlier)] >= order[id(later)] or not (reached[id(earlier)] & later):
                    continue
                count, told = best[id(earlier)]
                bound = min(self._bound(earlier), self._bound(later))
                length = self._growth(earlier, later, reached[id(earlier)], any_length=bound == inf)
                if length:
                    count *= max(1, bound / length)
                    told = f"{told or self._name(earlier)} × {self._name(later)}"
                best[id(later)] = max(best[id(later)], (count, told))
        return max(best.values(), default=(1, ""))

    def _bound(self, cycle: frozenset[int]) -> float:
        return max(self.bounds.get(state, inf) for state in cycle)

    def _name(self, cycle: frozenset[int]) -> str:
        return max((self.words.get(state, "?") for state in cycle), key=len)

    def _components(self) -> list[frozenset[int]]:
        """Strongly connected states, those that come first first (Tarjan)."""
        edges = [self.edges(state) for state in range(len(self.reads))]
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        stack: list[int] = []
        on_stack: set[int] = set()
        found: list[frozenset[int]] = []
        for root in range(len(self.reads)):
            if root in index:
                continue
            work = [(root, iter(sorted(edges[root])))]
            index[root] = low[root] = len(index)
            stack.append(root)
            on_stack.add(root)
            while work:
                state, targets = work[-1]
                for target in targets:
                    if target not in index:
                        index[target] = low[target] = len(index)
                        stack.append(target)
                        on_stack.add(target)
                        work.append((target, iter(sorted(edges[target]))))
                        break
                    if target in on_stack:
                        low[state] = min(low[state], index[target])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[state])
                    if low[state] == index[state]:
                        component = set()
                        while True:
                            member = stack.pop()
                            on_stack.discard(member)
                            component.add(member)
                            if member == state:
                                break
                        found.append(frozenset(component))
        return found[::-1]

    def _reach(self, cycle: frozenset[int]) -> set[int]:
        seen, todo = set(cycle), list(cycle)
        while todo:
            for target in self.edges(todo.pop()):
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
        return seen

    def _doubles(self, cycle: frozenset[int]) -> bool:
        """Whether two different ways around the cycle read the same word."""
        back: dict[tuple[int, int, int | None], set[tuple[int, int, int | None]]] = {}
        todo: list[tuple[int, int, int | None]] = [(state, state, None) for state in cycle]
        seen = set(todo)
        while todo:
            here = todo.pop()
            first, second, before = here
            if first == second and any(self._twice(first, before, char, cycle) for char in self.characters):
                return True
            others = self._within(second, before, cycle)
            for char, lefts in self._within(first, before, cycle).items():
                for there in ((left, right, self.kinds[char]) for left in lefts for right in others.get(char, ())):
                    back.setdefault(there, set()).add(here)
                    if there not in seen:
                        seen.add(there)
                        todo.append(there)
        # A pair that split must come together again, at the same state.
        joined = {pair for pair in seen if pair[0] == pair[1] and pair[2] is not None}
        todo = list(joined)
        meets = set(todo)
        while todo:
            for origin in back.get(todo.pop(), ()):
                if origin not in meets:
                    if origin[0] != origin[1]:
                        return True
                    meets.add(origin)
                    todo.append(origin)
        return False

    def _twice(self, state: int, before: int | None, char: int, cycle: frozenset[int]) -> bool:
        targets = [target for target in self.steps(state, before, char) if target in cycle]
        return len(targets) != len(set(targets))

    def _growth(self, earlier: frozenset[int], later: frozenset[int], reach: set[int], *, any_length: bool) -> int:
        """The length of the shortest word that leads around the earlier cycle, from it to the later one, and around that; or 0."""
        towards = frozenset(self._towards(later) & reach)
        shortest = 0
        for first, last in self._together(earlier, later):
            for final in set(self.kinds.values()):
                length = self._word(first, last, final, (earlier, towards, later))
                if length and (not shortest or length < shortest):
                    shortest = length
                if shortest == 1 or (shortest and any_length):
                    return shortest
        return shortest

    def _word(self, first: int, last: int, final: int, within: tuple[frozenset[int], frozenset[int], frozenset[int]]) -> int:
        """The same for two states, and words that end with ``final``, which so stands before the next round."""
        earlier, towards, later = within
        level = {(first, first, last, final)}
        seen = set(level)
        length = 0
        while level:
            length += 1
            level = {there for here in level for there in self._moves(here, earlier, towards, later)} - seen
            seen |= level
            if (first, last, last, final) in level:
                return length
        return 0

    def _moves(
        self, here: tuple[int, int, int, int], earlier: frozenset[int], towards: frozenset[int], later: frozenset[int]
    ) -> Iterator[tuple[int, int, int, int]]:
        stays, goes, waits, before = here
        begins, between = self._within(stays, before, earlier), self._within(goes, before, towards)
        for char, ends in self._within(waits, before, later).items():
            for one in begins.get(char, ()):
                for middle in between.get(char, ()):
                    for other in ends:
                        yield one, middle, other, self.kinds[char]

    def _within(self, state: int, before: int | None, states: frozenset[int]) -> dict[int, frozenset[int]]:
        """By character where reading it leads, as far as that is one of the states."""
        key = (state, before, states)
        if key not in self._found:
            found = {char: states.intersection(self.steps(state, before, char)) for char in self.characters}
            self._found[key] = {char: targets for char, targets in found.items() if targets}
        return self._found[key]

    def _together(self, earlier: frozenset[int], later: frozenset[int]) -> list[tuple[int, int]]:
        """Pairs of states, one of each cycle, that some word leads back to themselves, by what can be told of pairs alone."""
        pairs = {(one, other) for one in earlier for other in later}
        while True:
            kept = {
                (one, other) for one, other in pairs if any(step in pairs for step in self._both(one, other, earlier, later))
            }
            if kept == pairs:
                return sorted(pairs)
            pairs = kept

    def _both(self, one: int, other: int, earlier: frozenset[int], later: frozenset[int]) -> Iterator[tuple[int, int]]:
        ends = self._within(other, None, later)
        for char, begins in self._within(one, None, earlier).items():
            yield from ((left, right) for left in begins for right in ends.get(char, ()))

    def _towards(self, cycle: frozenset[int]) -> set[int]:
        """States from which the cycle can be reached."""
        if not self._back:
            for state in range(len(self.reads)):
                for target in self.edges(state):
                    self._back.setdefault(target, set()).add(state)
        seen, todo = set(cycle), list(cycle)
        while todo:
            for origin in self._back.get(todo.pop(), ()):
                if origin not in seen:
                    seen.add(origin)
                    todo.append(origin)
        return seen


def _without_tail(items: list[Any]) -> list[Any]:
    """The expression without the repeat at its very end, which takes what it gets and never makes the matcher go back."""
    if not items:
        return items
    *front, (kind, value) = items
    name = str(kind)
    if name.endswith("_REPEAT") and (value[1] == 1 or len(value[2]) == 1) and not _repeats(value[2]):
        low = min(value[0], _WRITTEN_OUT)
        return [*front, *list(value[2]) * low] if low else _without_tail(front)
    if name == "SUBPATTERN":
        return [*front, (kind, (*value[:3], _without_tail(list(value[3]))))]
    if name == "BRANCH":
        return [*front, (kind, (value[0], [_without_tail(list(branch)) for branch in value[1]]))]
    return items


def _repeats(body: Any) -> bool:
    return "_REPEAT" in repr(list(body)) or not all(str(kind) in {*_SINGLE, "SUBPATTERN", "BRANCH"} for kind, _ in body)


def _told(body: Any) -> str:
    return " ".join(f"{kind}:{value}" for kind, value in body)[:60]


_ITEMS: dict[tuple[Any, ...], Any] = {}


@cache
def _matching(key: tuple[Any, ...]) -> frozenset[int]:
    """Which characters of the alphabet one part of an expression reads: the regular expressions themselves are asked."""
    _, flags, alphabet, is_bytes = key
    state = sre_parse.State()
    state.flags = flags
    expression = sre_compile.compile(sre_parse.SubPattern(state, [_ITEMS[key]]), flags)
    return frozenset(
        index for index, char in enumerate(alphabet) if expression.match(char.encode("latin-1") if is_bytes else char)
    )
