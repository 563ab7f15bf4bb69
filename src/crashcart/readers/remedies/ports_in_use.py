"""A port that somebody else has, with its number in the job's own files: another number, or one for each rank.

    start_http_server(9100)                      on every rank of a machine: 9100 + the rank's number there
    init_method="tcp://127.0.0.1:29500"          a number that is free here now
    export MASTER_PORT=29500

torchrun on one machine finds a port by itself (``--standalone``); that is not for here.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Evidence, Span
from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.readers.code.edits import replaced
from crashcart.readers.machine.network import listening
from crashcart.readers.remedies._scene import lines_of_script, remedy, span_in, statement_at
from crashcart.readers.rules._lazy_handles import add_imports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Raise, Scene

_IN_USE = Pattern(r"(?i)address already in use|EADDRINUSE|errno[: ]{1,3}98\b")
_NAMED = Pattern(r"(?:port:? |:)(\d{4,5})\b")
_CAUSES = ("distributed/rendezvous", "tracker/failed", "code/bug", "distributed/network")
_LAUNCHERS = frozenset({"torchrun", "torch.distributed.run"})
_LEAST, _MOST = 1024, 65535


def look(scene: Scene) -> Iterator[Fact]:
    """The number where it is written, once."""
    for raised in scene.raises:
        if not _IN_USE.search(raised.words):
            continue
        own = list(_of_each_rank(scene, raised))
        if own:
            yield from own
            return
        kind = scene.plan.case.facts.get("launch.kind")
        match = _NAMED.search(raised.words)
        if match is not None and (kind is None or kind.value not in _LAUNCHERS):
            yield from _another(scene, match[1])
            return


def _of_each_rank(scene: Scene, raised: Raise) -> Iterator[Fact]:
    """A port that each rank of a machine opens: the number is an argument of the innermost own call."""
    spot = raised.frames[-1] if raised.frames else None
    source = scene.source(spot.file) if spot is not None else None
    statement = statement_at(source, spot.line) if source is not None and spot is not None else None
    if source is None or statement is None or scene.ranks == 1 or hasattr(statement, "body"):
        return
    ports = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and type(node.value) is int and _LEAST <= node.value <= _MOST
    ]
    if len(ports) == 1:
        text = f'{source.written(ports[0])} + int(os.environ.get("LOCAL_RANK", "0"))'
        edits = [replaced(source, ports[0], text), *add_imports(source, "os")]
        why = "each rank of a machine then has a port of its own; the first has the old number"
        yield from remedy(_CAUSES, "Give each rank its own port", "exact", why, edits, source.evidence(statement))


def _another(scene: Scene, port: str) -> Iterator[Fact]:
    places = list(_places(scene, port))
    if len(places) != 1:
        return
    span, seen = places[0]
    taken = listening()
    free = next((number for number in range(to_int(port, 0) + 1, _MOST) if number not in taken), None)
    if free is not None:
        why = "this port is free on this machine now; the training is the same"
        yield from remedy(_CAUSES, f"Use port {free} instead of {port}", "exact", why, [Edit(span, str(free))], seen)


def _places(scene: Scene, port: str) -> Iterator[tuple[Span, Evidence]]:
    """Where the number is written in a script or in the code."""
    for path in scene.scripts:
        for start, line, seen in lines_of_script(path):
            at = line.find(port)
            is_whole = (
                at >= 0 and not line[at - 1 : at].isalnum() and not line[at + len(port) : at + len(port) + 1].isalnum()
            )
            if is_whole and not line.lstrip().startswith("#"):
                yield span_in(seen, start + at, start + at + len(port)), seen
    for source in scene.sources:
        for node in source.nodes(ast.Constant):
            is_number = type(node.value) is int and str(node.value) == port
            is_text = isinstance(node.value, str) and (node.value == port or node.value.endswith(f":{port}"))
            if is_number or is_text:
                span = source.span(node)
                at = source.text.rfind(port, span.start, span.end)
                yield Span(source.path, at, at + len(port), span.line), source.evidence(node)
