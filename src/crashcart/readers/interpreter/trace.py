"""What a program does, in order, when it is run in thought: calls and writes, each in the region where it happens.

A region is a piece of the way through the program: a call of a function, an arm of a branch, the body of a loop, a handler, the
body of a ``with``, the code of a loader's worker. Regions nest through calls, so that an event knows everything around it: on which
ranks it happens, in which loops, under which tests, inside which ``no_grad``. Rules ask events and regions and never see syntax.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from crashcart.readers.interpreter.values import Constant, Unknown, Value

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from crashcart.model import Evidence, Fact, Span
    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.values import Function

__all__ = ["Call", "Decision", "Division", "Event", "Failure", "Leave", "Region", "Slice", "Trace", "Write"]


class Region:
    """A piece of the way through the program.

    ``kind``: module, call, branch (its test is not known), rank (its test differs between ranks), loop, feed (a loop getting its
    next item), try, handler, with, worker, thread, maybe (reached by a call that could not be resolved), option (what is done with one of
    several values).
    ``side`` is ``first`` or ``others`` where only rank 0, or only the others, come.
    """

    __slots__ = (
        "call", "certain", "children", "completes", "iterable", "kind", "node", "number", "parent", "sense", "side", "source", "test", "value",
        "which_ranks", "worker",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        parent: Region | None,
        source: Source,
        node: ast.AST | None = None,
        *,
        attach: bool = True,
        **more: Any,  # noqa: ANN401 - what belongs to one kind of region
    ) -> None:
        self.kind, self.parent, self.source, self.node = kind, parent, source, node
        self.children: list[Region | Event] = []
        self.call: Call | None = more.get("call")
        self.test: Value | None = more.get("test")
        self.sense: bool = more.get("sense", True)
        self.side: str = more.get("side", "")
        self.value: Value | None = more.get("value")
        self.iterable: Value | None = more.get("iterable")
        self.number = 0  # when it began, in the order of the trace
        self.completes = True
        self.worker: Value | None = self.value if kind == "worker" else parent.worker if parent is not None else None
        self.which_ranks: str = self.side or (parent.which_ranks if parent is not None else "")
        self.certain: bool = kind not in _UNCERTAIN and (parent is None or parent.certain)
        if parent is not None and attach:
            parent.children.append(self)

    def above(self) -> Iterator[Region]:
        """This region and those around it, from the nearest."""
        region: Region | None = self
        while region is not None:
            yield region
            region = region.parent

    def ranks(self) -> str:
        """``first`` or ``others`` where only they come, else empty."""
        return self.which_ranks

    def loops(self) -> list[Region]:
        """The loops around, from the nearest."""
        return [region for region in self.above() if region.kind == "loop"]

    def is_certain(self) -> bool:
        """Whether the program comes here whatever is unknown: no open branch, no handler, no call that was guessed."""
        return self.certain

    def events(self) -> Iterator[Event]:
        """Everything that happens in here, in order."""
        waiting: list[Region | Event] = [self]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Region):
                waiting.extend(reversed(item.children))
            else:
                yield item
                if isinstance(item, Call) and item.body is not None:
                    waiting.append(item.body)

    def regions(self) -> Iterator[Region]:
        """This region and all in it, also those in which nothing happens."""
        waiting = [self]
        while waiting:
            region = waiting.pop()
            yield region
            bodies = (child.body if isinstance(child, Call) else child for child in region.children)
            waiting += [body for body in bodies if isinstance(body, Region)]

    def holds(self, other: Region) -> bool:
        """Whether another region lies in this one."""
        return any(region is self for region in other.above())

    def __repr__(self) -> str:
        return f"Region({self.kind} {self.source.path}:{getattr(self.node, 'lineno', 0)})"


_UNCERTAIN = frozenset({"branch", "handler", "maybe", "option"})


class Event:
    """Something that happens at a place of the code."""

    __slots__ = ("node", "number", "region", "source")

    def __init__(self, region: Region, source: Source, node: ast.AST, number: int) -> None:
        self.region, self.source, self.node, self.number = region, source, node, number
        region.children.append(self)

    @property
    def evidence(self) -> Evidence:
        """The line, to be looked up again."""
        return self.source.evidence(self.node)  # type: ignore[arg-type]

    @property
    def span(self) -> Span:
        """Where it stands."""
        return self.source.span(self.node)  # type: ignore[arg-type]

    @property
    def line(self) -> int:
        """The number of its line."""
        line: int = getattr(self.node, "lineno", 1)
        return line

    def fact(self, name: str, value: Any) -> Fact:  # noqa: ANN401 - data of any kind
        """A fact of the code, at this place."""
        return self.source.fact(name, value, self.node)  # type: ignore[arg-type]

    def calls_above(self) -> Iterator[Call]:
        """The calls of the program's own functions through which it came here, the nearest first."""
        for region in self.region.above():
            if region.kind in {"call", "maybe"} and region.call is not None:
                yield region.call


