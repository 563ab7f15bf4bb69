"""Asks every cause about a case, weighs what they say, and ranks.

The only table of weights. A cause speaks in words (decisive, strong, weak, against); here they become an order:

1. decisive before strong before weak;
2. the specific before the general (``breadth``), so that ``code/bug`` explains only what nothing else does;
3. what came first in the log before what followed from it, since ranks that wait die of the death of another.

A sign on a line that the program survived (a warning, a retry, a thread, a run that reached its end later) is weak.
Weak signs alone settle nothing: then the answer is ``unknown/not-enough-evidence`` with the candidates below it.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from crashcart.account import ELSEWHERE, Account, account_of
from crashcart.attribution import of_training
from crashcart.cause import Cause, Phrase, causes
from crashcart.deadline import Allowance, attempt, check, too_long
from crashcart.deaths import finished, first, stopped_first, whole
from crashcart.ending import died_after, ending_of, stage_reports
from crashcart.errors import Missing, our_errors
from crashcart.log import Line, Log, evidence
from crashcart.model import Diagnosis, Ending, Finding, Fix, NotLooked, RuledOut, Sign, StoryEvent
from crashcart.places import (
    at_the_scene,
    frames_of_first,
    is_at,
    origin_sign,
    place_sign,
    settings_sign,
    shortened,
    unwritten_sign,
    without_folder,
)
from crashcart.record import replace
from crashcart.stacks import stack_signs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from crashcart.case import Case
    from crashcart.model import Experiment, Level, Role, StageReport, Strength

__all__ = ["CONTRIBUTING", "WEIGHT", "asked", "causes_allowance", "examine", "not_asked", "remedies"]

WEIGHT = {"decisive": 0.9, "strong": 0.6, "weak": 0.25, "against": -0.3}
TIER = {"decisive": 3, "strong": 2, "weak": 1, "against": 0}
EACH_FURTHER_SIGN = 0.03
GENERAL = 2
UNSETTLED = frozenset({"unknown", "running"})
_MOST_LINES_PER_PHRASE = 3
_ALL_CAUSES_SECONDS, _CAUSE_SECONDS, _EACH_JOB_SECONDS = 2.0, 1.0, 0.2
_SHOWN = 3
Result = TypeVar("Result")
_STEPS_BETWEEN = 5
_MOST_FINDINGS = 8
_SHORTEST_FOLDER = 3  # letters: of a job that ran in / nothing is left out
_MOST_REASONS = 2
_QUIET = re.compile(r"(?<!NCCL )(?<!=)\b(?:WARN(?:ING)?|INFO|DEBUG|NOTICE)\b|[a-z]Warning:|\bwarnings?\.warn")
QUIET_FAMILIES = ("slow/", "numerics/", "silent/", "gpu-memory/leak", "host-memory/leak")
SILENT = "silent/"
UNKNOWN = "unknown/not-enough-evidence"
ECHO = "distributed/peer-died"
CONTRIBUTING = frozenset({"config/schedule-collision", "config/hidden-timeout", "silent/masked-nan"})


def examine(
    case: Case,
    *,
    verb: str = "why",
    subject: str = "",
    resolve: Callable[[Fix], Fix] | None = None,
    seconds: float | None = None,
) -> Diagnosis:
    """The diagnosis of a case: findings, best first; what was ruled out; what could not be looked at.

    ``seconds`` bound the processor time of all causes together.
    """
    asked = _Asked(case)
    share = _CAUSE_SECONDS if seconds is None else min(_CAUSE_SECONDS, seconds / 2)
    account = _in_time(case, "what happened", partial(account_of, case), Account(), share)
    ending = _in_time(case, "how it ended", partial(ending_of, case), Ending(), share)
    asked.first = account.first
    weighed = _in_order([_Weighed(cause, signs, account) for cause, signs in asked.signs(seconds)], case.log.attempts)
    findings = _findings(weighed, case, ending, resolve or (lambda fix: fix))
    folder = str(case.flight.facts.get("folder") or "") if case.flight is not None else ""
    findings = [_seen_from(folder, finding) for finding in findings]
    ending = replace(ending, first_rank=_in_time(case, "the first rank", lambda: _first_rank(findings, ending, case), None))
    stages: tuple[StageReport, ...] = _in_time(case, "how each program ended", lambda: stage_reports(case, ending), ())
    return Diagnosis(
        verb=verb,
        subject=subject,
        ending=ending,
        findings=tuple(findings),
        ruled_out=tuple(_ruled_out(weighed, findings)),
        not_looked=(*case.not_looked, *asked.missing()),
        notes=tuple(case.notes),
        run=(case.flight.name or None) if case.flight is not None else None,
        says=case.flight.says if case.flight is not None else "",
        stages=stages,
        story=tuple(_with_reasons(account, findings, folder)),
    )


def _seen_from(folder: str, finding: Finding) -> Finding:
    """The same finding with its sentences told from the job's folder; places of evidence stay as they are."""
    if len(folder) < _SHORTEST_FOLDER:
        return finding
    above = f"{folder.rstrip('/')}/"
    signs = tuple(replace(sign, says=without_folder(sign.says, above)) for sign in finding.signs)
    fixes = tuple(
        replace(fix, title=without_folder(fix.title, above), why=without_folder(fix.why, above)) for fix in finding.fixes
    )
    return replace(finding, signs=signs, fixes=fixes)


