"""What a resume leaves behind: state that is saved and never loaded, or never saved at all.

    torch.save({"model": ..., "optimizer": optimizer.state_dict(), "epoch": epoch}, path)
    checkpoint = torch.load(path); model.load_state_dict(checkpoint["model"])     # and nothing else

Only programs that save and load by themselves, and that say that they resume: taking over weights for a new training is
another thing, and frameworks restore what they save.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._blocks import indent_of, own_lines
from crashcart.readers.code._callers import function_of, statement_of
from crashcart.readers.code.source import name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

RESUMES = re.compile(r"resum|restart_from|continue_from|continue_train|start_epoch|start_step|start_iter", re.IGNORECASE)
PARTS = {
    "optimizer": re.compile(r"optim|(?:^|[_.])opt(?:$|[_.\d])"),
    "schedule": re.compile(r"sched"),
    "scaler": re.compile(r"scaler"),
}
WHOLE = (
    "load_state", "load_checkpoint", "restore", "resume_from_checkpoint", "set_state_dict", "set_optimizer_state_dict",
    "torch.distributed.checkpoint.load", "load_optimizer", "load_optimizer_state_dict",
)  # fmt: skip


def look(program: Program) -> Iterator[Fact]:
    """``code.resume``: the load of the weights, and what of the training state is saved, loaded and in use."""
    if program.imports("lightning", "pytorch_lightning", "mmengine", "composer", "fairseq", "ignite"):
        return
    steps = {part: _in_use(program, part) for part in PARTS}
    if not steps["optimizer"]:
        return
    loads = [(source, call) for source in program.sources for call in source.calls("load_state_dict")]
    loaded = {part for _, call in loads for part, word in PARTS.items() if word.search(name_of(call.func).lower())}
    own = {one.name for source in program.sources for one in source.nodes(ast.FunctionDef)}
    if any(True for source in program.sources for _ in source.calls(*(name for name in WHOLE if name not in own))):
        return
    saved = set(_saved(program))
    for source, call in loads:
        if any(word.search(name_of(call.func).lower()) for word in PARTS.values()) or not _resumes(source, call):
            continue
        yield _fact(source, call, {part for part, used in steps.items() if used}, saved, loaded)


def _fact(source: Source, call: ast.Call, used: set[str], saved: set[tuple[str, str]], loaded: set[str]) -> Fact:
    missing = sorted(part for part in used if part not in loaded)
    value = {
        "missing": missing,
        "saved": sorted({part for part, _ in saved if part in missing}),
        "edits": _edits(source, call, missing, saved),
    }
    return source.fact("code.resume", value, call)


def _in_use(program: Program, part: str) -> bool:
    """Whether the program steps an optimizer or a schedule of its own, or scales its loss."""
    word = PARTS[part]
    for source in program.sources:
        for call in source.calls("step"):
            if word.search(name_of(call.func).lower().rsplit(".", 1)[0]):
                return True
    return False


def _resumes(source: Source, call: ast.Call) -> bool:
    """Whether a load is part of a resume: a test, a function or a name around it says so, and the file is read here."""
    home = function_of(call)
    words = [name_of(call.func)]
    words += [ast.unparse(above.test) for above in parents(call) if isinstance(above, ast.If)]
    if home is not None:
        words += [home.name]
        calls = [one for one in ast.walk(home) if isinstance(one, ast.Call)]
        words += [one.id for one in ast.walk(home) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    else:
        calls = source.nodes(ast.Call)
    return bool(RESUMES.search(" ".join(words))) and any(source.called(one.func) == "torch.load" for one in calls)


def _saved(program: Program) -> Iterator[tuple[str, str]]:
    """The parts of the state that are put under a key: the part and the key."""
    for source in program.sources:
        for call in source.calls("state_dict"):
            receiver = name_of(call.func).lower().rsplit(".", 1)[0]
            for part, word in PARTS.items():
                if word.search(receiver):
                    yield part, _key(call)


def _key(call: ast.Call) -> str:
    """The key under which an expression stands in a dictionary: ``{"optimizer": x}``, ``state["optimizer"] = x``."""
    at: ast.AST = call
    for above in parents(call):
        if isinstance(above, ast.Dict) and at in above.values:
            key = above.keys[above.values.index(at)]
            return str(key.value) if isinstance(key, ast.Constant) else ""
        if isinstance(above, ast.keyword):
            return above.arg or ""
        if isinstance(above, ast.Assign):
            target = above.targets[0]
            found = target.slice if isinstance(target, ast.Subscript) else None
            return str(found.value) if isinstance(found, ast.Constant) else ""
        at = above
    return ""


def _edits(source: Source, call: ast.Call, missing: list[str], saved: set[tuple[str, str]]) -> tuple[Edit, ...]:
    """The lines that load what was saved, after the line that loads the weights; the objects must be at hand there."""
    statement = statement_of(call)
    argument = call.args[0] if call.args else None
    if not own_lines(source, statement) or not isinstance(argument, ast.Subscript) or not missing:
        return ()
    whole, receiver = source.written(argument.value), name_of(call.func).rsplit(".", 1)[0]
    lines = []
    for part in missing:
        key = next((key for found, key in sorted(saved) if found == part and key), "")
        name = _at_hand(source, call, part, of_self=receiver.startswith("self."))
        if not key or not name:
            return ()
        lines.append(f'{indent_of(source, statement.lineno)}{name}.load_state_dict({whole}["{key}"])')
    number = statement.end_lineno or statement.lineno
    at = source.offset(number, 0) + len(source.line(number))
    return (Edit(Span(source.path, at, at, number), "".join(f"\n{line}" for line in lines)),)


def _at_hand(source: Source, call: ast.Call, part: str, *, of_self: bool) -> str:
    """The name of the object that is stepped, where the load could use it: an attribute, a parameter, or made before."""
    home = function_of(call)
    names = {name_of(one.func).rsplit(".", 1)[0] for one in source.calls("step", "state_dict")}
    wanted = sorted(name for name in names if PARTS[part].search(name.lower()))
    for name in wanted:
        if name.startswith("self.") and of_self:
            return name
        if "." in name:
            continue
        made = [one for one in source.nodes(ast.Assign) if any(name_of(target) == name for target in one.targets)]
        if home is not None and any(one.arg == name for one in home.args.args):
            return name
        if any(function_of(one) in (home, None) and one.lineno < call.lineno for one in made):
            return name
    return ""
