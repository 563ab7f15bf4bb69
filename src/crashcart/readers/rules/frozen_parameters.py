"""Where parameters are frozen, and texts that were cut at a separator and have an empty part.

    prefixes = tuple("stem,mid,".split(","))                              ("stem", "mid", "")
    parameter.requires_grad = not name.startswith(prefixes)               every name begins with ""

A separator at the end of a setting is a slip of the hand; the empty text that it makes is the beginning, the end and a part of every name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter.values import Constant, constant_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call

_MOST = 4
_LONGEST = 2000


def look(execution: Execution) -> Iterator[Fact]:
    """``code.frozen``: the lines that say what takes a gradient. ``code.empty_part``: a text that is cut into parts of which one is empty."""
    frozen = [
        *(write for write in execution.trace.writes if constant_of(write.name, write.name) == "requires_grad"),  # type: ignore[arg-type]
        *execution.trace.methods("requires_grad_"),
    ]
    places = {(event.source.path, event.line): event for event in frozen}
    for event in [*places.values()][:_MOST]:
        calls = [call.evidence for call in event.calls_above()]
        yield event.fact("code.frozen", {"calls": tuple(calls[:2])})
    for call in execution.trace.methods("split"):
        whole = _without_empty_parts(call)
        if whole is not None:
            setting = next(iter(call.receiver.origins), None) if call.receiver is not None else None
            yield call.fact("code.empty_part", {"setting": setting, "whole": whole})


def _without_empty_parts(call: Call) -> str | None:
    """The text that was meant, of one that a separator begins or ends, or that has two in a row."""
    text, separator = call.receiver, constant_of(call.argument(0, "sep"))
    if not isinstance(text, Constant) or type(text.value) is not str or type(separator) is not str or not separator.strip():
        return None
    if len(text.value) > _LONGEST or not text.value:
        return None
    parts = text.value.split(separator)
    kept = [part for part in parts if part.strip()]
    return separator.join(kept) if kept and len(kept) < len(parts) else None
