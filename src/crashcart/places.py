"""Where an exception came up: the innermost frame in the user's own files, and the library's frame inside of it.

A library's line says what broke, the user's own line who called it: both are wanted. An exception that was carried over from
another process (a loader's worker, a pool) brings the frames of that process in its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crashcart.deaths import first
from crashcart.flight import during
from crashcart.model import Sign
from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crashcart.case import Case
    from crashcart.flight import Event
    from crashcart.log import Raised
    from crashcart.model import Evidence, Fact, Fix

__all__ = [
    "ORIGINS",
    "SETTINGS_AT_PLACE",
    "UNWRITTEN",
    "Spot",
    "at_the_scene",
    "frames_of_first",
    "in_words",
    "is_at",
    "is_own",
    "never_better",
    "of_event",
    "of_raised",
    "origin_sign",
    "own_place",
    "place_sign",
    "printed_before_leaving",
    "settings_sign",
    "shortened",
    "spot_of",
    "unwritten_sign",
    "without_folder",
    "words_of",
]

SETTINGS_AT_PLACE = "code.settings_at_place"  # the settings that the line works with at which the run died
ORIGINS = "code.value_origins"  # the expression that raised, what its names held, and where they were made
UNWRITTEN = "code.unwritten_file"  # a missing file, the line of the program that writes it, and the test before it
_MOST_TELLING = 3  # settings; a line that works with more is about none of them
_LIBRARIES = ("site-packages", "dist-packages", "lib/python", "/envs/", "<frozen", "<string>", "crashcart/inside/")
_FRAME = Pattern(r"^(.*):(\d+) (\S+)$")
_CARRIED = Pattern(r'File "([^"\n]+)", line (\d+), in (\S+)')
_LEAVING = frozenset({"SystemExit", "KeyboardInterrupt"})
_SHORT = 60
_WORDS = 120


class Spot(NamedTuple):
    """A line of code and the function that it stands in."""

    file: str
    line: int
    function: str


def of_event(event: Event) -> list[Spot]:
    """The frames of a recorded exception, outermost first, with those of the process from which it was carried over."""
    frames = [spot for frame in event.details.get("frames") or () if (spot := spot_of(str(frame))) is not None]
    told = (str(event.details.get("message", "")), *(str(one) for one in event.details.get("because") or ()))
    carried = next((found for text in told if (found := list(_CARRIED.finditer(text)))), [])
    return [*frames, *(Spot(match[1], to_int(match[2], 0), match[3]) for match in carried)]


def spot_of(frame: str) -> Spot | None:
    """A frame as the recorder writes it: `/job/train.py:42 Trainer.step`."""
    match = _FRAME.search(frame)
    return Spot(match[1], to_int(match[2], 0), match[3]) if match is not None else None


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


def without_folder(sentence: str, above: str) -> str:
    """A sentence with all paths below a folder (`/home/me/job/`) told from there; `/data/home/me/job/` is another folder."""
    head, *pieces = sentence.split(above)
    for piece in pieces:
        head += piece if not head or not (head[-1].isalnum() or head[-1] in "._-~/") else above + piece
    return head


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
            phase = f" {during(leader.phase)}" if leader.phase else ""
            return Sign("weak", f"{leader.how} at {place}{phase}", (event.evidence,), fatal=False)
    for raised in case.log.raised:
        shown = [item for item in quotes if item.where == f"{raised.line.file}:{raised.line.number}"]
        place = in_words(of_raised(raised))
        if shown and place and raised.kind:
            return Sign("weak", f"{raised.kind} was raised at {place}", tuple(shown[:1]), fatal=False)
    return None


def printed_before_leaving(case: Case) -> Raised | None:
    """The exception that a program caught and printed before it left with a bad exit code, as launchers of commands do (hydra, click)."""
    leader = first(case) if case.flight is not None else None
    if leader is None or leader.raised is not None or leader.signal is not None or not leader.code:
        return None
    rank = leader.process.rank
    for raised in reversed(case.log.raised):
        own = raised.line.rank is None or rank is None or raised.line.rank == rank
        if own and raised.kind and raised.frames and not raised.survivable and not raised.worker:
            return None if raised.kind in _LEAVING or case.log.goes_on_after(raised.line) else raised
    return None


def frames_of_first(case: Case) -> list[Spot]:
    """The user's own frames of the first exception: of the death, else of a thread that died before, else of the log."""
    leader = first(case)
    flight = case.flight
    spots: list[Spot] = []
    if leader is not None and leader.raised is not None:
        spots = of_event(leader.raised)
    elif flight is not None:
        threads = [event for event in flight.of_kind("exception") if event.details.get("thread") not in {None, "MainThread"}]
        printed = printed_before_leaving(case)
        spots = of_event(threads[0]) if threads else of_raised(printed) if printed is not None else []
    elif case.log.raised:
        spots = of_raised(case.log.raised[0])
    return [spot for spot in spots if is_own(spot.file)]


