"""A launch script with what was typed after it, and the scripts that it calls.

bash train.sh configs/a.yaml       $1 is configs/a.yaml
NUM_GPUS=8 bash train.sh           $NUM_GPUS is 8
sbatch --nodes=4 train.sh          an option of sbatch counts before the #SBATCH line
make train LR=1e-3                 the recipe of a target
bash scripts/launch.sh "$@"        a script that only calls another: the other one holds the command
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.deadline import limited
from crashcart.errors import CommandError
from crashcart.model import Evidence, Fact
from crashcart.readers.job.command import BESIDE, program_name, read_script
from crashcart.readers.job.launchers import SLURM, slurm_setting
from crashcart.readers.job.makefile import is_makefile, made_by, makefile, targets_of
from crashcart.readers.job.shell import lex, text_of
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from crashcart.readers.job.shell import Command

__all__ = ["read_launch", "starts", "training_targets"]

SHELLS = {"bash", "sh", "zsh", "source", ".", "sbatch", "exec", "srun"}
WRAPPERS = {"env", "nohup", "time", "exec"}
SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm")
SETTING = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
DEEPEST = 5
MOST_CALLED = 100
_SCRIPT_SECONDS = 1.5


def starts(words: Sequence[str], script: str) -> bool:
    """Whether a command runs a script, by a shell or by itself; settings of the environment and wrappers may stand before."""
    before = [word for word in words[: list(words).index(script)] if not SETTING.fullmatch(word)]
    first = next((word for word in before if os.path.basename(word) not in WRAPPERS), script)
    return first == script or os.path.basename(first) in SHELLS - {"srun"}


def read_launch(path: str, words: Sequence[str] = (), *, target: str = "", skip: Collection[str] = ()) -> list[Fact]:
    """What a script that is yet to be started by these words says; a script that trains nothing itself is followed.

    ``skip`` names programs that are not asked for: a script may prepare, train and evaluate.
    """
    return limited(lambda: _read_launch(path, words, target, skip), _SCRIPT_SECONDS, f"{path}: reading it")


def _read_launch(path: str, words: Sequence[str], target: str, skip: Collection[str]) -> list[Fact]:
    at = next((number for number, word in enumerate(words) if word == path), len(words))
    given = {match[1]: match[2] for word in words[:at] if (match := SETTING.fullmatch(word))}
    given |= {"0": path, **_arguments(words[at + 1 :])}
    if is_makefile(path):
        made = made_by(words)
        text, given = makefile(path, target or (made.target if made else ""), made.given if made else None)
        return _followed(path, given, (), text, skip=skip)
    facts = _followed(path, given, (), skip=skip)
    return [*facts, *_sbatch(words[:at])]


def read_started(path: str, text: str) -> list[Fact]:
    """What a command says that a program starts: ``text`` is the command as a shell would have it, on the line of the file that starts it."""
    facts = limited(lambda: _followed(path, {}, (), text), _SCRIPT_SECONDS, f"{path}: reading what it starts")
    return [replace(fact, span=None) for fact in facts]  # it is no text of the file


def training_targets(path: str) -> list[str]:
    """The targets of a Makefile that start a training; where each only prepares or looks, all that start something."""
    told = {target: read_launch(path, target=target) for target in targets_of(path)}
    starting = {target: facts for target, facts in told.items() if any(fact.name == "launch.kind" for fact in facts)}
    named = [target for target, facts in starting.items() if not any(BESIDE.search(_program(fact)) for fact in facts)]
    return named or list(starting)


def _program(fact: Fact) -> str:
    return program_name(str(fact.value)) if fact.name == "launch.script" else ""


def _followed(
    path: str,
    given: Mapping[str, str],
    above: tuple[str, ...],
    text: str | None = None,
    left: list[int] | None = None,
    skip: Collection[str] = (),
) -> list[Fact]:
    left = [MOST_CALLED] if left is None else left
    facts = read_script(path, given, whole=True, text=text, skip=skip)
    if len(above) > DEEPEST:
        return facts
    real = os.path.realpath(path)
    missing: list[Fact] = []
    if any(fact.name == "launch.kind" for fact in facts):
        called, words = _behind_launcher(facts, os.path.dirname(path))
        if called is None or os.path.realpath(called) in {*above, real}:
            return facts
        return _merged(facts, _followed(called, words, (*above, real), left=left, skip=skip))
    for command in lex(text_of(path) if text is None else text, path, given).commands:
        called, words = _called(command, os.path.dirname(path))
        missing += _missing_script(command, path) if called is None and not missing else ()
        if called is None or os.path.realpath(called) in {*above, real} or left[0] <= 0:
            continue
        left[0] -= 1
        try:
            inner = _followed(called, words, (*above, real), left=left, skip=skip)
        except CommandError:
            continue
        if any(fact.name == "launch.kind" for fact in inner):
            return [*facts, *inner]
    return [*facts, *missing]


def _missing_script(command: Command, path: str) -> Iterator[Fact]:
    """The script that a command surely starts by a shell, and that is not there."""
    words = command.words
    at = 1 if words and words[0].text in SHELLS - {"source", "."} else 0
    if at < len(words) and command.certain and all(word.known for word in words[: at + 1]):
        name = words[at].text
        if name.endswith(SUFFIXES) and "/" in name and not name.startswith("/"):
            where = f"{path}:{words[at].span.line}" if words[at].span is not None else path
            yield Fact("launch.script", name, Evidence("command", " ".join(word.text for word in words), where), "flag")


def _behind_launcher(facts: Sequence[Fact], folder: str) -> tuple[str | None, dict[str, str]]:
    """The script that a launcher starts on each rank, ``srun bash train.sh``, with its arguments as far as they are known."""
    last = {fact.name: fact.value for fact in facts}
    words = [(str(last.get("launch.script", "")), True), *last.get("launch.arguments", ())]
    at = 1 if words[0][0] in SHELLS else 0
    name = words[at][0] if at < len(words) else ""
    if not name.endswith(SUFFIXES):
        return None, {}
    path = next((place for place in (name, os.path.join(folder, name)) if os.path.isfile(place)), None)
    arguments = words[at + 1 :]
    if all(known for _, known in arguments):
        return path, {"0": name, **_arguments([text for text, _ in arguments])}
    return path, {"0": name, **{str(number): text for number, (text, known) in enumerate(arguments, 1) if known}}


def _merged(outer: Sequence[Fact], inner: Sequence[Fact]) -> list[Fact]:
    """A launch whose ranks each run a script: the launcher of the one, the program of the other."""
    if not any(fact.name == "launch.kind" for fact in inner):
        return list(outer)
    is_plain = any(fact.name == "launch.kind" and fact.value in {"python", "program"} for fact in inner)
    counts = {"launch.kind", "launch.processes", "launch.processes_per_node"} if is_plain else set[str]()
    kept = ("launch.", "environment.", "limit.", "script.", "distributed.")
    replaced = {"launch.script", "launch.arguments", "launch.end", *({"launch.kind"} if not is_plain else ())}
    return [
        *(fact for fact in outer if fact.name.startswith(kept) and fact.name not in replaced),
        *(fact for fact in inner if fact.name not in counts | {"launch.program_key"}),
    ]


def _arguments(words: Sequence[str]) -> dict[str, str]:
    """``$1``, ``$2``, and ``$#``; without any, nobody said how the script is called."""
    numbered = {str(number): word for number, word in enumerate(words, 1)}
    return {**numbered, "#": str(len(words))} if words else {}


