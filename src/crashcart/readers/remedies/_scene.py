"""The scene of a death or a hang: what was raised, where everybody stood, and the parsed files in which that was.

Paths of the program are those of the working folder, as the launch sees them; frames carry whole paths. ``source`` brings the two
together.
"""

from __future__ import annotations

import ast
import os
import shlex
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from crashcart.account import reported
from crashcart.causes.hang._recorded import stood_at_hang
from crashcart.deaths import first
from crashcart.errors import CommandError
from crashcart.model import Evidence, Fact, Fix, Span
from crashcart.numbers import to_int
from crashcart.places import Spot, frames_of_first, is_own, of_event, of_raised, spot_of
from crashcart.readers.code.source import Source
from crashcart.readers.job.script_files import text_of
from crashcart.readers.project import files_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case
    from crashcart.flight import Event, Stood
    from crashcart.log import Raised
    from crashcart.model import Edit, Safety
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.plan import Plan

__all__ = ["REMEDY", "Raise", "Scene", "remedy", "statement_at"]

REMEDY = "scene.remedy"
_MOST_FILES = 200
_POSITION = 4  # numbers
_SCRIPTS = (".sh", ".sbatch", ".slurm")


class Raise:
    """An exception: its kind without the module, its words, and the user's own frames, outermost first."""

    __slots__ = ("frames", "kind", "words")

    def __init__(self, kind: str, words: str, frames: Sequence[Spot]) -> None:
        self.kind, self.words = kind.rpartition(".")[2], words
        self.frames = [spot for spot in frames if is_own(spot.file)]


def _of_event(event: Event) -> Raise:
    return Raise(str(event.details.get("type", "")), str(event.details.get("message", "")), of_event(event))


def _of_raised(raised: Raised) -> Raise:
    return Raise(raised.kind, raised.message, of_raised(raised))


