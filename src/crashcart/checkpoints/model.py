"""What is said about a checkpoint: a verdict, the reasons in plain sentences, and the files it stands on.

Four verdicts, because two would lie. `whole`: everything that can be checked without loading was checked and fits.
`broken`: it cannot be loaded. `doubtful`: it may load, yet something is as a crash leaves it. `unknown`: we could not
look.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

Verdict = Literal["whole", "broken", "doubtful", "unknown"]
Kind = Literal[
    "torch-zip",
    "torch-legacy",
    "torch-script",
    "lightning",
    "pickle",
    "safetensors",
    "json",
    "placeholder",
    "sharded",
    "model",
    "dcp",
    "accelerate",
    "trainer",
    "deepspeed",
    "megatron",
    "files",
    "unknown",
]

_BEST_FIRST: Final[tuple[Verdict, ...]] = ("whole", "unknown", "doubtful", "broken")


@dataclass(frozen=True)
class Part:
    """One file of a checkpoint."""

    path: Path
    kind: Kind
    size_bytes: int
    verdict: Verdict
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint, a file or a folder; `modified` is in seconds since 1970."""

    path: Path
    kind: Kind
    step: int | None
    epoch: int | None
    size_bytes: int
    modified: float
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    files: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and how bad it is."""

    verdict: Verdict
    says: str


@dataclass(frozen=True)
class Look:
    """What one file showed; `numbers`, `empty` and `keys` come from the outermost dict that it holds.

    `shards` is what an index lists: by file, the names of the tensors that must be in it.
    """

    kind: Kind
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    unread_bytes: int = 0
    numbers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    empty: frozenset[str] = frozenset()
    keys: frozenset[str] | None = None
    shards: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def verdict(self) -> Verdict:
        """The worst of its problems."""
        return worst(problem.verdict for problem in self.problems)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The problems, then what is worth knowing beside them."""
        unread = (unread_sentence(self.unread_bytes),) if self.unread_bytes else ()
        return (*(problem.says for problem in self.problems), *self.notes, *unread)


class DamageError(Exception):
    """Ends the reading of one file: what was found makes the rest meaningless."""

    def __init__(self, problem: Problem) -> None:
        """Keep what was found."""
        super().__init__(problem.says)
        self.problem = problem


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst verdict; none at all is whole."""
    return max(verdicts, key=_BEST_FIRST.index, default="whole")


def in_words(size_bytes: int) -> str:
    """Write a size as people say it: 512 bytes, 9.2 GB."""
    if size_bytes < 1000:  # noqa: PLR2004  the first step of the decimal units
        return "1 byte" if size_bytes == 1 else f"{size_bytes} bytes"
    amount = float(size_bytes)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 999.95:  # noqa: PLR2004  so that 999 999 bytes are 1.0 MB and not 1000.0 kB
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} TB"


def unread_sentence(size_bytes: int) -> str:
    """Say that only the structure was looked at."""
    return f"structure only: the checksums of {in_words(size_bytes)} were not read"
