"""The job's own code, read as `check` reads it, for a run that died or stands still.

The recorded command names the program exactly; without a recording, the traceback does: its frames name files, and the lines that
it quotes show whether those are still what ran. What the code shows explains a death, it is never one: causes get it as
``code.*`` and ``data.*`` facts beside what happened, with the line to change and the patch that `check` offers.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from itertools import islice
from typing import TYPE_CHECKING, Any

from crashcart.account import stage_at_fault
from crashcart.deaths import finished, first, hung
from crashcart.doubts import is_in_doubt, saved_names
from crashcart.errors import CommandError, our_errors
from crashcart.model import Edit, Evidence, Fact, Fix, Span
from crashcart.places import SETTINGS_AT_PLACE, frames_of_first, is_own, of_event
from crashcart.readers.job.script_files import text_of
from crashcart.readers.saved_files import CUT, files_cut_short
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case
    from crashcart.flight import Flight, Stage
    from crashcart.log import Frame, Raised
    from crashcart.places import Spot
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.plan import Plan

__all__ = ["is_wanted", "read_scene"]

_WRITTEN = (".py", ".sh", ".yaml", ".yml", ".toml", "Makefile")  # by people; data are made by the job itself
_KINDS = ("code.", "data.")
_OF_A_FINISHED_RUN = (
    "code.trainer_resume",
    "code.loader",
    "code.sample_fields",
    "code.resume",
    "code.frozen",
    "code.step_condition",
    "code.empty_part",
    "data.file_rows",
)
_DOUBTFUL = ("nonfinite", "no gradients")  # events for which the code of a run that ended well is read too
_DOUBTFUL_WORDS = ("using a target size (torch.size(",)
_MOST_SETTINGS = 4
_MOST_FRAMES = 3
_OF_THE_MACHINE = ("machine.", "disk.", "gpu.")
_CLOCK_SLACK = 2.0  # seconds: file systems round the time of a change


def is_wanted(case: Case) -> bool:
    """Whether something went wrong that the code may explain."""
    if case.flight is None:
        return any(raised.kind for raised in case.log.raised)
    if not finished(case) or is_in_doubt(case.flight):
        return True
    warned = bool(case.log.index.saying(_DOUBTFUL_WORDS))
    return warned or any(True for _ in case.flight.of_kind(*_DOUBTFUL))


def read_scene(case: Case, scripts: Sequence[str]) -> dict[str, Fact]:
    """Put what the job's code and data show into the case; its settings are returned, as the program's own loaders read them."""
    flight = case.flight
    if flight is not None and not finished(case):
        case.seen[CUT] = files_cut_short(flight)
    plan = _recorded(case, flight) if flight is not None else _printed(case, scripts)
    if plan is None:
        return {}
    folder = str(flight.facts.get("folder") or "") if flight is not None else "."
    if flight is not None and finished(case) and not is_in_doubt(flight):  # only what is to be done, if something is
        _look_at_the_scene(case, plan, folder)
        return {}
    kinds = _KINDS if flight is None or not finished(case) else _OF_A_FINISHED_RUN
    for name, facts in plan.case.seen.items():
        if name.startswith(kinds):
            case.seen.setdefault(name, []).extend(_seen_from_here(fact, folder) for fact in facts)
    if plan.execution is not None:
        for spot in reversed(frames_of_first(case)[-_MOST_FRAMES:]):
            used = _settings_at(plan.execution, spot)
            if used:
                place = Evidence("code", "", f"{spot.file}:{spot.line}")
                settings = [_seen_from_here(fact, folder) for fact in used]
                case.seen[SETTINGS_AT_PLACE] = [Fact(SETTINGS_AT_PLACE, settings, place, "code")]
                break
    for fact in _about_what_happened(case, flight, plan) if flight is not None else ():
        case.seen.setdefault(fact.name, []).append(_seen_from_here(fact, folder))
    _look_at_the_scene(case, plan, folder)
    own = {name: fact for name, fact in plan.case.facts.items() if not name.startswith(_OF_THE_MACHINE)}
    return {name: _seen_from_here(fact, folder) for name, fact in own.items()}


def _about_what_happened(case: Case, flight: Flight, plan: Plan) -> Iterator[Fact]:
    """What is looked for in the code only where a recording shows that it may matter."""
    from crashcart.readers.metric_receivers import sends_metrics, waits_in_tracker

    sources, leader = plan.program.sources, first(case)
    if hung(case):
        yield from waits_in_tracker(flight, sources)
    if leader is not None and leader.raised is not None:
        yield from sends_metrics(of_event(leader.raised), sources)
    names = saved_names(flight) if plan.execution is not None else []
    if plan.execution is not None and names:
        from crashcart.readers.name_patterns import unmatched_names

        found = unmatched_names(plan.execution, names)
        yield from [found] if found is not None else []


def _seen_from_here(value: Any, folder: str) -> Any:  # noqa: ANN401 - data of any kind
    """The same data with its places told from our folder, where the job ran in another."""
    if os.path.abspath(folder) == os.getcwd():
        return value
    if isinstance(value, dict):
        return {key: _seen_from_here(item, folder) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(_seen_from_here(item, folder) for item in value)
    if isinstance(value, Span):
        return replace(value, file=_path_from_here(value.file, folder))
    if isinstance(value, Evidence):
        path, colon, line = value.where.rpartition(":")
        return replace(value, where=f"{_path_from_here(path, folder)}{colon}{line}") if path else value
    if isinstance(value, Fix):
        return replace(value, edits=_seen_from_here(value.edits, folder))
    if isinstance(value, Edit):
        return replace(value, span=_seen_from_here(value.span, folder))
    if isinstance(value, Fact):
        place, span = _seen_from_here(value.evidence, folder), _seen_from_here(value.span, folder)
        return replace(value, value=_seen_from_here(value.value, folder), evidence=place, span=span)
    return value


def _path_from_here(path: str, folder: str) -> str:
    there = os.path.join(folder, path)
    return os.path.normpath(there) if os.path.exists(there) else path


def _look_at_the_scene(case: Case, plan: Plan, folder: str) -> None:
    """What can be patched at the scene itself, and where the values come from that broke it."""
    from crashcart.readers.remedies import remedies_of
    from crashcart.readers.remedies._scene import Scene
    from crashcart.readers.value_origins import value_origins

    with _working_in(folder or "."):
        scene = Scene(case, plan)
        found = remedies_of(scene)
        if case.flight is None or stage_at_fault(case) is case.flight.stage:
            with our_errors("where its values come from", case.could_not_look):
                found = [*found, *value_origins(scene)]
    for fact in found:
        case.seen.setdefault(fact.name, []).append(_seen_from_here(fact, folder))


def _settings_at(execution: Execution, spot: Spot) -> list[Fact]:
    """The settings of which a line makes use: in the arguments of its calls, and in those of the layers and objects that it calls."""
    from crashcart.readers.interpreter.values import Result

    found: dict[str, Fact] = {}
    for call in execution.trace.calls:
        file = call.source.path
        if call.line != spot.line or not (spot.file == file or spot.file.endswith(f"/{os.path.normpath(file)}")):
            continue
        made = call.receiver.call if isinstance(call.receiver, Result) else None
        values = [*call.arguments, *call.keywords.values()]
        values += [*made.arguments, *made.keywords.values()] if made is not None else []
        for fact in (fact for value in values for fact in value.origins):
            found.setdefault(fact.spelling or fact.name, fact)
    return _settings_of_loader(execution, spot) or list(found.values())[:_MOST_SETTINGS]


def _settings_of_loader(execution: Execution, spot: Spot) -> list[Fact]:
    """The settings with which the data set was made over whose loader a loop at that line goes; one for each place where some stand."""
    from crashcart.readers.interpreter.values import Result

    found: dict[str, Fact] = {}
    for region in execution.trace.root.regions():
        file = os.path.normpath(region.source.path)
        at_line = region.kind == "loop" and getattr(region.node, "lineno", 0) == spot.line
        loader = region.iterable.call if at_line and isinstance(region.iterable, Result) else None
        if loader is None or not (spot.file == file or spot.file.endswith(f"/{file}")):
            continue
        samples = loader.argument(0, "dataset")
        for call in execution.trace.calls if samples is not None else ():
            if call.result is samples:
                for fact in (fact for value in (*call.arguments, *call.keywords.values()) for fact in value.origins):
                    found.setdefault(fact.evidence.where, fact)
    return list(found.values())[:_MOST_SETTINGS]


def _recorded(case: Case, flight: Flight) -> Plan | None:
    """The job of a recording: the program of the stage that explains how it ended."""
    folder = str(flight.facts.get("folder") or "")
    if not os.path.isdir(folder):
        return None
    stage = stage_at_fault(case)
    program = os.path.basename(stage.program) if stage is not None else ""
    with _working_in(folder):
        planned = (_planned(words, [], program) for words in _commands(flight, stage))
        plan = next((plan for plan in planned if plan is not None), None)
        if plan is None:
            return None
        began = flight.facts.get("started")
        written = sorted(
            {source.path for source in plan.program.sources} | {path for path in plan.files if path.endswith(_WRITTEN)}
        )
        changed = [path for path in written if began is not None and _changed_after(path, began + _CLOCK_SLACK)]
    if changed:
        case.could_not_look("the job's code", f"{changed[0]} was changed after the run began", "")
        return None
    return plan


def _commands(flight: Flight, stage: Stage | None) -> Iterator[list[str]]:
    """The command of the run; else that of the program itself."""
    main = flight.processes.get(stage.mains[0]) if stage is not None and stage.mains else None
    for command in (str(flight.facts.get("command") or ""), main.command if main is not None else ""):
        with contextlib.suppress(ValueError):  # a quote that is not closed: what was shown of it was cut
            words = shlex.split(command)
            if words:
                yield words


def _planned(words: Sequence[str], paths: Sequence[str], program: str) -> Plan | None:
    """The plan for a command or a script whose program is the one that ran."""
    from crashcart.readers.plan import Asked, plans

    try:
        found = plans(Asked(words, paths))
    except (CommandError, OSError):
        return None
    return next((plan for plan in found if plan.program.entry and _is_program(plan.program.entry, program)), None)


def _is_program(entry: str, name: str) -> bool:
    """Whether a file is the program that people call so: ``train.py``, or ``router.learn`` for ``python -m router.learn``."""
    module = os.path.join(*name.split(".")) if name else ""
    path = os.path.normpath(entry)
    return os.path.basename(path) == name or f"/{path}".endswith((f"/{module}.py", f"/{module}/__main__.py"))


def _changed_after(path: str, moment: float) -> bool:
    try:
        return os.path.getmtime(path) > moment
    except OSError:
        return True


def _printed(case: Case, scripts: Sequence[str]) -> Plan | None:
    """The job of a log: the main program of a traceback whose lines still stand where it says."""
    for raised in case.log.raised:
        entry = _entry_of(raised)
        if entry is None:
            continue
        own = [script for script in scripts if _may_start(script, entry)]
        plan = _planned((), own, os.path.basename(entry)) if own else None
        return plan or _planned((), [entry], os.path.basename(entry))
    return None


def _may_start(script: str, entry: str) -> bool:
    """Whether a launch script lies in the project of a program and has its name; a folder that was searched may hold many projects."""
    places = [os.path.dirname(os.path.realpath(path)) for path in (script, entry)]
    shared = os.path.commonpath(places)
    is_near = shared in places or all(os.path.dirname(place) == shared for place in places)
    try:
        return is_near and os.path.splitext(os.path.basename(entry))[0] in text_of(script)
    except (CommandError, OSError):
        return False


def _entry_of(raised: Raised) -> str | None:
    """The file in which a traceback begins, where its own frames are what the files say."""
    own = [frame for frame in raised.frames if is_own(frame.file)]
    if not own or own[0].function != "<module>" or not all(map(_still_stands, own)):
        return None
    return own[0].file


def _still_stands(frame: Frame) -> bool:
    if not frame.code or frame.line < 1:
        return False
    try:
        lines = io.StringIO(text_of(frame.file))
    except (CommandError, OSError):
        return False
    return next(islice(lines, frame.line - 1, None), "").strip() == frame.code.strip()


@contextlib.contextmanager
def _working_in(folder: str) -> Iterator[None]:
    here = os.getcwd()
    try:
        os.chdir(folder)
        yield
    finally:
        os.chdir(here)
