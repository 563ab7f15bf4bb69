"""Waits in an object of the program that also gets its metrics: a tracker of its own, whatever it is called.

self.hub.row(step=step, loss=loss.item())         in the loop
self.hub.figure("curve", drawn)                   where the run stands still, in recv()
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.pattern import Pattern
from crashcart.readers.code.source import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crashcart.flight import Flight, Frame
    from crashcart.model import Fact
    from crashcart.places import Spot
    from crashcart.readers.code.source import Source

__all__ = ["METRICS_WAIT", "SENDS_METRICS", "sends_metrics", "waits_in_tracker"]

METRICS_WAIT, SENDS_METRICS = "code.waits_in_tracker", "code.sends_metrics"
_METRIC = Pattern(r"(?i)(?:^|[_/.])(?:loss|acc|accuracy|lr|reward|return|score|mse|nll|ppl)(?:$|[_/.])")
_NO_RECEIVERS = frozenset(
    {"self", "cls", "logging", "log", "print", "pbar", "bar", "progress", "tqdm", "json", "file", "dict", "writer"}
)


def waits_in_tracker(flight: Flight, sources: Iterable[Source]) -> list[Fact]:
    """The calls, on the stack on which a run stands still, of an object that elsewhere gets a metric."""
    sources = list(sources)
    receivers = {name for source in sources for name in _receivers(source)}
    found: list[Fact] = []
    for frame in _frames(flight):
        for source in sources:
            if frame.file.endswith(f"/{source.path.removeprefix('./')}"):
                found += _calls_at(source, frame.line, receivers)
    return found[:1]


def sends_metrics(spots: Iterable[Spot], sources: Iterable[Source]) -> list[Fact]:
    """The innermost call on the stack of an exception that gets a metric, by a function or a method of any name."""
    sources = list(sources)
    found: list[Fact] = []
    for spot in spots:
        for source in sources:
            if spot.file.endswith(f"/{source.path.removeprefix('./')}"):
                calls = (
                    call for call in source.nodes(ast.Call) if call.lineno <= spot.line <= (call.end_lineno or spot.line)
                )
                found += [
                    source.fact(SENDS_METRICS, name_of(call.func), call)
                    for call in calls
                    if any(_METRIC.search(word) for word in _words(call))
                    and name_of(call.func).rpartition(".")[2] not in _NO_RECEIVERS
                ]
    return found[-1:]


def _frames(flight: Flight) -> Iterator[Frame]:
    ranks = {process.pid for process in flight.ranks}
    for dump in flight.stacks[-1:]:
        yield from (frame for stood in dump.stood if stood.pid in ranks for frame in stood.frames)


def _receivers(source: Source) -> Iterator[str]:
    """The names of what gets a metric by a method: by keyword, or in a dictionary."""
    for call in source.nodes(ast.Call):
        name = _receiver(call)
        if name and any(_METRIC.search(word) for word in _words(call)):
            yield name


def _receiver(call: ast.Call) -> str:
    """The last name before the method; of a class or a library it is none."""
    if not isinstance(call.func, ast.Attribute):
        return ""
    owner = call.func.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return "" if name in _NO_RECEIVERS or name[:1].isupper() else name


def _words(call: ast.Call) -> Iterator[str]:
    yield from (keyword.arg for keyword in call.keywords if keyword.arg)
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(argument, ast.Dict):
            yield from (key.value for key in argument.keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


def _calls_at(source: Source, line: int, receivers: set[str]) -> Iterator[Fact]:
    for call in source.nodes(ast.Call):
        if call.lineno <= line <= (call.end_lineno or line) and _receiver(call) in receivers:
            yield source.fact(METRICS_WAIT, _receiver(call), call)
