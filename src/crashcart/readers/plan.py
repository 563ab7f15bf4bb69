"""A job before its start: what the user named (a command, a script, a config, a folder) and everything it leads to.

Nothing of the job is started or imported. A script names its program, the program its own modules; flags and code name config
files; config names data and folders. Of one setting the nearest to the program counts: a flag before a file before a default.
A folder can hold many jobs: each launch script is one, each config that no script names is one, and they share the code.
"""

from __future__ import annotations

import math
import os
from functools import partial
from typing import TYPE_CHECKING

from crashcart.case import Case
from crashcart.deadline import TookTooLongError, guarded, is_spent, spent
from crashcart.errors import CommandError, our_errors
from crashcart.model import Evidence, Fact, NotLooked
from crashcart.names import learn
from crashcart.readers.code.program import Program, program_of
from crashcart.readers.data import Looking, data_facts
from crashcart.readers.effective_settings import settle
from crashcart.readers.entry import console_script, entry_of, nearest, python_path
from crashcart.readers.interpreter import follow
from crashcart.readers.interpreter.execution import Execution
from crashcart.readers.interpreter.launch import Launch, launch_of
from crashcart.readers.interpreter.libraries import modelled_packages
from crashcart.readers.interpreter.modules import Modules
from crashcart.readers.job.argv import refusals
from crashcart.readers.job.command import read_command
from crashcart.readers.job.configs import Read, read_configs
from crashcart.readers.job.environment import PREFIX
from crashcart.readers.job.files import launch_facts
from crashcart.readers.job.inner_program import inner_launch
from crashcart.readers.job.installed import nearest_packages
from crashcart.readers.job.makefile import is_makefile, made_by
from crashcart.readers.job.overrides import as_read
from crashcart.readers.job.paths import missing, missing_program
from crashcart.readers.job.scripts import read_launch, starts, training_targets
from crashcart.readers.job.started import ENTRY_MISSING, count_ranks
from crashcart.readers.job.syntax import GrammarMissingError
from crashcart.readers.machine import machine_facts
from crashcart.readers.own_settings import OwnSettings, own_settings
from crashcart.readers.project import (
    ACTS,
    CONFIGS,
    NO_TRAINING,
    SCRIPTS,
    entries_of,
    files_of,
    launches,
    read_text,
    readers_of,
    root_of,
)
from crashcart.readers.remarks import Remarks
from crashcart.readers.rules import facts_of
from crashcart.record import field, record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence


__all__ = ["Asked", "Plan", "plans"]

_MOST_JOBS = 200
_MOST_STAGES = 6
_PART_SECONDS = 1.5
_FOLLOW_SECONDS = 3.0
_FOLDER_SECONDS = 1.2  # for the launch scripts of a folder, and again for its configs


@record(frozen=True)
class Asked:
    """What the user gave: words of a command, or paths."""

    command: Sequence[str] = ()
    paths: Sequence[str] = ()


@record
class Plan:
    """One job: how it is named to the user, its case, and its code."""

    name: str
    case: Case
    program: Program = field(default_factory=Program)
    trains: bool | None = None  # whether its program steps an optimizer; None where it was not followed
    execution: Execution | None = None  # its program, followed with the words of its launch

    @property
    def files(self) -> set[str]:
        """The files that were read for it."""
        named = {
            path for path in _files(self.case) if os.path.isfile(path) and not path.startswith(("/proc/", "/sys/", "/dev/"))
        }
        return named | {source.path for source in self.program.sources}

    @property
    def counted(self) -> dict[str, int]:
        """What is counted in the code, not by flags: each loader has workers of its own."""
        calls = self.execution.trace.calls if self.execution is not None else []
        each = {"loaders": "DataLoader", "scalers": "GradScaler"}
        return {name: len({call.node for call in calls if call.method == method}) for name, method in each.items()}


def plans(asked: Asked, progress: Callable[[str], None] | None = None) -> list[Plan]:
    """The jobs that were named; at least one, or a sentence why there is none."""
    return _Planning(progress or (lambda _: None)).of(asked)


