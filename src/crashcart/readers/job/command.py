"""The launch command: which launcher, how many processes, and every setting that the command line gives.

    accelerate launch --num_processes 8 --mixed_precision bf16 main.py --train_batch_size=16 --sample_period -1 --image_aug
    srun -N 2 torchrun --nproc_per_node=8 train.py data.batch_size=32 +trainer.max_steps=1e4

Options before the program belong to the launcher, those after it to the program. accelerate's ``--num_processes`` counts
all machines, torchrun's ``--nproc_per_node`` one; ``launch.processes`` is always the sum. Of two facts with one name the
later is the one that counts, as argparse has it. Values are given as a typed parser would: numbers as numbers. What the
shell would only know on the day (``--lr=$LR`` with LR set outside) stays under ``flag.<name>`` as written.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any

from crashcart.errors import CommandError
from crashcart.model import Evidence, Fact, Span
from crashcart.names import canonical, is_secret
from crashcart.numbers import to_count
from crashcart.readers.job.counting import processes
from crashcart.readers.job.environment import PREFIX
from crashcart.readers.job.folder import folder_of
from crashcart.readers.job.installed import nearest_commands
from crashcart.readers.job.launchers import SLURM, Launch, Option, peel, slurm_setting, typed
from crashcart.readers.job.mending import meant, oddities
from crashcart.readers.job.script_files import LARGEST_SCRIPT, sourced_path
from crashcart.readers.job.shell import Command, Script, lex, text_of
from crashcart.readers.job.shown import HIDDEN, masked, shown
from crashcart.readers.job.words import Word
from crashcart.record import replace
from crashcart.redact import clean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

__all__ = ["BESIDE", "program_name", "read_command", "read_script", "typed"]

FLAG = re.compile(r"--?[A-Za-z_]")
OVERRIDE = re.compile(r"(?P<name>[+~]{0,2}[A-Za-z_][\w./@-]*)=")
DETECTRON = re.compile(r"[A-Z_]+(?:\.[A-Z0-9_]+)+")
CONFIG_FILE = re.compile(r".*\.(?:ya?ml|json|toml|py)")
SBATCH = re.compile(r"^#SBATCH[ \t]+(?P<line>[^\n#]*)", re.MULTILINE)
FROM_HEADER = {
    "SLURM_NNODES": "launch.nodes", "SLURM_JOB_NUM_NODES": "launch.nodes", "SLURM_GPUS_ON_NODE": "launch.gpus_per_node",
    "SLURM_NTASKS": "launch.tasks", "SLURM_NTASKS_PER_NODE": "launch.tasks_per_node", "SLURM_CPUS_PER_TASK": "launch.cpus_per_task",
    "SLURM_GPUS_PER_NODE": "launch.gpus_per_node",
}  # fmt: skip
LIST_FLAGS = {"cfg_options", "options", "opts", "overrides", "set_cfgs"}
BOOLEAN = ("train.bf16", "train.fp16", "train.amp", "train.compile", "train.grad", "loader.", "tracker.enabled", "resume.")
# By allow-list: a launch script may export keys and passwords beside these.
ENVIRONMENT = re.compile(
    r"(?:CUDA|NCCL|TORCH|PYTORCH|OMP|MKL|GLOO|UCX|FI|SLURM|PET|DS|ACCELERATE|HDF5|PYTHON|MALLOC|KMP|TF|XLA|ROCR|HIP)_?[A-Z0-9_]*"
    r"|MASTER_(?:ADDR|PORT)|WORLD_SIZE|N?NODE_?(?:S|RANK)|(?:LOCAL_)?RANK|WANDB_(?:MODE|DIR|SILENT)|HF_(?:HOME|HUB_OFFLINE)"
    r"|HF_DATASETS_(?:CACHE|OFFLINE)|TRANSFORMERS_(?:CACHE|OFFLINE)|TOKENIZERS_PARALLELISM|LD_(?:PRELOAD|LIBRARY_PATH)|TMPDIR"
)
# Programs that prepare a training or look at it afterwards.
BESIDE = re.compile(
    r"(?i)^(?:pre[-_]?(?:pare|process|compute|tokenize)|make|download|fetch|convert|build|gen(?:erate)?|create|write|export|plot|eval(?:uate)?|test"
    r"|infer(?:ence)?|setup|index|tokenize|extract|split|check|merge|visuali[sz]e|compute)(?:_|-|$|\d)"
)
# The letters of ``ulimit``: what is limited, and how many bytes one is.
LIMITS = {"v": ("address_space", 1024), "m": ("memory", 1024), "d": ("memory", 1024), "f": ("file_size", 1024), "n": ("open_files", 1), "u": ("processes", 1), "t": ("cpu_seconds", 1)}  # fmt: skip
MPI = {
    "np": "launch.processes", "n": "launch.processes",
    "npernode": "launch.processes_per_node", "N": "launch.processes_per_node",
}  # fmt: skip
_COPIES = {"cp", "ln", "rsync", "install", "mv"}
_WORLD = {"--distributed-world-size", "--distributed_world_size"}  # of fairseq, which starts its ranks itself
SUBCOMMAND = re.compile(r"[A-Za-z][\w-]{0,60}")
KINDS = {"use_deepspeed": "deepspeed", "use_fsdp": "fsdp", "use_megatron_lm": "megatron", "multi_gpu": "ddp"}


def read_command(command: Sequence[str] | str, where: str = "command") -> list[Fact]:
    """What a launch command says, given as text or as words; there is no file, so no fact has a span."""
    if isinstance(command, str):
        script = lex(command)
    else:
        words = tuple(Word(text, Span("", 0, 0, 0), places=(-1,) * len(text)) for text in command)
        script = Script("", shlex.join(command), [Command(words)])
    return _Reading(script, where).facts(certain=len(script.commands) == 1)


def read_script(
    path: str,
    given: Mapping[str, str] | None = None,
    *,
    whole: bool = False,
    text: str | None = None,
    skip: Collection[str] = (),
) -> list[Fact]:
    """What a launch script says: its broken continuations, Slurm headers, environment, and the command that trains.

    ``given`` are variables that are set before it begins: ``1`` is its first argument. ``whole``: where a command is cut by what
    stands in it, the one that its author meant, since that is the one that will be started when the cut is mended. ``text``:
    what the shell gets to see of the file, where that is not all of it. ``skip``: programs of the script that are not asked for.
    """
    text = text_of(path) if text is None else text
    if len(text) > LARGEST_SCRIPT:
        raise CommandError(f"{path} is larger than {LARGEST_SCRIPT >> 10} kB, which no launch script is.")
    script = lex(text, path, given)
    header = {fact.name: fact.value for fact in _Reading(script, path).headers()}
    if header:
        known = {name: str(header[source]) for name, source in FROM_HEADER.items() if source in header}
        given = {**known, **(given or {})}
        script = lex(text, path, given)
    reading = _Reading(script, path)
    told = _Reading(replace(lex(meant(text), path, given), text=text), path) if whole and script.broken else reading
    return [*script.broken, *oddities(script), *reading.headers(), *told.facts(skip=skip)]


class _Reading:
    """One script or command line, and where it stands."""

    def __init__(self, script: Script, where: str) -> None:
        self.script = script
        self.where = where

    def evidence(self, span: Span, quote: str) -> Evidence:
        return Evidence("command", quote, f"{self.where}:{span.line}" if self.script.file else self.where)

    def fact(self, name: str, value: Any, word: Word, quote: str = "", **more: Any) -> Fact:  # noqa: ANN401 - data
        """A fact with its place; a value that came through a variable stands in another line than the word."""
        span = more.pop("span", None)
        if span and not self.script.file:
            span = None
        elif span:
            span = replace(span, line=self.script.text.count("\n", 0, span.start) + 1)
        evidence = self.evidence(span or word.span, quote or word.text)
        return Fact(name, value, evidence, more.pop("origin", "flag"), span=span, **more)

    def facts(self, *, certain: bool = False, skip: Collection[str] = ()) -> list[Fact]:
        """The facts of the command that trains: a launcher before plain python, the longest of several."""
        installed = nearest_commands(os.path.dirname(self.script.file) or ".") | nearest_commands(".")
        found = [
            (launch, command)
            for command in self.script.commands
            if (launch := peel(command.words, certain=certain, installed=installed)) and program_key(launch) not in skip
        ]
        if not found:
            return list(self.environment(Command(()), Launch()))
        launch, command = max(found, key=lambda both: _likely(both[0]))
        facts = [*self.about(launch, command), *self.environment(command, launch)]
        for option in launch.options:
            facts.extend(self.option(option))
        facts.extend(map(_as_own, self.arguments(launch.program[1:])))
        return [*facts, *processes(launch, [*self.headers(), *facts])]

    def about(self, launch: Launch, command: Command) -> Iterator[Fact]:
        first, text = command.words[0], shown(command)
        yield self.fact("command.text", text, first, text)
        yield self.fact("launch.kind", launch.kind, first, text)
        before = self.script.commands[: self.script.commands.index(command)]
        yield self.fact("launch.script", copied_from(launch.program[0].text, before), launch.program[0])
        yield self.fact("launch.program_key", program_key(launch), launch.program[0])
        words = launch.program[1:]
        given = list(zip(masked(words), [word.known for word in words], strict=True))
        yield self.fact("launch.arguments", given, first, text)
        last = command.words[-1]
        if self.script.file and last.span is not None:
            end = Span(last.span.file, last.span.end, last.span.end, last.span.line)
            yield self.fact("launch.end", last.text, last, span=end)
        at, told = folder_of(self.script.file, before)
        if at or not told:
            yield self.fact("launch.folder" if told else "launch.folder_unknown", at, first)
        yield from self.limits(before)
        others = [shown(one) for one in self.script.commands if one is not command]
        if others and self.script.file:
            yield self.fact("script.other_commands", clean("\n".join(others)), first)
        if command.after in {"|", "|&"} and not re.search(r"\bpipefail\b|PIPESTATUS", self.script.text):
            yield self.fact("launch.exit_hidden", value=True, word=first, quote=text)

    def limits(self, commands: Sequence[Command]) -> Iterator[Fact]:
        """What the script, and each file that it takes in, allows its programs: ``ulimit -v 4000000`` before the command."""
        for command in commands:
            words = command.words
            if len(words) > 1 and words[0].text in {"source", "."}:
                yield from self.limits_of_file(sourced_path(self.script.file, commands, command))
                continue
            if len(words) != 3 or words[0].text != "ulimit" or not all(word.known for word in words):  # noqa: PLR2004 - ulimit, flag, value
                continue
            name, unit = LIMITS.get(words[1].text[-1:], ("", 1))
            value = to_count(words[2].text)
            if name and value is not None and re.fullmatch(r"-[HS]{0,2}[a-z]", words[1].text):
                more = {"spelling": f"ulimit {words[1].text}", "span": words[2].part(0)}
                yield self.fact(f"limit.{name}", value * unit, words[0], shown(command), **more)

    def limits_of_file(self, path: str | None) -> Iterator[Fact]:
        """The limits that a file sets which this script takes in; what that takes in itself is not followed."""
        try:
            text = text_of(path) if path is not None and path != self.script.file else ""
        except CommandError:
            return
        if path is not None and "ulimit" in text and len(text) <= LARGEST_SCRIPT:
            script = lex(text, path)
            own = [command for command in script.commands if command.words and command.words[0].text == "ulimit"]
            yield from _Reading(script, path).limits(own)

    def environment(self, command: Command, launch: Launch) -> Iterator[Fact]:
        split = [(word.text.split("=", 1)[0], word, len(word.text.split("=", 1)[0]) + 1) for word in launch.environment]
        given = [(name, word, 0) for name, word in (*self.script.exported.items(), *command.assignments)]
        names = [name for name, _, _ in (*given, *split)]
        if names and command.words:
            yield self.fact("launch.variables", sorted(set(names)), command.words[0])
        for name, word, begin in (*given, *split):
            if (word.known or name == "PYTHONPATH") and ENVIRONMENT.fullmatch(name) and not is_secret(name):
                value, more = word.text[begin:], {"origin": "environment", "spelling": name, "span": word.part(begin)}
                yield self.fact(f"environment.{name}", value, word, f"{name}={value}", **more)
                if name == "WANDB_MODE":
                    yield self.fact("tracker.mode", value, word, f"{name}={value}", **more)
            elif word.known and not is_secret(name) and isinstance(number := typed(word.text[begin:]), (int, float)):
                told, more = f"{name}={word.text[begin:]}", {"origin": "environment", "spelling": name}
                yield self.fact(f"{PREFIX}{name}", number, word, told, **more, span=word.part(begin))

    def option(self, option: Option) -> Iterator[Fact]:
        """An option of a launcher, under the name that it has there."""
        spelling = option.flag.text.split("=", 1)[0]
        if option.launcher == "srun":
            yield from self.slurm(option)
        elif option.launcher == "mpirun" and option.name in MPI and option.value:
            yield from self.setting(spelling, option.value, option.begin, MPI[option.name])
        elif option.name in KINDS:
            yield self.fact("distributed.kind", KINDS[option.name], option.flag, spelling=spelling)
        elif option.launcher and option.value:
            yield from self.setting(spelling, option.value, option.begin)

    def arguments(self, words: Sequence[Word]) -> Iterator[Fact]:
        """The program's own arguments: flags, overrides as Hydra writes them, config files."""
        at = 0
        while at < len(words):
            word, at = words[at], at + 1
            following = words[at] if at < len(words) else None
            override = OVERRIDE.match(word.text)
            if FLAG.match(word.text):
                name, equals, _ = word.text.partition("=")
                if equals:
                    yield from self.setting(name, word, len(name) + 1)
                elif following and _is_value(following.text) and name.lstrip("-").replace("-", "_") not in LIST_FLAGS:
                    yield from self.setting(name, following, 0)
                    at += 1
                else:
                    yield self.switch(name, word)
            elif override:
                yield from self.setting(override["name"], word, override.end())
            elif following and DETECTRON.fullmatch(word.text):
                yield from self.setting(word.text, following, 0)
                at += 1
            elif CONFIG_FILE.fullmatch(word.text) and word.known:
                yield self.fact("config.path", word.text, word, spelling="", span=word.part(0))

    def setting(self, spelling: str, word: Word, begin: int, name: str | None = None) -> Iterator[Fact]:
        """A flag or an override with its value, which begins somewhere in a word."""
        text = word.text[begin:]
        if is_secret(spelling):
            yield self.fact(_flag(spelling), HIDDEN, word, f"{spelling}={HIDDEN}", spelling=spelling)
            return
        value = None if text == "null" else typed(text)
        found = name or canonical(spelling)
        quote = word.text if begin else f"{spelling} {text}"
        if found is None or not word.known:
            found, value = _flag(spelling), value if word.known else text
        yield self.fact(found, value, word, quote, spelling=spelling, span=word.part(begin))
        if found == "distributed.config_path":
            yield self.fact("distributed.kind", "deepspeed", word, quote, spelling=spelling)

    def switch(self, spelling: str, word: Word) -> Fact:
        """A flag without a value; ``--no-pin-mem`` switches off what ``--pin-mem`` names."""
        negative = re.match(r"--no[-_]", spelling)
        found = canonical(spelling[negative.end() :] if negative else spelling)
        known = found is not None and found.startswith(BOOLEAN)
        return self.fact(found if found and known else _flag(spelling), not (negative and known), word, spelling=spelling)

    def slurm(self, option: Option) -> Iterator[Fact]:
        if option.name in SLURM and option.value:
            text = option.value.text[option.begin :]
            yield self.slurm_fact(option.name, text, option.value, option.value.part(option.begin))

    def slurm_fact(self, option: str, text: str, word: Word, span: Span | None) -> Fact:
        """A Slurm option; a span only where the number stands in the script as it is here."""
        name, value = slurm_setting(option, text)
        flag = f"--{option.replace('_', '-')}" if len(option) > 1 else f"-{option}"
        return self.fact(name, value, word, f"{flag} {text}", spelling=flag, span=span if str(value) == text else None)

    def headers(self) -> Iterator[Fact]:
        """``#SBATCH`` lines, which count until the first command of the script."""
        first = min((command.words[0].span.start for command in self.script.commands if command.words), default=None)
        for header in SBATCH.finditer(self.script.text, 0, len(self.script.text) if first is None else first):
            start, line = header.start("line"), self.script.text.count("\n", 0, header.start()) + 1
            for found in re.finditer(r"(?<!\S)(--[a-z-]+(?![a-z-])|-[A-Za-z])(?:[= \t]{0,20}([^\s=-]\S*))?", header["line"]):
                option, text = found.group(1).lstrip("-").replace("-", "_"), found.group(2)
                if option in SLURM:
                    span = Span(self.script.file, start + found.start(2), start + found.end(2), line) if text else None
                    word = Word(header.group().strip(), Span(self.script.file, start, start, line))
                    yield self.slurm_fact(option, text or "true", word, span)