def _with_reasons(account: Account, findings: Sequence[Finding], folder: str) -> Iterator[StoryEvent]:
    """The story, and behind its first abnormal event what the job's own code and settings say of it."""
    signs = findings[0].signs if findings and findings[0].role == "cause" else ()
    reasons = [
        StoryEvent("reason", f"{_places(sign, folder)}{sign.says}", sign.evidence)
        for sign in signs
        if sign.evidence and account.is_latent(sign)
    ][:_MOST_REASONS]
    for event in account.events:
        yield event
        if event == account.first:
            yield from reasons
            reasons = []
    yield from reasons


def _places(sign: Sign, folder: str) -> str:
    """Where a sign is seen, from the job's folder, before its sentence; what was typed has no line."""
    places = dict.fromkeys(shortened(item.where, folder) for item in sign.evidence if item.where != "command")
    return f"{', '.join(places)}: " if places else ""


def _in_time(
    case: Case, what: str, task: Callable[[], Result], otherwise: Result, seconds: float = _CAUSE_SECONDS
) -> Result:
    result, in_time = attempt(task, seconds, otherwise)
    if not in_time:
        case.not_looked.append(NotLooked(what, too_long(seconds)))
    return result


class _Weighed:
    """A cause with its signs and its place in the order."""

    __slots__ = (
        "cause",
        "distance",
        "fatal",
        "is_explained",
        "is_in_code",
        "is_latent",
        "latest",
        "order",
        "score",
        "signs",
        "strength",
        "survived",
        "tier",
    )

    def __init__(self, cause: Cause, signs: list[Sign], account: Account) -> None:
        self.cause = cause
        # What code and config show explains what happened; it is no more sure than that.
        latent = [sign for sign in signs if sign.strength != "against" and account.is_latent(sign)]
        happened = [sign for sign in signs if sign not in latent]
        self.is_latent = bool(latent) and not any(sign.strength != "against" for sign in happened)
        self.is_explained = bool(latent) and not self.is_latent
        self.is_in_code = self.is_latent and any(item.source == "code" for sign in latent for item in sign.evidence)
        self.signs = sorted(signs, key=lambda sign: (self.is_explained and sign in latent, -TIER[sign.strength], sign.order))
        self.strength: Strength = self.signs[0].strength
        supporting = [sign for sign in (signs if self.is_latent else happened) if sign.strength != "against"]
        opposed = sum(sign.strength == "against" for sign in signs)
        self.fatal = any(sign.fatal for sign in supporting if sign.strength == self.strength)
        self.survived = any(sign.survived for sign in supporting)
        self.tier = TIER[self.strength] - (1 if opposed and self.strength != "decisive" else 0)
        self.latest = max((sign.order for sign in supporting if sign.strength == self.strength), default=0)
        best = [sign for sign in supporting if sign.strength == self.strength]
        self.distance = min((account.distance(sign) for sign in best), default=0)
        self.order = min((sign.order for sign in best if sign.fatal or not self.fatal), default=0)
        extra = EACH_FURTHER_SIGN * min(3, max(0, len(supporting) - 1))
        self.score = max(0.0, min(0.99, WEIGHT[self.strength] + extra + opposed * WEIGHT["against"]))

    def key(self) -> tuple[bool, int, int, int, bool, int, float]:
        place = (self.distance == ELSEWHERE, -self.tier, self.cause.breadth, self.distance)
        return (*place, not self.is_explained, self.order, -self.score)


