"""A diagnosis for a terminal: the answer first, then why, then what to do, then what was not checked.

Plain text that reads well in 80 columns, without colour, and pasted into an issue. Colour is added where standard output is a
terminal that wants it.
"""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TYPE_CHECKING

from crashcart.escapes import one_line, plain, unfiltered
from crashcart.flight import clock, during
from crashcart.model import HARMLESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from crashcart.model import Diagnosis, Ending, Evidence, Experiment, Finding, Fix, NotLooked, Sign

__all__ = [
    "fix_lines", "gaps", "headline", "how_it_ended", "main_finding", "printed", "section", "sentence", "sign_lines", "text", "unresolved", "wrapped",
    "write",
]  # fmt: skip

WIDTH = 80
_NAMES = frozenset(
    {"torch", "torchrun", "accelerate", "wandb", "lr", "dmesg", "git", "pip", "cuDNN", "tqdm", "deepspeed", "fsdp"}
)
GENERAL = "code/bug"
_SURE = {"did": "", "may": "Likely cause: ", "will": "", "can": "Possible: ", "note": "Note: "}
_STATES = {
    "crashed": "the run crashed",
    "killed": "the run was killed",
    "hung": "the run hung",
    "stopped": "the run was stopped from outside",
    "finished": "the run finished",
    "running": "the run is still going",
    "unknown": "how the run ended is unknown",
}
_RELATIVE = {"half": "half its value", "quarter": "a quarter of its value", "double": "twice its value", "zero": "0"}
_MOST_EVIDENCE = 5
_MOST_OTHERS = 4
_MOST_STAGES = 8
_MOST_STORY = 6
SCREEN, _HEADING, _FEWEST_STORY = 24, 2, 5  # lines; an empty one and the title; what happened
_SAFETY = {
    "exact": "does not change the training",
    "same-recipe": "same hyperparameters, different random order",
    "changes-training": "changes the training",
    "by-hand": "manual",
}


def write(diagnosis: Diagnosis, *, long: bool) -> None:
    """Print the diagnosis on standard output: one screen, or all of it."""
    printed(list(_lines(diagnosis) if long else first_screen(diagnosis)))


def printed(lines: list[tuple[str, str]]) -> None:
    """Print lines with their styles, which are shown where standard output is a terminal that wants them."""
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb":
        from rich.console import Console

        console = Console(file=unfiltered(sys.stdout), highlight=False, markup=False, soft_wrap=True)
        for style, line in lines:
            console.print(plain(line), style=style)
        return
    sys.stdout.write("\n".join(line for _, line in lines) + "\n")


def text(diagnosis: Diagnosis) -> str:
    """The diagnosis as plain text."""
    return "\n".join(line for _, line in _lines(diagnosis)) + "\n"


