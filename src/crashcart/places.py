"""Where an exception came up: the innermost frame in the user's own files, and the library's frame inside of it.

A library's line says what broke, the user's own line who called it: both are wanted. An exception that was carried over from
another process (a loader's worker, a pool) brings the frames of that process in its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crashcart.deaths import first
from crashcart.model import Sign
from crashcart.numbers import to_int
from crashcart.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crashcart.case import Case
    from crashcart.flight import Event
    from crashcart.log import Raised

__all__ = ["Spot", "in_words", "is_own", "of_event", "of_raised", "own_place", "place_sign", "shortened", "words_of"]

_LIBRARIES = ("site-packages", "dist-packages", "lib/python", "/envs/", "<frozen", "<string>", "crashcart/inside/")
_FRAME = Pattern(r"^(.*):(\d+) (\S+)$")
_CARRIED = Pattern(r'File "([^"\n]+)", line (\d+), in (\S+)')
_SHORT = 60
_WORDS = 120


class Spot(NamedTuple):
    """A line of code and the function that it stands in."""

    file: str
    line: int
    function: str


def of_event(event: Event) -> list[Spot]:
    """The frames of a recorded exception, outermost first, with those of the process from which it was carried over."""
    frames = [match for frame in event.details.get("frames") or () if (match := _FRAME.search(str(frame)))]
    told = (str(event.details.get("message", "")), *(str(one) for one in event.details.get("because") or ()))
    carried = next((found for text in told if (found := list(_CARRIED.finditer(text)))), [])
    return [Spot(match[1], to_int(match[2], 0), match[3]) for match in (*frames, *carried)]


def of_raised(raised: Raised) -> list[Spot]:
    """The frames of a traceback in a log."""
    return [Spot(frame.file, frame.line or 0, frame.function) for frame in raised.frames]


def in_words(spots: Sequence[Spot]) -> str:
    """`train.py:42 in step (inside torch/nn/functional.py:3458 in cross_entropy)`; nothing where no frame is known."""
    if not spots:
        return ""
    own = [spot for spot in spots if is_own(spot.file)]
    last, inner = (own or spots)[-1], spots[-1]
    place = f"{last.file}:{last.line} in {last.function}"
    return place if last == inner else f"{place} (inside {_within(inner)})"


def own_place(spots: Sequence[Spot], folder: str = "") -> str:
    """The innermost line of the user's own files: `train.py:42 in step`; nothing where no frame is theirs."""
    own = [spot for spot in spots if is_own(spot.file)]
    return f"{shortened(own[-1].file, folder)}:{own[-1].line} in {own[-1].function}" if own else ""


def shortened(path: str, folder: str) -> str:
    """A path below a folder, without the folder."""
    return path[len(folder) + 1 :] if folder and path.startswith(f"{folder.rstrip('/')}/") else path


def is_own(file: str) -> bool:
    """Whether a file is the user's: not a library's, and Python that can be edited."""
    return file.endswith((".py", ".ipynb")) and not any(part in file for part in _LIBRARIES)


def words_of(event: Event) -> str:
    """What the exception said, in a line: of one that was carried over the last line, which is its own."""
    lines = [line.strip() for line in str(event.details.get("message", "")).split("\n") if line.strip()]
    if not lines:
        return ""
    said = lines[-1] if _CARRIED.search(str(event.details.get("message"))) else lines[0]
    return said if len(said) <= _WORDS else said[: _WORDS - 1] + "…"


def place_sign(case: Case, signs: Iterable[Sign]) -> Sign | None:
    """The place of the exception that these signs quote, where none of them tells it yet."""
    quotes = [item for sign in signs if sign.strength != "against" for item in sign.evidence]
    leader = first(case)
    if leader is not None and leader.raised is not None:
        event = leader.raised
        message = str(event.details.get("message", "")).strip().split("\n", 1)[0][:_SHORT]
        place = in_words(of_event(event))
        if place and (event.evidence in quotes or any(message and message in item.quote for item in quotes)):
            phase = f" in the phase '{leader.phase}'" if leader.phase else ""
            return Sign("weak", f"{leader.how} at {place}{phase}", (event.evidence,), fatal=False)
    for raised in case.log.raised:
        shown = [item for item in quotes if item.where == f"{raised.line.file}:{raised.line.number}"]
        place = in_words(of_raised(raised))
        if shown and place and raised.kind:
            return Sign("weak", f"{raised.kind} was raised at {place}", tuple(shown[:1]), fatal=False)
    return None


def _within(spot: Spot) -> str:
    file = spot.file.replace("\\", "/")
    for part in ("site-packages/", "dist-packages/"):
        file = file.rpartition(part)[2]
    return f"{file}:{spot.line} in {spot.function}"
