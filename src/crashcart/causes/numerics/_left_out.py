"""The edit that leaves samples out whose values are not finite, at the loader that they come through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes.numerics._recorded import broken_losses
from crashcart.deaths import first
from crashcart.model import Edit, Span

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.model import Evidence

__all__ = ["finite_only", "made_at"]


def made_at(case: Case) -> list[Evidence]:
    """The lines where the fields are made that held values that are not finite."""
    known = case.all("code.sample_fields")
    if len(known) != 1:
        return []
    return list(
        dict.fromkeys(
            place
            for name in _bad_fields(case)
            if (place := known[0].value["fields"].get("" if name == "batch" else name)) is not None
        )
    )


def finite_only(case: Case) -> tuple[Edit, ...]:
    """Lines that look through the data set once and hand only samples with finite values to the loader."""
    known, bad = case.all("code.sample_fields"), _bad_fields(case)
    parts = known[0].value["samples"] if len(known) == 1 else None
    if parts is None or not bad or any("." in name for name in bad):
        return ()
    samples, finite = parts["names"]
    lines = [] if parts["is_name"] else [f"{samples} = {parts['text']}"]
    samples = parts["text"] if parts["is_name"] else samples
    fields = [f"{samples}[i]{_key(name)}" for name in bad]
    tests = " and ".join(f"torch.isfinite(torch.as_tensor({field})).all()" for field in fields)
    lines.append(f"{finite} = [i for i in range(len({samples})) if {tests}]")
    span: Span = parts["span"]
    before = Span(span.file, parts["start"], parts["start"], parts["line"])
    text = "".join(f"{parts['indent']}{line}\n" for line in lines)
    return (Edit(before, text), Edit(span, f"torch.utils.data.Subset({samples}, {finite})"))


def _key(name: str) -> str:
    return "" if name == "batch" else f"[{name}]" if name.isdigit() else f'["{name}"]'


def _bad_fields(case: Case) -> list[str]:
    """The names of the fields of the first bad batch that held such values."""
    broken, leader = broken_losses(case), first(case)
    events = [
        *(one.event for one in broken[:1]),
        *([leader.raised] if leader is not None and leader.raised is not None else []),
    ]
    for event in events:
        names = [str(field.get("field")) for field in event.details.get("fields") or ()]
        if names:
            return names
    return []
