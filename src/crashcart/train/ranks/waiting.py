"""How a rank waits for another one that prepares: short looks, a word now and then, an end when the other one is lost."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any

from crashcart.train.ranks.identity import age, alive, machine, process_of, signature
from crashcart.train.ranks.noticeboard import BoardGone

if TYPE_CHECKING:
    from crashcart.train.ranks.meeting import Meeting

__all__ = ["FirstRankError", "note_now", "wait"]

SHORTEST_LOOK_SECONDS = 0.05
LONGEST_LOOK_SECONDS = 1.0
WORD_SECONDS = 30.0  # then twice as long each time, at most:
RAREST_WORD_SECONDS = 600.0
CLOCK_SECONDS = 2.0  # by which the clocks of two machines may differ
OLD_NOTE_SECONDS = 300.0
_log = logging.getLogger("crashcart.train")


class FirstRankError(RuntimeError):
    """The rank that prepares for the others failed, died, or went by; said on every rank that waited for it."""


def note_now(rank: int) -> dict[str, Any]:
    """What a rank leaves for the others: who it is, and when it wrote."""
    return {**signature(), "rank": rank, "at": time.time(), "boot": _since_boot()}


def _since_boot() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def fresh(note: dict[str, Any]) -> bool:
    """Whether a note is of this attempt: torchrun's store outlives the ranks of an attempt, and a folder the whole job."""
    my_age = age()
    if my_age is None or alive(note):
        return True
    if note.get("machine") == machine():
        return "boot" not in note or bool(note["boot"] >= _since_boot() - my_age)
    return bool(note["at"] >= time.time() - my_age - CLOCK_SECONDS)


def wait(met: Meeting, key: str, name: str, limit: float | None, silence: float) -> None:
    """Return when the first rank is through; raise its error, or say that it is lost."""
    begin = time.monotonic()
    look, word = SHORTEST_LOOK_SECONDS, WORD_SECONDS
    watch = _Watch(met, key, name, silence)
    while True:
        try:
            if watch.over(time.monotonic() - begin):
                return
        except BoardGone as error:
            raise FirstRankError(
                watch.killed()
                or f"Rank {met.rank} waited for {watch.who} in rank_zero_first({name!r}), but {error}: the process that kept it, "
                "the launcher or rank 0, has ended. Look at the end of its log."
            ) from None
        waited = time.monotonic() - begin
        if limit is not None and waited > limit:
            raise FirstRankError(f"Rank {met.rank} waited {waited:.0f} s, its limit, for {watch.standing()}.")
        if waited >= word:
            _log.warning("rank %d has waited %.0f s for %s", met.rank, waited, watch.standing())
            word += min(word, RAREST_WORD_SECONDS)
        time.sleep(look)
        look = min(look * 1.3, LONGEST_LOOK_SECONDS)


class _Watch:
    """What is known of the rank that is waited for."""

    def __init__(self, met: Meeting, key: str, name: str, silence: float) -> None:
        self.met, self.key, self.name, self.silence = met, key, name, silence
        self.who = "the first rank of this machine" if met.first_rank is None else f"rank {met.first_rank}"
        self.begun: dict[str, Any] | None = None
        self.process: dict[str, Any] | None = None
        self.beat: bytes | None = None
        self.beat_seen = time.monotonic()

    def standing(self) -> str:
        """Who is waited for, and what is known of it."""
        call = f"rank_zero_first({self.name!r})"
        if self.begun is None:
            return f"{self.who}, which has not come to {call} yet"
        silent = time.monotonic() - self.beat_seen
        sign = f"; no sign of life for {silent:.0f} s" if silent > 10 else ""  # noqa: PLR2004 - five that did not come
        host = self.begun["machine"].split()[0]
        return f"{self.who} (pid {self.begun['pid']} on {host}), which prepares in {call}{sign}"

    def over(self, waited: float) -> bool:
        """Whether the first rank is through; raises if it never will be."""
        if self._through(waited):
            return True
        lost = self._lost()
        if lost is None:
            return False
        if self._through(waited):  # it may have told so between our look at the notes and our look at the process
            return True
        raise FirstRankError(lost)

    def _through(self, waited: float) -> bool:
        done = self.met.get(f"{self.key}/done")
        if done is None or not self._counts(done, waited):
            return False
        if "error" in done:
            raise FirstRankError(_failed(done, self.name))
        return True

    def _counts(self, done: dict[str, Any], waited: float) -> bool:
        if not self.met.board.outlives or fresh(done):
            return True
        exact = done.get("machine") == machine() and "TORCHELASTIC_RUN_ID" in os.environ
        if exact or waited < OLD_NOTE_SECONDS or "error" in done:
            return False
        _log.warning("rank %d goes on after an old note of rank %d: no newer one came", self.met.rank, done["rank"])
        return True

    def _now(self, key: str) -> dict[str, Any] | None:
        note = self.met.get(key)
        return note if note is None or not self.met.board.outlives or fresh(note) else None

    def _lost(self) -> str | None:
        """Why the first rank will never be through, as far as that can be seen."""
        if self.begun is None:
            self.begun = self._now(f"{self.key}/begun")
            if self.begun is None:
                return self._gone_by()
            self.who = f"rank {self.begun['rank']}"
            self.beat_seen = time.monotonic()
        beat = self.met.board.read(f"{self.key}/beat")
        if beat != self.beat:
            self.beat, self.beat_seen = beat, time.monotonic()
        silent = time.monotonic() - self.beat_seen
        if alive(self.begun) is None and silent > self.silence:
            return self._ended(self.begun, f"has given no sign of life for {silent:.0f} s")
        return self.killed()

    def killed(self) -> str | None:
        """That the first rank died at its work, where its process can be seen from here."""
        if self.begun is None or alive(self.begun) is not False:
            return None
        return self._ended(self.begun, "was killed or crashed")

    def _ended(self, begun: dict[str, Any], how: str) -> str:
        return (
            f"{self.who.capitalize()} (pid {begun['pid']} on {begun['machine'].split()[0]}) {how} while it prepared "
            f"in rank_zero_first({self.name!r}): look at the end of its log."
        )

    def _gone_by(self) -> str | None:
        """A first rank that has ended will not come to this call; one that never took part is known by its process, if at all."""
        if self.met.first_rank is None:
            return None
        last = self._now(f"rank {self.met.first_rank}")
        if last is None:
            if self.process is None:
                self.process = process_of(self.met.first_rank) or {}
            last = {**self.process, "left": False} if self.process else None
        if last is None or not (last["left"] or alive(last) is False):
            return None
        return (
            f"{self.who.capitalize()} ended without coming to rank_zero_first({self.name!r}), for which rank {self.met.rank} "
            "waits: every rank must make the same calls."
        )


def _failed(done: dict[str, Any], name: str) -> str:
    trace = "\n".join(f"  | {line}" for line in done["trace"].rstrip().splitlines())
    return (
        f"Rank {done['rank']} failed in rank_zero_first({name!r}), so nothing is prepared: {done['error']}: {done['text']}\n"
        f"Its traceback:\n{trace}"
    )
