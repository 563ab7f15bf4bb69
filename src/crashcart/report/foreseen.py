"""What was foreseen, for a terminal: the answer first, each finding with its places and its patch, a verdict in words last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import HARMLESS
from crashcart.report.terminal import fix_lines, gaps, printed, section, sign_lines, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.model import Diagnosis, Finding

__all__ = ["text", "verdict", "write"]

_STYLES = {"will": "bold red", "can": "bold yellow", "note": "bold"}
_HEADS = {"will": "Will kill it", "can": "Can kill it", "note": "Worth knowing"}
_MOST_NOTES = 8
_MOST_GAPS = 8


def write(diagnosis: Diagnosis, *, against: str | None = None, gone: Sequence[Finding] = ()) -> None:
    """Print it on standard output; where it was compared with another version, that is said."""
    lines = list(_lines(diagnosis))
    printed([*_change(diagnosis, against, gone), *lines] if against else lines)


def text(diagnosis: Diagnosis) -> str:
    """It as plain text."""
    return "\n".join(line for _, line in _lines(diagnosis)) + "\n"


def verdict(diagnosis: Diagnosis) -> str:
    """The last line: whether to start it."""
    count = {level: sum(one.level == level for one in diagnosis.findings) for level in _HEADS}
    patches = {fix.safety for one in diagnosis.findings for fix in one.fixes if fix.diff and one.level != "note"}
    repair = " `crashcart check --fix` shows and applies what can be patched." if patches & HARMLESS else ""
    if patches and not repair:
        repair = " `crashcart check --fix-all` shows and applies what can be patched; it changes the training."
    if count["will"]:
        return f"Do not start it yet: {_counted(count['will'], 'thing')} will kill it.{repair}"
    if count["can"]:
        return f"It can be started; {_counted(count['can'], 'thing')} can kill it under the conditions above.{repair}"
    if diagnosis.not_looked:
        missed = _counted(len(diagnosis.not_looked), "thing")
        return f"Nothing in what was read will kill it; {missed} could not be looked at, and may."
    return "It can be started: nothing in what was read will kill it."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _lines(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    yield from _headline(diagnosis)
    for level in ("will", "can"):
        for finding in diagnosis.findings:
            if finding.level == level:
                yield from _told(finding)
    notes = [finding for finding in diagnosis.findings if finding.level == "note"]
    if notes:
        yield from section(_HEADS["note"])
        for finding in notes[:_MOST_NOTES]:
            where = f" [{finding.signs[0].evidence[0].where}]" if finding.signs[0].evidence else ""
            yield "", wrapped(f"* {finding.signs[0].says}{where} ({finding.cause})", "  ", "    ")
        if len(notes) > _MOST_NOTES:
            yield "dim", f"  and {len(notes) - _MOST_NOTES} more (--json has all)"
    if diagnosis.notes:
        yield from section("What is known of the job")
        for note in diagnosis.notes:
            yield "", wrapped(f"{note.quote}" + (f" [{note.where}]" if note.where else ""), "  ", "    ")
    yield from gaps(diagnosis.not_looked, _MOST_GAPS)
    yield "", ""
    yield "bold", wrapped(verdict(diagnosis), "")


def _change(diagnosis: Diagnosis, against: str, gone: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    new = sum(finding.level != "note" for finding in diagnosis.findings)
    brought = f"brings {_counted(new, 'risk')}" if new else "brings no new risk"
    ended = f" and ends {_counted(len(gone), 'risk')}" if gone else ""
    yield "bold", wrapped(f"Against {against} this version {brought}{ended}.", "")
    for finding in gone:
        yield "green", wrapped(f"gone: {finding.title} ({finding.cause})", "  ", "    ")
    yield "", ""


def _headline(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    sure = [finding for finding in diagnosis.findings if finding.level == "will"]
    possible = [finding for finding in diagnosis.findings if finding.level == "can"]
    if sure:
        yield "bold red", wrapped(f"This job will go wrong: {_ended(sure[0].signs[0].says)}", "")
    elif possible:
        yield (
            "bold yellow",
            wrapped(f"Nothing will surely kill this job. It can: {_ended(possible[0].signs[0].says)}", ""),
        )
    else:
        unsure = " Not everything could be read." if diagnosis.not_looked else ""
        yield "bold yellow" if unsure else "bold green", f"Nothing in what was read will kill this job.{unsure}"


def _ended(sentence: str) -> str:
    """A sentence after a colon."""
    word = sentence.split(" ", 1)[0]  # FilePool and load_all are names, and stay as they are
    plain = word[1:].isalpha() and word[1:].islower() and word != "Hydra"
    lower = sentence[:1].lower() + sentence[1:] if plain else sentence
    return lower if lower.endswith(("?", "!")) else f"{lower}."


def _told(finding: Finding) -> Iterator[tuple[str, str]]:
    yield "", ""
    yield _STYLES[finding.level], wrapped(f"{_HEADS[finding.level]}: {finding.title} ({finding.cause})", "")
    yield from sign_lines([sign for sign in finding.signs if sign.strength != "against"])
    for fix in finding.fixes[:2]:
        yield from fix_lines(fix)
