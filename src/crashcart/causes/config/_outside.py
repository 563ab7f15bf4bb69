"""Numbers that a program takes from outside as text: a flag without a type, a variable of the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes.config._sections import meets, squeezed
from crashcart.model import Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Edit, Fact

__all__ = ["edits_for_texts", "taken_as_text"]


def taken_as_text(case: Case) -> Iterator[Sign]:
    """What is text for the program although a number was given."""
    for fact, sign in _found(case):
        del fact
        yield sign


def edits_for_texts(case: Case) -> tuple[Edit, ...]:
    """What makes numbers of them, where they are taken."""
    edits = (edit for fact, _ in _found(case) for edit in fact.value["edits"])
    return tuple(dict.fromkeys(edits))


def _found(case: Case) -> Iterator[tuple[Fact, Sign]]:
    for flag in case.all("code.untyped_flag"):
        yield from _flag(case, flag)
    for read in case.all("code.environment_number"):
        yield from _variable(case, read)


def _flag(case: Case, flag: Fact) -> Iterator[tuple[Fact, Sign]]:
    """A flag without a type that the command gives a number, or whose default is a variable that the launch sets."""
    key, default = squeezed(flag.value["key"]), flag.value["default"]
    if any(meets(one.value["key"], key) for one in case.all("code.setting_converted")):
        return
    given = next((one for one in case.facts.values() if one.origin == "flag" and one.spelling in flag.value["names"]), None)
    set_at = _launched(case, flag.value["variable"]) if given is None else None
    if set_at is not None:
        told, where = f"{flag.value['names'][0]} is the text of {flag.value['variable']} for the program", set_at.evidence
    elif given is not None and isinstance(given.value, (int, float)) and not isinstance(given.value, bool):
        told, where = f"{given.spelling} is text for the program, since its parser names no type", given.evidence
    else:
        return
    use = next((one for one in case.all("code.setting_number") if squeezed(str(one.value.get("key", ""))) == key), None)
    if use is not None:
        told += f", and {use.value['how']} needs a number"
        yield flag, Sign("decisive", told, (where, flag.evidence, use.evidence))
    elif isinstance(default, (int, float)) and not isinstance(default, bool):
        told += f" and only its default {default} is a number: it ends where the program calculates with it"
        yield flag, Sign("weak", told, (where, flag.evidence), fatal=False)


def _launched(case: Case, name: str) -> Fact | None:
    """Where the launch sets a variable."""
    return next((one for one in case.all("launch.variables") if name and name in one.value), None)


def _variable(case: Case, read: Fact) -> Iterator[tuple[Fact, Sign]]:
    name, default = read.value["name"], read.value["default"]
    who = name if name.startswith("sys.argv") else f"the variable {name}"
    told = f"{who} is text for the program, and {read.value['how']} needs a number"
    launched = _launched(case, name)
    if launched is not None or not isinstance(default, (int, float)):
        yield read, Sign("decisive", told, (read.evidence, *((launched.evidence,) if launched else ())))
    else:
        yield read, Sign("strong", f"{told}, when it is set", (read.evidence,))
