"""How the process group of the ranks begins: which library carries its messages, how long a rank waits, and whether it is taken down."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.numbers import to_float, to_int
from crashcart.readers.code.source import inside
from crashcart.readers.interpreter.values import Constant, Result, constant_of
from crashcart.readers.rules._settings import evidence_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call
    from crashcart.readers.interpreter.values import Value

_STARTS = ("torch.distributed.init_process_group", "deepspeed.init_distributed")
_LIMITED = {
    **dict.fromkeys(_STARTS, "timeout"),
    "accelerate.utils.InitProcessGroupKwargs": "timeout", "accelerate.InitProcessGroupKwargs": "timeout",
    "lightning.strategies.DDPStrategy": "timeout", "lightning.strategies.FSDPStrategy": "timeout",
}  # fmt: skip
_MORE_LIMITED = ("torch.distributed.new_group", "torch.distributed.monitored_barrier")
_POSITION = {"torch.distributed.init_process_group": 2, **dict.fromkeys(_MORE_LIMITED, 1)}
_UNITS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0, "weeks": 604800.0, "milliseconds": 0.001}
_POSITIONS = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
_ENOUGH_SECONDS = 7200


def look(execution: Execution) -> Iterator[Fact]:
    """``code.group_backend``, ``code.group_limit``, ``code.group_start`` and ``code.group_left``."""
    starts = execution.trace.named(*_STARTS)
    for call in starts:
        backend = constant_of(call.argument(0, "backend", Constant(None)) or call.argument(0, "dist_backend"))
        yield call.fact("code.group_backend", backend if isinstance(backend, str) else None)
    for call in execution.trace.named(*_LIMITED):
        timeout = call.argument(_POSITION.get(call.name), _LIMITED[call.name])
        if timeout is None or constant_of(timeout, timeout) is None:
            yield call.fact(
                "code.group_start", {"edits": _with_time(call) if call.complete else (), "open": not call.complete}
            )
        else:
            yield _limit(call, timeout)
    for call in execution.trace.named(*_MORE_LIMITED):  # a group, or a barrier, with a time of its own
        timeout = call.argument(_POSITION[call.name], "timeout")
        if timeout is not None and _seconds(timeout) is not None:
            yield _limit(call, timeout)
    if starts and not execution.trace.methods("destroy_process_group"):
        yield starts[0].fact("code.group_left", "")


def _limit(call: Call, timeout: Value) -> Fact:
    value = {"seconds": _seconds(timeout), "edits": _longer(timeout), "settings": evidence_of(*_parts(timeout).values())}
    return call.fact("code.group_limit", value)


def _parts(timeout: Value) -> dict[str, Value]:
    """What a ``timedelta`` is made of, by unit."""
    if (
        not isinstance(timeout, Result)
        or timeout.name != "datetime.timedelta"
        or timeout.call is None
        or not timeout.call.complete
    ):
        return {}
    return {**dict(zip(_POSITIONS, timeout.call.arguments, strict=False)), **timeout.call.keywords}


def _seconds(timeout: Value) -> float | None:
    parts = _parts(timeout)
    numbers = {unit: constant_of(value) for unit, value in parts.items()}
    if not parts or not all(isinstance(number, (int, float)) and unit in _UNITS for unit, number in numbers.items()):
        return None
    return to_float(sum(_UNITS[unit] * number for unit, number in numbers.items()))


def _longer(timeout: Value) -> tuple[Edit, ...]:
    """Two hours where the number is said: in a setting, in the code that hands it over, or in the ``timedelta`` itself."""
    parts = _parts(timeout)
    if len(parts) == 1:
        ((unit, value),) = parts.items()
        number = to_int(_ENOUGH_SECONDS / _UNITS[unit]) if unit in _UNITS else None
        if isinstance(value, Constant) and value.origins:
            return tuple(Edit(fact.span, str(number)) for fact in value.origins[:1] if fact.span is not None and number)
        if isinstance(value, Constant) and value.node is not None and value.source is not None and number:
            text = (
                f'"{number}"' if isinstance(value.node, ast.Constant) and isinstance(value.node.value, str) else str(number)
            )
            return (Edit(value.source.span(value.node), text),)
    if isinstance(timeout, Result) and timeout.call is not None and isinstance(timeout.call.node, ast.Call):
        written = timeout.call.source.written(timeout.call.node.func)
        return (Edit(timeout.call.span, f"{written}(hours=2)"),)
    return ()


def _with_time(call: Call) -> tuple[Edit, ...]:
    """A time-out of two hours for a call without one."""
    source, node = call.source, call.node
    if not isinstance(node, ast.Call) or not call.name.endswith(("init_process_group", "InitProcessGroupKwargs")):
        return ()
    end = len(source.text[: source.span(node).end - 1].rstrip())
    comma = {",": " ", "(": ""}.get(source.text[end - 1], ", ")
    known = next((name for name, full in source.names.items() if full in {"datetime.timedelta", "datetime"}), "")
    word = known if source.names.get(known) == "datetime.timedelta" else f"{known or 'datetime'}.timedelta"
    timeout_edit = Edit(Span(source.path, end, end, node.lineno), f"{comma}timeout={word}(hours=2)")
    if known:
        return (timeout_edit,)
    statement = inside(node, ast.stmt)
    if statement is None:
        return ()
    line = source.offset(statement.lineno, 0)
    blanks = source.text[line : source.span(statement).start]
    return (
        ()
        if blanks.strip()
        else (Edit(Span(source.path, line, line, statement.lineno), f"{blanks}import datetime\n"), timeout_edit)
    )
