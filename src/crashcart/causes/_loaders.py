"""The loaders of a job, as the program builds them with this launch and config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.record import record

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.model import Evidence, Fact

__all__ = ["Loader", "loaders"]


@record
class Loader:
    """One loader; None is not known."""

    fact: Fact
    workers: int | None
    batch: int | None
    prefetch: int | None
    pin: bool | None
    persistent: bool | None
    drop_last: bool | None
    started_by: str = ""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Where it is built, and the settings behind its numbers."""
        return tuple(self.fact.value["evidence"])

    @property
    def ahead(self) -> int | None:
        """The batches that all of its workers make ahead; without workers one at a time."""
        if self.workers is None or self.prefetch is None:
            return None
        return self.workers * self.prefetch if self.workers else 1

    def edit(self, name: str, value: int) -> Edit | None:
        """The edit that gives it another number."""
        places = self.fact.value["places"]
        return Edit(places[name], str(value)) if name in places else None


def loaders(case: Case) -> list[Loader]:
    """Every loader of the program, each alternative once; none where it builds none itself."""
    if "loaders" not in case.derived:
        facts = [fact for fact in case.all("code.loader") if not fact.value["alternative"]]
        case.derived["loaders"] = [_from_fact(fact) for fact in facts]
    known: list[Loader] = case.derived["loaders"]
    return known


def _from_fact(fact: Fact) -> Loader:
    workers, batch, prefetch = (_whole_number(fact.value[name]) for name in ("workers", "batch", "prefetch"))
    pin, persistent, drop_last = (_truth(fact.value[name]) for name in ("pin", "persistent", "drop_last"))
    return Loader(fact, workers, batch, prefetch, pin, persistent, drop_last, fact.value["started_by"])


def _whole_number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
