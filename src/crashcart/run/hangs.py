"""Whether a job still makes progress, and who is the odd one out.

Suspicion comes first, is silent and only takes stacks. The early limit applies where it is proven that the job cannot go on
(``waiting.py``); without a proof the alarm needs the longer limit and two equal stacks. Being alive is no
progress: a rank can send signs of life for hours. What a phase of this job has needed before is what it may need again; while
the rank that the others wait for still works (a first checkpoint, an evaluation, a compilation, a download), it gets long.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from crashcart.collective_frames import waits_for_ranks
from crashcart.flight import median

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from crashcart.flight import Frame
    from crashcart.run.stacks import Stack

__all__ = ["FLOOR", "Odd", "Progress", "apart", "is_own", "odd_one_out", "place_of", "same_places", "waits_for_others"]

SUSPECT_FLOOR = 5.0
SUSPECT_STEPS = 8
FLOOR = 60.0  # seconds without progress that are no hang, whatever the job
ALARM_STEPS = 30
LONG_STEPS = 100  # of a phase that is long by nature
ALARM_LONGEST = 3
# In floors: when stacks are taken again; what a long phase and what a start may take in which nothing moves; what a job gets that
# sleeps or waits for something outside (a download, an actor, a user); what a rank gets that still works.
AGAIN, LONG, START, PAUSES, WORKS = 0.25, 3, 10, 5, 20
# Where a hang is proven: the share of the floor after which it is announced (15 s of 60), the share for which nothing may have
# moved, the least of both in seconds, and how many times the longest phase of that kind must have passed.
EARLY, QUIET, EARLY_LEAST, QUIET_LEAST, EARLY_LONGEST = 1 / 4, 1 / 6, 5.0, 3.0, 10
_HISTORY = 200
_REGULAR = frozenset({"train", "data"})
_LONG = frozenset({"evaluate", "sample", "checkpoint", "load", "compile"})
_STEPS_KNOWN = 3
_MOST_TOLD = 4

_STANDARD = ("/lib/python3", "<frozen")
_PACKAGES = ("site-packages", "dist-packages")


class Progress:
    """The progress of one rank: what it counts, how long its phases have taken, and since when nothing was counted."""

    def __init__(self, now: float, floor: float = FLOOR) -> None:
        self.since = now
        self.floor = floor
        self.counted: tuple[float, ...] = ()
        self.mark = 0.0
        self.phase = "start-up"
        self.gaps: deque[float] = deque(maxlen=_HISTORY)
        self.longest: dict[str, float] = {}
        self.suspicions = 0

    def update(self, counted: tuple[float, ...], phase: str, now: float, mark: float = 0.0) -> None:
        """Note what the rank counts now, and when it last said itself that it got on; any change is progress."""
        if counted == self.counted and mark == self.mark:
            self.phase = phase
            return
        moment = mark if mark != self.mark and self.since < mark <= now else now
        gap = moment - self.since
        if self.begun:
            done = max((new - old for new, old in zip(counted, self.counted, strict=False)), default=0.0)
            if self.phase in _REGULAR and phase in _REGULAR and done > 0:
                self.gaps.append(gap / done)
            self.longest[self.phase] = max(gap / max(done, 1.0), self.longest.get(self.phase, 0.0))
        self.counted, self.mark, self.phase, self.since = counted, mark, phase, moment
        self.suspicions = 0

    @property
    def begun(self) -> bool:
        """Whether training has begun: something was counted."""
        return any(self.counted)

    @property
    def step(self) -> float:
        """How long a step takes as a rule; 0 before there were some."""
        return median(self.gaps) if len(self.gaps) >= _STEPS_KNOWN else 0.0

    def suspicious(self, now: float) -> bool:
        """Whether stacks are worth taking: after some steps' time, soon again, then less and less often."""
        first = max(min(SUSPECT_FLOOR, self.floor / 3), SUSPECT_STEPS * self.step)
        if self.phase not in _REGULAR:  # as long as this phase has needed before is nothing new
            first = max(first, 1.2 * self.longest.get(self.phase, 0.0))
        if not self.begun:
            first = max(first, self.floor / 2)
        more = 0.0 if not self.suspicions else AGAIN * self.floor * 1.5 ** (self.suspicions - 1)
        return now - self.since > first + more

    def early_limit(self) -> float:
        """How long this phase may go without progress where it is proven that nothing can end it."""
        longest = EARLY_LONGEST * self.longest.get(self.phase, 0.0)
        return max(min(EARLY_LEAST, self.floor), EARLY * self.floor, longest)

    def limit(self, *, moves: bool, pauses: bool = False) -> float:
        """How long this phase may go without progress before it is called a hang; ``moves``: it still works; ``pauses``: it may go on."""
        if not self.begun:
            if self.phase == "tracker":
                return self.floor
            return inf if moves else START * self.floor
        known = max(ALARM_LONGEST * self.longest.get(self.phase, 0.0), ALARM_STEPS * self.step, self.floor)
        if self.phase in _LONG:
            known = max(known, LONG_STEPS * self.step, LONG * self.floor)
        if moves:
            return max(known, WORKS * self.floor)
        return max(known, PAUSES * self.floor) if pauses else known


