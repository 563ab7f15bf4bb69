"""The loaders of a job with the numbers that this launch and config give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.causes._joined import setting
from crashcart.model import Edit
from crashcart.record import field, record

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.model import Evidence, Fact, Span

__all__ = ["PREFETCH", "Loader", "loaders"]

PREFETCH = 2  # batches ahead for each worker, where the program does not say


@record
class Loader:
    """One loader; None is not known. ``places`` says where each number stands that can be changed."""

    fact: Fact
    workers: int | None
    batch: int | None
    prefetch: int | None
    pin: bool | None
    persistent: bool | None
    drop_last: bool | None
    started_by: str = ""
    evidence: list[Evidence] = field(default_factory=list)
    places: dict[str, Span] = field(default_factory=dict)
    origins: dict[str, list[Evidence]] = field(default_factory=dict)  # of what a setting gives

    @property
    def ahead(self) -> int | None:
        """The batches that all of its workers make ahead; without workers one at a time."""
        if self.workers is None or self.prefetch is None:
            return None
        return self.workers * self.prefetch if self.workers else 1

    def edit(self, name: str, value: int) -> Edit | None:
        """The edit that gives it another number."""
        return Edit(self.places[name], str(value)) if name in self.places else None


def loaders(case: Case) -> list[Loader]:
    """Every loader of the program; none where it builds none itself."""
    return [_resolved(case, fact) for fact in case.all("code.loader")]


def _resolved(case: Case, fact: Fact) -> Loader:
    evidence, places, origins = [fact.evidence], {}, {}
    values: dict[str, Any] = {}
    for name in ("workers", "batch", "prefetch", "pin", "persistent", "drop_last", "context"):
        given = fact.value[name]
        values[name] = given.get("value")
        span = given.get("span")
        if given.get("key") and (found := setting(case, given["key"])) is not None:
            values[name], span = found.value, found.span
            evidence += [found.evidence] if found.evidence not in evidence else []
            origins[name] = [found.evidence]
        if span is not None and isinstance(values[name], int):
            places[name] = span
    prefetch = _whole(values["prefetch"])
    if prefetch is None and (fact.value["prefetch"] == {"value": None} or values["prefetch"] == "None"):
        prefetch = PREFETCH
    pin, persistent, drop_last = (
        values[name] if isinstance(values[name], bool) else None for name in ("pin", "persistent", "drop_last")
    )
    context = values["context"]
    begun = context if isinstance(context, str) else str(fact.value["started_by"])
    workers, batch = _whole(values["workers"]), _whole(values["batch"])
    return Loader(fact, workers, batch, prefetch, pin, persistent, drop_last, begun, evidence, places, origins)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
