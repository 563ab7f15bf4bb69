"""What was foreseen, for a terminal: the answer first, each finding with its places and its patch; last what was and was not checked.

Notes, further fixes and the reasons why something was not checked are for those who ask (``--notes``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import HARMLESS
from crashcart.report.terminal import fix_lines, gaps, printed, section, sentence, sign_lines, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.model import Diagnosis, Finding

__all__ = ["nothing_found", "text", "what_next", "what_was_checked", "write"]

_STYLES = {"will": "bold red", "can": "bold yellow", "note": "bold"}
_HEADS = {"will": "Will fail", "can": "Risk", "note": "Notes"}
_MOST_GAPS = 20
_MOST_NAMED = 4
_MOST_IN_FULL = 2  # findings with all their lines and a patch, on one screen


def write(diagnosis: Diagnosis, *, notes: bool = False, against: str | None = None, gone: Sequence[Finding] = ()) -> None:
    """Print it on standard output; where it was compared with another version, that is said."""
    lines = list(_lines(diagnosis, notes=notes))
    printed([*_change(diagnosis, against, gone), *lines] if against else lines)


def text(diagnosis: Diagnosis, *, notes: bool = False) -> str:
    """It as plain text."""
    return "\n".join(line for _, line in _lines(diagnosis, notes=notes)) + "\n"


def what_next(diagnosis: Diagnosis, *, notes: bool = False) -> str:
    """What the user can ask for now: patches, and what is only worth knowing."""
    patches = {fix.safety for finding in diagnosis.findings for fix in finding.fixes if fix.diff and finding.level != "note"}
    sentences = []
    if patches & HARMLESS:
        sentences.append("To see the patches and apply them: `crashcart check --fix`.")
    elif patches:
        sentences.append("To see the patches and apply them: `crashcart check --fix-all`. They change the training.")
    hidden = sum(finding.level == "note" for finding in diagnosis.findings) + len(diagnosis.notes)
    if hidden and not notes:
        sentences.append(f"--notes shows {_counted(hidden, 'note')}.")
    return " ".join(sentences)


def what_was_checked(diagnosis: Diagnosis) -> str:
    """Which part of the job was read and which was not: silence is no promise."""
    files = _counted(diagnosis.files_read, "file") if diagnosis.files_read else "no files of the job"
    return f"Checked: {files}.{_gaps_named(diagnosis)}"


def nothing_found(diagnosis: Diagnosis) -> str:
    """The answer for a job without a finding."""
    files = "the file read" if diagnosis.files_read == 1 else f"the {diagnosis.files_read} files read"
    found = (
        f"No problems found in {files}." if diagnosis.files_read else "No problems found, but no files of the job were read."
    )
    return found + _gaps_named(diagnosis)


def _gaps_named(diagnosis: Diagnosis) -> str:
    names = ", ".join(gap.what for gap in diagnosis.not_looked[:_MOST_NAMED])
    more = len(diagnosis.not_looked) - _MOST_NAMED
    return f" Not checked: {names}{f' and {more} more' if more > 0 else ''}." if names else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _lines(diagnosis: Diagnosis, *, notes: bool) -> Iterator[tuple[str, str]]:
    yield from _headline(diagnosis)
    risks = [finding for level in ("will", "can") for finding in diagnosis.findings if finding.level == level]
    for place, finding in enumerate(risks):
        yield from _told(finding, in_full=notes or place < _MOST_IN_FULL, fixes=2 if notes else 1)
    if notes:
        yield from _notes(diagnosis)
        yield from gaps(diagnosis.not_looked, _MOST_GAPS)
    following = what_next(diagnosis, notes=notes)
    last = [sentence for sentence in (following, what_was_checked(diagnosis) if risks or diagnosis.says else "") if sentence]
    yield from (("", wrapped(sentence, "")) for sentence in ["", *last] if last)


def _notes(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    findings = [finding for finding in diagnosis.findings if finding.level == "note"]
    if findings:
        yield from section(_HEADS["note"])
        for finding in findings:
            where = f" [{finding.signs[0].evidence[0].where}]" if finding.signs[0].evidence else ""
            yield "", wrapped(f"* {sentence(finding.signs[0].says)}{where} ({finding.cause})", "  ", "    ")
    if diagnosis.notes:
        yield from section("About the job")
        for note in diagnosis.notes:
            yield "", wrapped(f"{note.quote}" + (f" [{note.where}]" if note.where else ""), "  ", "    ")


def _change(diagnosis: Diagnosis, against: str, gone: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    new = sum(finding.level != "note" for finding in diagnosis.findings)
    brought = f"adds {_counted(new, 'risk')}" if new else "adds no risk"
    ended = f" and removes {_counted(len(gone), 'risk')}" if gone else ""
    yield "bold", wrapped(f"Compared with {against}, this version {brought}{ended}.", "")
    for finding in gone:
        yield "green", wrapped(f"removed: {finding.title} ({finding.cause})", "  ", "    ")
    yield "", ""


def _headline(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    sure = [finding for finding in diagnosis.findings if finding.level == "will"]
    possible = [finding for finding in diagnosis.findings if finding.level == "can"]
    if sure:
        count = f"This job will fail, for {len(sure)} reasons. The first" if len(sure) > 1 else "This job will fail"
        yield "bold red", wrapped(f"{count}: {_ended(sure[0].signs[0].says)}", "")
    elif possible:
        first = f"No certain failure. {_counted(len(possible), 'risk')}: {_ended(possible[0].signs[0].says)}"
        yield "bold yellow", wrapped(first, "")
    else:
        unsure = diagnosis.says or diagnosis.not_looked or not diagnosis.files_read
        yield "bold yellow" if unsure else "bold green", wrapped(diagnosis.says or nothing_found(diagnosis), "")


def _ended(sentence: str) -> str:
    """A sentence after a colon."""
    word = sentence.split(" ", 1)[0]  # FilePool and load_all are names, and stay as they are
    plain = word[1:].isalpha() and word[1:].islower() and word != "Hydra"
    lower = sentence[:1].lower() + sentence[1:] if plain else sentence
    return lower if lower.endswith(("?", "!")) else f"{lower}."


def _told(finding: Finding, *, in_full: bool, fixes: int) -> Iterator[tuple[str, str]]:
    yield "", ""
    yield _STYLES[finding.level], wrapped(f"{_HEADS[finding.level]}: {finding.title} ({finding.cause})", "")
    signs = [sign for sign in finding.signs if sign.strength != "against"]
    if not in_full:
        where = f" [{signs[0].evidence[0].where}]" if signs and signs[0].evidence else ""
        yield "", wrapped(f"{sentence(signs[0].says)}{where}" if signs else "", "  ")
        for fix in finding.fixes[:1]:
            yield "", wrapped(f"* {fix.title}", "  ", "    ")
        return
    yield from sign_lines(signs)
    for fix in finding.fixes[:fixes]:
        yield from fix_lines(fix)
