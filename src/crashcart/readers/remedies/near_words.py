"""A word that an enumeration or a table refuses, where one that it knows is spelled almost the same.

    ValueError: 'cosine_restart' is not a valid Schedule        class Schedule(Enum): RESTARTS = "cosine_restarts"
    KeyError: 'adamw_fusd'                                       {"adamw": ..., "adamw_fused": ...}
    AttributeError: 'Meter' object has no attribute 'avarage'    class Meter: def average(self)
    KeyError: 'weight_decay'                                     the config has the key weight_deacy

The word is changed where it is written: once in a config of the project, in the launch script or in the code. Where it stands at
several places, or two known words are as near, nothing is offered.
"""

from __future__ import annotations

import ast
import os
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from crashcart.errors import CommandError
from crashcart.model import Edit, Evidence, Span
from crashcart.pattern import Pattern
from crashcart.readers.code.edits import replaced
from crashcart.readers.job.config import read_config_text
from crashcart.readers.job.script_files import text_of
from crashcart.readers.project import files_of
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Raise, Scene

_QUOTED = Pattern(r"['\"]([A-Za-z][\w.+/-]{2,60})['\"]")
_NO_MEMBER = Pattern(r"^(?:'([^'\n]{2,80})'|\"([^\"\n]{2,80})\") is not a valid (?:\w{1,60}\.){0,4}(\w{1,60})")
_NO_ATTRIBUTE = Pattern(r"^(?:'(\w{1,60})' object|type object '(\w{1,60})') has no attribute '(\w{2,60})'")
_NO_NAME = Pattern(r"^name '(\w{2,60})' is not defined")
_DIGITS = Pattern(r"\d{1,40}")
_PLAIN = Pattern(r"\A[A-Za-z0-9_.+@/-]{1,200}\Z")
_NEAR, _APART = 0.84, 0.04  # similarity that counts as a slip of spelling, and by which the second best must lie behind
_CONFIGS = (".json", ".toml", ".yaml", ".yml")
_SCRIPTS = (".sh", ".sbatch", ".slurm")
_MOST_FILES, _MOST_BYTES = 60, 200_000
_CAUSES = ("config/missing-or-wrong", "config/type", "code/bug", "code/version")


def look(scene: Scene) -> Iterator[Fact]:
    """The known word in place of the refused one."""
    for raised in scene.raises[:1]:
        if raised.kind in {"NameError", "AttributeError", "UnboundLocalError"}:
            in_code = list(_misspelled_in_code(scene, raised))
            attribute = _NO_ATTRIBUTE.search(raised.words)
            yield from in_code or (_misspelled_key(scene, attribute[3]) if attribute is not None else ())
        elif raised.kind in {
            "ValueError",
            "KeyError",
            "RuntimeError",
            "NotImplementedError",
            "AssertionError",
            "LookupError",
        }:
            yield from _refused(scene, raised)