def _in_order(weighed: list[_Weighed], attempts: list[int]) -> list[_Weighed]:
    """Best first; where a job was started again in the same log, what ended the last attempt comes first."""
    weighed.sort(key=_Weighed.key)
    if attempts:
        last = [one for one in weighed if one.latest > attempts[-1]]
        if any(one.tier >= TIER["strong"] and one.fatal for one in last):
            return [*last, *(one for one in weighed if one not in last)]
    return weighed


class _Asked:
    """All causes, asked about one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.lines = _Lines(case.log)
        self.training, self.lines_of_training = case, self.lines
        with our_errors("which program printed a line", case.could_not_look):
            self.training = of_training(case)
        if self.training is not case:
            self.lines_of_training = _Lines(self.training.log)
        self.stacks: dict[str, list[Sign]] = {}
        with our_errors("the innermost frames", case.could_not_look):
            self.stacks = stack_signs(case.log)
        self.first: StoryEvent | None = None  # the first abnormal event
        self._missing: dict[str, list[str]] = {}
        self._late: list[str] = []
        self._alive: dict[int, bool] = {}
        self._came_to_its_end = case.flight is not None and finished(case)
        self._exceptions = {raised.line.order for raised in case.log.raised if raised.kind}

    def signs(self, seconds: float | None = None) -> Iterator[tuple[Cause, list[Sign]]]:
        """Each cause that has anything to say, with its signs."""
        allowance = causes_allowance() if seconds is None else Allowance(seconds, _CAUSE_SECONDS)
        nothing: list[Sign] = []
        for cause in causes():
            signs, in_time = allowance.attempt(partial(self._signs_of, cause), nothing)
            if not in_time:
                self._late.append(cause.id)
            if signs:
                yield cause, signs

    def _signs_of(self, cause: Cause) -> list[Sign]:
        lines, case = (self.lines_of_training, self.training) if cause.judges_training else (self.lines, self.case)
        signs = [sign for phrase in cause.phrases for sign in lines.signs(phrase)]
        signs += self.stacks.get(cause.id, ())
        for part, ask in cause.parts.items():
            signs += self._ask(cause, part, ask, case)
        if cause.id.startswith(SILENT) and self._raised_and_ended():
            return [sign if self._led_to_it(sign) else replace(sign, strength="weak", fatal=False) for sign in signs]
        return [self._survived(cause, sign) for sign in signs]

    def _led_to_it(self, sign: Sign) -> bool:
        """Whether a sign is of what led to the death; other silent things did not run on, since it died."""
        return self.first is not None and any(item in self.first.evidence for item in sign.evidence)

    def _raised_and_ended(self) -> bool:
        """Whether an exception that nobody caught ended the run."""
        log = self.case.log
        return any(one.kind and one.top and not log.goes_on_after(one.line) for one in log.uncaught())

    def _ask(self, cause: Cause, part: str, ask: Callable[[Case], Iterable[Sign]], case: Case) -> list[Sign]:
        try:
            return asked(cause, ask, case)
        except Missing as missing:
            self._missing.setdefault(missing.name, []).append(f"{cause.id} ({part})")
            return []

    def _survived(self, cause: Cause, sign: Sign) -> Sign:
        """A fatal line in a run that reached its end, or went on with its steps, did not end it.

        A cause that makes a run useless (``lasting``) is not cured by the run's reaching its end.
        """
        if not sign.fatal or not sign.evidence or sign.evidence[0].source != "log":
            return sign
        if self._came_to_its_end and sign.order in self._exceptions:  # the recording shows that the program caught it
            line = self.case.log.at(sign.order)
            went_on = line is not None and self.case.log.goes_on_after(line)
            return replace(sign, strength="weak" if went_on else sign.strength, fatal=False, survived=True)
        if cause.lasting:
            return sign
        if self.case.exit is not None and self.case.exit.code == 0:
            return replace(sign, fatal=False)
        finished = self.case.log.finished
        if (finished is not None and not died_after(self.case, finished)) or self._went_on(sign.order):
            return replace(sign, fatal=False, survived=True)
        return sign

    def _went_on(self, order: int) -> bool:
        if order not in self._alive:
            line = self.case.log.at(order)
            self._alive[order] = line is not None and self.case.exit is None and self.case.log.goes_on_after(line)
        return self._alive[order]

    def missing(self) -> list[NotLooked]:
        """What causes asked for and the case does not hold, and the causes that took too long."""
        missing = [
            NotLooked(name, "not in the input", f"needed for {', '.join(asked[:3])}")
            for name, asked in sorted(self._missing.items())
        ]
        return [*not_asked(self._late), *missing]


def causes_allowance(jobs: int = 1) -> Allowance:
    """The time of all causes together, for so many jobs."""
    return Allowance(_ALL_CAUSES_SECONDS + _EACH_JOB_SECONDS * (jobs - 1), _CAUSE_SECONDS)


def not_asked(late: Sequence[str]) -> list[NotLooked]:
    """Causes that did not come to an answer in their time."""
    if not late:
        return []
    more = f" and {len(late) - _SHOWN} more causes" if len(late) > _SHOWN else ""
    return [NotLooked(f"{', '.join(late[:_SHOWN])}{more}", too_long(_CAUSE_SECONDS))]


def asked(cause: Cause, ask: Callable[[Case], Iterable[Sign]], case: Case) -> list[Sign]:
    """What one part of a cause says; one cause that is wrong about one case must not cost the others' answer."""
    signs: list[Sign] = []
    with our_errors(cause.id, case.could_not_look):
        signs.extend(ask(case))
    return signs