def is_at(evidence: Evidence, spots: Iterable[Spot]) -> bool:
    """Whether an evidence quotes one of these lines; its path may be told from the folder of the job."""
    path, _, line = evidence.where.rpartition(":")
    return any(
        str(spot.line) == line and (spot.file == path or spot.file.endswith(f"/{path.removeprefix('./')}")) for spot in spots
    )


def settings_sign(case: Case) -> Sign | None:
    """The settings that the line of the death works with, and where each is said."""
    for fact in case.all(SETTINGS_AT_PLACE):
        if len(fact.value) > _MOST_TELLING:
            return None
        told = ", ".join(_as_given(setting) for setting in fact.value)
        places = tuple(setting.evidence for setting in fact.value)
        return Sign("weak", f"that line uses {told}", places, fatal=False)
    return None


def origin_sign(case: Case) -> Sign | None:
    """Where the values were made that the expression of the death works with."""
    for fact in case.all(ORIGINS):
        _, _, made = fact.value
        if made:
            told = ", ".join(name for name, _ in made)
            return Sign(
                "weak", f"the values in that line come from here ({told})", tuple(place for _, place in made), fatal=False
            )
    return None


def never_better(case: Case) -> bool:
    """Whether a file is missing that was to be written when a number became better: no comparison with NaN is true."""
    return any(fact.value["compares"] for fact in case.all(UNWRITTEN))


def unwritten_sign(case: Case) -> Sign | None:
    """Where the missing file would have been written, and on which condition."""
    for fact in case.all(UNWRITTEN):
        says = f"{fact.value['file']} is only written where `{fact.value['condition']}`"
        return Sign("weak", says, (fact.evidence, fact.value["place"]), fatal=False)
    return None


def at_the_scene(case: Case, fix: Fix) -> Fix:
    """Advice in words, with the line that it is about, what its names held there, and where those were made."""
    unwritten = unwritten_sign(case)
    if unwritten is not None:
        test, writer = unwritten.evidence
        return replace(fix, why=f"{unwritten.says} ({test.where}; written at {writer.where}); {fix.why}")
    for fact in case.all(ORIGINS):
        expression, held, made = fact.value
        words = f"it broke in `{expression}` at {fact.evidence.where}"
        words += f", where {', '.join(f'{name} is {value}' for name, value in held)}" if held else ""
        made_at = ", ".join(f"{name} at {place.where}" for name, place in made[:_MOST_TELLING])
        words += f"; these come from: {made_at}" if made else ""
        return replace(fix, why=f"{words}; {fix.why}")
    return fix


def _as_given(setting: Fact) -> str:
    name = setting.spelling or setting.name
    return f"{name} {setting.value}" if name.startswith("-") else f"{name} = {setting.value}"


def _within(spot: Spot) -> str:
    file = spot.file.replace("\\", "/")
    for part in ("site-packages/", "dist-packages/"):
        file = file.rpartition(part)[2]
    return f"{file}:{spot.line} in {spot.function}"