def _called(command: Command, folder: str) -> tuple[str | None, dict[str, str]]:
    """The script that a command starts, with its arguments as far as they are known."""
    for number, word in enumerate(command.words[:4]):
        if word.text.endswith(SUFFIXES) and (not number or command.words[0].text in SHELLS):
            path = next((one for one in (word.text, os.path.join(folder, word.text)) if os.path.isfile(one)), None)
            after = command.words[number + 1 :]
            counted = next((at for at, argument in enumerate(after) if argument.is_loose), len(after))
            known = {str(at): argument.text for at, argument in enumerate(after[:counted], 1) if argument.known}
            arguments = _arguments([argument.text for argument in after]) if len(known) == len(after) else known
            return path, {"0": word.text, **arguments}
    return None, {}


def _sbatch(words: Sequence[str]) -> Iterator[Fact]:
    """Options of sbatch on the command line."""
    if not words or os.path.basename(words[0]) != "sbatch":
        return
    evidence = Evidence("command", " ".join(words), "command")
    at = 1
    while at < len(words):
        flag, equals, text = words[at].partition("=")
        at += 1
        option = flag.lstrip("-").replace("-", "_")
        if option in SLURM and flag.startswith("-"):
            if not equals and at < len(words):
                text, at = words[at], at + 1
            name, value = slurm_setting(option, text)
            yield Fact(name, value, evidence, "flag", flag)
