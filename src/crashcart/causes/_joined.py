"""What the code says, joined with how this job is launched and configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.case import Case
    from crashcart.model import Edit, Fact

__all__ = ["edits_of", "number_of", "ranks", "setting"]


def ranks(case: Case) -> int | None:
    """How many processes train together; None where the launch does not say."""
    told = case.number("launch.processes") or case.number("launch.processes_per_node")
    if told is not None:
        return int(told)
    kind = case.facts.get("launch.kind")
    if kind is not None and kind.value == "python":
        starts = case.all("code.starts_ranks")
        numbers = {fact.value["number"] for fact in starts}
        return numbers.pop() if len(numbers) == 1 else None if starts else 1
    return None


def setting(case: Case, name: str) -> Fact | None:
    """The setting that the code calls by this name: ``cfg.train.accum_steps`` is ``accum_steps``; None where two differ."""
    wanted = _plain(name)
    found = [fact for fact in case.facts.values() if wanted and _plain(fact.spelling.split(".")[-1]) == wanted]
    return found[0] if found and all(fact.value == found[0].value for fact in found) else None


def number_of(case: Case, operand: dict[str, Any]) -> Any:  # noqa: ANN401 - a value of any type
    """The value of an operand of the code for this job; None where it is not known."""
    fact = setting(case, str(operand["name"])) if operand["name"] else None
    value = fact.value if fact is not None else operand["number"]
    if "equals" in operand and value is not None:
        return _precision(str(value)) == _precision(operand["equals"])
    return value


def edits_of(facts: Iterable[Fact], *names: str) -> tuple[Edit, ...]:
    """The edits that the facts carry under these names, each once."""
    found: list[Edit] = []
    for fact in facts:
        for name in names:
            found += [edit for edit in fact.value.get(name, ()) if edit not in found]
    return tuple(found)


def _precision(word: str) -> str:
    """One word for each way to write a precision."""
    plain = _plain(word.rsplit(".", maxsplit=1)[-1].split("-", maxsplit=1)[0])
    return {"fp16": "float16", "half": "float16", "16": "float16", "bf16": "bfloat16"}.get(plain, plain)


def _plain(name: str) -> str:
    return name.lower().lstrip("-").replace("-", "").replace("_", "")
