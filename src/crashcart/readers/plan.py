"""A job before its start: what the user named (a command, a script, a config, a folder) and everything it leads to.

Nothing of the job is started or imported. A script names its program, the program its own modules; flags and code name config
files; config names data and folders. Of one setting the nearest to the program counts: a flag before a file before a default.
A folder can hold many jobs: each launch script is one, each config that no script names is one, and they share the code.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.case import Case
from crashcart.errors import CommandError
from crashcart.model import Fact, NotLooked
from crashcart.readers.code import facts_of
from crashcart.readers.code.program import Program, read_program
from crashcart.readers.job.command import read_command, read_script
from crashcart.readers.job.config import read_config
from crashcart.readers.job.shell import text_of
from crashcart.record import field, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["Asked", "Plan", "plans"]

SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm")
CONFIGS = (".yaml", ".yml", ".json", ".toml")
ROOT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "environment.yml", "environment.yaml")
SKIPPED = {".git", "__pycache__", "node_modules", "crashcart_runs", "wandb", "mlruns", "outputs", "runs", "build", "dist"}
NO_TRAINING = re.compile(r"(?:^|/)(?:tests?|docs?|\.?venv|env|site-packages|third_?party|\.[^/]+)(?:/|$)")
MAIN = re.compile(r"^if __name__ ==", re.MULTILINE)
TRAINS = re.compile(r"\.backward\(|Trainer\(|\.fit\(|DataLoader\(|optim(?:izer)?\.step\(")
IGNORE = re.compile(r"#\s*crashcart:\s*ignore\[([\w/*,\s-]+)\]")
_MOST_FILES = 20_000
_MOST_JOBS = 200


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


def plans(asked: Asked, progress: Callable[[str], None] | None = None) -> list[Plan]:
    """The jobs that were named; at least one, or a sentence why there is none."""
    return _Planning(progress or (lambda _: None)).of(asked)


class _Planning:
    def __init__(self, progress: Callable[[str], None]) -> None:
        self.progress = progress
        self.programs: dict[tuple[str, ...], tuple[Program, dict[str, list[Fact]]]] = {}

    def of(self, asked: Asked) -> list[Plan]:
        if asked.command:
            return [self.command(asked.command)]
        found: list[Plan] = []
        for path in asked.paths or ["."]:
            if not os.path.exists(path):
                raise CommandError(f"{path}: there is no such file or folder.")
            found += self.folder(path) if os.path.isdir(path) else [self.file(path)]
        return found

    def command(self, words: Sequence[str]) -> Plan:
        """A command; where it is a shell script (``bash train.sh``), that script."""
        script = next((word for word in words if word.endswith(SCRIPTS) and os.path.isfile(word)), None)
        if script is not None and os.path.basename(words[0]) in {"bash", "sh", "zsh", "sbatch", "nohup", script, "source"}:
            return self.file(script)
        return self.job(" ".join(words), read_command(list(words)), ".")

    def file(self, path: str) -> Plan:
        if path.endswith(CONFIGS):
            return self.config(path)
        if path.endswith(".py"):
            return self.job(path, read_command(["python", path]), os.path.dirname(path) or ".")
        return self.job(path, read_script(path), os.path.dirname(path) or ".")

    def config(self, path: str) -> Plan:
        """A config alone: the code that would read it is looked for in its project."""
        root = _root(os.path.dirname(path) or ".")
        entries = [entry for entry in _entries(_files(root)) if _reads(entry, path)]
        return self.job(path, [], os.path.dirname(path) or ".", configs=[path], entries=entries)

    def folder(self, path: str) -> list[Plan]:
        """All jobs of a folder; where there is no script and no config, its entry files."""
        files = list(_files(path))
        scripts = [self.file(file) for file in files if file.endswith(SCRIPTS) and _launches(file)][:_MOST_JOBS]
        named = {
            os.path.realpath(fact.evidence.where.rsplit(":", 1)[0]) for plan in scripts for fact in plan.case.facts.values()
        }
        entries = list(_entries(files))
        configs = [
            self.job(file, [], os.path.dirname(file) or ".", configs=[file], entries=entries)
            for file in files
            if file.endswith((".yaml", ".yml")) and os.path.realpath(file) not in named and not NO_TRAINING.search(file)
        ][:_MOST_JOBS]
        started = {os.path.realpath(plan.program.entry) for plan in scripts if plan.program.entry}
        left = [entry for entry in entries if os.path.realpath(entry) not in started]
        rest = [self.job(path, [], path, entries=left)] if left and not configs else []
        if not (scripts or configs or rest):
            raise CommandError(f"{path} holds no launch script, no config and no training program that could be checked.")
        return [*scripts, *configs, *rest]

    def job(
        self,
        name: str,
        facts: list[Fact],
        folder: str,
        configs: Sequence[str] = (),
        entries: Sequence[str] = (),
    ) -> Plan:
        """One job from the facts of its launch."""
        self.progress(name)
        case = Case(before=True)
        root = _root(folder)
        entry = _entry(facts, [".", folder, root])
        program, seen = self.code([entry] if entry else entries, root)
        case.not_looked += program.not_looked
        if entry is None and not entries:
            case.not_looked.append(
                NotLooked("the program's code", "its entry file was not found", "run this in the job's folder")
            )
        listed = [*configs, *(path for fact in facts if (path := _config_path(fact, [".", folder, root])))]
        read: list[Fact] = []
        for config in dict.fromkeys(listed):
            read += self.tried(case, config)
        case.seen = dict(seen)
        for fact in [*facts, *read]:
            case.seen.setdefault(fact.name, []).append(fact)
        defaults = [fact for group in seen.values() for fact in group if fact.origin == "default"]
        case.facts = {fact.name: fact for fact in [*defaults, *read, *facts]}
        case.ignored = _ignored([*(source.path for source in program.sources), *listed, name])
        return Plan(name, case, program)

    def code(self, entries: Sequence[str], root: str) -> tuple[Program, dict[str, list[Fact]]]:
        key = (root, *entries)
        if key not in self.programs:
            program = read_program(entries, [".", root])
            self.programs[key] = program, facts_of(program)
        return self.programs[key]

    def tried(self, case: Case, path: str) -> list[Fact]:
        try:
            return read_config(path)
        except (CommandError, OSError) as problem:
            case.not_looked.append(NotLooked(path, str(problem)))
            return []


def _root(folder: str) -> str:
    """The project of a folder: the nearest one above with a mark of a project, else the folder itself."""
    at = os.path.abspath(folder)
    while True:
        if any(os.path.exists(os.path.join(at, mark)) for mark in ROOT_MARKS):
            return os.path.relpath(at)
        if os.path.dirname(at) == at or at == os.path.expanduser("~"):
            return folder
        at = os.path.dirname(at)


def _files(folder: str) -> Iterator[str]:
    """The files of a project, folders of output and of others' code left out."""
    count = 0
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        for name in sorted(names):
            count += 1
            if count > _MOST_FILES:
                return
            yield os.path.normpath(os.path.join(at, name))


