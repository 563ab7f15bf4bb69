"""The cards of this machine that a job would take, and what stands in its way; known only where the job runs here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Fact

__all__ = ["known_cards", "on_cards", "per_node", "surely", "typed_here", "visible"]


def known_cards(case: Case) -> Fact | None:
    """The fact about all cards; None where there is no driver, or nobody asked it."""
    return next(iter(case.all("machine.cards")), None)


def visible(case: Case) -> list[dict[str, Any]]:
    """The cards that the job sees: by CUDA_VISIBLE_DEVICES of its launch or of our shell, else all."""
    cards = known_cards(case)
    if cards is None:
        return []
    every: list[dict[str, Any]] = cards.value["each"]
    shown = case.facts.get("environment.CUDA_VISIBLE_DEVICES")
    text = str(shown.value) if shown is not None else cards.value.get("visible")
    if text is None or "$" in text or "MIG" in text:
        return every
    chosen = []
    for word in (part.strip() for part in text.split(",")):
        card = next((one for one in every if word and (str(one["index"]) == word or _named(one, word))), None)
        if card is None:
            break  # CUDA stops at the first that is not there
        chosen.append(card)
    return chosen


def _named(card: dict[str, Any], word: str) -> bool:
    return word.startswith("GPU-") and str(card.get("uuid", "")).startswith(word)


def per_node(case: Case) -> int | None:
    """How many processes the launch starts on this machine."""
    each = case.number("launch.processes_per_node")
    each = each if each is not None else case.number("launch.processes")
    return to_int(each)


def on_cards(case: Case, name: str) -> Iterator[Fact]:
    """The readings of one name on the cards that the job takes: the first ones that it sees, as many as it has processes."""
    count = per_node(case)
    taken = [card["index"] for card in visible(case)][:count]
    for fact in case.all(f"machine.{name}"):
        if fact.value["index"] in taken:
            yield fact


def typed_here(case: Case) -> bool:
    """Whether the user typed the command where it will run, and this is no login node: then it starts here and now."""
    command = case.facts.get("command.text")
    login = any(fact.value["login"] for fact in case.all("machine.scheduler"))
    return command is not None and command.evidence.where == "command" and not login


def surely(case: Case) -> bool:
    """Whether the interpreter that was found is the one: that of the shell in which the command was typed, or of no job."""
    return typed_here(case) or not case.facts
