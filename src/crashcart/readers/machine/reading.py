"""One thing that was read of this machine, and the ways to read it that may not hold us up.

A reading has words for people, the figures for causes, and the place to look again. What could not be read is a reading too:
unknown is an answer, never a pass.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

from crashcart.model import Evidence, Fact
from crashcart.numbers import to_int
from crashcart.record import field, record

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Reading", "amount", "fact_of", "number_in", "text_of", "unknown", "within"]

Answer = TypeVar("Answer")
_LONGEST = 1 << 16
_KIB = 1024


@record(frozen=True)
class Reading:
    """``group`` and ``label`` are for people, ``name`` (``shm``, ``card``) is for causes: they see ``machine.<name>``.

    ``how`` says how to get what is not ``known``.
    """

    group: str
    name: str
    label: str
    says: str
    where: str
    value: dict[str, Any] = field(default_factory=dict)
    known: bool = True
    how: str = ""


def unknown(reading: tuple[str, str, str], says: str, where: str, how: str = "") -> Reading:
    """What could not be read: group, name and label, why, and how to have it."""
    return Reading(*reading, says, where, known=False, how=how)


def fact_of(reading: Reading) -> Fact:
    """The reading as causes see it."""
    evidence = Evidence("machine", f"{reading.label}: {reading.says}", reading.where)
    return Fact(f"machine.{reading.name}", reading.value, evidence, "machine", reading.label)


def text_of(path: str, most: int = _LONGEST) -> str | None:
    """A small file of the kernel; None where it is not there or not for us."""
    try:
        with open(path, "rb") as file:
            return file.read(most).decode("utf-8", "surrogateescape")
    except OSError:
        return None


def number_in(text: str | None, key: str = "") -> int | None:
    """The number after a key at the beginning of a line, or the number that is all there is; None for ``max`` and nonsense."""
    for line in (text or "").splitlines():
        if line.startswith(key):
            words = line[len(key) :].lstrip(": \t").split()
            return to_int(words[0]) if words else None
    return None


def amount(size: float) -> str:
    """Bytes in words."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(size) < _KIB:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= _KIB
    return f"{size:.3g} TiB"


def within(seconds: float, ask: Callable[[], Answer], late: Answer) -> Answer:
    """The answer, or ``late`` where it takes too long: a dead file server and a lost card wait inside the kernel."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(ask()), name="crashcart-doctor", daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else late
