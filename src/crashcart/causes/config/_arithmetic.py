"""Sizes with this job's numbers put in: what the program's own expressions give, and what the frameworks check.

A setting is looked up by the last part of its name; where two sections give it different values it is not known. Nothing is
claimed of an expression with an unknown in it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from crashcart.causes.config._parallel_sizes import parallel_sizes
from crashcart.causes.config._sections import squeezed
from crashcart.model import Sign
from crashcart.numbers import calculate, to_float, to_int

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crashcart.case import Case
    from crashcart.model import Evidence, Fact

__all__ = ["IDENTITY", "Numbers", "deepspeed", "framework"]

MOST = 1 << 40
IDENTITY = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


class Numbers:
    """The settings of a job by the last part of their names, and where each was read."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.used: dict[str, Fact] = {}
        self.known: dict[str, Fact | None] = {}
        order = {"flag": 3, "environment": 3, "file": 2, "default": 1}
        every = [fact for group in case.seen.values() for fact in group] + list(case.facts.values())
        for fact in sorted(every, key=lambda fact: order.get(fact.origin, 0)):
            if fact.origin in order and _is_number(fact.value) and fact.spelling:
                self.put(squeezed(fact.spelling.lstrip("-+~").rpartition(".")[2]), fact, order)

    def put(self, key: str, fact: Fact, order: dict[str, int]) -> None:
        """What stands nearer to the program counts; two words of the same nearness that differ make it unknown."""
        old = self.known.get(key)
        if old is not None and order[old.origin] == order[fact.origin] and old.value != fact.value and fact.origin != "flag":
            self.known[key] = None
        elif key not in self.known or old is not None or order[fact.origin] == 3:
            self.known[key] = fact

    def value(self, tree: Any) -> float | None:  # noqa: ANN401 - a tree of tuples
        """What an expression gives, None where something in it is not known."""
        kind = tree[0]
        if kind == "number":
            return to_float(tree[1]) if isinstance(tree[1], float) else to_int(tree[1])
        if kind == "ranks":
            fact = self.case.facts.get("launch.processes")
            return self.taken("ranks", fact)
        if kind == "key":
            return self.taken(tree[1], self.known.get(squeezed(tree[1])))
        given = [self.value(one) for one in tree[1:]]
        known = [one for one in given if one is not None]
        return _calculated(kind, known) if len(known) == len(given) else None

    def taken(self, name: str, fact: Fact | None) -> float | None:
        """The number of a fact, which then is part of the evidence."""
        if fact is None or not _is_number(fact.value):
            return None
        self.used[name] = fact
        return fact.value  # type: ignore[no-any-return]

    def written(self) -> str:
        """The settings that were put in, for a sentence."""
        return ", ".join(f"{name} = {fact.value:g}" for name, fact in self.used.items())

    def evidence(self) -> tuple[Evidence, ...]:
        """Where they were read."""
        return tuple(dict.fromkeys(fact.evidence for fact in self.used.values()))


def _is_number(value: object) -> bool:
    return not isinstance(value, str) and abs(to_float(value, MOST)) < MOST


def _calculated(kind: str, given: list[float]) -> float | None:
    match kind:
        case "+" | "-" | "*" | "/" | "//" | "%":
            return calculate(kind, given[0], given[1])
        case "max" | "min":
            return max(given) if kind == "max" else min(given)
        case "not":
            return not given[0]
        case _:
            return _compared(kind, given)


def _compared(kind: str, given: list[float]) -> float | None:
    if kind in {"==", "!=", "<", "<=", ">", ">="}:
        left, right = given
        return {
            "==": left == right,
            "!=": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }[kind]
    single: dict[str, Callable[[float], float]] = {
        "int": int,
        "floor": math.floor,
        "ceil": math.ceil,
        "round": round,
        "abs": abs,
    }
    return single[kind](given[0]) if kind in single and len(given) == 1 else None


def deepspeed(case: Case) -> Iterator[Fact]:
    """The numbers of DeepSpeed's file that its identity is made of; ``auto`` is none."""
    for group in case.seen.values():
        for fact in group:
            is_json = fact.span is not None and fact.span.file.endswith(".json")
            if is_json and fact.origin == "file" and fact.spelling in IDENTITY and _is_number(fact.value):
                yield fact


def framework(case: Case) -> Iterator[Sign]:
    """Parallel sizes; DeepSpeed's identity, and the arguments of the Hugging Face trainer against its file."""
    yield from parallel_sizes(case)
    file = {fact.spelling: fact for fact in deepspeed(case)}
    batch, micro, accumulation = (file.get(name) for name in IDENTITY)
    ranks = case.number("launch.processes")
    if batch and micro and ranks and _is_number(batch.value) and _is_number(micro.value) and ranks >= 1:
        times = (
            accumulation.value if accumulation and _is_number(accumulation.value) else batch.value // (micro.value * ranks)
        )
        if times * micro.value * ranks != batch.value:
            told = f"DeepSpeed demands train_batch_size = micro x accumulation x ranks: {batch.value:g} is not {micro.value:g} x {times:g} x {ranks:g}"
            places = (
                batch.evidence,
                micro.evidence,
                *((accumulation.evidence,) if accumulation else ()),
                case.facts["launch.processes"].evidence,
            )
            yield Sign("decisive", told, places)
    for one, name in ((micro, "train.batch_size"), (accumulation, "train.accumulation")):
        flag = case.facts.get(name)
        if (
            one
            and flag
            and flag.origin == "flag"
            and _is_number(one.value)
            and _is_number(flag.value)
            and flag.value != one.value
            and flag.spelling.startswith(("--per_device", "--gradient"))
        ):
            told = f"{flag.spelling} is {flag.value:g} and the DeepSpeed file says {one.value:g}: the trainer refuses values that differ"
            yield Sign("decisive", told, (flag.evidence, one.evidence))