class Call(Event):
    """A call: of the library by its full name, or of a function of the program (``function``, with the region of its ``body``)."""

    __slots__ = ("arguments", "body", "complete", "function", "keywords", "name", "receiver", "result")

    def __init__(  # noqa: PLR0913 - what a call is
        self,
        region: Region,
        source: Source,
        node: ast.AST,
        number: int,
        name: str,
        arguments: list[Value],
        keywords: dict[str, Value],
        *,
        receiver: Value | None = None,
        complete: bool = True,
    ) -> None:
        super().__init__(region, source, node, number)
        self.name, self.arguments, self.keywords, self.receiver = name, arguments, keywords, receiver
        self.complete = complete  # no ``*args`` or ``**kwargs`` with unknown content
        self.function: Function | None = None
        self.body: Region | None = None
        self.result: Value = Unknown()

    @property
    def method(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    def argument(self, position: int | None, name: str = "", default: Value | None = None) -> Value | None:
        """An argument by its keyword or its position; the default where it is not given, None where it may be."""
        if name and name in self.keywords:
            return self.keywords[name]
        if position is not None and position < len(self.arguments):
            return self.arguments[position]
        return default if self.complete else None

    def __repr__(self) -> str:
        return f"Call({self.name} {self.source.path}:{self.line})"


class Write(Event):
    """An attribute, an item or a name that gets a value it did not have: what it belongs to, its name, the value before and after."""

    __slots__ = ("before", "name", "owner", "value")

    def __init__(  # noqa: PLR0913 - what a write is
        self, region: Region, source: Source, node: ast.AST, number: int, owner: Value | None, name: object, value: Value, before: Value | None
    ) -> None:  # fmt: skip
        super().__init__(region, source, node, number)
        self.owner, self.name, self.value, self.before = owner, name, value, before


class Leave(Event):
    """``return``, ``continue``, ``break`` or ``raise``: the way goes on elsewhere."""

    __slots__ = ("kind", "value")

    def __init__(self, region: Region, source: Source, node: ast.AST, number: int, kind: str, value: Value | None) -> None:
        super().__init__(region, source, node, number)
        self.kind, self.value = kind, value


class Failure(Event):
    """An error that Python will raise here, with these values: what it says, and the settings behind it."""

    __slots__ = ("choices", "error", "place", "says", "values")

    def __init__(  # noqa: PLR0913 - what a failure is
        self, region: Region, source: Source, node: ast.AST, number: int, error: str, says: str, values: tuple[Value, ...]
    ) -> None:  # fmt: skip
        super().__init__(region, source, node, number)
        self.error, self.says, self.values = error, says, values
        self.place: ast.expr | None = None  # the argument that fails, where it is written
        self.choices: tuple[Any, ...] = ()  # the values that are accepted, where they are few and known


class Decision(Event):
    """A setting decides, as it is, about the way: ``if cfg.resume``, or ``cfg.mode == "on"`` (``word`` is then the text)."""

    __slots__ = ("setting", "word")

    def __init__(
        self, region: Region, source: Source, node: ast.AST, number: int, setting: Constant, word: str | None
    ) -> None:
        super().__init__(region, source, node, number)
        self.setting, self.word = setting, word


class Division(Event):
    """How many samples ``counted`` holds, divided into ``parts`` without a rest."""

    __slots__ = ("counted", "parts", "result")

    def __init__(  # noqa: PLR0913 - what a division is
        self, region: Region, source: Source, node: ast.AST, number: int, counted: Value, parts: Value, result: Value
    ) -> None:
        super().__init__(region, source, node, number)
        self.counted, self.parts, self.result = counted, parts, result


class Slice(Event):
    """``owner[start:stop]`` of something that holds samples."""

    __slots__ = ("owner", "start", "stop")

    def __init__(  # noqa: PLR0913 - what a slice is
        self, region: Region, source: Source, node: ast.AST, number: int, owner: Value, start: Value, stop: Value
    ) -> None:
        super().__init__(region, source, node, number)
        self.owner, self.start, self.stop = owner, start, stop


class Trace:
    """All that a program does, from its entry on."""

    def __init__(self, root: Region) -> None:
        self.root = root
        self.calls: list[Call] = []
        self.writes: list[Write] = []
        self.leaves: list[Leave] = []
        self.failures: list[Failure] = []
        self.decisions: list[Decision] = []
        self.divisions: list[Division] = []
        self.slices: list[Slice] = []
        self.by_name: dict[str, list[Call]] = {}
        self.by_method: dict[str, list[Call]] = {}
        self.number = 0

    def add(self, call: Call) -> None:
        """Keep a call under its names."""
        self.calls.append(call)
        self.by_name.setdefault(call.name, []).append(call)
        self.by_method.setdefault(call.method, []).append(call)

    def named(self, *names: str) -> list[Call]:
        """The calls with one of these full names, in order."""
        found = [call for name in names for call in self.by_name.get(name, ())]
        return sorted(found, key=lambda call: call.number) if len(names) > 1 else found

    def methods(self, *names: str) -> list[Call]:
        """The calls whose name ends with one of these."""
        found = [call for name in names for call in self.by_method.get(name, ())]
        return sorted(found, key=lambda call: call.number) if len(names) > 1 else found

    def texts(self) -> Iterator[tuple[str, str]]:
        """The texts that the program works with and that come of settings, each with the name of such a setting."""
        given = (value for call in self.calls for value in (*call.arguments, *call.keywords.values()))
        failed = (value for failure in self.failures for value in failure.values)
        for value in chain(given, failed, (decision.setting for decision in self.decisions)):
            if isinstance(value, Constant) and value.origins and isinstance(value.value, str):
                for fact in value.origins:
                    yield fact.spelling or fact.name, value.value