def remedies(cause: Cause, case: Case, resolve: Callable[[Fix], Fix]) -> tuple[Fix, ...]:
    """The fixes of a cause for a case, as far as they could be worked out."""
    fixes: list[Fix] = []
    with our_errors(f"{cause.id} (fixes)", case.could_not_look):
        fixes.extend(resolve(fix) for fix in cause.fix(case))
    return tuple(fixes)


def _experiment(cause: Cause, case: Case) -> Experiment | None:
    with our_errors(f"{cause.id} (experiment)", case.could_not_look):
        return cause.settle(case)
    return None


class _Lines:
    """Phrases in the lines that were kept."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.survivable = _survivable_orders(log)

    def signs(self, phrase: Phrase) -> list[Sign]:
        """A sign for each of the first lines that say the phrase."""
        found: list[Sign] = []
        for line in self.log.index.saying(phrase.literals):
            check()
            if phrase.matches(line):
                found.append(self._sign(phrase, line))
                if len(found) == _MOST_LINES_PER_PHRASE:
                    return [] if self._background(phrase, found) else found
        return found

    def _background(self, phrase: Phrase, found: list[Sign]) -> bool:
        """What a run says again and again while it goes on with its steps is not what stopped it."""
        if phrase.strength != "weak" or phrase.fatal:
            return False
        first, last = found[0].order, found[-1].order
        between = sum(first < metric.line.order < last for metric in self.log.metrics)
        return between >= _STEPS_BETWEEN

    def _sign(self, phrase: Phrase, line: Line) -> Sign:
        strength, fatal = phrase.strength, phrase.fatal
        quiet = not phrase.any_level and _QUIET.search(f"{line.level} {line.text[:200]}") is not None
        survived = line.order in self.survivable
        if strength in {"decisive", "strong"} and (quiet or survived):
            strength, fatal = "weak", False
        return Sign(strength, phrase.says, (evidence(line),), fatal, line.order, survived)


def _survivable_orders(log: Log) -> frozenset[int]:
    """Lines of exceptions that the program got over, with their messages."""
    orders: set[int] = set()
    for raised in log.raised:
        if raised.survivable:
            orders.update(line.order for line in log.around(raised.line, after=raised.message.count("\n")))
    return frozenset(orders)


def _findings(weighed: list[_Weighed], case: Case, ending: Ending, resolve: Callable[[Fix], Fix]) -> list[Finding]:
    told = [one for one in weighed if one.tier > 0 and one.cause.id != UNKNOWN]
    if ending.state == "running" and case.flight is not None:  # what it has not got over would have ended it
        told = [one for one in told if one.tier >= TIER["strong"] and not one.survived]
    settled = bool(told) and told[0].tier >= TIER["strong"] and not told[0].is_latent
    if settled:  # then what else the code holds is worth a line only where it is sure to go wrong later
        explaining = _at_the_place(told, case)
        told = [one for one in told if not one.is_in_code or one.tier == TIER["decisive"] or one in explaining]
        if explaining and told[0].cause.breadth == GENERAL:
            told = [_explained(told[0], explaining[0]), *(one for one in told if one is not explaining[0])]
            explaining = []
    bad = ending.state in {"crashed", "killed", "hung", "stopped"}
    if not settled and not bad and case.log.lines:
        # Nothing says that the run died: what would end a process, or seems to have been got over, is a candidate at most.
        # So is what makes a run slow, useless or ever larger without ending it. That the log just stops says least.
        last = case.log.lines[-1].order
        told = [
            one
            for one in told
            if ending.state in UNSETTLED and (one.fatal or one.survived or one.cause.id.startswith(QUIET_FAMILIES))
        ]
        told.sort(key=lambda one: one.latest == last)
    findings = [
        _finding(one, case, resolve, first=settled and index == 0) for index, one in enumerate(told[:_MOST_FINDINGS])
    ]
    if settled and explaining:
        signs = [sign for one in explaining for sign in one.signs]
        fixes = [fix for one in explaining for fix in remedies(one.cause, case, resolve) if fix.edits or fix.diff]
        findings[0] = replace(findings[0], signs=(*findings[0].signs, *signs), fixes=(*fixes, *findings[0].fixes))
        findings = [finding for finding in findings if finding.cause not in {one.cause.id for one in explaining}]
    if settled and told[0].cause.breadth != GENERAL:
        with our_errors("the place in the code", case.could_not_look):
            place = place_sign(case, findings[0].signs)
            findings[0] = replace(findings[0], signs=(*findings[0].signs, *([place] if place is not None else [])))
    if settled:
        with our_errors("the settings at that place", case.could_not_look):
            used = settings_sign(case)
            findings[0] = replace(findings[0], signs=(*findings[0].signs, *([used] if used is not None else [])))
        with our_errors("where its values come from", case.could_not_look):
            findings[0] = _with_origins(findings[0], case)
    if settled and (told[0].tier < TIER["decisive"] or told[0].cause.breadth):
        findings += _alike(told[0], weighed, case, resolve)
    no_log = not case.log.lines and bool(case.facts or case.checkpoints or case.notes) and ending.state != "finished"
    known = ending.state == "running" and case.flight is not None
    if not settled and not known and (bad or no_log or (ending.state in UNSETTLED and case.log.lines)):
        findings.insert(0, _unknown(case, bad=bad or no_log))
    return findings


def _with_origins(finding: Finding, case: Case) -> Finding:
    """With the line that the first fix changes, and those where the values were made that broke it; advice in words begins with them."""
    made = unwritten_sign(case) or origin_sign(case)
    fixes = finding.fixes
    if fixes and not (fixes[0].edits or fixes[0].diff or fixes[0].arguments or fixes[0].environment):
        fixes = (at_the_scene(case, fixes[0]), *fixes[1:])
    return replace(
        finding, signs=(*finding.signs, *_mended(finding, case), *([made] if made is not None else [])), fixes=fixes
    )


def _mended(finding: Finding, case: Case) -> Iterator[Sign]:
    """The line that the first fix changes, where no evidence names it yet."""
    places = {item.where for sign in finding.signs for item in sign.evidence}
    for fact in case.all("scene.remedy"):
        if finding.fixes[:1] and fact.value[1].edits == finding.fixes[0].edits and fact.evidence.where not in places:
            yield Sign("weak", "the first fix changes the program here", (fact.evidence,), fatal=False)
            return


def _at_the_place(weighed: list[_Weighed], case: Case) -> list[_Weighed]:
    """What the code shows at the very lines where the run died or stands: it explains the first answer."""
    frames = frames_of_first(case)
    return [
        one for one in weighed if one.is_in_code and any(is_at(item, frames) for sign in one.signs for item in sign.evidence)
    ]


def _explained(general: _Weighed, specific: _Weighed) -> _Weighed:
    """The specific cause of what was only known as an exception at that line."""
    joined = _Weighed(specific.cause, [*general.signs, *specific.signs], Account())
    joined.is_latent, joined.is_in_code, joined.fatal = False, False, general.fatal
    return joined


def _alike(first: _Weighed, weighed: list[_Weighed], case: Case, resolve: Callable[[Fix], Fix]) -> Iterator[Finding]:
    """What else the same lines could mean, where the answer is not certain: hypotheses, never blame."""
    told = {one.cause.id for one in weighed}
    by_id = {cause.id: cause for cause in causes()}
    says = f"its log looks much like that of: {first.cause.title}"
    for name in first.cause.alike:
        if name not in told:
            sign = Sign("weak", says, first.signs[0].evidence, fatal=False, order=first.order)
            yield _finding(_Weighed(by_id[name], [sign], Account()), case, resolve, first=False)


def _finding(one: _Weighed, case: Case, resolve: Callable[[Fix], Fix], *, first: bool) -> Finding:
    role: Role = "cause"
    useless = one.cause.lasting and one.cause.id.startswith("silent/") and first
    if one.cause.id == ECHO and not first:
        role = "echo"
    elif one.cause.id in CONTRIBUTING or one.tier < TIER["strong"] or one.is_latent or not (one.fatal or useless):
        role = "contributing"
    # What remains of everything (an uncaught exception) is as sure as it is general.
    sure = one.tier == TIER["decisive"] or one.cause.breadth == GENERAL
    level: Level = "did" if first and sure and one.fatal else "may"
    return Finding(
        cause=one.cause.id,
        title=one.cause.title,
        role=role,
        level=level,
        strength=one.strength,
        score=round(one.score, 2),
        signs=tuple(one.signs),
        fixes=remedies(one.cause, case, resolve),
        experiment=_experiment(one.cause, case),
    )


def _unknown(case: Case, *, bad: bool) -> Finding:
    cause = next(cause for cause in causes() if cause.id == UNKNOWN)
    signs = [sign for part in cause.parts.values() for sign in asked(cause, part, case)]
    return Finding(
        cause=cause.id,
        title=cause.title,
        role="cause" if bad else "contributing",
        level="did" if bad else "may",
        strength=signs[0].strength if signs else "weak",
        score=0.0,
        signs=tuple(signs),
        fixes=remedies(cause, case, lambda fix: fix),
        experiment=cause.experiment,
    )


def _ruled_out(weighed: list[_Weighed], findings: list[Finding]) -> Iterator[RuledOut]:
    told = {finding.cause for finding in findings}
    for one in weighed:
        opposed = [sign for sign in one.signs if sign.strength == "against"]
        if opposed and one.tier <= 0 and one.cause.id not in told:  # weaker signs beside it do not save it
            yield RuledOut(one.cause.id, one.cause.title, tuple(item for sign in opposed for item in sign.evidence))


def _first_rank(findings: list[Finding], ending: Ending, case: Case) -> int | None:
    if case.flight is not None and ending.state == "finished":
        return None
    if first(case) is not None or whole(case) is not None or stopped_first(case) is not None:
        return ending.first_rank  # a recording knows who was first
    if findings and findings[0].cause != UNKNOWN:
        ranks = [item.rank for sign in findings[0].signs[:1] for item in sign.evidence if item.rank is not None]
        recorded = any(item.source == "recorder" for sign in findings[0].signs[:1] for item in sign.evidence[:1])
        return ranks[0] if ranks and (recorded or ending.signal is None) else ending.first_rank
    return ending.first_rank
