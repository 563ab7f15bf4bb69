"""Turns the settings of a fix into edits of the files where they are written.

An edit replaces one span, so comments, order and quotes survive; a config that is loaded and dumped again would lose them.
Nothing is trusted: after each edit the file is read again as its program reads it, the setting must then have the new value,
and a script must still be the same commands. Edits that a cause made itself are dropped where the file could be parsed before
and not after. Numbers are written so that PyYAML reads them as numbers: half of ``1e-4`` is
``5.0e-05``, never ``5e-05``, which it takes for a string. Nothing here writes a file; ``apply`` returns the new texts.
"""

from __future__ import annotations

import ast
import difflib
import io
import json
import math
import os
import re
import shlex
import warnings
from functools import lru_cache
from itertools import accumulate
from tokenize import COMMENT, TokenError, generate_tokens
from typing import TYPE_CHECKING, Any

from crashcart.documents import parse_python
from crashcart.errors import CommandError
from crashcart.model import Edit, Fix, Span
from crashcart.names import canonical, spellings
from crashcart.numbers import to_int
from crashcart.readers.job.command import typed
from crashcart.readers.job.config import read_config_text
from crashcart.readers.job.mending import mend
from crashcart.readers.job.shell import BROKEN, lex, text_of
from crashcart.record import replace
from crashcart.redact import hide

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crashcart.model import Fact

__all__ = ["apply", "difference", "keep_inside", "resolve"]

_LONGEST_DIFFERENCE = 200_000  # a line of a megabyte beside the change is nothing that a person looks at
RELATIVE = {"half": 0.5, "quarter": 0.25, "double": 2, "zero": 0}
NOTHING = object()
_CONFIGS = (".json", ".toml", ".yaml", ".yml")


def resolve(fix: Fix, facts: Mapping[str, Fact], flags: Mapping[str, str] | None = None) -> Fix:
    """The fix with its settings turned into edits with a diff, arguments and variables, as far as the facts allow.

    ``flags`` are those that the program's parser knows, where it was seen: then no other is advised, and a setting that the
    program makes in its code is named with its line.
    """
    if fix.edits and not (
        _keeps_files_readable(fix.edits) and _keeps_comments(fix.edits) and len(difference(fix.edits)) < _LONGEST_DIFFERENCE
    ):
        fix = replace(fix, edits=(), diff="", safety="by-hand")
    edits, arguments, environment = list(fix.edits), dict(fix.arguments), dict(fix.environment)
    in_code: list[str] = []
    for name, wanted in fix.settings.items():
        fact = _fact(name, facts)
        value = _target(fact, wanted)
        if value is NOTHING:
            continue
        if fact is not None and (edit := _edit(fact, value, edits)):
            edits.append(edit)
        elif fact is not None and fact.origin == "environment":
            environment[fact.spelling] = _shell_text(value)
        elif (spelling := _flag_for(name, fact, facts, flags)) is not None:
            added = _added(f"{spelling}={_shell_text(value)}", facts, edits) if not isinstance(value, bool) else None
            if added is not None:
                edits.append(added)
            else:
                arguments[spelling] = _shell_text(value)
        elif fact is not None and fact.origin == "recorded":
            in_code.append(f"{fact.evidence.quote} becomes {value}")
    fix = replace(
        fix, edits=tuple(edits), arguments=arguments, environment=environment, diff=difference(edits) if edits else fix.diff
    )
    if flags is None or not fix.settings:
        return fix
    is_words = not (fix.edits or fix.arguments or fix.environment or fix.diff)
    why = "; ".join(part for part in (fix.why, *in_code) if part)
    return replace(fix, settings={}, why=why, safety="by-hand" if is_words else fix.safety)


def keep_inside(fix: Fix, folders: Iterable[str]) -> Fix:
    """The fix, in words where it would change a file outside of the job's own folders: a log can name any file."""
    files = {edit.span.file: os.path.realpath(edit.span.file) for edit in fix.edits}
    outside = [
        path for path, real in files.items() if not any(os.path.commonpath([real, folder]) == folder for folder in folders)
    ]
    if not outside:
        return fix
    why = f"{fix.why}; " if fix.why else ""
    return replace(
        fix,
        edits=(),
        diff="",
        safety="by-hand",
        why=f"{why}{outside[0]} lies outside of this job's folder and is left to you",
    )


def _added(word: str, facts: Mapping[str, Fact], edits: list[Edit]) -> Edit | None:
    """A word more at the end of the command in its script, if that is all that the script then says differently."""
    end = facts.get("launch.end")
    if end is None or end.span is None or not re.fullmatch(r"[\w.=+-]+", word):
        return None
    edit = Edit(end.span, f" {word}")
    try:
        text = text_of(end.span.file)
        others = [other for other in edits if other.span.file == end.span.file]
        if any(other.span.start == end.span.start for other in others):
            return None
        before, after = _words(apply(others).get(end.span.file, text)), _words(apply([*others, edit])[end.span.file])
    except (CommandError, ValueError):
        return None
    more = [new for old, new in zip(before, after, strict=False) if old != new]
    is_only_this = len(before) == len(after) and len(more) == 1 and more[0][-1] == word and more[0][:-1] in before
    return edit if is_only_this else None


