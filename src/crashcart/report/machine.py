"""What ``doctor`` found: the verdict first, then a line for each reading with its state, its figure and its place."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from crashcart.record import record
from crashcart.report.terminal import WIDTH, _wrapped, printed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.fitness import State

__all__ = ["Row", "plain_machine", "verdict", "write_machine"]

_STYLES = {"ok": "", "warning": "yellow", "bad": "bold red", "unknown": "dim"}
_STATE, _LABEL = 9, 19


@record(frozen=True)
class Row:
    """One reading, graded; ``advice`` says what to do, or how to get to know."""

    group: str
    name: str
    label: str
    state: State
    says: str
    where: str
    advice: str = ""
    value: Any = None


def verdict(rows: Sequence[Row]) -> str:
    """The answer in one sentence."""
    bad = [row for row in rows if row.state == "bad"]
    if bad:
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        return f"This machine is not fit for training: {bad[0].group}: {bad[0].label}: {bad[0].says}{more}."
    warnings = sum(row.state == "warning" for row in rows)
    gaps = sum(row.state == "unknown" for row in rows)
    told = f"; {_counted(warnings, 'warning')} below" if warnings else ""
    asked = f"; {_counted(gaps, 'thing')} could not be read" if gaps else ""
    cards = any(row.name == "cards" and row.state != "unknown" for row in rows)
    what = "fit for training" if cards else "fit for training without NVIDIA cards: none can be seen"
    return f"This machine is {what}{told}{asked}."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def write_machine(rows: Sequence[Row], note: str = "") -> None:
    """Print it on standard output."""
    printed(list(_lines(rows, note)))


def _lines(rows: Sequence[Row], note: str) -> Iterator[tuple[str, str]]:
    bad = any(row.state == "bad" for row in rows)
    warned = any(row.state == "warning" for row in rows)
    yield "bold red" if bad else "bold yellow" if warned else "bold green", _wrapped(verdict(rows), "")
    if note:
        yield "", _wrapped(note, "")
    for group in dict.fromkeys(row.group for row in rows):
        yield "", ""
        yield "bold", group
        for row in rows:
            if row.group == group:
                yield from _row(row)


def _row(row: Row) -> Iterator[tuple[str, str]]:
    head = f"  {row.state:<{_STATE - 1}} {row.label:<{_LABEL - 1}} "
    later = " " * (2 + _STATE + _LABEL)
    where = f"  [{row.where}]" if row.where else ""
    lines = textwrap.wrap(row.says, WIDTH, initial_indent=head, subsequent_indent=later, break_on_hyphens=False) or [
        head.rstrip()
    ]
    if len(lines[-1]) + len(where) <= WIDTH:
        lines[-1] += where
    else:
        lines.append(f"{later}{where.strip()}" if len(later) + len(where) <= WIDTH else f"    {where.strip()}")
    yield _STYLES[row.state], "\n".join(lines)
    if row.advice and row.state != "ok":
        yield _STYLES[row.state], _wrapped(f"-> {row.advice}", " " * (2 + _STATE), " " * (5 + _STATE))


def plain_machine(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as plain data; a card's figures stand once, in the row of all cards."""
    return [
        {
            "group": row.group,
            "name": row.name,
            "label": row.label,
            "state": row.state,
            "says": row.says,
            "where": row.where,
            "advice": row.advice,
            "value": None if row.name.startswith("card_") else row.value,
        }
        for row in rows
    ]
