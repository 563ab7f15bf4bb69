"""What ``doctor`` found: the verdict first, then a line for each reading with its state, its figure and its place."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from crashcart.record import record
from crashcart.report.terminal import WIDTH, printed, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.fitness import State

__all__ = ["Row", "plain_machine", "verdict", "write_machine"]

_STYLES = {"ok": "", "warning": "yellow", "bad": "bold red", "unknown": "dim"}
_STATE, _LABEL = 9, 19
_FEW_CARDS = 2
_SHORT = ("card_memory", "card_heat", "card_ecc")  # of many cards that are well; --json has all


@record(frozen=True)
class Row:
    """One reading, graded: ``why`` is what a cause says of it, ``advice`` what to do, or how to get to know."""

    group: str
    name: str
    label: str
    state: State
    says: str
    where: str
    why: str = ""
    advice: str = ""
    value: Any = None


def verdict(rows: Sequence[Row]) -> str:
    """The answer in one sentence."""
    bad = [row for row in rows if row.state == "bad"]
    if bad:
        others = len({row.why or row.label for row in bad}) - 1
        more = f" (and {others} more)" if others else ""
        worst = bad[0].why or f"{bad[0].group}: {bad[0].label}: {bad[0].says}"
        return f"This machine is not fit for training: {worst}{more}."
    warnings = sum(row.state == "warning" for row in rows)
    gaps = sum(row.state == "unknown" for row in rows)
    told = f"; {_counted(warnings, 'warning')} below" if warnings else ""
    asked = f"; {_counted(gaps, 'item')} could not be read" if gaps else ""
    cards = any(row.name == "cards" and row.state != "unknown" for row in rows)
    what = "fit for training" if cards else "fit for training without NVIDIA GPUs: none were found"
    return f"This machine is {what}{told}{asked}."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def write_machine(rows: Sequence[Row], note: str = "") -> None:
    """Print it on standard output."""
    printed(list(_lines(rows, note)))


def _lines(rows: Sequence[Row], note: str) -> Iterator[tuple[str, str]]:
    bad = any(row.state == "bad" for row in rows)
    warned = any(row.state == "warning" for row in rows)
    yield "bold red" if bad else "bold yellow" if warned else "bold green", wrapped(verdict(rows), "")
    if note:
        yield "", wrapped(note, "")
    cards = {row.group for row in rows if row.name.startswith("card_")}
    said: set[str] = set()
    for group in dict.fromkeys(row.group for row in rows):
        inner = [row for row in rows if row.group == group]
        if len(cards) > _FEW_CARDS and group in cards and all(row.state == "ok" for row in inner):
            inner = [row for row in inner if row.name in _SHORT]
        yield "", ""
        yield "bold", group
        for row in inner:
            yield from _row(row, said)


def _row(row: Row, said: set[str]) -> Iterator[tuple[str, str]]:
    """A line, and what it means where it is not well, once."""
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
    words = ". ".join(part for part in (row.why, row.advice) if part)
    if words and row.state != "ok" and words not in said:
        said.add(words)
        yield _STYLES[row.state], wrapped(f"-> {words}", " " * (2 + _STATE), " " * (5 + _STATE))


def _plain(value: Any) -> Any:  # noqa: ANN401 - what a reading holds
    """Figures and words; places in files stand in the findings."""
    kept = (str, int, float, list, tuple, dict, type(None))
    return {name: one for name, one in value.items() if isinstance(one, kept)} if isinstance(value, dict) else value


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
            "why": row.why,
            "advice": row.advice,
            "value": None if row.name.startswith("card_") else _plain(row.value),
        }
        for row in rows
    ]