def _words(script: str) -> list[tuple[str, ...]]:
    """The words of each command of a script."""
    return [tuple(word.text for word in command.words) for command in lex(script).commands]


def _flag_for(name: str, fact: Fact | None, facts: Mapping[str, Fact], flags: Mapping[str, str] | None) -> str | None:
    """The flag by which this program takes a setting: its own where its parser was seen, else the one of the command, else the usual."""
    if fact is not None and fact.origin == "flag" and fact.spelling:
        return fact.spelling
    if flags is not None:
        known = [flag for flag, setting in flags.items() if canonical(flag) == name or canonical(setting) == name]
        return max(known, key=len, default=None)
    if fact is None and not _takes_flags(facts):
        return None
    if fact is not None and fact.origin not in {"flag", "default"}:
        return None
    usual = [spelling.split(" ")[0] for spelling in spellings(name)]
    return (fact.spelling if fact and fact.spelling else next(iter(usual), "")) or None


def _keeps_files_readable(edits: Iterable[Edit]) -> bool:
    """Whether every file that could be parsed before can be parsed after."""
    return all(_parses(path, new) or not _parses(path, text_of(path)) for path, new in apply(edits).items())


def _keeps_comments(edits: Iterable[Edit]) -> bool:
    """Whether what is written instead of code has the comments that stood in it; code that goes takes its comments along."""
    written = "\n".join(edit.text for edit in edits)
    replaced = [edit.span for edit in edits if edit.text.strip() and edit.span.file.endswith(".py")]
    return all(comment in written for span in replaced for comment in _comments_in(span))


def _comments_in(span: Span) -> list[str]:
    text = text_of(span.file)
    if "#" not in text[span.start : span.end]:
        return []
    starts = [0, *accumulate(map(len, io.StringIO(text, newline="\n")))]
    try:
        tokens = [token for token in generate_tokens(io.StringIO(text, newline="\n").readline) if token.type == COMMENT]
    except (SyntaxError, TokenError):
        return []  # it could not be parsed before either
    places = [(starts[token.start[0] - 1] + token.start[1], token.string) for token in tokens]
    return [comment for place, comment in places if span.start <= place < span.end]


@lru_cache(maxsize=64)
def _parses(path: str, text: str) -> bool:
    suffix = os.path.splitext(path)[1].lower()
    try:
        if suffix == ".py":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(
                    parse_python(text), path, "exec", dont_inherit=True
                )  # some of what parses is refused only here; nothing runs
        elif suffix in _CONFIGS:
            read_config_text(text, path)
    except (CommandError, ValueError, SyntaxError, RecursionError):
        return False
    return True


def _takes_flags(facts: Mapping[str, Fact]) -> bool:
    """Whether the program may know a setting by its usual flag: not one that was started without a single known setting."""
    return not facts or any(not name.startswith(("launch.", "command.", "flag.")) for name in facts)


def apply(edits: Iterable[Edit]) -> dict[str, str]:
    """The new text of every file that the edits touch; write it with ``errors="surrogateescape"`` and ``newline=""``."""
    texts: dict[str, str] = {}
    for edit in sorted(dict.fromkeys(edits), key=lambda edit: (edit.span.file, -edit.span.start)):
        path, span = edit.span.file, edit.span
        text = texts.get(path)
        text = text_of(path) if text is None else text
        new = edit.text
        if "\n" in new and "\r" not in text[span.start : span.end] and 0 < text.count("\n") == text.count("\r\n"):
            new = new.replace("\r\n", "\n").replace("\n", "\r\n")
        texts[path] = text[: span.start] + new + text[span.end :]
    return texts


def _fact(name: str, facts: Mapping[str, Fact]) -> Fact | None:
    """The fact of that name, or the flag whose value only the shell knows (``--train_batch_size=$BATCH``)."""
    if name in facts:
        return facts[name]
    flags = (fact for fact in facts.values() if fact.name.startswith("flag."))
    return next((fact for fact in flags if canonical(fact.spelling) == name), None)


def _target(fact: Fact | None, wanted: Any) -> Any:  # noqa: ANN401 - a value of any type
    """The new value; NOTHING where a relative one has nothing to relate to, or would change nothing."""
    old = fact.value if fact else NOTHING
    if not isinstance(wanted, str) or wanted not in RELATIVE:
        return NOTHING if type(old) is type(wanted) and old == wanted else wanted
    number = typed(old) if isinstance(old, str) else old
    if wanted == "zero":
        return NOTHING if fact is None or number in (0, False) else False if isinstance(number, bool) else 0
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number) or number <= 0:
        return NOTHING
    new = number * RELATIVE[wanted]
    if isinstance(number, float):
        return new
    whole = max(1, to_int(new, 1))
    return NOTHING if whole == number else whole