def first_screen(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The answer in 24 lines: what it is, what happened, what shows it, the fix to apply first, and where to read on."""
    main = main_finding(diagnosis)
    head = list(_head(diagnosis, main))
    if main is not None and _by_hand(main, diagnosis.ending):
        return head
    more = _read_on(diagnosis, main)
    fix = [*section("Fix"), *_short_fix(main.fixes[0])] if main is not None and main.fixes else []
    room = SCREEN - _height(head) - _height(more)
    fix = _cut_to(fix, room - _FEWEST_STORY)
    room -= _height(fix)
    story = list(_story(diagnosis, room)) or _cut_to(list(_stages(diagnosis)), room)
    shows = [*section("Evidence"), *_best_sign(main)] if main is not None else []
    if main is not None and main.cause.startswith("unknown/") and len(diagnosis.findings) > 1:
        names = [f"* {finding.title} ({finding.cause})" for finding in diagnosis.findings[1 : _MOST_OTHERS + 1]]
        shows = [*section("Possible causes, most likely first"), *(("", wrapped(name, "  ", "    ")) for name in names)]
    return [*head, *story, *_cut_to(shows, room - _height(story)), *fix, *more]


def _short_fix(fix: Fix) -> Iterator[tuple[str, str]]:
    """A remedy with the lines that change and not those around them."""
    yield "", wrapped(f"* {fix.title} ({_SAFETY[fix.safety]}).", "  ", "    ")
    if not fix.diff:
        yield from list(fix_lines(fix))[1:]
        return
    file = ""
    for line in fix.diff.splitlines():
        if line.startswith("+++ "):
            file = line[4:].removeprefix("b/")
        elif line.startswith("@@ "):
            yield "cyan", f"    {file}"
        elif line.startswith("+"):
            yield "green", f"    {line}"
        elif line.startswith("-") and not line.startswith("---"):
            yield "red", f"    {line}"


def _best_sign(main: Finding) -> Iterator[tuple[str, str]]:
    for sign in main.signs[:1]:
        yield "", wrapped(sentence(sign.says), "  ")
        for item in sign.evidence[:2]:
            yield "cyan", f"    {one_line(item.where)}"
            yield "dim", wrapped(item.quote, "      | ", "      | ", limit=2)


def _height(lines: Iterable[tuple[str, str]]) -> int:
    return sum(line.count("\n") + 1 for _, line in lines)


def _cut_to(lines: list[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """As many of the lines as there is room for; less than a heading and a line is nothing."""
    if _height(lines) <= most:
        return lines
    single = [(style, piece) for style, line in lines for piece in line.split("\n")]
    return [*single[: most - 1], ("dim", "    …")] if most > _HEADING + 1 else []


def _read_on(diagnosis: Diagnosis, main: Finding | None) -> list[tuple[str, str]]:
    """What `--long` has beside this."""
    others = [finding for finding in diagnosis.findings if finding is not main and _worth_saying(finding, main)]
    fixes = len(main.fixes) - 1 if main is not None else 0
    parts = ["all evidence"] if main is not None else []
    parts += [f"{fixes} more fix{'es' if fixes > 1 else ''}"] if fixes > 0 else []
    parts += [f"{len(others)} other cause{'s' if len(others) > 1 else ''}"] if others else []
    parts += ["how to confirm"] if main is not None and main.experiment else []
    parts += [f"not checked: {', '.join(gap.what for gap in diagnosis.not_looked[:2])}"] if diagnosis.not_looked else []
    sentences = [f"Run {diagnosis.run}."] if diagnosis.run else []
    if main is not None and any(fix.edits for fix in main.fixes):
        harmless = any(fix.edits and fix.safety in HARMLESS for fix in main.fixes)
        sentences.append("--fix applies the patch." if harmless else "--fix-all applies the patch.")
    sentences += [f"More with --long: {'; '.join(parts)}."] if parts else []
    return [("", ""), ("dim", wrapped(" ".join(sentences), "", limit=2))] if sentences else []


def _head(diagnosis: Diagnosis, main: Finding | None) -> Iterator[tuple[str, str]]:
    quiet = main is not None and (main.role != "cause" or _by_hand(main, diagnosis.ending))
    color = "bold green" if main is None else "bold yellow" if quiet else "bold red"
    yield color, wrapped(headline(diagnosis), "")
    cause = f"{main.cause}; " if main is not None else ""
    yield "dim", wrapped(f"{cause}{how_it_ended(diagnosis.ending)}.", "  ")


def _lines(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    main = main_finding(diagnosis)
    yield from _head(diagnosis, main)
    if main is not None and _by_hand(main, diagnosis.ending):
        return
    yield from _stages(diagnosis)
    yield from _story(diagnosis)
    if main is not None:
        yield from _body(main)
    unsettled = main is not None and main.cause.startswith("unknown/")
    others = [finding for finding in diagnosis.findings if finding is not main]
    yield from _others(
        others if unsettled else [other for other in others if _worth_saying(other, main)], candidates=unsettled
    )
    yield from _rest(diagnosis)


def _stages(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """One line for each program of the run, where there are several; of many the last ones and the one that decided."""
    stages = diagnosis.stages
    if len(stages) < 2:  # noqa: PLR2004 - a single one is the run itself
        return
    yield from section("Stages")
    shown = [one for one in stages if one.decided or one in stages[-_MOST_STAGES:]]
    if len(shown) < len(stages):
        yield "dim", f"  {len(stages) - len(shown)} earlier stages: see --json"
    for stage in shown:
        ranks = f", {stage.ranks} rank{'s' if stage.ranks > 1 else ''}" if stage.ranks else ""
        mark = "> " if stage.decided else "  "
        name = f"{stage.program} {stage.arguments}".strip()
        yield "dim", wrapped(f"{name} ({stage.role}{ranks}): {_briefly(stage.ending)}", mark)


def _story(diagnosis: Diagnosis, most: int = 0) -> Iterator[tuple[str, str]]:
    """What happened, in order; the first abnormal event is marked. A single event is quoted below anyway.

    Where there is room for so many lines only, those around the first abnormal event are told.
    """
    story = diagnosis.story
    if len(story) == 1 or not any(event.abnormal for event in story):
        return
    has_clock = any(event.time is not None for event in story)
    first = next(event for event in story if event.abnormal)
    told: dict[int, str] = {}
    for place in sorted(range(len(story)), key=lambda place: (abs(place - story.index(first)), place)):
        event = story[place]
        when = f"{clock(event.time)} " if event.time is not None else ""
        line = wrapped(f"{when}{sentence(event.says)}", "> " if event is first else "  ", "    ", limit=2 if most else 3)
        height = _HEADING + sum(other.count("\n") + 1 for other in (*told.values(), line))
        if len(told) == _MOST_STORY or (most and height > most):
            break
        told[place] = line
    if told:
        yield from section("What happened" if has_clock else "What happened (in log order)")
        yield from (("", told[place]) for place in sorted(told))


def _briefly(ending: Ending) -> str:
    """How a stage ended, in a few words."""
    how = f" by {ending.signal}" if ending.signal else f" with exit code {ending.exit_code}" if ending.exit_code else ""
    first = f", rank {ending.first_rank} first" if ending.first_rank is not None else ""
    steps = f" after {ending.optimizer_steps} optimizer steps" if ending.optimizer_steps else ""
    return f"{ending.state}{how}{first}{steps}"


def _by_hand(main: Finding, ending: Ending) -> bool:
    """Whether somebody simply stopped the run: whoever did it asks for no more."""
    return main.cause == "outside/user" and ending.state == "stopped" and not main.fixes


def _worth_saying(finding: Finding, main: Finding | None) -> bool:
    """Weak signs beside a settled cause are noise, and so is the exception itself once its cause is named."""
    if finding.strength == "weak":
        return False
    shown = {item for sign in main.signs for item in sign.evidence} if main is not None else set()
    return finding.cause != GENERAL or not shown & set(finding.signs[0].evidence[:1])


def main_finding(diagnosis: Diagnosis) -> Finding | None:
    """The finding that is the answer; what only contributed to a run that goes on or reached its end is none."""
    first = diagnosis.findings[0] if diagnosis.findings else None
    if first is None or first.role == "cause" or first.cause.startswith(("slow/", "silent/")):
        return first
    if first.cause.startswith("unknown/") and diagnosis.ending.state == "unknown":
        return first
    return first if diagnosis.ending.state in {"crashed", "killed", "hung", "stopped"} else None


def headline(diagnosis: Diagnosis) -> str:
    """The answer in one sentence."""
    answer = _answer(diagnosis)
    if diagnosis.happens_now and diagnosis.ending.state == "hung":
        return f"The run is stuck right now. {answer}"
    return answer


def _answer(diagnosis: Diagnosis) -> str:
    main = main_finding(diagnosis)
    if main is not None and main.cause == GENERAL and main.signs:
        return sentence(_SURE[main.level] + main.signs[0].says)
    if main is not None and _recorded(main) and (diagnosis.ending.state == "hung" or main.cause.startswith("outside/")):
        return sentence(_SURE[main.level] + main.signs[0].says)  # the place or the sender says more than the name
    if main is not None and main.cause.startswith("unknown/"):
        return f"{main.title}."
    if main is not None:
        return f"{_SURE[main.level]}{main.title}."
    if diagnosis.says:
        return diagnosis.says
    if not diagnosis.findings and any(gap.what == "any log" for gap in diagnosis.not_looked):
        return "Nothing to read: found no log, launch script, config or checkpoint."
    if diagnosis.ending.state == "finished":
        return _finished(diagnosis)
    if diagnosis.run is not None and diagnosis.ending.state == "running":
        return "The run is still going, and nothing looks wrong so far."
    return "No sign of a crash or another problem in what was read."


def _finished(diagnosis: Diagnosis) -> str:
    caught = next(
        (finding for finding in diagnosis.findings if finding.cause == GENERAL and finding.strength != "weak"), None
    )
    if caught is not None and diagnosis.ending.exit_code == 0:
        return f"The run finished with exit code 0, but there was an error: {caught.signs[0].says}."
    failed_after = next((note.quote for note in diagnosis.notes if note.where == "exit.json"), None)
    if failed_after is not None:
        return sentence(failed_after)
    return "The run finished. No problems found in what was read."


def sentence(words: str) -> str:
    """Words as a sentence: a capital first, unless a name begins it, and a full stop."""
    first = words.partition(" ")[0].rstrip(",:;")
    is_name = not (first.replace("-", "").replace("'", "").isalpha() and first.islower()) or first in _NAMES
    begun = words if is_name else words[:1].upper() + words[1:]
    return begun if not begun or begun.endswith((".", "!", "?", ":", "…", "`")) else f"{begun}."


def _recorded(finding: Finding) -> bool:
    """Whether its first sign was seen by the recorder or a look at the job, which name the rank and the line."""
    return bool(finding.signs) and any(item.source in {"recorder", "live"} for item in finding.signs[0].evidence)


def how_it_ended(ending: Ending) -> str:
    """The ending in words."""
    state = _STATES[ending.state]
    place = " ".join(
        [
            *([f"at step {ending.step}"] if ending.step is not None else []),
            *([during(ending.phase)] if ending.phase else []),
        ]
    )
    first = f", rank {ending.first_rank} first" if ending.first_rank is not None else ""
    if ending.state == "unknown":
        return state + (f"; last seen {place}" if place else "") + first
    if ending.state == "hung":
        end = (
            f" until {ending.signal} ended it"
            if ending.signal
            else f" and then exited with code {ending.exit_code}"
            if ending.exit_code is not None
            else ""
        )
        return f"{state} {place}".rstrip() + first + ("," if end and first else "") + end
    how = (
        f" by {ending.signal}"
        if ending.signal
        else f" with exit code {ending.exit_code}"
        if ending.exit_code is not None
        else ""
    )
    return f"{state}{how} {place}".rstrip() + first


def _body(finding: Finding) -> Iterator[tuple[str, str]]:
    signs = [sign for sign in finding.signs if sign.strength != "against"]
    if signs:
        yield from section("Evidence")
        yield from sign_lines(signs)
    opposed = [sign for sign in finding.signs if sign.strength == "against"]
    if opposed:
        yield from section("Evidence against")
        yield from sign_lines(opposed)
    if finding.fixes:
        yield from section("Fixes" if len(finding.fixes) > 1 else "Fix")
        for fix in finding.fixes:
            yield from fix_lines(fix)
    if finding.experiment:
        yield from section("How to confirm")
        yield from _experiment(finding.experiment)


def section(title: str) -> Iterator[tuple[str, str]]:
    """A heading with air above it."""
    yield "", ""
    yield "bold", title


def sign_lines(signs: Iterable[Sign]) -> Iterator[tuple[str, str]]:
    """What speaks for a cause, each sentence and each quote once."""
    seen: set[Evidence] = set()
    said: set[str] = set()
    for sign in list(signs)[:_MOST_EVIDENCE]:
        fresh = [item for item in sign.evidence if item not in seen]
        if not fresh and sign.evidence:
            continue
        if sign.says not in said:
            yield "", wrapped(sentence(sign.says), "  ")
            said.add(sign.says)
        for item in fresh:
            seen.add(item)
            yield from _quoted(item)


def _quoted(item: Evidence) -> Iterator[tuple[str, str]]:
    yield "cyan", f"    {one_line(item.where)}"
    yield "dim", wrapped(item.quote, "      | ", "      | ", limit=4)


def fix_lines(fix: Fix) -> Iterator[tuple[str, str]]:
    """A remedy: its title and grade, why, and the diff, arguments or variables to copy."""
    yield "", wrapped(f"* {fix.title} ({_SAFETY[fix.safety]}).", "  ", "    ")
    if fix.why:
        yield "dim", wrapped(sentence(fix.why), "    ")
    for line in unresolved(fix):
        yield "green", wrapped(line, "    ", "      ")
    for name, value in fix.environment.items():
        yield "green", one_line(f"    export {name}={value}")
    for name, value in fix.arguments.items():
        yield "green", one_line(f"    {name}={value}" if name.startswith("-") else f"    {name}: {value}")
    for line in fix.diff.splitlines():
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"
        yield style, f"    {line}"


def unresolved(fix: Fix) -> list[str]:
    """The settings of a fix in words and common spellings, where the job's own are not known."""
    if not fix.settings or fix.diff or fix.arguments:
        return []
    from crashcart.names import spellings

    lines = []
    for name, value in fix.settings.items():
        known = ", ".join(spellings(name)[:3])
        lines.append(f"{name}: {_RELATIVE.get(str(value), value)}" + (f" ({known})" if known else ""))
    return lines


def _experiment(experiment: Experiment) -> Iterator[tuple[str, str]]:
    yield "", wrapped(experiment.title + ".", "  ")
    yield "", wrapped(f"start from:   {experiment.start_from}", "    ", "                  ")
    yield "", wrapped(f"run until:    {experiment.stop_after}", "    ", "                  ")
    yield "", wrapped(f"confirmed if: {experiment.confirms}", "    ", "                  ")
    yield "", wrapped(f"refuted if:   {experiment.refutes}", "    ", "                  ")


def _others(findings: list[Finding], *, candidates: bool) -> Iterator[tuple[str, str]]:
    words = {"cause": "also possible", "contributing": "contributing", "echo": "a consequence of the failure above"}
    shown = findings[:_MOST_OTHERS]
    if not shown:
        return
    yield from section("Possible causes, most likely first" if candidates else "Also possible")
    for finding in shown:
        role = "possible" if candidates else words[finding.role]
        yield "", wrapped(f"* {finding.title} ({finding.cause}, {role})", "  ", "    ")
        for sign in finding.signs[: _MOST_OTHERS if candidates else 1]:
            where = f" [{sign.evidence[0].where}]" if sign.evidence else ""
            yield "dim", wrapped(sentence(sign.says) + where, "    ")
        if candidates:
            yield from _short_remedy(finding)


def _short_remedy(finding: Finding) -> Iterator[tuple[str, str]]:
    for fix in finding.fixes[:1]:
        for style, line in fix_lines(fix):
            yield style, textwrap.indent(line, "  ")
    if finding.experiment:
        test = finding.experiment
        yield (
            "",
            wrapped(f"To confirm: {test.title}. Confirmed if {test.confirms}; refuted if {test.refutes}.", "    ", "      "),
        )


def _rest(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    if diagnosis.notes:
        yield from section("About the job")
        for note in diagnosis.notes:
            yield "", wrapped(f"{note.quote}" + (f" [{note.where}]" if note.where else ""), "  ", "    ")
    if diagnosis.ruled_out:
        yield from section("Ruled out")
        for one in diagnosis.ruled_out[:_MOST_OTHERS]:
            yield "", wrapped(f"* {one.title} ({one.cause})", "  ", "    ")
    yield from gaps(diagnosis.not_looked)


def gaps(not_looked: Sequence[NotLooked], most: int | None = None) -> Iterator[tuple[str, str]]:
    """What could not be looked at, and why; no more than so many."""
    if not not_looked:
        return
    yield from section("Not checked")
    for gap in not_looked[:most]:
        reason = f": {gap.why}" if gap.why else ""
        how = f" ({gap.how})" if gap.how else ""
        yield "dim", wrapped(f"* {gap.what}{reason}{how}", "  ", "    ")
    if most is not None and len(not_looked) > most:
        yield "dim", f"  and {len(not_looked) - most} more (see --json)"


def wrapped(line: str, first: str, later: str | None = None, limit: int = 0) -> str:
    """A line broken to the width, with what stands before its first and its later pieces."""
    later_lines = first if later is None else later
    # A path stays in one piece: it is there to be copied.
    lines = textwrap.wrap(
        line,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later_lines,
        break_on_hyphens=False,
        break_long_words=limit > 0,
    ) or [first.rstrip()]
    if limit and len(lines) > limit:
        lines = [*lines[:limit], f"{later if later is not None else first}…"]
    return "\n".join(lines)
