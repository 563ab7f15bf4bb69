"""`crashcart check`: what will kill a job, before it costs a night. Nothing of the job is started or imported."""

from __future__ import annotations

import gc
import os
import sys
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from crashcart.deadline import ANSWER_SECONDS, is_spent, note_memory, together
from crashcart.engine import causes_allowance
from crashcart.errors import CommandError
from crashcart.foresight import foresee, merged, news
from crashcart.model import Evidence
from crashcart.numbers import to_count
from crashcart.readers.job.script_files import text_of
from crashcart.readers.plan import Asked, plans
from crashcart.readers.project import own_folders
from crashcart.record import replace
from crashcart.redact import clean_all, forget_secrets, learn_secrets

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from crashcart.case import Case
    from crashcart.model import Diagnosis, Finding, Fix
    from crashcart.readers.plan import Plan

__all__ = ["check", "run"]

KILLED, FIT = 1, 0
# A program that takes one of these takes what the Hugging Face trainer takes.
HF_TRAINER = frozenset({"per_device_train_batch_size", "num_train_epochs", "logging_steps", "save_steps", "save_strategy"})
_LINES_ABOVE, _LONGEST_LINE = 9, 2000
_ROUNDS = 4  # a command that is whole again shows flags that were never read before


def check(paths: Sequence[str] | str = (), *, command: Sequence[str] = (), against: str | None = None) -> Diagnosis:
    """What will, can or might go wrong in a job: a launch script, a config, a folder, or a command in words.

    ``against`` names another version of it, a folder or a git revision; then only what is new against that is told.
    """
    note_memory()
    forget_secrets()
    asked = Asked(command, [paths] if isinstance(paths, str) else list(paths))
    return clean_all(_compared(asked, _answered(asked)[1], against)[0], _quoted_lines())


def _quoted_lines() -> Callable[[object], list[str]]:
    """Tells the line of a file that an evidence quotes, last, and the few above it."""

    @cache
    def lines_of(path: str) -> list[str]:
        try:
            return text_of(path).split("\n")
        except CommandError:
            return []

    def lines_to(quoted: object) -> list[str]:
        path, _, digits = quoted.where.rpartition(":") if isinstance(quoted, Evidence) else ("", "", "")
        number = to_count(digits) or 0
        near = lines_of(path)[max(0, number - _LINES_ABOVE) : number] if path and number else []
        return [line[:_LONGEST_LINE] for line in near]

    return lines_to


def _answered(asked: Asked) -> tuple[list[Plan], Diagnosis]:
    """The jobs and what is foreseen for them, all in the time of one answer."""
    with together(ANSWER_SECONDS):
        found = plans(asked)
        for plan in found:
            learn_secrets(chain(plan.case.texts(), plan.execution.trace.texts() if plan.execution is not None else ()))
        return found, _foreseen(found, asked)


def _foreseen(found: Sequence[Plan], asked: Asked) -> Diagnosis:
    allowance = causes_allowance(jobs=len(found))
    folders = own_folders(
        [*asked.paths, *(os.path.dirname(plan.program.entry) for plan in found if plan.program.entry and asked.command)]
    )
    told = [
        foresee(plan.case, subject=plan.name, resolve=_resolver(plan.case, folders), allowance=allowance) for plan in found
    ]
    answer = merged(told, " ".join(asked.command or asked.paths) or ".")
    files = {os.path.normpath(path) for plan in found for path in plan.files}
    untrained = [plan for plan in found if plan.trains is False]
    says = (
        "No training found: no program that this job starts calls optimizer.step(), in the code that was read."
        if len(untrained) == len(found)
        else ""
    )
    return replace(answer, files_read=len(files), says=says)


def _resolver(case: Case, folders: Sequence[str]) -> Callable[[Fix], Fix]:
    from crashcart.patch import keep_inside, resolve

    def resolved(fix: Fix) -> Fix:
        found = keep_inside(resolve(fix, case.facts), folders)
        known = {name: value for name, value in found.arguments.items() if name in fix.arguments or _takes(case, name)}
        return replace(found, arguments=known)

    return resolved


def _takes(case: Case, flag: str) -> bool:
    """Whether the program is known to take a flag: the job gives it, its parser has it, or it is one of many it gives alike."""
    name = flag.lstrip("-")
    parsed = [name for fact in case.all("code.parsed") for name in fact.value["flags"]]
    if flag in parsed:
        return True
    given = [fact for fact in case.facts.values() if fact.spelling]
    if any(fact.spelling.lstrip("-") == name for fact in given):
        return True
    return not parsed and any(fact.origin == "flag" and fact.spelling.lstrip("-") in HF_TRAINER for fact in given)


def _compared(asked: Asked, now: Diagnosis, against: str | None) -> tuple[Diagnosis, list[Finding]]:
    """What is new against another version, and what that one had and this has not."""
    if against is None:
        return now, []
    from crashcart.readers.revision import working_in

    with working_in(against):
        _, before = _answered(asked)
    return replace(now, findings=tuple(news(now, before))), list(news(before, now))


def run(options: argparse.Namespace) -> int:
    """Print what was foreseen; 1 where something will kill the job."""
    gc.disable()  # syntax trees are large and all stay: this process ends soon, and looking for rubbish costs a third of it
    try:
        return _told(options)
    finally:
        gc.enable()


def _told(options: argparse.Namespace) -> int:
    from crashcart.repair import show_and_write

    note_memory()
    forget_secrets()
    asked = Asked(options.command, options.paths)
    found, now = _answered(asked)
    diagnosis, gone = _compared(asked, now, options.against)
    with together(ANSWER_SECONDS):  # all looks at what was changed, as long as the first
        for number in range(_ROUNDS if options.fix or options.fix_all else 0):
            if is_spent() or not show_and_write(diagnosis.findings, everything=options.fix_all, says_nothing=bool(number)):
                break
            found, diagnosis = _answered(asked)
    told = clean_all(diagnosis, _quoted_lines())
    jobs = [(plan.name, plan.case, plan.counted) for plan in found] if options.show_job else []
    if options.json:
        from crashcart.report.data import json_text, plain
        from crashcart.report.job import plain_job

        shown = {"job": [plain_job(*job) for job in jobs]} if jobs else {}
        sys.stdout.write(json_text({**plain(told), **clean_all(shown)}))
    else:
        from crashcart.report.foreseen import write
        from crashcart.report.job import write_jobs

        if jobs:
            write_jobs(jobs)
        write(told, notes=options.notes, against=options.against, gone=clean_all(gone))
    fatal = {"will", "can"} if options.strict else {"will"}
    return KILLED if any(finding.level in fatal for finding in diagnosis.findings) else FIT