class Odd(NamedTuple):
    """The rank that keeps the others waiting (none where all stand at one place), where it stands, and how that was told."""

    rank: int | None
    pid: int
    where: str
    why: str


def waits_for_others(stack: Stack) -> bool:
    """Whether a rank stands in a collective, or in a backward pass whose collectives it waits for."""
    return waits_for_ranks(stack.frames)


def same_places(before: Sequence[Stack], after: Sequence[Stack]) -> bool:
    """Whether all ranks stand where they stood; how they turn inside a queue or an event loop does not matter."""
    return bool(before) and _places(before) == _places(after)


def odd_one_out(stacks: Sequence[Stack], counts: Mapping[int, tuple[float, ...]], idle: Collection[int] = ()) -> Odd | None:
    """Which rank is not where the others wait: by its stack, and where that does not tell, by what it has counted.

    ``idle`` are the ranks that use no processor: one that waits for its device spins.
    """
    ranks = _of_ranks(stacks)
    if not ranks:
        return None
    if len(ranks) == 1:
        return _odd(ranks[0], "it is the only rank")
    absent = [stack for stack in ranks if not waits_for_others(stack)]
    if len(absent) == 1:
        others = "the other rank waits" if len(ranks) == 2 else f"the other {len(ranks) - 1} wait"  # noqa: PLR2004 - one of two
        return _odd(absent[0], f"{others} for it in a collective")
    quiet = [stack for stack in absent if stack.pid in idle]
    places = [stack.place for stack in ranks]
    lonely = [stack for stack in ranks if places.count(stack.place) == 1]
    if len(absent) > 1 and (behind := _behind(absent, counts)):
        return _odd(behind, "it has done the fewest steps, and is not in a collective")
    if len(absent) > 1 and len(quiet) == 1:
        return _odd(quiet[0], "it does nothing, while the others busy-wait for their GPU")
    if behind := _behind(ranks, counts):
        return _odd(behind, "it has done the fewest steps")
    if len(ranks) > 2 and len(lonely) == 1:  # noqa: PLR2004 - of two neither is the majority
        return _odd(lonely[0], "it waits in a different place than the others")
    if len(set(places)) == 1 and len(absent) == len(ranks):
        return _odd(ranks[0], f"all {len(ranks)} ranks are there")._replace(rank=None)
    return None


def apart(stacks: Sequence[Stack]) -> str:
    """Where each rank waits, in words, if all of them wait in collectives that are not the same one."""
    told: dict[int, str] = {}
    for stack in _of_ranks(stacks):
        frame, call = place_of(stack), _called(stack)
        if frame is None or not waits_for_others(stack) or stack.rank is None:
            return ""
        told[stack.rank] = f"{call} at {frame.file}:{frame.line}"
    if len(set(told.values())) < 2:  # noqa: PLR2004 - they differ
        return ""
    return "; ".join(f"rank {rank} in {place}" for rank, place in sorted(told.items())[:_MOST_TOLD])


def _called(stack: Stack) -> str:
    """The collective as the program called it: the outermost frame of the library below the user's own."""
    own = place_of(stack)
    above = stack.frames[: stack.frames.index(own)] if own in stack.frames else ()
    named = [frame.function for frame in above if not frame.function.startswith(("_", "<")) and frame.function != "wrapper"]
    return named[-1] if named else "a collective"


def place_of(stack: Stack) -> Frame | None:
    """The innermost frame that is the user's own, or else the innermost."""
    frames = [frame for frame in stack.frames if "crashcart/inside/" not in frame.file]
    return next((frame for frame in frames if is_own(frame)), next(iter(frames), None))


def is_own(frame: Frame) -> bool:
    """Whether it is the user's own code, and no library's."""
    return not any(part in frame.file for part in (*_PACKAGES, *_STANDARD))


def _odd(stack: Stack, why: str) -> Odd:
    frame = place_of(stack)
    where = f"{frame.file}:{frame.line} in {frame.function}" if frame is not None else "an unknown place"
    return Odd(stack.rank, stack.pid, where, why)


def _of_ranks(stacks: Iterable[Stack]) -> list[Stack]:
    return [stack for stack in stacks if stack.rank is not None and stack.role.startswith("rank")]


def _places(stacks: Sequence[Stack]) -> dict[int, object]:
    return {stack.pid: [(frame.file, frame.function) for frame in _inner(stack.frames)] for stack in _of_ranks(stacks)}


def _inner(frames: Sequence[Frame]) -> Sequence[Frame]:
    """The frames without Python's own (queues, events, sockets) at the innermost end."""
    for at, frame in enumerate(frames):
        if not any(part in frame.file for part in _STANDARD) or any(part in frame.file for part in _PACKAGES):
            return frames[at:]
    return frames


def _behind(stacks: Iterable[Stack], counts: Mapping[int, tuple[float, ...]]) -> Stack | None:
    known = sorted((counts[stack.pid], stack.pid, stack) for stack in stacks if stack.pid in counts)
    if len(known) > 1 and known[0][0] < known[1][0]:
        return known[0][2]
    return None
