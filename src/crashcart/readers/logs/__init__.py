"""Training logs as they are: from files of any size, number, encoding and launcher to a ``Log``."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from crashcart.cause import causes
from crashcart.deadline import Allowance, too_long
from crashcart.errors import CommandError
from crashcart.log import Index, Line, Log, Progress, Raised
from crashcart.readers.logs.attempts import find_attempts
from crashcart.readers.logs.collectives import find_collectives
from crashcart.readers.logs.endings import FINISHED, KILLED_WORDS, RESTARTED, find_deaths, find_finish, find_restarts
from crashcart.readers.logs.lines import rank_of_file, to_lines, without_shared_prefix
from crashcart.readers.logs.memory import OUT_OF_MEMORY, find_memory
from crashcart.readers.logs.parts import Part, Series, in_order, without_copies
from crashcart.readers.logs.progress import find_goal, find_metrics, find_progress, find_skips, phase_of_lines
from crashcart.readers.logs.scan import Scanner, scannable
from crashcart.readers.logs.source import Source, open_source
from crashcart.readers.logs.tracebacks import find_raised, goes_on_with_traceback
from crashcart.readers.logs.windows import Budget, Kept, keep
from crashcart.regular_files import containing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from crashcart.recording.print_times import Printed

__all__ = ["read_logs", "scanner", "structured"]

# Words that the structure of a log needs, beside the phrases of the causes.
_WORDS = (
    *FINISHED, *(word for word in KILLED_WORDS if word != "Killed"), *RESTARTED, *OUT_OF_MEMORY,
    "exitcode", "exit code", "exit status", "return code", "received by pid", "core dumped", "segmentation fault", "bus error",
    "watchdog", "last enqueued", "(most recent call first)", "stack (most recent", "thread 0x", "killed", "aborted",
    "terminated", "exited with", "signal", "you can sync this run", "wandb: synced", "wandb: find logs at",
)  # fmt: skip
_ONE_FILE = Budget()
_ALL_FILES_BYTES = 6 << 20  # that many files share; each keeps a little, whatever its share
_MOST_KEPT_BYTES = 5 << 20  # of all files together, which is what the causes have time for
_MOST_SEARCHED_KEPT_BYTES = 2 << 20  # the same for logs that nobody named
_SEARCHED_BYTES = 2 << 30  # of logs that nobody named, behind the first
_MOST_NAMED = 3
_ALL_PARTS_SECONDS, _LEAST_PARTS_SECONDS = 2.0, 0.5
Result = TypeVar("Result")


def scanner(*, engine: str = "auto") -> Scanner:
    """The scanner for everything that the knowledge base wants to see."""
    literals = {literal for cause in causes() for phrase in cause.phrases for literal in phrase.literals}
    return Scanner({literal for literal in literals if scannable(literal)} | set(_WORDS), engine=engine)


def read_logs(  # noqa: PLR0913 - by keyword
    paths: Sequence[str],
    *,
    progress: Callable[[int], None] | None = None,
    notes: list[str] | None = None,
    refused: list[str] | None = None,
    run_folders: Sequence[str] = (),
    printed: Mapping[str, Printed] | None = None,
    seconds: float | None = None,
    engine: str = "auto",
) -> Log:
    """Read logs into one ``Log``; what was wrong with an input is appended to ``notes``.

    With ``refused``, a log that cannot be opened is told there and costs only itself. Inside ``run_folders`` no link is followed.
    ``printed`` are the times of the logs, by their paths.
    ``seconds`` of processor time are given for logs that nobody named: the last one is read first, and the others as far as
    half of the time allows; the rest of it is for what they mean.
    """
    scan = lru_cache(maxsize=1)(lambda: scanner(engine=engine))
    paths = _each_once(paths)
    budget = _budget(len(paths))
    parts: list[Part] = []
    start = time.thread_time()
    searched = seconds is not None
    limits = _Limits(start + seconds / 2 if seconds is not None else None)
    named = list(zip(paths, _display_names(paths), strict=False))
    for path, name in reversed(named) if searched else named:
        if limits.leave_out(path, name):
            continue
        try:
            source = open_source(path, no_links_below=containing(path, run_folders), text_only=searched)
        except CommandError as problem:
            if refused is None:
                raise
            refused.append(str(problem))
            continue
        try:
            kept = keep(source, scan, budget, progress)
        finally:
            source.close()
        _note(source, kept, notes)
        limits.account(kept)
        rank = rank_of_file(path) if path != "-" else None
        parts.append(Part(path, name, rank, kept, (printed or {}).get(path)))
    if searched:
        parts.reverse()
    if notes is not None:
        notes += limits.notes()
    is_ordered = len(parts) < 2 or bool(run_folders)  # noqa: PLR2004 - one log, or those of a run, whose names we gave
    logs = [Series([part]) for part in parts] if is_ordered else in_order(without_copies(parts))
    lines = _lines_of(logs, notes)
    if seconds is None:
        return structured(lines, notes)
    left = start + seconds - time.thread_time()
    return structured(lines, notes, min(_ALL_PARTS_SECONDS, max(_LEAST_PARTS_SECONDS, left)))


class _Limits:
    """How much is read and kept of many logs, and which were left out."""

    def __init__(self, until: float | None) -> None:
        self._until = until
        self._bytes = self._kept = 0
        self._left_out: list[str] = []

    def leave_out(self, path: str, name: str) -> bool:
        """Whether a log has to be left out; the first never is."""
        is_full = self._kept > (_MOST_KEPT_BYTES if self._until is None else _MOST_SEARCHED_KEPT_BYTES)
        if self._until is not None and self._bytes:
            is_full |= time.thread_time() > self._until or self._bytes + _size(path) > _SEARCHED_BYTES
        if is_full:
            self._left_out.append(name)
        return is_full

    def account(self, kept: Kept) -> None:
        """Count what was read and kept of a log."""
        self._bytes += kept.size
        self._kept += kept.cost

    def notes(self) -> list[str]:
        """What to tell of the logs that were left out."""
        if not self._left_out:
            return []
        count = len(self._left_out)
        logs = f"{count} of the logs, such as {self._left_out[0]}" if count > 1 else self._left_out[0]
        return [f"{logs}: there is too much to read; give the logs that matter, or a smaller folder"]


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:  # told when it is opened
        return 0


def _each_once(paths: Sequence[str]) -> list[str]:
    """The paths without those that lead to a file that was named before."""
    found: dict[str, str] = {}
    for path in paths:
        found.setdefault(path if path == "-" else os.path.realpath(path), path)
    return list(found.values())


def _lines_of(logs: Iterable[Series], notes: list[str] | None) -> list[Line]:
    """The lines of all files in order; those of files that are one log belong together across the end of a file."""
    lines: list[Line] = []
    order = window = 0
    for series in logs:
        files: list[list[Line]] = []
        for part in series.parts:
            files.append(to_lines(part.kept.windows, part.name, order, window, notes))
            _set_times(files[-1], part.printed, order)
            order += part.kept.size + 1
            window += len(part.kept.windows)
        logged = [files] if series.is_one_log else [[own] for own in files]
        files = [own for together in logged for own in without_shared_prefix(together)]
        joined = _join_parts(series, files)
        rank = series.parts[-1].rank if series.is_one_log else None
        for place, part in enumerate(series.parts):
            _set_rank(files[place], rank if place in joined else part.rank)
            lines += files[place]
    return lines


def _join_parts(series: Series, files: Sequence[list[Line]]) -> set[int]:
    """Join files that are one log with those before them; which they are, by their places."""
    joined: set[int] = set()
    for place in range(1, len(files)):
        before, after = files[place - 1], files[place]
        if series.is_one_log or (series.may_be_one_log and goes_on_with_traceback(before, after)):
            _join(before, after)
            joined |= {place - 1, place}
    return joined


def _join(before: Sequence[Line], after: Sequence[Line]) -> None:
    """Make the lines of a file go on where those of another end."""
    if not before or not after:
        return
    shift = after[0].window - before[-1].window
    for line in after:
        line.log = before[-1].log
        line.window -= shift


def _set_times(lines: Iterable[Line], printed: Printed | None, begin: int) -> None:
    """When the lines of a file that begins at ``begin`` were printed."""
    if printed is not None:
        for line in lines:
            line.printed = printed.at(line.order - begin)


def _set_rank(lines: Iterable[Line], rank: int | None) -> None:
    """The rank that the name of a file tells, for lines that name none of their own."""
    if rank is not None:
        for line in lines:
            line.rank = rank if line.rank is None else line.rank


def structured(lines: list[Line], notes: list[str] | None = None, seconds: float = _ALL_PARTS_SECONDS) -> Log:
    """The meaning of kept lines; what took too long to find out is appended to ``notes``."""
    parts = _Parts(notes if notes is not None else [], seconds)
    index = Index(lines)
    raised: list[Raised] = parts.found("tracebacks", lambda: find_raised(lines), [])
    log = Log(
        lines=lines,
        raised=raised,
        deaths=parts.found("ends of processes", lambda: find_deaths(index), []),
        collectives=parts.found("collectives", lambda: find_collectives(index), []),
        memory=parts.found("messages about memory", lambda: find_memory(index, raised), []),
        metrics=parts.found("step lines", lambda: find_metrics(index), []),
        skips=parts.found("skipped steps", lambda: find_skips(index), []),
        progress=parts.found("the last step", lambda: find_progress(lines), Progress()),
        finished=parts.found("the end of the run", lambda: find_finish(index) or find_goal(index), None),
        restarts=parts.found("restarts", lambda: find_restarts(index), []),
        _index=index,
    )
    if not log.restarts:
        ended = [one.line.order for one in raised if one.kind and not one.survivable]
        ended += [death.line.order for death in log.deaths]
        log.attempts = parts.found("attempts", lambda: find_attempts(lines, log.metrics, ended), [])
    log.phase = parts.found("the phase", lambda: phase_of_lines(lines[-40:])[0], None)
    return log


class _Parts:
    """What is looked for in the lines, each in its share of the time."""

    def __init__(self, notes: list[str], seconds: float) -> None:
        self._allowance = Allowance(seconds, seconds / 2)
        self._notes = notes

    def found(self, what: str, task: Callable[[], Result], otherwise: Result) -> Result:
        result, in_time = self._allowance.attempt(task, otherwise)
        if not in_time:
            self._notes.append(f"finding {what} in it {too_long(self._allowance.share)}")
        return result


def _note(source: Source, kept: Kept, notes: list[str] | None) -> None:
    if notes is None:
        return
    if source.note:
        notes.append(source.note)
    if kept.flooded_by:
        texts = ", ".join(f'"{text.decode("utf-8", "replace").strip()}"' for text in kept.flooded_by[:_MOST_NAMED])
        more = f" and {len(kept.flooded_by) - _MOST_NAMED} more texts" if len(kept.flooded_by) > _MOST_NAMED else ""
        notes.append(f"{source.name}: most of the thousands of lines with {texts}{more}; the first and the last were read")
    if kept.sampled_bytes:
        megabytes = max(1, kept.sampled_bytes // 1_000_000)
        notes.append(
            f"{source.name}: most lines of {megabytes} MB in which nearly all lines match; some from everywhere were read"
        )


def _budget(files: int) -> Budget:
    if files <= 4:  # noqa: PLR2004 - a few files are read as one is
        return _ONE_FILE
    share = _ALL_FILES_BYTES // files
    return Budget(
        head=min(_ONE_FILE.head, max(256, share // 8)),
        tail=min(_ONE_FILE.tail, max(1 << 10, share // 4)),
        first=min(_ONE_FILE.first, max(1 << 10, share // 2)),
        last=min(_ONE_FILE.last, max(1 << 10, share // 2)),
        before=min(_ONE_FILE.before, max(512, share // 2)),
        after=min(_ONE_FILE.after, max(512, share // 4)),
        new=min(_ONE_FILE.new, share // 8),
        shaped=max(1 << 20, 2 * _ONE_FILE.shaped // files),
        again=min(_ONE_FILE.again, max(4, share >> 13)),
        samples=min(_ONE_FILE.samples, max(4, share >> 13)),
    )


def _display_names(paths: Iterable[str]) -> list[str]:
    """Names as short as they can be and still tell the files apart."""
    paths = [path if path != "-" else "standard input" for path in paths]
    short = [os.path.basename(path) for path in paths]
    return short if len(set(short)) == len(short) else [os.path.relpath(path) for path in paths]
