r"""Makefiles as the shell sees them: what a target runs, as a script of the same length, so that each place in it is one in the file.

LR ?= 1e-4                                         LR=1e-4
train: data                                        (nothing: what a target needs runs before it)
    @CUDA_VISIBLE_DEVICES=0 $(PY) train.py \        CUDA_VISIBLE_DEVICES=0 ${PY} train.py \
        --lr $(LR)                                      --lr ${LR}

What make itself would have to compute (``$(shell ...)``, ``$@``) stays unknown.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from crashcart.errors import CommandError
from crashcart.readers.job.script_files import text_of
from crashcart.record import field, record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Made", "is_makefile", "made_by", "makefile", "targets_of"]

NAMES = ("GNUmakefile", "makefile", "Makefile")
VARIABLE = re.compile(
    r"(?P<export>export[ \t]+)?(?:override[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*(?P<how>\?|::?:?|\+|!)?=[ \t]*(?P<value>(?:(?:\\\n|[^\n# \t])(?:\\\n|[^\n#])*)?)"
)
RULE = re.compile(r"(?P<targets>[^\s#:=](?:[^:=#\n]*[^:=#\s])?)[ \t]*::?(?!=)(?P<needs>(?:\\\n|[^\n#;=])*)(?=[;#\n]|$)")
REFERENCE = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\})")
AUTOMATIC = re.compile(r"\$[@<^*+?%|]|\$\([@<^*+?%|][DF]?\)")
CONDITION = re.compile(r"[ ]*(?:(?P<begin>if(?:eq|neq|def|ndef))\b|(?P<end>endif)\b)")
COMPUTED = re.compile(
    r"^(?:-?include|sinclude|define)\b|^[^\t\n#=$]*\$[^\n=]*:", re.MULTILINE
)  # targets that only make knows
BEFORE = re.compile(r"(?m)^\t[ \t]*[@+-]*")
PLAIN = re.compile(r"[^\s'\"`;&|<>()\\]+")
GIVEN = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
DEEPEST = 8
_LONGEST = 10_000  # of a value: more is no hand-written Makefile
_LARGEST = 200_000
_MOST_TARGETS = 40
# What may start a training, as against the many targets that clean, lint and test.
STARTS = re.compile(
    r"python|torchrun|accelerate|deepspeed|srun|sbatch|mpirun|lightning|bash |sh |\$[({](?:PY|RUN|LAUNCH|CMD)|uv |poetry|\./"
)


@record
class Made:
    """What a command of make asks for."""

    file: str
    target: str = ""
    given: dict[str, str] = field(default_factory=dict)


@record
class _Rule:
    needs: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)


@record
class _Variable:
    name: str
    how: str
    value: str
    start: int
    exported: bool


def is_makefile(path: str) -> bool:
    """By its name, as make itself goes by it."""
    return os.path.basename(path) in NAMES or path.endswith(".mk")


def made_by(words: Sequence[str]) -> Made | None:
    """The file, the target and the variables of ``make -C dir train LR=1e-3``; None where it is no make."""
    rest = list(words)
    given: dict[str, str] = {}
    while rest and (match := GIVEN.fullmatch(rest[0])):
        given[match[1]] = match[2]
        rest.pop(0)
    if not rest or os.path.basename(rest.pop(0)) not in {"make", "gmake"}:
        return None
    folder, file, target = ".", "", ""
    while rest:
        word = rest.pop(0)
        if word in {"-C", "--directory", "-f", "--file", "--makefile"} and rest:
            folder, file = (rest.pop(0), file) if word in {"-C", "--directory"} else (folder, rest.pop(0))
        elif match := GIVEN.fullmatch(word):
            given[match[1]] = match[2]
        elif not word.startswith("-"):
            target = target or word
    found = [os.path.normpath(os.path.join(folder, name)) for name in ([file] if file else NAMES)]
    path = next((one for one in found if os.path.isfile(one)), None)
    if path is None:
        raise CommandError(f"make would find no {file or 'Makefile'} in {folder}.")
    return Made(path, target, given)


def targets_of(path: str) -> list[str]:
    """The targets that run something, as written; patterns and make's own are left out."""
    text = _text(path)
    rules, _ = _read(text)
    return [
        name
        for name, rule in rules.items()
        if not name.startswith(".") and "%" not in name and any(STARTS.search(text[start:end]) for start, end in rule.spans)
    ][:_MOST_TARGETS]