class Scene:
    """What a remedy may look at."""

    def __init__(self, case: Case, plan: Plan) -> None:
        self.case, self.plan = case, plan
        self._read: dict[str, Source | None] = {}

    @property
    def execution(self) -> Execution | None:
        """The program as it was followed in thought."""
        return self.plan.execution

    @cached_property
    def raises(self) -> list[Raise]:
        """What was raised: first what ended the program, then what ended its threads."""
        leader = first(self.case)
        ended = [_of_event(leader.raised)] if leader is not None and leader.raised is not None else []
        return [*ended, *self.thread_raises, *(_of_raised(raised) for raised in self.case.log.raised if raised.kind)]

    @cached_property
    def thread_raises(self) -> list[Raise]:
        """What ended threads, and what the program caught and wrote into a file of its own."""
        flight = self.case.flight
        events = [*flight.of_kind("exception")] if flight is not None else []
        threads = [_of_event(event) for event in events if event.details.get("thread") not in {None, "MainThread"}]
        written = reported(self.case)
        return [*threads, *([_of_raised(written)] if written is not None else [])]

    @cached_property
    def main_command(self) -> list[str]:
        """The words of the program that decided how the run ended."""
        flight = self.case.flight
        stage = flight.stage if flight is not None else None
        main = flight.processes.get(stage.mains[0]) if flight is not None and stage is not None and stage.mains else None
        try:
            return shlex.split(main.command) if main is not None else []
        except ValueError:  # a quote that was cut off
            return []

    @cached_property
    def optimizer_without_gradients(self) -> bool:
        """Whether a recording saw an optimizer none of whose tensors had a gradient, though some of them may have one."""
        events = self.case.flight.of_kind("no gradients") if self.case.flight is not None else ()
        return any(to_int(event.details.get("without"), 0) > 0 for event in events)

    @cached_property
    def is_on_gpu(self) -> bool:
        """Whether the ranks speak to each other by NCCL, which takes only what is on a GPU."""
        events = self.case.flight.of_kind("settings") if self.case.flight is not None else ()
        groups = [
            dict(event.details.get("settings") or ()) for event in events if event.details.get("source") == "process group"
        ]
        return any("nccl" in str(group.get("backend")) for group in groups)

    @cached_property
    def ranks(self) -> int:
        """How many ranks were seen."""
        return len(self.case.flight.ranks) if self.case.flight is not None else 1

    @cached_property
    def has_trained(self) -> bool:
        """Whether it had made more than one step when it died."""
        pages = [process.page for process in self.case.flight.ranks] if self.case.flight is not None else []
        return any(page.get("steps", 0.0) > 1 for page in pages)

    @cached_property
    def place(self) -> Spot | None:
        """The innermost line of the user's own files where it died."""
        return next(reversed(frames_of_first(self.case)), None)

    @cached_property
    def _looked_at(self) -> list[dict[str, Any]]:
        """What the recording keeps of the frames of the first exception: their names, and where in the line they were."""
        leader = first(self.case)
        raised = leader.raised if leader is not None else None
        return list(raised.details.get("locals") or ()) if raised is not None else []

    @cached_property
    def columns(self) -> dict[Spot, tuple[int, ...]]:
        """First and last line, first and last column of what a frame was working out, as syntax trees count them."""
        places = ((spot_of(str(each.get("frame"))), each.get("columns")) for each in self._looked_at)
        return {
            spot: tuple(numbers)
            for spot, numbers in places
            if spot is not None and isinstance(numbers, list) and len(numbers) == _POSITION
        }

    def names_at(self, spot: Spot) -> dict[str, str]:
        """The names of a frame, and what they held: types and shapes."""
        for each in self._looked_at:
            names = each.get("names")
            if spot_of(str(each.get("frame"))) == spot and isinstance(names, dict):
                return {name: value for name, value in names.items() if isinstance(value, str)}
        return {}

    @cached_property
    def stood(self) -> list[Spot]:
        """The user's own lines in which it stood when it no longer moved: of every process the innermost first."""
        return [spot for spots in self.stacks for spot in spots]

    @cached_property
    def _stood(self) -> tuple[Stood, ...]:
        return stood_at_hang(self.case.flight) if self.case.flight is not None else ()

    @cached_property
    def stacks(self) -> list[list[Spot]]:
        """The user's own frames of each process in which it stood, innermost first."""
        found = [[Spot(frame.file, frame.line, frame.function) for frame in each.frames] for each in self._stood]
        return [[spot for spot in spots if is_own(spot.file)] for spots in found]

    @cached_property
    def stack_texts(self) -> list[str]:
        """The stacks of all threads of each process, as they were written."""
        return [each.text for each in self._stood]

    def is_worker(self, frames: list[Spot]) -> bool:
        """Whether a stack is that of a process which a loader or a pool has forked."""
        each = self._stood[next(number for number, spots in enumerate(self.stacks) if spots is frames)]
        return each.role not in {"rank", "program"}

    def source(self, file: str) -> Source | None:
        """The parsed file of a frame, told as the launch sees it."""
        if file not in self._read:
            self._read[file] = self._source(file)
        return self._read[file]

    def _source(self, file: str) -> Source | None:
        here = os.path.relpath(file) if os.path.isabs(file) else file
        for source in self.plan.program.sources:
            if os.path.normpath(source.path) == os.path.normpath(here):
                return source
        if here.startswith("..") or not os.path.isfile(here):
            return None
        try:
            return Source(here, text_of(here))
        except (CommandError, OSError, SyntaxError, ValueError, RecursionError):
            return None

    @cached_property
    def sources(self) -> list[Source]:
        """Every file of the program, and those in which something happened that was not followed there."""
        known = list(self.plan.program.sources)
        spots = [*self.stood, *(spot for each in self.raises for spot in each.frames)]
        more = (self.source(spot.file) for spot in spots)
        return [*known, *dict.fromkeys(source for source in more if source is not None and source not in known)]

    def project_sources(self, *words: str) -> list[Source]:
        """Every file of the project that has these words: a launch script may start several programs."""
        found = [source for source in self.sources if all(word in source.text for word in words)]
        known = {os.path.normpath(source.path) for source in self.sources}
        for path in islice((path for path in files_of(".") if path.endswith(".py")), _MOST_FILES):
            try:
                has_words = os.path.normpath(path) not in known and all(word in text_of(path) for word in words)
            except (CommandError, OSError):
                continue
            source = self.source(path) if has_words else None
            found += [source] if source is not None else []
        return found

    @cached_property
    def scripts(self) -> list[str]:
        """The launch scripts: those that were read for the job, and those that its command names."""
        said = str(self.case.flight.facts.get("command") or "") if self.case.flight is not None else ""
        words = [word.strip("\"'") for word in said.split()]
        named = [word for word in words if word.endswith(_SCRIPTS) and os.path.isfile(word)]
        known = [path for path in self.plan.files if path.endswith((*_SCRIPTS, "Makefile"))]
        return sorted({os.path.normpath(path) for path in (*known, *named)})

    def at(self, spot: Spot | None) -> tuple[Source, ast.stmt] | None:
        """The statement of a frame."""
        source = self.source(spot.file) if spot is not None else None
        node = statement_at(source, spot.line) if source is not None and spot is not None else None
        return (source, node) if source is not None and node is not None else None


def statement_at(source: Source, line: int) -> ast.stmt | None:
    """The innermost statement that stands on a line; of a loop or a test only its head is meant."""
    around = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)


def remedy(
    causes: Sequence[str], title: str, safety: Safety, why: str, edits: Sequence[Edit], seen: Evidence
) -> Iterator[Fact]:
    """The fact of a fix that has edits; nothing where it has none."""
    if edits:
        yield Fact(REMEDY, (tuple(causes), Fix(title, safety, why, edits=tuple(edits))), seen, "code")


def lines_of_script(path: str) -> Iterator[tuple[int, str, Evidence]]:
    """Where each line of a launch script begins, the line, and the line as evidence; none of a script that cannot be read."""
    try:
        text = text_of(path)
    except (CommandError, OSError):
        return
    start = 0
    for number, line in enumerate(text.split("\n"), 1):
        yield start, line, Evidence("script", line.strip(), f"{path}:{number}")
        start += len(line) + 1


def span_in(place: Evidence, begin: int, end: int) -> Span:
    """A part of a script by the line that shows it."""
    path, _, number = place.where.rpartition(":")
    return Span(path, begin, end, to_int(number, 1))
