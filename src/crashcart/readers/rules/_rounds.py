"""The rounds of a training loop, and the ways through one of them.

A way is what happens in one round when every open test went one way: the calls and writes that matter, in order, whichever methods,
callbacks or helper classes they stand in. A test that is written the same way twice goes the same way twice.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.interpreter.libraries import Libraries
from crashcart.readers.interpreter.trace import Call, Event, Leave, Region
from crashcart.readers.interpreter.values import Unknown
from crashcart.record import record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.values import Value

__all__ = ["Way", "loop_call", "pairs", "same_loop", "training_rounds", "ways_through"]

_MOST_WAYS = 96
_SKIPPED = frozenset({"handler", "thread", "worker"})


@record(frozen=True)
class Way:
    """One way through a round: what happens, which tests went which way, and how it ends (``continue``, ``break``, ``raise``)."""

    events: tuple[Event, ...] = ()
    tests: tuple[tuple[str, bool], ...] = ()
    periods: tuple[tuple[str, bool, Value], ...] = ()
    end: str = ""

    def goes_on(self) -> bool:
        """Whether another round can follow."""
        return self.end in {"", "continue"}

    def agrees_with(self, other: Way) -> bool:
        """Whether both can be rounds of one job: no test that stays the same went two ways."""
        known = dict(self.tests)
        return all(known.get(test, sense) == sense for test, sense in other.tests)


def training_rounds(execution: Execution) -> list[Region]:
    """The innermost loops that hold both an optimizer's step and a backward pass, or a pass alone where a library steps; each once."""
    found: dict[int, Region] = {}
    for step in execution.steps:
        for loop in step.region.loops():
            if any(loop.holds(call.region) for call in execution.backwards):
                found.setdefault(id(loop), loop)
                break
    for call in execution.backwards:
        if not any(loop.holds(call.region) for loop in found.values()):
            found.update({id(loop): loop for loop in call.region.loops()[:1]})
    return list(found.values())


def same_loop(execution: Execution, loop: Region) -> Region | None:
    """The loop at the same place of the code, in the program followed once more."""
    for call in execution.trace.calls:
        for region in call.region.loops():
            if region.node is loop.node:
                return region
    return None


def loop_call(event: Event, loop: Region) -> Call | None:
    """The call in the loop's own function through which an event is reached; None where the event stands there itself."""
    found: Call | None = None
    for region in event.region.above():
        if region is loop:
            break
        if region.kind in {"call", "maybe"} and region.call is not None:
            found = region.call
    return found


def ways_through(loop: Region, is_wanted: Callable[[Event], bool]) -> list[Way]:
    """Every way through one round of a loop, with the events that are wanted."""
    return _Walk(is_wanted).block(loop.children, [Way()])


