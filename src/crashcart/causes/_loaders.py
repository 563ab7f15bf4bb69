"""The loaders of a job with the numbers that this launch and config give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.causes._joined import NEARNESS, setting
from crashcart.causes.config._arithmetic import Numbers
from crashcart.model import Edit
from crashcart.numbers import to_int
from crashcart.record import field, record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Evidence, Fact, Span

__all__ = ["PREFETCH", "Loader", "loaders"]

NUMBERS = ("workers", "batch", "prefetch", "pin", "persistent", "drop_last", "context")
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
    if "loaders" not in case.derived:
        case.derived["loaders"] = [_resolved(case, one) for fact in case.all("code.loader") for one in _each(case, fact)]
    known: list[Loader] = case.derived["loaders"]
    return known


def _each(case: Case, fact: Fact) -> Iterator[Fact]:
    """A loader for each entry of a part of the settings, where a loop over that part makes them."""
    part = next((given["part"] for name in NUMBERS if (given := fact.value[name]).get("part")), "")
    if not part.endswith(".*"):
        yield fact
        return
    base = part.removesuffix("*")
    entries = dict.fromkeys(
        words[0]
        for one in _settings(case)
        if len(words := _plain(one.spelling).rpartition(_plain(base))[2].split(".")) > 1
        and _plain(base) in _plain(one.spelling)
    )
    for entry in entries:
        value = {
            name: {**given, "part": f"{base}{entry}"} if isinstance(given, dict) and given.get("part") else given
            for name, given in fact.value.items()
        }
        kind = (
            "train"
            if "train" in entry
            else "eval"
            if any(word in entry for word in ("val", "eval", "test"))
            else value["for"]
        )
        yield replace(fact, value={**value, "for": kind})


def _settings(case: Case) -> Iterator[Fact]:
    """Every setting of the job that has a name of its own, the nearest to the program last."""
    seen = [fact for group in case.seen.values() for fact in group if fact.origin in NEARNESS and fact.spelling]
    yield from sorted(seen, key=lambda fact: NEARNESS[fact.origin])


def _plain(spelling: str) -> str:
    return f".{spelling.lstrip('-').replace('-', '_').lower()}"


def _of_part(case: Case, given: dict[str, Any]) -> tuple[Any, Fact | None]:
    """An argument that a part of the settings gives: its value there, or torch's own where the part says nothing of it."""
    part = [fact for fact in _settings(case) if f"{_plain(given['part'])}." in _plain(fact.spelling)]
    told = [fact for fact in part if _plain(fact.spelling).endswith(f"{_plain(given['part'])}.{given['argument']}")]
    if told:
        return told[-1].value, told[-1]
    return (given["default"] if part else None), None


def _resolved(case: Case, fact: Fact) -> Loader:
    evidence, places, origins = [fact.evidence], {}, {}
    values: dict[str, Any] = {}
    unsaid = fact.value["prefetch"] == {"value": None}
    for name in NUMBERS:
        given = fact.value[name]
        values[name] = given.get("value")
        span = given.get("span")
        if given.get("part"):
            values[name], found = _of_part(case, given)
            span = found.span if found is not None else None
            evidence += [found.evidence] if found is not None and found.evidence not in evidence else []
            unsaid = unsaid or (name == "prefetch" and found is None)
        if given.get("tree"):
            numbers = Numbers(case)
            made = numbers.value(given["tree"])
            values[name] = to_int(made) if made == to_int(made) else None
            evidence += [one for one in numbers.evidence() if one not in evidence]
        if given.get("key") and (found := setting(case, given["key"])) is not None:
            values[name], span = found.value, found.span
            evidence += [found.evidence] if found.evidence not in evidence else []
            origins[name] = [found.evidence]
        if span is not None and isinstance(values[name], int):
            places[name] = span
    prefetch = _whole(values["prefetch"])
    if prefetch is None and (unsaid or values["prefetch"] == "None"):
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
