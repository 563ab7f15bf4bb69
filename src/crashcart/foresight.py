"""What will, can or might go wrong in a job that has not been started.

The same causes are asked as after a death, but there is nothing to weigh between them: each finding stands for itself. A
decisive sign says that the job *will* die of it (code, config and launch were joined), a strong one that it *can* under the
condition that it states, a weak one is a note. One cause can have findings of several levels, each with its own places.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from crashcart.cause import Cause, causes
from crashcart.engine import CONTRIBUTING, WEIGHT, asked, causes_allowance, not_asked, remedies
from crashcart.errors import Missing
from crashcart.model import Diagnosis, Ending, Evidence, Finding, RuledOut, Sign
from crashcart.numbers import to_count
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from crashcart.case import Case
    from crashcart.deadline import Allowance
    from crashcart.model import Fix, Level, Strength

__all__ = ["LEVELS", "foresee", "merged", "news"]

PARTS = ("in_config", "in_code", "in_data", "in_machine")
LEVELS: dict[Strength, Level] = {"decisive": "will", "strong": "can", "weak": "note"}
_FAR = 1 << 30
_MOST_SIGNS = 40  # of one cause and level; a hundred missing files are told by the first of them
ORDER: tuple[Level, ...] = ("will", "can", "note")


def foresee(
    case: Case, *, subject: str = "", resolve: Callable[[Fix], Fix] | None = None, allowance: Allowance | None = None
) -> Diagnosis:
    """The findings about a job before it starts, the sure ones first; several jobs can share one ``allowance`` of time."""
    allowance = allowance or causes_allowance()
    late: list[str] = []
    nothing: list[Sign] = []
    findings: list[Finding] = []
    ruled_out: list[RuledOut] = []
    silenced: list[Evidence] = []
    for cause in causes():
        signs, in_time = allowance.attempt(partial(_all_signs, cause, case), nothing)
        if not in_time:
            late.append(cause.id)
        signs = [sign for sign in signs if not _ignored(cause, sign, case, silenced)]
        findings += _findings(cause, signs, case, resolve or (lambda fix: fix))
        opposed = [sign for sign in signs if sign.strength == "against"]
        if opposed and len(opposed) == len(signs):
            ruled_out.append(RuledOut(cause.id, cause.title, tuple(item for sign in opposed for item in sign.evidence)))
    findings.sort(key=_order)
    return Diagnosis(
        verb="check",
        subject=subject,
        ending=Ending(),
        findings=tuple(findings),
        ruled_out=tuple(ruled_out),
        not_looked=(*not_asked(late), *case.not_looked),
        notes=(*case.notes, *silenced),
    )


def merged(diagnoses: Sequence[Diagnosis], subject: str) -> Diagnosis:
    """Several jobs of one project in one answer; what two of them share is said once."""
    findings: dict[tuple[str, str, tuple[Evidence, ...]], Finding] = {}
    for finding in (finding for diagnose in diagnoses for finding in diagnose.findings):
        places = tuple(item for sign in finding.signs for item in sign.evidence)
        findings.setdefault((finding.cause, finding.level, places), finding)
    return Diagnosis(
        verb="check",
        subject=subject,
        ending=Ending(),
        findings=tuple(sorted(findings.values(), key=_order)),
        ruled_out=tuple(dict.fromkeys(one for each in diagnoses for one in each.ruled_out)),
        not_looked=tuple(dict.fromkeys(one for each in diagnoses for one in each.not_looked)),
        notes=tuple(dict.fromkeys(note for each in diagnoses for note in each.notes)),
    )


def news(now: Diagnosis, before: Diagnosis) -> Iterator[Finding]:
    """The findings of one version that the other has not: by what was seen, not by its line, which other changes move."""
    known = {(finding.cause, finding.level, sign.says, _seen(sign)) for finding in before.findings for sign in finding.signs}
    for one in now.findings:
        fresh = tuple(sign for sign in one.signs if (one.cause, one.level, sign.says, _seen(sign)) not in known)
        if fresh:
            yield replace(one, signs=fresh)


def _seen(sign: Sign) -> tuple[tuple[str, str], ...]:
    return tuple((item.where.rsplit(":", 1)[0], item.quote) for item in sign.evidence)


def _order(finding: Finding) -> tuple[int, bool, float]:
    return ORDER.index(finding.level), finding.role != "cause", -finding.score


def _all_signs(cause: Cause, case: Case) -> list[Sign]:
    return list(_signs(cause, case))


def _signs(cause: Cause, case: Case) -> Iterator[Sign]:
    for part in PARTS:
        if part in cause.parts:
            try:
                yield from asked(cause, cause.parts[part], case)
            except Missing:
                continue  # what is not known of the job is listed with the job itself


def _ignored(cause: Cause, sign: Sign, case: Case, silenced: list[Evidence]) -> bool:
    """Whether the user silenced this cause at this place."""
    family = cause.id.split("/")[0]
    if case.ignored.get("*", frozenset()) & {cause.id, f"{family}/*", family}:
        told = Evidence("config", f"silenced by [tool.crashcart]: {cause.id}", "pyproject.toml")
        silenced += [told] if told not in silenced else []
        return True
    for item in sign.evidence:
        if case.ignored.get(item.where, frozenset()) & {cause.id, f"{family}/*", family}:
            silenced.append(Evidence(item.source, f"silenced here: {cause.id}", item.where))
            return True
    return False


def _findings(cause: Cause, signs: Iterable[Sign], case: Case, resolve: Callable[[Fix], Fix]) -> Iterator[Finding]:
    by_level: dict[Strength, list[Sign]] = {}
    for sign in signs:
        by_level.setdefault(sign.strength, []).append(sign)
    opposed = by_level.pop("against", [])
    if not by_level:
        return
    fixes = remedies(cause, case, resolve)
    claimed: dict[Strength, list[Sign]] = {each: by_level[each] for each in LEVELS if each in by_level and each != "weak"}
    for strength, level in LEVELS.items():
        if strength not in by_level:
            continue
        yield Finding(
            cause=cause.id,
            title=cause.title,
            role="contributing" if cause.id in CONTRIBUTING or level == "note" else "cause",
            level=level,
            strength=strength,
            score=WEIGHT[strength],
            signs=(*by_level[strength][:_MOST_SIGNS], *opposed),
            fixes=tuple(fix for fix in fixes if strength == _strength_of(fix, claimed, strength)),
            experiment=cause.experiment,
        )


def _strength_of(fix: Fix, claimed: dict[Strength, list[Sign]], otherwise: Strength) -> Strength:
    """To which of a cause's findings a patch belongs: the one that was seen nearest to it. Words belong to each."""
    if not fix.edits or len(claimed) < 2 or otherwise not in claimed:  # noqa: PLR2004 - nothing to choose between
        return otherwise
    return min(claimed, key=lambda strength: min(_distances(fix, claimed[strength]), default=_FAR))


def _distances(fix: Fix, signs: Sequence[Sign]) -> Iterator[int]:
    for item in (item for sign in signs for item in sign.evidence):
        path, _, line = item.where.rpartition(":")
        for edit in fix.edits:
            number = to_count(line)
            if path and number is not None and edit.span.file.endswith(path):
                yield abs(number - edit.span.line)