class _Walk:
    def __init__(self, is_wanted: Callable[[Event], bool]) -> None:
        self.is_wanted = is_wanted
        self.known_effects: dict[int, frozenset[str]] = {}

    def block(self, children: Sequence[Region | Event], ways: list[Way]) -> list[Way]:
        """Follow what happens one after the other."""
        left: list[Way] = []
        number = 0
        while number < len(children) and ways:
            child = children[number]
            number += 1
            if isinstance(child, Region) and child.kind in {"branch", "rank"}:
                arms = [child]
                while number < len(children) and _is_arm_of(children[number], child):
                    arms.append(children[number])  # type: ignore[arg-type]
                    number += 1
                ways = self.branch(arms, ways)
            elif isinstance(child, Region):
                ways = self.region(child, ways)
            else:
                ways = self.event(child, ways)
            left += [way for way in ways if way.end]
            ways = [way for way in ways if not way.end]
        return _bounded([*left, *ways])

    def event(self, event: Event, ways: list[Way]) -> list[Way]:
        if isinstance(event, Leave):
            return [replace(way, end=event.kind) for way in ways]
        if self.is_wanted(event):
            ways = [replace(way, events=(*way.events, event)) for way in ways]
        if isinstance(event, Call):
            if event.name in Libraries.ENDS:
                return [replace(way, end="raise") for way in ways]
            if event.body is not None and self.has_something(event.body):
                return [_back(way, "return") for way in self.block(event.body.children, ways)]
        return ways

    def region(self, region: Region, ways: list[Way]) -> list[Way]:
        if region.kind in _SKIPPED or not self.has_something(region):
            return ways
        if region.kind == "maybe":
            return _bounded([*ways, *self.block(region.children, ways)])
        inner = self.block(region.children, ways)
        return [_back(way, "continue", "break") for way in inner] if region.kind == "loop" else inner

    def branch(self, regions: list[Region], ways: list[Way]) -> list[Way]:
        """The arms of a branch, and the rest of the function where only one of them leads to it."""
        arms, rest = regions[:2], regions[2:]
        if all(region.sense for region in regions) and not any(region.side for region in regions):
            arms, rest = regions, []  # one of several callables
        if not any(self.effects(region) - {"raise"} for region in regions):
            return ways
        text, flips = _test_of(regions[0])
        found: list[Way] = []
        for arm in arms:
            sense = arm.side == "first" if arm.kind == "rank" else arm.sense is not flips
            for way in ways:
                known = dict(way.tests).get(text)
                if known is not None and known is not sense and len(arms) == 2:  # noqa: PLR2004 - yes and no
                    continue
                taken = self.block(arm.children, [_decided(way, arm, text, sense=sense)])
                if not arm.completes:
                    taken = [replace(each, end=each.end or "raise") for each in taken]
                for region in rest:
                    if region.sense is arm.sense and region.side == arm.side:
                        going = self.block(region.children, [each for each in taken if not each.end])
                        taken = [*(each for each in taken if each.end), *going]
                found += taken
        return _bounded([way for way in found if way.end != "raise"] or found)

    def has_something(self, region: Region) -> bool:
        """Whether anything in a region is wanted, or leads out of it."""
        return bool(self.effects(region))

    def effects(self, region: Region) -> frozenset[str]:
        """``wanted`` where something is, and how ways lead out of a region."""
        known = self.known_effects.get(id(region))
        if known is None:
            found: set[str] = set()
            for child in region.children:
                if isinstance(child, Region):
                    found |= self.effects(child) if child.kind not in _SKIPPED else set()
                elif isinstance(child, Leave):
                    found.add(child.kind)
                else:
                    found |= {"wanted"} if self.is_wanted(child) else set()
                    if isinstance(child, Call):
                        found |= {"raise"} if child.name in Libraries.ENDS else set()
                        found |= self.effects(child.body) - {"return"} if child.body is not None else set()
            known = self.known_effects[id(region)] = frozenset(
                found - {"continue", "break"} if region.kind == "loop" else found
            )
        return known


def _decided(way: Way, arm: Region, text: str, *, sense: bool) -> Way:
    test = arm.test
    if isinstance(test, Unknown) and test.modulus is not None:
        return replace(way, periods=(*way.periods, (text, arm.sense, test.modulus)))
    return replace(way, tests=(*way.tests, (text, sense))) if text else way


def _back(way: Way, *ends: str) -> Way:
    """Behind what a ``return`` or ``break`` led out of."""
    return replace(way, end="") if way.end in ends else way


def _is_arm_of(child: Region | Event, first: Region) -> bool:
    return isinstance(child, Region) and child.kind == first.kind and child.node is first.node


def _test_of(region: Region) -> tuple[str, bool]:
    """How a test is written, without a negation, and whether there was one."""
    if region.kind == "rank":
        return "(rank)", False
    test = getattr(region.node, "test", None)
    if not isinstance(test, ast.expr):
        return "", False
    flips = False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, flips = test.operand, not flips
    text = ast.unparse(test)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.IsNot, ast.NotEq)):
        positive = ast.Compare(test.left, [ast.Is() if isinstance(test.ops[0], ast.IsNot) else ast.Eq()], test.comparators)
        return ast.unparse(positive), not flips
    return text, flips


def _bounded(ways: list[Way]) -> list[Way]:
    """Each way once, and not too many."""
    found: dict[tuple[object, ...], Way] = {}
    for way in ways:
        key = (tuple(map(id, way.events)), way.tests, tuple((text, sense) for text, sense, _ in way.periods), way.end)
        found.setdefault(key, way)
    return list(found.values())[:_MOST_WAYS]


def pairs(ways: Sequence[Way]) -> Iterator[tuple[Way, Way]]:
    """Two rounds, one after the other."""
    for first in ways:
        if first.goes_on():
            yield from ((first, second) for second in ways if first.agrees_with(second))