def _edit(fact: Fact, value: Any, edits: list[Edit]) -> Edit | None:  # noqa: ANN401 - a value of any type
    """The edit for one fact, if the file then says what it should."""
    span = fact.span
    if span is None:
        return None
    try:
        text = text_of(span.file)
        if fact.name == BROKEN:
            edit = Edit(Span(span.file, 0, len(text), 1), mend(text))
        elif _stands(fact, text[span.start : span.end]):
            edit = Edit(span, _written(value, fact, text[span.start : span.end], text[: span.start][-1:]))
        else:
            return None
        if any(_overlap(edit.span, other.span) for other in edits):
            return None
        others = [other for other in edits if other.span.file == span.file]
        return edit if _holds(fact, value, text, apply([*others, edit])[span.file]) else None
    except (CommandError, ValueError, SyntaxError, RecursionError):
        return None


def _stands(fact: Fact, written: str) -> bool:
    """Whether the place still holds the value: files change between reading and patching."""
    if _kind(fact) == "python":
        return bool(ast.literal_eval(written) == fact.value)
    return _kind(fact) != "shell" or "$" in written or typed(written) == fact.value or written == fact.value


def _overlap(one: Span, other: Span) -> bool:
    return one.file == other.file and one.start < other.end and other.start < one.end


def _kind(fact: Fact) -> str:
    """How the file of a fact is read: yaml, json, toml, python or shell."""
    suffix = os.path.splitext(fact.span.file if fact.span else "")[1].lower()
    if fact.evidence.source in {"command", "script"}:
        return "shell"
    return {".json": "json", ".toml": "toml", ".py": "python"}.get(suffix, "yaml")


def _holds(fact: Fact, value: Any, old: str, new: str) -> bool:  # noqa: ANN401 - a value of any type
    """Whether the changed file can be read, and differs in the one thing only."""
    kind = _kind(fact)
    if kind == "python":
        return ast.dump(parse_python(new)) != ast.dump(parse_python(old))
    if kind == "shell":
        before, after = lex(old), lex(new)
        if fact.name == BROKEN:
            return not after.broken and len(after.commands) <= len(before.commands)
        return [len(command.words) for command in before.commands] == [len(command.words) for command in after.commands]
    read = [
        found.value
        for found in read_config_text(new, fact.span.file if fact.span else "")
        if found.spelling == fact.spelling
    ]
    return bool(read) and read[-1] == value and type(read[-1]) is type(value)


def _written(value: Any, fact: Fact, old: str, before: str) -> str:  # noqa: ANN401 - a value of any type
    """A value in the language of its file and in the style of what stood there."""
    kind = _kind(fact)
    if kind in {"shell", "python"}:
        return _shell_text(value, old, before) if kind == "shell" else repr(value)
    if kind == "json" or not isinstance(value, (float, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return _decimal(value)
    if old[:1] == "'":
        return "'" + value.replace("'", "''") + "'"
    return value if kind == "yaml" and old[:1] != '"' and _is_plain(value) else json.dumps(value, ensure_ascii=False)


def _is_plain(text: str) -> bool:
    try:
        found = read_config_text(f"x: {text}\n", "x.yaml")
    except CommandError:
        return False
    return len(found) == 1 and found[0].value == text


def _decimal(value: float) -> str:
    """A float with a point, which YAML 1.1 wants before an exponent."""
    return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))


def _shell_text(value: Any, old: str = "", before: str = "") -> str:  # noqa: ANN401 - a value of any type
    if isinstance(value, bool) and old.islower():
        return str(value).lower()
    if isinstance(value, str) and old:
        return value if before in {'"', "'"} and not re.search(r"[\"'$`\\]", value) else shlex.quote(value)
    return str(value)


def difference(edits: Iterable[Edit]) -> str:
    """One unified diff over all files; paths below the current folder get the a/ and b/ that ``git apply`` expects."""
    parts: list[str] = []
    for path, new in apply(edits).items():
        short = os.path.relpath(path)
        names = (path, path) if short.startswith("..") else (f"a/{short}", f"b/{short}")
        parts.append(_unified(text_of(path), new, *names))
    return "".join(parts)


@lru_cache(maxsize=64)
def _unified(old: str, new: str, before: str, after: str) -> str:
    """One file's diff; kept, since many jobs of a project share the code that is patched."""
    lines = difflib.unified_diff(_shown(old), _shown(new), before, after)  # a diff may leave out the name of a secret
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@lru_cache(maxsize=8)
def _shown(text: str) -> list[str]:
    """The lines of a file without its secrets; kept, since looking for them takes long and one file gets several patches."""
    return _lines(hide(text))


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]+\n?|\n", text)
