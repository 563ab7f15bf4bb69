"""The types that flow through crashcart: evidence, facts, signs, fixes, findings.

Data goes one way: readers fill a ``Case`` (in ``case.py``), causes turn it into signs, the engine into findings, reports
show those. Everything here is plain, frozen and needs the standard library only.
"""

from __future__ import annotations

from typing import Any, Literal

from crashcart.record import field, record

__all__ = [
    "HARMLESS",
    "Diagnosis",
    "Edit",
    "Ending",
    "Evidence",
    "Experiment",
    "Fact",
    "Finding",
    "Fix",
    "NotLooked",
    "RuledOut",
    "Sign",
    "Span",
    "StageReport",
    "StoryEvent",
    "Verdict",
]

Strength = Literal["decisive", "strong", "weak", "against"]
Safety = Literal["exact", "same-recipe", "changes-training", "by-hand"]
HARMLESS: frozenset[Safety] = frozenset({"exact", "same-recipe"})  # what may be patched without asking again
Role = Literal["cause", "contributing", "echo"]
Level = Literal["did", "may", "will", "can", "note"]
State = Literal["running", "crashed", "killed", "hung", "stopped", "finished", "unknown"]


@record(frozen=True)
class Evidence:
    """One thing that was seen, as it stands, and the place to see it again."""

    source: str
    quote: str
    where: str
    rank: int | None = None
    time: str | None = None


@record(frozen=True)
class Span:
    """Where a value stands in a text file: character offsets, and the line for people."""

    file: str
    start: int
    end: int
    line: int


@record(frozen=True)
class Fact:
    """A setting under its canonical name, with the value that the program will see and where it came from.

    ``spelling`` is how the job itself writes the name (``--sample_batch_size``); ``origin`` is flag, file, environment,
    code or default.
    """

    name: str
    value: Any
    evidence: Evidence
    origin: str = "flag"
    spelling: str = ""
    span: Span | None = None


@record(frozen=True)
class Sign:
    """One reason to believe or doubt a cause.

    ``fatal`` says that the thing seen ends a process by itself; a sign that healthy runs show too is not fatal.
    ``order`` is where it stands in the log, so that what came first can be put first. ``survived`` marks an exception that the
    program seems to have got over.
    """

    strength: Strength
    says: str
    evidence: tuple[Evidence, ...] = ()
    fatal: bool = True
    order: int = 0
    survived: bool = False


@record(frozen=True)
class Edit:
    """Replace one span of a file."""

    span: Span
    text: str


@record(frozen=True)
class Fix:
    """A remedy: settings to change by canonical name, environment variables, or words for a person.

    Safety grades: ``exact`` is the same training to the bit, ``same-recipe`` the same hyper-parameters in another random
    order, ``changes-training`` another training, ``by-hand`` needs a person. ``settings`` are resolved against the facts of
    the case into ``edits`` and ``arguments`` by ``patch.py``.
    """

    title: str
    safety: Safety
    why: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    diff: str = ""


@record(frozen=True)
class Experiment:
    """What to run to settle a cause, and beforehand what would confirm and what would refute it."""

    title: str
    confirms: str
    refutes: str
    change: dict[str, Any] = field(default_factory=dict)
    start_from: str = "the newest complete checkpoint"
    stop_after: str = "the failing step, and the next step with the same work"


@record(frozen=True)
class Verdict:
    """What an experiment showed; it becomes evidence in the next diagnosis."""

    result: Literal["confirmed", "refuted", "inconclusive"]
    says: str
    evidence: tuple[Evidence, ...] = ()


@record(frozen=True)
class Finding:
    """A cause with what speaks for it, what speaks against it, and what to do."""

    cause: str
    title: str
    role: Role
    level: Level
    strength: Strength
    score: float
    signs: tuple[Sign, ...] = ()
    fixes: tuple[Fix, ...] = ()
    experiment: Experiment | None = None
    verdict: Verdict | None = None


@record(frozen=True)
class RuledOut:
    """A cause that was looked for where it would show, and is not there."""

    cause: str
    title: str
    evidence: tuple[Evidence, ...] = ()


@record(frozen=True)
class NotLooked:
    """Something that could not be looked at, why, and how to have it next time."""

    what: str
    why: str
    how: str = ""


@record(frozen=True)
class Ending:
    """How the run ended, as far as the evidence tells."""

    state: State = "unknown"
    exit_code: int | None = None
    signal: str | None = None
    step: int | None = None
    optimizer_steps: int | None = None
    phase: str | None = None
    first_rank: int | None = None


@record(frozen=True)
class StageReport:
    """One program of a run: its name, what it was for, how many ranks it had, how it ended, and whether that decided the outcome.

    ``arguments`` are those by which it differs from the other stages of the same program.
    """

    program: str
    role: str
    ranks: int
    ending: Ending
    decided: bool = False
    arguments: str = ""


@record(frozen=True)
class StoryEvent:
    """One thing that happened to a run: when, to whom, in one sentence. ``time`` is Unix time where a clock is known."""

    kind: str
    says: str
    evidence: tuple[Evidence, ...] = ()
    time: float | None = None
    rank: int | None = None
    step: int | None = None
    abnormal: bool = False


@record(frozen=True)
class Diagnosis:
    """The whole answer of one verb about one subject."""

    verb: str
    subject: str
    ending: Ending
    findings: tuple[Finding, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    not_looked: tuple[NotLooked, ...] = ()
    notes: tuple[Evidence, ...] = ()
    run: str | None = None
    says: str = ""  # the first line where nothing is blamed
    stages: tuple[StageReport, ...] = ()
    story: tuple[StoryEvent, ...] = ()
    happens_now: bool = False  # the job is still there
    files_read: int = 0  # of a job before its start