def _entries(files: Iterable[str]) -> Iterator[str]:
    """Python files that are started and train."""
    for path in files:
        if path.endswith(".py") and not NO_TRAINING.search(path):
            text = _text(path)
            if MAIN.search(text) and TRAINS.search(text):
                yield path


def _reads(entry: str, config: str) -> bool:
    """Whether a program may read a config: it names it, or reads YAML, JSON or Hydra configs at all."""
    return bool(re.search(r"yaml|omegaconf|hydra|json\.load|tomllib|jsonargparse|draccus|Config", _text(entry))) or (
        os.path.basename(config) in _text(entry)
    )


def _launches(path: str) -> bool:
    try:
        return any(fact.name == "launch.kind" for fact in read_script(path))
    except CommandError:
        return False


def _entry(facts: Sequence[Fact], places: Sequence[str]) -> str | None:
    """The file that the launch starts: a path, or a module of the project."""
    for fact in facts:
        if fact.name == "launch.script":
            name = str(fact.value)
            tries = (
                [name] if name.endswith(".py") else [name.replace(".", "/") + ".py", name.replace(".", "/") + "/__main__.py"]
            )
            for place in places:
                for one in tries:
                    path = os.path.normpath(os.path.join(place, one))
                    if os.path.isfile(path):
                        return path
    return None


def _config_path(fact: Fact, places: Sequence[str]) -> str | None:
    """The config file that a flag names."""
    if not isinstance(fact.value, str) or not fact.value.endswith(CONFIGS) or fact.name.startswith("environment"):
        return None
    for place in places:
        path = os.path.normpath(os.path.join(place, fact.value))
        if os.path.isfile(path):
            return path
    return None


def _ignored(paths: Iterable[str]) -> dict[str, frozenset[str]]:
    """The places where the user wants causes to be silent: the line of the remark, and the next where it stands alone."""
    found: dict[str, frozenset[str]] = {}
    for path in paths:
        text = _text(path)
        if "crashcart:" not in text:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if remark := IGNORE.search(line):
                names = frozenset(name.strip() for name in remark[1].split(","))
                alone = not line[: remark.start()].strip()
                found[f"{path}:{number + alone}"] = names
    return found


def _text(path: str) -> str:
    try:
        return text_of(path) if os.path.isfile(path) else ""
    except CommandError:
        return ""
