"""What a cause may fill in, and how causes are found.

A cause is a module ``causes/<family>/<cause>.py``. Its docstring is its page. It may define, in this order and only as far
as they apply: ``title``, ``piece`` (of `crashcart.train`), ``breadth``, ``lasting``, ``judges_training``, ``phrases``, ``stacks``, ``in_log``, ``in_config``, ``in_code``, ``in_data``, ``in_machine``,
``in_checkpoints``, ``in_recorder``, ``fixes`` (or a function ``fix``), ``experiment`` (and a function ``settle`` where
it depends on the case). Every ``in_*`` is a pure function of
the case that yields signs.

A phrase is a piece of text that a log must contain in one line, case ignored. Phrases are data twice over: the scanner looks
for all of them at once in logs of any size, and the engine turns the lines found into signs. A regular expression can narrow
a phrase down; it is only compiled when its text was found.

A stack is an expression over ``file:function`` of the innermost frames of a traceback. It tells where an error came from when
its last line was cut off, or says too little (``OSError``).
"""

from __future__ import annotations

import importlib
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from crashcart.pattern import compiled
from crashcart.pieces import advised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from crashcart.case import Case
    from crashcart.log import Line
    from crashcart.model import Experiment, Fix, Sign, Strength

__all__ = ["Cause", "Phrase", "Stack", "against", "causes", "compiled", "decisive", "identities", "strong", "weak"]

PARTS = ("in_log", "in_config", "in_code", "in_data", "in_machine", "in_checkpoints", "in_recorder")


class Phrase:
    """Text whose presence in a line is a sign."""

    __slots__ = ("any_level", "fatal", "literals", "pattern", "says", "strength", "unless")

    def __init__(  # noqa: PLR0913 - one description in one place, written by keyword in every cause
        self,
        strength: Strength,
        literals: tuple[str, ...],
        says: str,
        pattern: str | None = None,
        unless: str | None = None,
        *,
        fatal: bool = True,
        any_level: bool = False,
    ) -> None:
        self.strength: Strength = strength
        self.literals = tuple(literal.lower() for literal in literals)
        self.says = says
        self.pattern = pattern
        self.unless = unless
        self.fatal = fatal
        self.any_level = any_level

    def matches(self, line: Line) -> bool:
        """Whether the line says this."""
        lowered = line.lowered
        if not any(literal in lowered for literal in self.literals):
            return False
        if self.pattern is not None and not compiled(self.pattern).search(line.text):
            return False
        return self.unless is None or not compiled(self.unless).search(line.text)


def decisive(*literals: str, says: str, **narrow: Any) -> Phrase:  # noqa: ANN401 - passed on to Phrase
    """Whoever sees this line needs no other evidence."""
    return Phrase("decisive", literals, says, **narrow)


def strong(*literals: str, says: str, **narrow: Any) -> Phrase:  # noqa: ANN401 - passed on to Phrase
    """This line mostly means the cause."""
    return Phrase("strong", literals, says, **narrow)


def weak(*literals: str, says: str, **narrow: Any) -> Phrase:  # noqa: ANN401 - passed on to Phrase
    """This line fits the cause, and others."""
    return Phrase("weak", literals, says, **narrow)


def against(*literals: str, says: str, **narrow: Any) -> Phrase:  # noqa: ANN401 - passed on to Phrase
    """This line speaks against the cause."""
    return Phrase("against", literals, says, **narrow)


class Cause:
    """One cause, as its module describes it.

    ``breadth`` orders causes that explain the same lines: 0 is specific, 1 is what remains of a family, 2 is what remains of
    everything. ``lasting`` says that the cause makes a run useless even when it reaches its end. ``judges_training`` says that it
    speaks of the training alone, so that what other programs of a script print is no sign of it. ``alike`` names the causes
    that a log is most easily mistaken for: where the answer is not certain they are what to look at next.
    """

    __slots__ = (
        "_fix",
        "alike",
        "breadth",
        "experiment",
        "id",
        "judges_training",
        "lasting",
        "page",
        "parts",
        "phrases",
        "piece",
        "settle",
        "stacks",
        "title",
    )

    def __init__(self, identity: str, module: ModuleType) -> None:
        self.id = identity
        self.page: str = (module.__doc__ or "").strip()
        self.title: str = module.title
        self.phrases: tuple[Phrase, ...] = getattr(module, "phrases", ())
        self.stacks: tuple[Stack, ...] = getattr(module, "stacks", ())
        self.breadth: int = getattr(module, "breadth", 0)
        self.alike: tuple[str, ...] = getattr(module, "alike", ())
        self.lasting: bool = getattr(module, "lasting", False)
        self.judges_training: bool = getattr(module, "judges_training", False)
        self.parts: dict[str, Callable[[Case], Iterable[Sign]]] = {
            part: getattr(module, part) for part in PARTS if hasattr(module, part)
        }
        fixes: tuple[Fix, ...] = getattr(module, "fixes", ())
        self.piece: str | None = getattr(module, "piece", None)
        self._fix: Callable[[Case], Iterable[Fix]] = getattr(module, "fix", lambda _case: fixes)
        self.experiment: Experiment | None = getattr(module, "experiment", None)
        self.settle: Callable[[Case], Experiment | None] = getattr(module, "settle", lambda _case: self.experiment)

    def fix(self, case: Case) -> Iterator[Fix]:
        """The remedies for this case: first the patches of its own lines, last the piece of the library that does it right."""
        yield from (remedy for wanted, remedy in (fact.value for fact in case.all("scene.remedy")) if self.id in wanted)
        yield from self._fix(case)
        if self.piece is not None:
            yield advised(self.piece)


class Stack:
    """Innermost frames that point to a cause: an expression over ``file:function``, and what it shows."""

    __slots__ = ("pattern", "says")

    def __init__(self, pattern: str, says: str) -> None:
        self.pattern = pattern
        self.says = says


@lru_cache(maxsize=1)
def causes() -> tuple[Cause, ...]:
    """Every cause of the knowledge base, found by folder, in the order of their ids."""
    folder = os.path.join(os.path.dirname(__file__), "causes")
    return tuple(Cause(identity, importlib.import_module(name)) for identity, name in _found(folder))


def identities() -> list[str]:
    """The ids of all causes; none is loaded for it."""
    return [identity for identity, _ in _found(os.path.join(os.path.dirname(__file__), "causes"))]


def _found(folder: str) -> Iterator[tuple[str, str]]:
    for family in sorted(os.listdir(folder)):
        inner = os.path.join(folder, family)
        if family.startswith(("_", ".")) or not os.path.isdir(inner):
            continue
        for file in sorted(os.listdir(inner)):
            stem = file.removesuffix(".py")
            if file.endswith(".py") and not stem.startswith("_"):
                module = f"crashcart.causes.{family}.{stem}"
                yield f"{family}/{stem}".replace("_", "-"), module