def makefile(path: str, target: str = "", given: Mapping[str, str] | None = None) -> tuple[str, dict[str, str]]:
    """The script of a target (else of the first), and the variables that are set before it begins."""
    text = _text(path)
    rules, variables = _read(text)
    patterned = any(fnmatchcase(target, name.replace("%", "*")) for name in rules if "%" in name)
    if target and target not in rules and not patterned and not COMPUTED.search(text):
        names = ", ".join(name for name in list(rules)[:8] if not name.startswith("."))
        raise CommandError(f"{path} has no target {target}; there are {names or 'none'}.")
    first = next((name for name in rules if not name.startswith(".") and "%" not in name), "")
    wanted = sorted(_spans(rules, target or first, 0))
    before = wanted[0][0] if wanted else 0
    out = ["\n" if each == "\n" else " " for each in text]
    for variable in variables:
        if (
            variable.start < before
            and variable.name not in (given or {})
            and variable.how != "+"
            and PLAIN.fullmatch(variable.value)
        ):
            head = f"{'export ' * variable.exported}{variable.name}="
            begin = variable.start - len(head)
            out[begin : variable.start + len(variable.value)] = list(head + _as_shell(variable.value))
    for start, end in wanted:
        recipe = BEFORE.sub(lambda match: " " * len(match[0]), text[start:end], count=1)  # a continued line has no prefix
        out[start:end] = list(_as_shell(recipe))
    return "".join(out), {**_values(variables), **(given or {})}


def _text(path: str) -> str:
    text = text_of(path)
    if len(text) > _LARGEST:
        raise CommandError(
            f"{path} is larger than {_LARGEST // 1000} kB, which no person wrote: check the command that it runs."
        )
    return text


def _spans(rules: Mapping[str, _Rule], target: str, depth: int) -> set[tuple[int, int]]:
    """What a target runs, and before it what it needs."""
    rule = rules.get(target)
    if rule is None or depth > DEEPEST:
        return set()
    return {*rule.spans, *(span for need in rule.needs for span in _spans(rules, need, depth + 1))}


def _as_shell(text: str) -> str:
    """References as the shell writes them, of the same length; what only make knows becomes what nobody knows."""
    return REFERENCE.sub(lambda match: f"${{{match[1] or match[2]}}}", AUTOMATIC.sub(lambda m: "$$".ljust(len(m[0])), text))


def _read(text: str) -> tuple[dict[str, _Rule], list[_Variable]]:
    rules: dict[str, _Rule] = {}
    variables: list[_Variable] = []
    open_rules: list[_Rule] = []
    unsure: set[str] = set()  # set under a condition, which only make can tell
    at = depth = 0
    while at < len(text):
        line = _line_end(text, at)
        variable = VARIABLE.match(text, at)
        if text[at] == "\t":
            for rule in open_rules:
                rule.spans.append((at, line))
        elif condition := CONDITION.match(text, at):
            depth += 1 if condition["begin"] else -1
        elif variable is not None:
            value = variable["value"].replace("\\\n", " ").strip()
            variables.append(
                _Variable(variable["name"], variable["how"] or "", value, variable.start("value"), bool(variable["export"]))
            )
            unsure |= {variable["name"]} if depth > 0 else set()
            line = max(line, _line_end(text, variable.end()))
        elif rule_ := RULE.match(text, at):
            open_rules = [rules.setdefault(name, _Rule()) for name in rule_["targets"].split()]
            for rule in open_rules:
                rule.needs += rule_["needs"].replace("\\\n", " ").split()
            line = max(line, _line_end(text, rule_.end()))
        elif text[at:line].strip() and not text[at:line].lstrip().startswith("#"):
            open_rules = []
        at = line
    return rules, [one for one in variables if one.name not in unsure]


def _line_end(text: str, at: int) -> int:
    """Behind the end of a line that may be continued."""
    while True:
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        if not end or text[end - 1] != "\\":
            return end + 1
        at = end + 1


def _filled(value: str, known: Mapping[str, str]) -> str:
    filled = REFERENCE.sub(lambda match: known.get(match[1] or match[2], match[0]), value)
    return filled if len(filled) <= _LONGEST else "$"  # as good as unknown


def _values(variables: Sequence[_Variable]) -> dict[str, str]:
    """Every variable with the others filled in, as make does when a recipe needs it."""
    found: dict[str, str] = {}
    for variable in variables:
        if variable.how == "+":
            found[variable.name] = f"{found[variable.name]} {variable.value}" if variable.name in found else variable.value
        elif variable.how != "?" or variable.name not in found:
            found[variable.name] = variable.value
    for _ in range(DEEPEST):
        filled = {name: _filled(value, found) for name, value in found.items()}
        if filled == found:
            break
        found = filled
    return {name: value for name, value in found.items() if "$" not in value}
