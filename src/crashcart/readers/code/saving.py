"""Checkpoints written in place, under the name that a resume reads: a job that is killed while it saves has lost both.

    torch.save(state, os.path.join(out, "last.pt"))   ...   torch.load(os.path.join(out, "last.pt"))

A file of its own for each step is no such thing, nor are exports and best models that nothing resumes from; and a program that
writes beside the file and renames has done what there is to do.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.readers.code._blocks import indent_of, missing_imports, own_lines
from crashcart.readers.code._callers import callers_of, function_of, statement_of
from crashcart.readers.code._library import handed_to
from crashcart.readers.code._paths import file_names, given_to, opened, varies
from crashcart.readers.code._reach import all_come
from crashcart.readers.code.source import keyword, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Evidence, Fact
    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

RENAMES = ("os.replace", "os.rename", "shutil.move", "rename", "replace")
RESUMES = re.compile(r"resum|restart|contin|restor|reload|last|latest|start_epoch|requeue", re.IGNORECASE)
NO_RESUME = re.compile(r"best|final|export|weights|pretrain|init|ema|tmp|temp|backup", re.IGNORECASE)
LATEST = re.compile(r"last|latest|checkpoint|ckpt|current|resume|snapshot|state", re.IGNORECASE)
PURE = {"join", "str", "Path", "format", "fspath"}
TEXTUAL = (ast.JoinedStr, ast.Constant)


def look(program: Program) -> Iterator[Fact]:
    """``code.saved_in_place``: the write, with the place that reads the same file when the job goes on."""
    callers = callers_of(program)
    reads = list(_reads(program, callers))
    if not reads:
        return
    library = program.imports("crashcart.train")
    several = program.imports("torch.distributed", "accelerate", "deepspeed", "torch.multiprocessing")
    for source in program.sources:
        for call in source.calls("torch.save"):
            path, held = opened(keyword(call, "f", 1))
            if path is None or _renamed(source, call, path) or varies(callers, source, path):
                continue
            names = {name for name in file_names(callers, source, path) if _fixed(name)} or _from_settings(source, path)
            read = next(
                (
                    where
                    for found, where, exact in reads
                    if (names & found) or (not exact and _is_state(source, call, names))
                ),
                None,
            )
            if names and read is not None:
                everyone = several and all_come(callers, source, call)
                edits = () if library else _edits(callers, source, call, path, everyone=everyone, held=held)
                handed = () if edits or everyone else _handed(source, call)
                value = {
                    "name": min(names),
                    "read": read,
                    "everyone": everyone,
                    "edits": edits or handed,
                    "handed": bool(handed),
                }
                yield source.fact("code.saved_in_place", value, call)


def _reads(program: Program, callers: Callers) -> Iterator[tuple[set[str], Evidence, bool]]:
    """What a program loads to go on: the names of the files, and whether they are known by name."""
    for source in program.sources:
        for call in source.calls("torch.load"):
            path, _ = opened(keyword(call, "f", 0))
            if path is None:
                continue
            names = {name for name in file_names(callers, source, path) if name != "{}"}
            known = {name for name in names if _fixed(name)} or _from_settings(source, path)
            if known and _goes_on(call):
                yield known, source.evidence(call), True
            elif not known and _goes_on(call):
                yield set(), source.evidence(call), False


def _from_settings(source: Source, path: ast.expr) -> set[str]:
    """``os.path.join(cfg.save.dir, cfg.save.name)``: a path of settings alone, as it is written, is one file in a job."""
    given = given_to(source, path.id, function_of(path)) if isinstance(path, ast.Name) else [path]
    whole = given[0] if len(given) == 1 else None
    parts = whole.args if isinstance(whole, ast.Call) and name_of(whole.func).endswith("path.join") else [whole]
    plain = all(
        isinstance(one, ast.Constant)
        or (isinstance(one, ast.Attribute) and name_of(one).count(".") > 1 and not name_of(one).startswith("self."))
        for one in parts
    )
    text = ast.unparse(parts[-1]) if plain and parts and isinstance(parts[-1], ast.Attribute) else ""
    return {ast.unparse(whole)} if whole is not None and text and not NO_RESUME.search(text) else set()


def _goes_on(call: ast.Call) -> bool:
    """Whether a load is a resume: the words around it say so."""
    words = [ast.unparse(call)]
    for above in parents(call):
        if isinstance(above, ast.If):
            words.append(ast.unparse(above.test))
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
            words += [above.name, *(one.arg for one in above.args.args)]
            words += [
                text.value
                for text in ast.walk(above)
                if isinstance(text, ast.Constant) and text.value in {"optimizer", "epoch", "step"}
            ]
            words += [
                "start_epoch"
                for one in ast.walk(above)
                if isinstance(one, ast.Name) and one.id in {"start_epoch", "start_step"}
            ]
            break
    return bool(RESUMES.search(" ".join(map(str, words))))


def _fixed(name: str) -> bool:
    """A name that stays the same from save to save: no part of it is computed."""
    return "{" not in name and "%" not in name and "<" not in name and bool(name) and not NO_RESUME.search(name)


def _is_state(source: Source, call: ast.Call, names: set[str]) -> bool:
    """Whether what is saved is the whole state, under a name that a resume would be given."""
    saved = keyword(call, "obj", 0)
    dicts = (
        [saved]
        if isinstance(saved, ast.Dict)
        else given_to(source, name_of(saved), function_of(call))
        if isinstance(saved, ast.Name)
        else []
    )
    keys = [
        str(key.value) for one in dicts if isinstance(one, ast.Dict) for key in one.keys if isinstance(key, ast.Constant)
    ]
    return any("optim" in key for key in keys) and any(LATEST.search(name) for name in names)


def _renamed(source: Source, call: ast.Call, path: ast.expr) -> bool:
    """Whether the file is renamed after it was written: the same path, or its name, is given to a rename."""
    home = function_of(call)
    text = ast.unparse(path)
    if re.search(r"tmp|temp|partial|\.part\b", text, re.IGNORECASE):
        return True
    for one in source.nodes(ast.Call):
        last = name_of(one.func).split(".")[-1]
        if last in {"replace", "rename", "move"} and function_of(one) is home and one.lineno >= call.lineno:
            words = ast.unparse(one)
            if text in words or (isinstance(path, ast.Name) and path.id in words):
                return True
    return False


def _handed(source: Source, call: ast.Call) -> tuple[Edit, ...]:
    """The call given to `save_atomic`, which takes the object and the path."""
    plain = len(call.args) == 2 and not call.keywords  # noqa: PLR2004 - the object and the path
    return handed_to(source, call, "save_atomic") if plain else ()


def _edits(
    callers: Callers, source: Source, call: ast.Call, path: ast.expr, *, everyone: bool, held: ast.With | None
) -> tuple[Edit, ...]:
    """Written beside it and put in its place; with a name of its own for each process where all write."""
    statement = statement_of(call)
    calls = [name_of(one.func).split(".")[-1] for one in ast.walk(path) if isinstance(one, ast.Call)]
    plain = isinstance(statement, ast.Expr) and statement.value is call and own_lines(source, held or statement)
    if not plain or not _pure(callers, source, path) or "\n" in source.written(path):
        return ()
    text = source.written(path)
    whole = held or statement
    indent = indent_of(source, whole.lineno)
    joined = isinstance(path, TEXTUAL) or calls[:1] in (["join"], ["str"], ["format"])
    ending = 'f".{os.getpid()}.tmp"' if everyone else '".tmp"'
    if isinstance(path, ast.Name):
        beside = f'f"{{{text}}}.{{os.getpid()}}.tmp"' if everyone else f'f"{{{text}}}.tmp"'
    else:
        beside = f"{text} + {ending}" if joined else f"str({text}) + {ending}"
    lines = [f"\n{indent}os.replace({beside}, {text})"]
    start = source.span(whole)
    imports = "".join(f"{line}\n{indent}" for line in missing_imports(source, "os"))
    at = source.span(path)
    new = imports + source.text[start.start : at.start] + beside + source.text[at.end : start.end] + "".join(lines)
    return (Edit(start, new),)


def _pure(callers: Callers, source: Source, path: ast.expr) -> bool:
    """Whether a path can be written twice: only names are put together, also by a function that does nothing else."""
    for one in ast.walk(path):
        if not isinstance(one, ast.Call) or name_of(one.func).split(".")[-1] in PURE:
            continue
        meant = callers.meant(source, one)
        if len(meant) != 1 or not all(isinstance(part, (ast.Return, ast.Expr)) for part in meant[0][1].body):
            return False
        if any(isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call) for inner in meant[0][1].body):
            return False
    return True
