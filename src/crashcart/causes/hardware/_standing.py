"""What cards and driver say of themselves before a job starts: memory that is damaged, a reset that is due, an Xid not long ago."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes._cards import on_cards
from crashcart.causes.hardware._xid import APPLICATION, HARDWARE, LINK, NOTICES
from crashcart.model import Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

__all__ = ["faults", "links"]

DAY = 86400.0


def faults(case: Case) -> Iterator[Sign]:
    """Faults of the cards that this job would take."""
    for fact in case.all("machine.driver_failed"):
        if "mismatch" not in fact.value["why"].lower():
            yield Sign(
                "strong",
                f"the NVIDIA driver is installed but fails ({fact.value['why']}): CUDA will not start",
                (fact.evidence,),
            )
    for fact in case.all("machine.card_lost"):
        yield Sign("strong", f"GPU {fact.value['index']} cannot be reached: jobs that use it will fail", (fact.evidence,))
    for fact in on_cards(case, "card_ecc"):
        errors, card = fact.value["ecc_uncorrected"], fact.value["index"]
        if errors and fact.value["ecc_mode"]:
            says = f"GPU {card} had {errors} uncorrected memory errors since its driver was loaded: another one can kill a job on it"
            yield Sign("strong", says, (fact.evidence,))
    for fact in on_cards(case, "card_rows"):
        rows, card = fact.value["rows"], fact.value["index"]
        if rows["failed"]:
            says = f"GPU {card} has no spare rows left for damaged memory: replace it"
            yield Sign("strong", says, (fact.evidence,))
        elif rows["pending"]:
            says = f"GPU {card} needs a reset to disable damaged memory: until then a job can hit it"
            yield Sign("strong", says, (fact.evidence,))
    yield from _due(case)
    yield from _tested(case)
    yield from _history(case)


def _due(case: Case) -> Iterator[Sign]:
    for fact in on_cards(case, "card_pages"):
        if fact.value["retired_pending"]:
            says = f"GPU {fact.value['index']} needs a reset to retire damaged pages: until then a job can hit them"
            yield Sign("strong", says, (fact.evidence,))
    for fact in on_cards(case, "card_recovery"):
        if fact.value["recovery"]:
            says = f"the driver recommends an action for GPU {fact.value['index']} before it is used"
            yield Sign("strong", says, (fact.evidence,))


def _tested(case: Case) -> Iterator[Sign]:
    for fact in case.all("machine.allocation_test"):
        if fact.value["wrong"]:
            says = f"GPU {fact.value['index']} returned different bytes than were written: its results cannot be trusted"
            yield Sign("decisive", says, (fact.evidence,))


def _history(case: Case) -> Iterator[Sign]:
    for fact in case.all("machine.xid"):
        code, age = fact.value["code"], fact.value["age_seconds"]
        if code in APPLICATION | LINK | NOTICES:
            continue
        hardware = code in HARDWARE or fact.value["fault"] == "hardware"
        fresh = age is not None and age < DAY
        says = f"the driver reported Xid {code} ({fact.value['name']}) on {fact.value['pci'] or 'a card'}"
        says += (
            " within the last day: unless the GPU was reset since, a job on it can fail"
            if fresh
            else " since the machine started"
        )
        yield Sign("strong" if hardware and fresh else "weak", says, (fact.evidence,))


def links(case: Case) -> Iterator[Sign]:
    """Links between cards that are down, and a fabric that was not set up."""
    for fact in on_cards(case, "card_links"):
        up, of = fact.value["links"]
        if 0 < up < of:
            yield Sign("weak", f"GPU {fact.value['index']} has {up} of {of} NVLinks up", (fact.evidence,))
    for fact in on_cards(case, "card_fabric"):
        state, status = fact.value["fabric"]
        done = 3
        if state == done and status:
            says = f"the NVSwitch fabric of GPU {fact.value['index']} reports a setup error: CUDA can fail (error 802)"
            yield Sign("strong", says, (fact.evidence,))
        elif state != done:
            yield Sign("weak", f"the NVSwitch fabric of GPU {fact.value['index']} is not set up", (fact.evidence,))
    for fact in case.all("machine.xid"):
        if fact.value["code"] in LINK:
            yield Sign("weak", f"the driver reported Xid {fact.value['code']}, a link error", (fact.evidence,))