class _Planning:
    def __init__(self, progress: Callable[[str], None]) -> None:
        self.progress = progress
        self.own = OwnSettings()
        self.root = "."
        self.remarks = Remarks()
        self.looking = Looking()

    def of(self, asked: Asked) -> list[Plan]:
        if asked.command:
            self.settle(".")
            return [_here(plan) for plan in self.command(asked.command)]
        paths = list(dict.fromkeys(asked.paths)) or ["."]
        for path in paths:
            if not os.path.exists(path):
                raise CommandError(f"{path}: no such file or folder.")
        problems: list[tuple[str, str]] = []
        found = _some("files and folders", paths, self.named, problems)
        found[0].case.not_looked += [NotLooked(where, why) for where, why in problems]
        return found

    def named(self, path: str) -> list[Plan]:
        """The jobs of a path that the user named."""
        self.settle(path if os.path.isdir(path) else os.path.dirname(path) or ".")
        return self.folder(path) if os.path.isdir(path) else [_here(plan) for plan in self.files(path)]

    def settle(self, folder: str) -> None:
        """Take what the project says to crashcart itself."""
        self.root = root_of(folder)
        self.own = own_settings(self.root)
        learn(self.own.names)

    def command(self, words: Sequence[str]) -> list[Plan]:
        """A command; where it is a shell script (``bash train.sh``), the trainings of that script."""
        script = next((word for word in words if word.endswith(SCRIPTS) and os.path.isfile(word)), None)
        if script is not None and starts(words, script):
            return self.stages(" ".join(words), script, words)
        if (made := made_by(words)) is not None:
            facts = read_launch(made.file, words)
            return [self.job(" ".join(words), facts, os.path.dirname(made.file) or ".", named=[made.file])]
        return [self.job(" ".join(words), read_command(list(words)), ".")]

    def files(self, path: str) -> list[Plan]:
        """The job of a file; of a Makefile those of its targets."""
        targets = training_targets(path) if is_makefile(path) else []
        folder = os.path.dirname(path) or "."
        problems: list[tuple[str, str]] = []

        def started_by(target: str) -> list[Plan]:
            return [self.job(f"{path} {target}", read_launch(path, target=target), folder, named=[path])]

        found = _some(f"targets of {path}", targets, started_by, problems)
        for plan in found[:1]:
            plan.case.not_looked += [NotLooked(where, why) for where, why in problems]
        return found or self.file(path)

    def launched(self, path: str, problems: list[tuple[str, str]]) -> list[Plan]:
        """The jobs that a script or Makefile of a folder starts, if any."""
        try:
            return self.files(path) if launches(path) else []
        except TookTooLongError as problem:
            problems.append((path, str(problem)))
            return []

    def file(self, path: str) -> list[Plan]:
        if path.endswith(CONFIGS):
            return [self.config(path)]
        if path.endswith(".py") and not ACTS.search(read_text(path)) and not list(entries_of([path])):
            plan = self.config(path)  # settings in Python
            if plan.program.entry:
                return [plan]
        if path.endswith(".py"):
            named = [fact for fact in read_command(["python", path]) if fact.name != "launch.arguments"]  # nobody gave any
            return [self.job(path, named, os.path.dirname(path) or ".")]
        return self.stages(path, path, ())

    def stages(self, name: str, path: str, words: Sequence[str]) -> list[Plan]:
        """The trainings of a script: the programs in it that step an optimizer; where none is known to, the likeliest."""
        found: list[Plan] = []
        skip: set[str] = set()
        left_out: NotLooked | None = None
        while len(found) < _MOST_STAGES:
            plan = self.script(name, path, words, skip)
            program = plan.case.facts.get("launch.program_key")
            if found and program is None:
                break
            found.append(plan)
            if program is None or str(program.value) in skip:
                break
            skip.add(str(program.value))
            if plan.trains is None and len(found) == 1:
                break
            if is_spent():
                left_out = NotLooked(f"what {path} starts after {program.value}", "the other parts took too long")
                break
        kept = [plan for plan in found if plan.trains] or found[:1]
        kept[0].case.not_looked += [left_out] if left_out is not None else []
        return kept

    def script(self, name: str, path: str, words: Sequence[str], skip: Collection[str]) -> Plan:
        """The job of a script; without the grammar of the shell it is not checked, and the answer says so."""
        folder, named = os.path.dirname(path) or ".", [path] if words else []
        try:
            return self.job(name, read_launch(path, words, skip=skip), folder, named=named)
        except GrammarMissingError as problem:
            plan = self.job(name, [], folder, named=named)
            plan.case.could_not_look(path, str(problem))
            return plan

    def config(self, path: str) -> Plan:
        """A config alone: the code that would read it is looked for in its project."""
        entries = readers_of(path, list(files_of(self.root, self.own.exclude)), [".", self.root])
        return self.job(path, [], os.path.dirname(path) or ".", configs=[path], entries=entries)

    def folder(self, path: str) -> list[Plan]:
        """All jobs of a folder; where there is no script and no config, its entry files."""
        problems: list[tuple[str, str]] = []
        files = list(files_of(path, self.own.exclude, problems))
        launchers = [file for file in files if file.endswith(SCRIPTS) or is_makefile(file)]
        scripts = _some(
            "launch scripts", launchers, lambda file: self.launched(file, problems), problems, seconds=_FOLDER_SECONDS
        )
        named = {os.path.realpath(file) for plan in scripts for file in _files(plan.case)}
        entries = list(entries_of(files, problems))
        unnamed = [
            file
            for file in files
            if file.endswith((".yaml", ".yml")) and os.path.realpath(file) not in named and not NO_TRAINING.search(file)
        ]
        configs = _some(
            "configs",
            unnamed,
            lambda file: [self.found_config(file, nearest(file, entries))],
            problems,
            seconds=_FOLDER_SECONDS,
        )
        started = {os.path.realpath(plan.program.entry) for plan in scripts if plan.program.entry}
        left = [entry for entry in entries if os.path.realpath(entry) not in started]
        rest = [self.job(path, [], path, entries=left)] if left and not configs else []
        if not (scripts or configs or rest):
            left_out = f" Not checked: {problems[0][0]} ({problems[0][1]})." if problems else ""
            raise CommandError(f"{path} contains no launch script, config or training program to check.{left_out}")
        every = [*scripts, *configs, *rest]
        every[0].case.not_looked += [NotLooked(where, why) for where, why in problems]
        return every

    def found_config(self, path: str, entries: Sequence[str]) -> Plan:
        """A config of a folder that no script names."""
        return self.job(path, [], os.path.dirname(path) or ".", configs=[path], entries=entries, found=True)

    def job(  # noqa: PLR0913, PLR0915 - what a job is told by; one step after another
        self,
        name: str,
        facts: list[Fact],
        folder: str,
        configs: Sequence[str] = (),
        entries: Sequence[str] = (),
        *,
        named: Sequence[str] = (),
        found: bool = False,
        is_started: bool = False,
    ) -> Plan:
        """One job from the facts of its launch.

        ``found`` says that nobody named its config, it only lay there; ``is_started`` that a program starts it.
        """
        self.progress(name)
        case = Case(before=True)
        root = self.root
        inner = [str(fact.value) for fact in facts if fact.name == "launch.folder"]
        places = list(dict.fromkeys([*inner, ".", folder, root]))
        more = python_path(facts, inner or [folder])
        entry = entry_of(facts, [*places, *more])
        starts = [os.path.normpath(start) for start in ([entry] if entry else entries)]
        started = launch_of(facts, places)
        started.config = "".join(configs[:1]) if started.arguments is None else ""
        program, execution = Program(entry="".join(starts[:1]) or None), None
        seen: dict[str, list[Fact]] = {}
        if len(starts) == 1:  # of several programs none speaks for the job
            packages = nearest_packages(os.path.dirname(starts[0]) or ".")
            own = {name: place for name, place in packages.items() if name not in modelled_packages()}
            modules = Modules(starts[0], roots := [*more, ".", root], own)
            execution = self.follow(modules, started, roots, case)
            if execution is not None and not is_started and (launch_of_inner := inner_launch(execution)):
                return self.job(name, _around(facts, launch_of_inner), folder, named=[*named, starts[0]], is_started=True)
            if modules.refused:
                seen["code.no_python"] = modules.refused
            case.not_looked += modules.not_looked if execution is None else []
        if execution is not None:
            program = program_of(execution)
            seen |= _shown_by(execution, case)
        facts = [fact for fact in facts if not fact.name.startswith(PREFIX)]
        case.not_looked += self.own.not_looked
        if entry is None and not entries:
            case.not_looked.append(NotLooked("the program's code", ENTRY_MISSING, "run this in the job's folder"))
        case.seen = {key: list(group) for key, group in seen.items()}
        facts = list(as_read(case, facts))
        defaults = _defaults_among(seen)
        launch = launch_facts(facts, places)
        read = Read()
        with our_errors("config files", case.could_not_look):
            read = read_configs(case, facts, defaults, configs, places, given=not found)
        is_lost = _is_lost(facts)
        sure = bool(entry) and not is_lost
        seen_in_launch: list[Fact] = []
        tasks: dict[str, Callable[[], Iterable[Fact]]] = {
            "flags that the program refuses": lambda: refusals(case, facts),
            "a missing program": lambda: () if entry or is_lost else missing_program(facts, places),
            "missing paths": lambda: missing([*read.facts, *launch, *facts], places, sure=sure, unread=_unread(execution)),
        }
        for what, task in tasks.items():
            guarded(what, case.could_not_look, lambda task=task: seen_in_launch.extend(task()), _PART_SECONDS, None)  # type: ignore[misc]
        for fact in [*launch, *facts, *read.facts, *seen_in_launch]:
            case.seen.setdefault(fact.name, []).append(fact)
        case.facts = {fact.name: fact for fact in [*defaults, *read.facts, *launch, *facts]}
        settle(case, seen, execution)
        if found:
            case.seen["config.unnamed"] = [Fact("config.unnamed", name, Evidence("config", name, name), "file")]
        guarded("the number of ranks", case.could_not_look, lambda: count_ranks(case), _PART_SECONDS, None)
        looked = partial(data_facts, case, program, places, self.looking)
        guarded("the data", case.could_not_look, looked, _PART_SECONDS, None)
        remarked = list(dict.fromkeys([*(source.path for source in program.sources), *read.files, name, *named]))
        case.ignored = self.remarks.silenced(remarked)
        case.not_looked += [NotLooked(where, why) for where, why in self.remarks.odd(remarked)]
        case.ignored["*"] = self.own.ignore
        trains = bool(case.all("code.trains")[0].value) if case.all("code.trains") else None
        return Plan(name, case, program, trains, execution)

    def follow(self, modules: Modules, launch: Launch, roots: Sequence[str], case: Case) -> Execution | None:
        """The program, followed with the words of its launch."""
        execution: Execution | None = None

        def run() -> None:
            nonlocal execution
            script = console_script(str(launch.program.value), roots) if launch.program is not None else None
            interpreter = follow(modules, launch, _FOLLOW_SECONDS, script[1] if script is not None else "")
            execution = Execution(interpreter) if interpreter is not None else None
            if interpreter is not None and interpreter.exhausted:
                case.could_not_look("all of the program's code", "it is too large to follow to its end", "")

        guarded("the program's code", case.could_not_look, run, 2 * _FOLLOW_SECONDS, None)
        return execution