def _refused(scene: Scene, raised: Raise) -> Iterator[Fact]:
    member = _NO_MEMBER.search(raised.words)
    quoted = [match[1] for match in _QUOTED.finditer(raised.words)]
    word = (member[1] or member[2]) if member else next(iter(quoted), "")
    if not word:
        return
    known = _members(scene.sources, member[3]) if member else [*quoted[1:], *_keys(scene, raised)]
    right = nearest(word, known)
    places = list(places_of(scene, word)) if right is not None else []
    if right is None or len(places) != 1:
        yield from _misspelled_key(scene, word) if raised.kind in {"KeyError", "AttributeError"} else ()
        return
    span, quote = places[0]
    why = f"{word!r} is refused; {right!r} is the closest name the program has"
    yield from remedy(_CAUSES, f"Write {right} instead of {word}", "changes-training", why, [Edit(span, right)], quote)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one known word that is spelled almost like another; None where there is none, or two."""
    digits = _numbers(word)  # seed2.pt is no slip for seed1.pt
    # What is written into a script or a config must stand there without quotes.
    same = {each for each in {*known} - {word} if _numbers(each) == digits and _PLAIN.search(each)}
    scored = sorted(((SequenceMatcher(None, word.lower(), each.lower()).ratio(), each) for each in same), reverse=True)
    if not scored or scored[0][0] < _NEAR or (len(scored) > 1 and scored[0][0] - scored[1][0] < _APART):
        return None
    return scored[0][1]


def _numbers(word: str) -> list[str]:
    return [match[0] for match in _DIGITS.finditer(word)]


def _members(sources: Iterable[Source], name: str) -> list[str]:
    """The values of an enumeration of the program."""
    return [
        statement.value.value
        for source in sources
        for owner in source.nodes(ast.ClassDef)
        if owner.name == name
        for statement in owner.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    ]


def _keys(scene: Scene, raised: Raise) -> Iterator[str]:
    """What a table is asked with elsewhere in the program: keys of displays, words behind a decorator, words of comparisons."""
    if not raised.frames:
        return
    for source in scene.sources:
        for display in source.nodes(ast.Dict):
            yield from (key.value for key in display.keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
        for node in _definitions(source):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call):
                    yield from (
                        each.value
                        for each in decorator.args
                        if isinstance(each, ast.Constant) and isinstance(each.value, str)
                    )
                    yield from () if decorator.args else (node.name,)
                else:
                    yield node.name
        for test in source.nodes(ast.Compare):
            for each in test.comparators:
                items = each.elts if isinstance(each, (ast.Tuple, ast.List, ast.Set)) else [each]
                yield from (item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str))


def _definitions(source: Source) -> list[ast.FunctionDef | ast.ClassDef]:
    return [*source.nodes(ast.FunctionDef), *source.nodes(ast.ClassDef)]


def places_of(scene: Scene, word: str) -> Iterator[tuple[Span, Evidence]]:
    """Where a word is written as a value: in configs, in launch scripts, in the code."""
    for path in _written_files(scene):
        try:
            if os.path.getsize(path) > _MOST_BYTES:
                continue
            text = text_of(path)
            if word in text:
                yield from _in_config(path, text, word) if path.endswith(_CONFIGS) else _in_script(path, text, word)
        except (CommandError, OSError, ValueError):
            continue
    for source in scene.sources:
        for node in source.nodes(ast.Constant):
            if node.value == word and source.text[source.span(node).start] in "'\"":
                span = source.span(node)
                yield Span(span.file, span.start + 1, span.end - 1, span.line), source.evidence(node)


def _written_files(scene: Scene) -> list[str]:
    named = sorted(path for path in scene.plan.files if path.endswith((*_CONFIGS, *_SCRIPTS)))
    around = (path for path in files_of(".") if path.endswith((*_CONFIGS, *_SCRIPTS)))
    return list({os.path.normpath(path): None for path in (*named, *around)})[:_MOST_FILES]


def _in_config(path: str, text: str, word: str) -> Iterator[tuple[Span, Evidence]]:
    seen: set[int] = set()
    for fact in read_config_text(text, path):
        if fact.value == word and fact.span is not None and fact.span.start not in seen:
            seen.add(fact.span.start)
            inner = text.find(word, fact.span.start, fact.span.end)
            if inner >= 0:
                yield Span(path, inner, inner + len(word), fact.span.line), fact.evidence
    if not seen and path.endswith(".json"):  # a list of objects, whose values have no names of their own
        for match in _every(text, f'"{word}"'):
            line = text.count("\n", 0, match) + 1
            yield (
                Span(path, match + 1, match + 1 + len(word), line),
                Evidence("config", text.split("\n")[line - 1].strip(), f"{path}:{line}"),
            )


def _in_script(path: str, text: str, word: str) -> Iterator[tuple[Span, Evidence]]:
    for start in _every(text, word):
        around = text[start - 1 : start], text[start + len(word) : start + len(word) + 1]
        line = text.count("\n", 0, start) + 1
        whole = text.split("\n")[line - 1]
        if all(not each or each in " \t\n=\"'" for each in around) and not whole.lstrip().startswith("#"):
            yield Span(path, start, start + len(word), line), Evidence("script", whole.strip(), f"{path}:{line}")


def _every(text: str, word: str) -> Iterator[int]:
    start = text.find(word)
    while start >= 0:
        yield start
        start = text.find(word, start + 1)


def _misspelled_key(scene: Scene, word: str) -> Iterator[Fact]:
    """A key that the program asks for, where a config has one that is spelled almost like it and that the program does not ask for."""
    asked = {node.value for source in scene.sources for node in source.nodes(ast.Constant)}
    asked |= {node.attr for source in scene.sources for node in source.nodes(ast.Attribute)}
    found: list[tuple[str, Span, Evidence]] = []
    for path in _written_files(scene):
        try:
            text = text_of(path) if path.endswith(_CONFIGS) else ""
            facts = read_config_text(text, path) if text else []
        except (CommandError, OSError, ValueError):
            continue
        keys = {part for fact in facts for part in fact.spelling.split(".")} - asked
        near = nearest(word, keys) if word not in {part for fact in facts for part in fact.spelling.split(".")} else None
        for start in _every(text, near) if near is not None else ():
            after = text[start + len(near or "") :].lstrip("\"'").lstrip(" \t")
            if (
                after[:1] in {":", "="}
                and not text[start - 1 : start].isalnum()
                and text[start - 1 : start] not in {"_", "-", "."}
            ):
                line = text.count("\n", 0, start) + 1
                seen = Evidence("config", text.split("\n")[line - 1].strip(), f"{path}:{line}")
                found.append((near or "", Span(path, start, start + len(near or ""), line), seen))
    if len(found) == 1:
        near, span, quote = found[0]
        why = f"the program reads {word!r}; nothing reads {near!r}, which is the closest name"
        yield from remedy(_CAUSES, f"Rename the key {near} to {word}", "changes-training", why, [Edit(span, word)], quote)


# ---- names in the code


def _misspelled_in_code(scene: Scene, raised: Raise) -> Iterator[Fact]:
    spot = raised.frames[-1] if raised.frames else None
    place = scene.at(spot)
    if place is None:
        return
    source, statement = place
    attribute = _NO_ATTRIBUTE.search(raised.words)
    name = _NO_NAME.search(raised.words)
    nodes: list[ast.expr] = []
    if attribute:
        word, known = attribute[3], list(_attributes(scene.sources, attribute[1] or attribute[2]))
        nodes = [node for node in ast.walk(statement) if isinstance(node, ast.Attribute) and node.attr == word]
    elif name:
        word, known = name[1], [node.id for node in source.nodes(ast.Name) if isinstance(node.ctx, ast.Store)]
        known += [*source.names, *(node.name for node in _definitions(source))]
        known += [each.arg for each in source.nodes(ast.arg)]
        nodes = [node for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id == word]
    else:
        return
    right = nearest(word, known)
    if right is None or len(nodes) != 1:
        return
    node = nodes[0]
    text = source.written(node)
    why = f"{right} is the closest existing name"
    edits = [replaced(source, node, f"{text[: len(text) - len(word)]}{right}")]
    yield from remedy(_CAUSES, f"Write {right} instead of {word}", "changes-training", why, edits, source.evidence(node))


def _attributes(sources: Iterable[Source], name: str) -> Iterator[str]:
    """The methods and attributes of a class of the program."""
    for source in sources:
        for owner in source.nodes(ast.ClassDef):
            if owner.name != name:
                continue
            yield from (each.name for each in owner.body if isinstance(each, ast.FunctionDef))
            yield from (
                each.target.id
                for each in owner.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            )
            yield from (
                node.attr
                for node in ast.walk(owner)
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
            )
