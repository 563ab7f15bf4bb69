"""The settings that the program's own parsers made: flags of the launch and the defaults behind them, each with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter.values import Constant, Container, Instance, Result, Value, constant_of
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution

_DEEPEST = 3


def look(execution: Execution) -> Iterator[Fact]:
    """Defaults under their canonical names; how many ranks there are is no setting of a parser.

    ``code.override_read``: ``optim.lr=1e-4`` of the command line, with the value that the program's own code makes of it.
    """
    for write in execution.trace.writes:
        value = write.value
        override = value.origins[0] if isinstance(value, Constant) and value.origins else None
        is_word = override is not None and override.origin == "flag" and not override.spelling.startswith("-")
        if override is not None and is_word and override.evidence.quote.startswith(f"{override.spelling}="):
            about = {"spelling": override.spelling, "value": constant_of(value)}
            if about["value"] != f"{override.spelling}={about['value']}":
                yield write.fact("code.override_read", about)
    seen: set[tuple[str, str]] = set()
    for call in execution.trace.calls:
        if call.function is not None or not ("parse" in call.method or call.method in {"cli", "wrap"}):
            continue
        for fact in _settings(execution, call.result, _DEEPEST):
            key = (fact.name, fact.spelling)
            if fact.origin == "default" and not fact.name.startswith(("flag.", "launch.")) and key not in seen:
                seen.add(key)
                yield replace(fact, name=f"default.{fact.name}")


def _settings(execution: Execution, value: Value | None, depth: int) -> Iterator[Fact]:
    """The settings in a namespace, a config or an object, and in those within it."""
    if isinstance(value, Constant):
        yield from value.origins[:1]
    elif depth and isinstance(value, Container):
        content = execution.interpreter.items(value)
        for item in content.values() if isinstance(content, dict) else content:
            yield from _settings(execution, item, depth - 1)
    elif depth and isinstance(value, (Instance, Result)):
        names = execution.interpreter.store.names(value)
        for name in names:
            item = execution.interpreter.store.get(value, name)
            if isinstance(name, str) and isinstance(item, Value):
                yield from _settings(execution, item, depth - 1)
