"""What the readers found about one run. Causes are pure functions of it.

``case.need("train.batch_size")`` returns a fact or raises ``Missing``; then the report says what could not be looked at.
Unknown is an answer of its own, never a pass.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from crashcart.errors import Missing
from crashcart.log import Log
from crashcart.model import NotLooked
from crashcart.record import field, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.checkpoints import Checkpoint
    from crashcart.flight import Flight
    from crashcart.model import Evidence, Fact

__all__ = ["Case", "ExitStatus", "KernelEvent"]


@record(frozen=True)
class KernelEvent:
    """Something the kernel or the driver reported.

    ``kind`` is oom-kill, xid, sxid, segfault, hung-task, soft-lockup, nfs, read-only, disk-error or memory-error. ``seconds`` is Unix time where the
    clock could be told. ``ours`` is True when time and process match the run, False when they speak against it, None when it
    cannot be told.
    """

    kind: str
    evidence: Evidence
    seconds: float | None = None
    details: dict[str, Any] = field(default_factory=dict)
    ours: bool | None = None
    why_ours: str = ""


@record(frozen=True)
class ExitStatus:
    """How the command ended, as the user or the scheduler tells it; 128+n is decoded to a signal."""

    code: int | None
    signal: str | None
    evidence: Evidence


@record
class Case:
    """Everything known about one run, each item with its evidence; ``step`` is the last one known from any source.

    ``before`` is True for a job that has not been started: then a decisive sign says that it *will* die of a cause, a strong
    one that it *can*, a weak one is a note. ``seen`` holds what was found in many places (code, data, machine), by name;
    ``ignored`` the places where the user wants a cause to be silent; ``derived`` what several causes work out of the rest.
    ``program_flags`` are the flags that the program's own parser was seen to know, by the setting that each stands for.
    """

    log: Log = field(default_factory=Log)
    facts: dict[str, Fact] = field(default_factory=dict)
    kernel: tuple[KernelEvent, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    exit: ExitStatus | None = None
    flight: Flight | None = None
    not_looked: list[NotLooked] = field(default_factory=list)
    notes: list[Evidence] = field(default_factory=list)
    step: int | None = None
    before: bool = False
    seen: dict[str, list[Fact]] = field(default_factory=dict)
    ignored: dict[str, frozenset[str]] = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict)
    program_flags: dict[str, str] | None = None

    def could_not_look(self, what: str, why: str, how: str = "") -> None:
        """Note something that could not be looked at."""
        self.not_looked.append(NotLooked(what, why, how))

    def all(self, name: str) -> list[Fact]:
        """Every fact of that name that code, data or machine gave."""
        return self.seen.get(name, [])

    def texts(self) -> Iterator[tuple[str, str]]:
        """The settings whose value is a text, each by the name that the user gives it and by its own."""
        for fact in chain(self.facts.values(), *self.seen.values()):
            for value in fact.value if isinstance(fact.value, list) else [fact.value]:
                if isinstance(value, str):
                    yield fact.spelling, value
                    yield fact.name, value

    def need(self, name: str) -> Fact:
        """The fact of that canonical name; raises ``Missing`` where nothing is known of it."""
        try:
            return self.facts[name]
        except KeyError:
            raise Missing(name) from None

    def number(self, name: str) -> float | None:
        """The value of a fact if it is known and a number."""
        fact = self.facts.get(name)
        if fact is None or isinstance(fact.value, bool) or not isinstance(fact.value, (int, float)):
            return None
        return fact.value