def _around(facts: Sequence[Fact], inner: Sequence[Fact]) -> list[Fact]:
    """The launch of a program that another one starts: the environment is that of both, and a script counts the outer one."""
    kept = [fact for fact in facts if fact.origin == "environment" or fact.name == "launch.program_key"]
    return [*kept, *(fact for fact in inner if fact.name != "launch.program_key")]


def _unread(execution: Execution | None) -> frozenset[str]:
    """Settings that only DeepSpeed reads, where the program that was followed does not surely start it."""
    if execution is None or not execution.steps or execution.library_trainers:
        return frozenset()
    starts = any(call.region.is_certain() for call in execution.trace.named("deepspeed.initialize"))
    return frozenset() if starts else frozenset({"distributed.config_path"})


def _shown_by(execution: Execution, case: Case) -> dict[str, list[Fact]]:
    """What the rules see in a program that was followed."""
    facts = facts_of(execution)
    named = {gap.what for gap in case.not_looked}
    case.not_looked += [gap for gap in execution.not_looked if gap.what not in named]
    return facts


def _some(
    what: str,
    files: Sequence[str],
    read: Callable[[str], Iterable[Plan]],
    problems: list[tuple[str, str]],
    *,
    seconds: float = math.inf,
) -> list[Plan]:
    """The jobs of several files, as many as there is room and time for; of how many nothing is known is put in ``problems``."""
    found: list[Plan] = []
    until = spent() + seconds
    for place, file in enumerate(files):
        if len(found) >= _MOST_JOBS or spent() > until or (found and is_spent()):
            problems.append(
                (f"{len(files) - place} of {len(files)} {what}", "there are too many: name one, or a smaller folder")
            )
            break
        found += read(file)
    return found[:_MOST_JOBS]


def _here(plan: Plan) -> Plan:
    """A job that was named may start on this machine now; of the many in a folder nobody said so."""
    machine_facts(plan.case)
    return plan


def _is_lost(facts: Sequence[Fact]) -> bool:
    """Whether a script goes somewhere that cannot be told."""
    return any(fact.name == "launch.folder_unknown" for fact in facts)


def _files(case: Case) -> set[str]:
    """The files from which a case's facts come."""
    return {fact.evidence.where.rsplit(":", 1)[0] for group in case.seen.values() for fact in group}


def _defaults_among(seen: dict[str, list[Fact]]) -> list[Fact]:
    """The defaults of the program's own parser, under the names of their settings."""
    prefix = "default."
    return [
        replace(fact, name=name.removeprefix(prefix))
        for name, group in seen.items()
        if name.startswith(prefix)
        for fact in group[:1]
    ]