def _as_own(fact: Fact) -> Fact:
    """A flag of the program's own that is named like an option of a launcher: how many ranks there are is for the program to say."""
    is_launch = fact.name.startswith("launch.") and "." not in fact.spelling.lstrip("-")
    return replace(fact, name=_flag(fact.spelling)) if is_launch and fact.spelling not in _WORLD else fact


def _likely(launch: Launch) -> tuple[bool, bool, int]:
    """Of several commands the training: one with a launcher, one that is not named after something else, the longest."""
    beside = any(BESIDE.search(program_name(part)) for part in program_key(launch).split())
    return launch.kind not in {"python", "program"}, not beside, len(launch.program)


def program_key(launch: Launch) -> str:
    """The program with the word that chooses one of its commands: ``tool train`` and ``tool test`` are two programs."""
    command = launch.program[1].text if len(launch.program) > 1 and launch.kind == "program" else ""
    return f"{launch.program[0].text} {command}" if SUBCOMMAND.fullmatch(command) else launch.program[0].text


def program_name(text: str) -> str:
    """``prepare`` of ``tools/prepare.py`` and of ``tools.prepare``."""
    return text.removesuffix(".py").rpartition("/")[2].rpartition(".")[2]


def _is_value(text: str) -> bool:
    if text.startswith("-"):
        return isinstance(typed(text), (int, float))
    return not OVERRIDE.match(text)


def copied_from(program: str, commands: Sequence[Command]) -> str:
    """The file of which a script makes the program before it starts it: ``cp tool/train.py exp``, ``python exp/train.py``."""
    for command in reversed(commands):
        words = [word.text for word in command.words if not word.text.startswith("-")]
        if len(words) > 2 and words[0] in _COPIES:  # noqa: PLR2004 - cp FILE FOLDER
            *sources, into = words[1:]
            for source in sources:
                if os.path.normpath(program) in {
                    os.path.normpath(into),
                    os.path.normpath(f"{into}/{os.path.basename(source)}"),
                }:
                    return source
    return program


def _flag(spelling: str) -> str:
    return f"flag.{spelling.lstrip('-+~')}"
