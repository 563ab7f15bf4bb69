"""Configs that Python makes: yacs and detectron2, mmengine's config files, detectron2's lazy configs, gin.

    cfg = get_cfg(); cfg.merge_from_file(args.config); cfg.merge_from_list(args.opts)          yacs: types are kept
    cfg = Config.fromfile(args.config); cfg.merge_from_dict(args.cfg_options)                   mmengine: a Python file with _base_
    train.lr = 0.1, Model.width = @width()                                                      gin: bindings that count at calls

A Python config is followed in thought as any module is, and never executed.
"""

from __future__ import annotations

import ast
import copy
import os
import re
from typing import TYPE_CHECKING, Any

from crashcart.errors import CommandError
from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.libraries.argparse_parser import (
    ACTIONS,
    Argument,
    ParserSpec,
    flag_fact,
    make_parser,
)
from crashcart.readers.interpreter.libraries.builtin_functions import nest
from crashcart.readers.interpreter.libraries.config_files import config_value, find_config, overlay, put
from crashcart.readers.interpreter.libraries.containers import copied
from crashcart.readers.interpreter.libraries.hydra_config import build, resolve_target
from crashcart.readers.interpreter.libraries.interpolation import plain_word
from crashcart.readers.interpreter.libraries.standard import from_plain
from crashcart.readers.interpreter.libraries.texts_and_paths import path_text
from crashcart.readers.interpreter.store import NONE, TRUE
from crashcart.readers.interpreter.values import (
    Bound,
    Class,
    Constant,
    Container,
    Function,
    Library,
    Module,
    Result,
    Unknown,
    Value,
    constant_of,
    unknown_from,
)
from crashcart.readers.job.shell import text_of

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

_DEEPEST = 12
_MOST_BINDINGS = 2000
_BINDING = re.compile(r"\s*([\w./]+)\s*=\s*(\S.*)")


# ---- yacs, fvcore, detectron2


@models(
    "yacs.config.CfgNode",
    "fvcore.common.config.CfgNode",
    "detectron2.config.CfgNode",
    "mmengine.ConfigDict",
    "mmengine.config.ConfigDict",
)
def make_node(interpreter: Interpreter, call: Call) -> Value:
    """``CN()`` or ``CN({...})``."""
    given = call.argument(0, "init_dict")
    is_typed = call.method == "CfgNode"
    made = (
        copied(interpreter, given)
        if isinstance(given, Container) and given.kind in {"dict", "config", "namespace"}
        else interpreter.container("config", {} if is_typed else call.keywords, call.node)
    )
    made.kind = "config"
    nest(interpreter, made)
    new_allowed = call.argument(2, "new_allowed") if is_typed else None
    if new_allowed is not None and interpreter.truth(new_allowed) is not False:
        interpreter.store.set(made, "(new)", TRUE)
    return made


@models(
    "yacs.config.CfgNode()",
    "fvcore.common.config.CfgNode()",
    "detectron2.config.CfgNode()",
    "mmengine.ConfigDict()",
    "mmengine.config.ConfigDict()",
)
def make_own_node(
    interpreter: Interpreter, _cls: Class, arguments: list[Value], keywords: dict[str, Value], call: Call
) -> Value:
    """A node of a class of the program's own that inherits from a library's: it is read and merged as the library does."""
    given = arguments[0] if arguments else None
    made = (
        copied(interpreter, given)
        if isinstance(given, Container) and given.kind in {"dict", "config"}
        else interpreter.container("config", keywords, call.node)
    )
    made.kind = "config"
    nest(interpreter, made)
    return made


@models("dict.merge_from_file", "config.merge_from_file")
def merge_from_file(interpreter: Interpreter, call: Call) -> Value:
    """``cfg.merge_from_file("run.yaml")``, with ``_BASE_`` below it."""
    owner, path = call.receiver, path_text(call.argument(0))
    if not isinstance(owner, Container):
        return NONE
    above = _node_in_python(interpreter, path) if path is not None and path.endswith(".py") else None
    if above is None and path is not None:
        above = _yaml_with_base(interpreter, path)
    if above is None:
        interpreter.libraries.open_up(interpreter, owner)
        return NONE
    _merge_typed(interpreter, owner, above, call, [])
    return NONE


def _node_in_python(interpreter: Interpreter, path: str) -> Container | None:
    """The ``cfg`` of a Python file, which yacs imports."""
    found = find_config(interpreter, path)
    source = interpreter.modules.source(found) if found is not None else None
    if found is None or source is None:
        return None
    made = follow_file(interpreter, found, source.tree.body, {}).get("cfg")
    return made if isinstance(made, Container) and made.kind in {"dict", "config"} else None


def _yaml_with_base(interpreter: Interpreter, path: str, depth: int = 0) -> Container | None:
    made = config_value(interpreter, path, numbers=False, attributes=True)
    if not isinstance(made, Container) or made.kind != "config" or depth > _DEEPEST:
        return None
    base = constant_of(interpreter.entries(made).get("_BASE_"))
    if isinstance(base, str):
        place = base if base.startswith("/") else os.path.join(os.path.dirname(path), base)
        below = _yaml_with_base(interpreter, place, depth + 1)
        rest = {key: value for key, value in interpreter.items(made).items() if key != "_BASE_"}
        interpreter.store.set(made, "items", rest)
        merged = overlay(interpreter, below, made) if below is not None else made
        return merged if isinstance(merged, Container) else None
    return made


def _merge_typed(interpreter: Interpreter, owner: Container, above: Container, call: Call, path: list[str]) -> None:
    """Merge a config into another; a key that is not there, or a value of another type, is refused."""
    content = interpreter.entries(owner)
    for key, value in interpreter.entries(above).items():
        before = content.get(key)
        full = ".".join([*path, str(key)])
        if before is None:
            if not interpreter.store.get(owner, "open") and not constant_of(interpreter.store.get(owner, "(new)")):
                interpreter.fail(call.node, "KeyError", f"Non-existent config key: {full}", value)
                return
            interpreter.set_item(owner, Constant(key), value, None)
        elif isinstance(before, Container) and before.kind == "config" and isinstance(value, Container):
            _merge_typed(interpreter, before, value, call, [*path, str(key)])
        else:
            interpreter.set_item(
                owner, Constant(key), _same_type(interpreter, before, _decoded(interpreter, value), full, call), None
            )


def _decoded(interpreter: Interpreter, value: Value) -> Value:
    """A text that is a Python literal is that value: ``"(0.9, 0.99)"``, ``"1e-3"``."""
    plain = constant_of(value)
    if not isinstance(plain, str) or len(plain) > 2000:
        return value
    try:
        return from_plain(interpreter, ast.literal_eval(plain), value)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return value


def _same_type(interpreter: Interpreter, before: Value, value: Value, name: str, call: Call) -> Value:
    if isinstance(before, Container) and isinstance(value, Container) and {before.kind, value.kind} == {"list", "tuple"}:
        return interpreter.container(before.kind, interpreter.items(value))
    if not isinstance(before, Constant) or not isinstance(value, Constant) or before.value is None or value.value is None:
        return value
    old, new = before.value, value.value
    if type(old) is type(new):
        return Constant(new, value.origins, direct=True)
    says = f"Type mismatch ({type(old)} vs. {type(new)}) with values ({old} vs. {new}) for config key: {name}"
    return interpreter.fail(call.node, "ValueError", says, value)


@models("dict.merge_from_list", "config.merge_from_list")
def merge_from_list(interpreter: Interpreter, call: Call) -> Value:
    """``cfg.merge_from_list(["SOLVER.LR", "0.1"])``."""
    owner, given = call.receiver, call.argument(0)
    if not isinstance(owner, Container) or given is None or constant_of(given, call) is None:
        return NONE
    items, complete = interpreter.listed(given)
    if not complete:
        interpreter.libraries.open_up(interpreter, owner)
    if len(items) % 2:
        interpreter.fail(call.node, "AssertionError", "Override list has odd length", given)
        return NONE
    for key, value in zip(items[::2], items[1::2], strict=True):
        path = constant_of(key)
        if not isinstance(path, str):
            interpreter.libraries.open_up(interpreter, owner)
            continue
        place: Value | None = owner
        parts = path.split(".")
        for part in parts[:-1]:
            place = interpreter.items(place).get(part) if isinstance(place, Container) and place.kind == "config" else None
        before = interpreter.items(place).get(parts[-1]) if isinstance(place, Container) and place.kind == "config" else None
        if before is None:
            if not interpreter.store.get(owner, "open"):
                interpreter.fail(call.node, "KeyError", f"Non-existent key: {path}", key)
            continue
        fact = flag_fact(interpreter, [path], path, constant_of(value)) if interpreter.launch.program is not None else None
        known = (
            Constant(value.value, value.origins or ((fact,) if fact else ()), direct=True)
            if isinstance(value, Constant)
            else value
        )
        made = _same_type(interpreter, before, _decoded(interpreter, known), path, call)
        interpreter.set_item(place, Constant(parts[-1]), made, None)  # type: ignore[arg-type]
    return NONE


@models("dict.merge_from_other_cfg", "config.merge_from_other_cfg")
def merge_from_other(interpreter: Interpreter, call: Call) -> Value:
    """``cfg.merge_from_other_cfg(other)``."""
    owner, other = call.receiver, call.argument(0)
    if isinstance(owner, Container) and isinstance(other, Container):
        _merge_typed(interpreter, owner, other, call, [])
    return NONE


@models("dict.freeze", "dict.defrost", "config.freeze", "config.defrost", "dict.set_new_allowed")
def freeze(interpreter: Interpreter, call: Call) -> Value:
    """Nothing that the program decides by; new keys may be allowed."""
    if call.method == "set_new_allowed" and isinstance(call.receiver, Container):
        interpreter.store.set(call.receiver, "(new)", call.argument(0) or TRUE)
    return NONE


@models("dict.dump", "dict.pretty_text")
def dump(_interpreter: Interpreter, _call: Call) -> Value:
    """A text for people."""
    return Unknown()


# ---- mmengine


@models("mmengine.Config.fromfile", "mmengine.config.Config.fromfile", "mmcv.Config.fromfile", "mmcv.utils.Config.fromfile")
def from_file(interpreter: Interpreter, call: Call) -> Value:
    """``Config.fromfile("configs/x.py")``."""
    path = path_text(call.argument(0, "filename"))
    found = find_config(interpreter, path) if path is not None else None
    made = python_config(interpreter, found) if found is not None else None
    if made is None:
        return interpreter.container("config", {}, call.node, is_open=True)
    if path is not None:
        interpreter.set_item(made, Constant("filename"), Constant(path), None)
    return made


def python_config(interpreter: Interpreter, path: str, depth: int = 0) -> Container | None:
    """The names that a config file gives values to, over those of its ``_base_``."""
    if path.endswith((".yaml", ".yml", ".json")):
        read = config_value(interpreter, path, numbers=False, attributes=True)
        return read if isinstance(read, Container) else None
    source = interpreter.modules.source(path)
    if source is None or depth > _DEEPEST:
        return None
    base: Value = interpreter.container("config", {})
    for name in _bases(source.tree):
        below = python_config(interpreter, os.path.normpath(os.path.join(os.path.dirname(path), name)), depth + 1)
        if below is None:
            interpreter.libraries.open_up(interpreter, base)
        else:
            base = overlay(interpreter, base, below)
    names = follow_file(interpreter, path, _without_base(source.tree), {"_base_": base})
    own = interpreter.container("config", {name: value for name, value in names.items() if _is_setting(name, value)})
    for value in interpreter.entries(own).values():
        if isinstance(value, Container):
            if value.kind == "dict":
                value.kind = "config"
            if value.kind == "config":
                nest(interpreter, value)
            else:
                _nest_items(interpreter, value)
    merged = _merge_deleting(interpreter, base, own)
    return merged if isinstance(merged, Container) else None


def _nest_items(interpreter: Interpreter, value: Container, depth: int = 6) -> None:
    for item in interpreter.items(value) if value.kind in {"list", "tuple"} and depth else ():
        if isinstance(item, Container):
            if item.kind == "dict":
                item.kind = "config"
                nest(interpreter, item)
            _nest_items(interpreter, item, depth - 1)


def _is_setting(name: str, value: Value) -> bool:
    return not name.startswith("_") and not isinstance(value, (Function, Class, Module, Library, Bound))


def _bases(tree: ast.Module) -> list[str]:
    for statement in tree.body:
        if (
            isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and statement.targets[0].id == "_base_"
        ):
            given = statement.value.elts if isinstance(statement.value, (ast.List, ast.Tuple)) else [statement.value]
            return [str(each.value) for each in given if isinstance(each, ast.Constant)]
    return []


class _BaseNames(ast.NodeTransformer):
    """``{{_base_.x}}`` and ``{{'_base_.x'}}`` stand for a value of the base."""

    def visit_Set(self, node: ast.Set) -> ast.AST:
        """A set in a set."""
        inner = node.elts[0] if len(node.elts) == 1 else None
        if isinstance(inner, ast.Set) and len(inner.elts) == 1 and ast.unparse(inner.elts[0]).startswith("_base_"):
            return inner.elts[0]
        return self.generic_visit(node)


def _without_base(tree: ast.Module) -> list[ast.stmt]:
    kept = [
        statement
        for statement in tree.body
        if not (
            isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and statement.targets[0].id == "_base_"
        )
    ]
    if any(isinstance(node, ast.Set) for statement in kept for node in ast.walk(statement)):
        return [_BaseNames().visit(copy.deepcopy(statement)) for statement in kept]
    return kept


def follow_file(interpreter: Interpreter, path: str, body: list[ast.stmt], names: dict[str, Value]) -> dict[str, Value]:
    """The names of a file after its statements, apart from any module of that name."""
    from crashcart.readers.interpreter.interpreter import Frame

    source = interpreter.modules.source(path)
    if source is None:
        return {}
    module = Module(path, source)
    frame, interpreter.frame = interpreter.frame, Frame(source, module)
    try:
        interpreter.bind_global(module, "__file__", Constant(path))
        for name, value in names.items():
            interpreter.bind_global(module, name, value)
        interpreter.block(body)
    finally:
        interpreter.frame = frame
    known = interpreter.names.get(module, {})
    return {
        name: value
        for name in known
        if name not in names and isinstance(value := interpreter.store.get(module, name), Value)
    }


def _merge_deleting(interpreter: Interpreter, below: Value, above: Value, depth: int = 0) -> Value:
    """Mmengine's merge: ``_delete_=True`` replaces a dictionary instead of merging into it."""
    if (
        not (isinstance(below, Container) and isinstance(above, Container) and below.kind == above.kind == "config")
        or depth > _DEEPEST
    ):
        return _undeleted(interpreter, above)
    content = interpreter.items(above)
    if constant_of(content.get("_delete_")) is True:
        return _undeleted(interpreter, above)
    items = dict(interpreter.items(below))
    for key, value in content.items():
        items[key] = (
            _merge_deleting(interpreter, items[key], value, depth + 1) if key in items else _undeleted(interpreter, value)
        )
    is_open = bool(interpreter.store.get(below, "open") or interpreter.store.get(above, "open"))
    return interpreter.container("config", items, is_open=is_open)


def _undeleted(interpreter: Interpreter, value: Value) -> Value:
    if isinstance(value, Container) and value.kind == "config" and "_delete_" in interpreter.items(value):
        rest = {key: each for key, each in interpreter.items(value).items() if key != "_delete_"}
        interpreter.store.set(value, "items", rest)
    return value


@models("dict.merge_from_dict", "config.merge_from_dict")
def merge_from_dict(interpreter: Interpreter, call: Call) -> Value:
    """``cfg.merge_from_dict({"optimizer.lr": 0.1})``."""
    owner, given = call.receiver, call.argument(0, "options")
    if not isinstance(owner, Container):
        return NONE
    if not isinstance(given, Container) or given.kind not in {"dict", "config"}:
        if constant_of(given, call) is not None:
            interpreter.libraries.open_up(interpreter, owner)
        return NONE
    for key, value in interpreter.items(given).items():
        put(interpreter, owner, str(key).split("."), value)
    return NONE


def dict_action(interpreter: Interpreter, argument: Argument, value: Value, namespace: Container) -> None:
    """``--cfg-options a.b=1 c=[2,3]``."""
    items, complete = interpreter.listed(value)
    made = interpreter.container("dict", {}, is_open=not complete)
    before = interpreter.entries(namespace).get(argument.dest)
    if isinstance(before, Container) and before.kind == "dict":
        interpreter.update(made, before)
    for item in items:
        text = constant_of(item)
        if not isinstance(text, str) or "=" not in text:
            interpreter.libraries.open_up(interpreter, made)
            continue
        key, _, written = text.partition("=")
        fact = interpreter.launch.flags.get(key)
        origin = Constant(None, (fact,) if fact is not None else item.origins, direct=True)
        interpreter.set_item(made, Constant(key), from_plain(interpreter, _option_value(written), origin), None)
    interpreter.set_item(namespace, Constant(argument.dest), made, None)


ACTIONS["DictAction"] = dict_action


def _option_value(text: str) -> Any:  # noqa: ANN401 - data of a word
    text = text.strip("'\"")
    if "," not in text and not text.startswith(("[", "(")):
        word = plain_word(text)
        return None if text == "None" else text if text.lower() == "null" else word
    if text[:1] in "[(" and text[-1:] in "])":
        inner = text[1:-1]
        parts = [part for part in _outer_split(inner) if part.strip()]
        values = [_option_value(part.strip()) for part in parts]
        return tuple(values) if text[0] == "(" else values
    return [_option_value(part.strip()) for part in _outer_split(text)]


def _outer_split(text: str) -> list[str]:
    found, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth:
            found.append(text[start:position])
            start = position + 1
    return [*found, text[start:]]


# ---- detectron2


@models("detectron2.engine.default_argument_parser", "detectron2.engine.defaults.default_argument_parser")
def detectron_parser(interpreter: Interpreter, call: Call) -> Value:
    """The parser of detectron2's training scripts."""
    made: Value = make_parser(interpreter, call)
    spec = made.data if isinstance(made, Result) else ParserSpec()
    from crashcart.readers.interpreter.libraries.argparse_parser import Declaration

    zero, one = Constant(0), Constant(1)
    for names, options in (
        (["--config-file"], {"default": Constant("")}),
        (["--resume"], {"action": Constant("store_true")}),
        (["--eval-only"], {"action": Constant("store_true")}),
        (["--num-gpus"], {"type": Library("int"), "default": one}),
        (["--num-machines"], {"type": Library("int"), "default": one}),
        (["--machine-rank"], {"type": Library("int"), "default": zero}),
        (["--dist-url"], {"default": Unknown()}),
        (["opts"], {"nargs": Constant(argparse_remainder()), "default": NONE}),
    ):
        spec.arguments.append(Argument(names, Declaration(call, dict(options))))
    return made


def argparse_remainder() -> str:
    """All words that are left."""
    import argparse

    return argparse.REMAINDER


@models("detectron2.engine.launch", "detectron2.engine.launch.launch", "yolox.core.launch", "fvcore.launch")
def launch(interpreter: Interpreter, call: Call) -> Value:
    """``launch(main, gpus, args=(args,))``: main runs in each process."""
    main = call.argument(0, "main_func") or Unknown()
    given = call.argument(None, "args")
    if given is None and call.arguments and isinstance(call.arguments[-1], Container) and call.arguments[-1].kind == "tuple":
        given = call.arguments[-1]
    arguments = interpreter.listed(given)[0] if isinstance(given, Container) else []
    return interpreter.call(main, arguments, {}, call.node)


@models("accelerate.notebook_launcher", "accelerate.debug_launcher")
def notebook_launcher(interpreter: Interpreter, call: Call) -> Value:
    """``notebook_launcher(train, args)``."""
    given = call.argument(1, "args")
    arguments = interpreter.listed(given)[0] if isinstance(given, Container) else []
    return interpreter.call(call.argument(0, "function") or Unknown(), arguments, {}, call.node)


@models("submitit.AutoExecutor.submit", "submitit.LocalExecutor.submit", "submitit.SlurmExecutor.submit")
def submit(interpreter: Interpreter, call: Call) -> Value:
    """A function that runs as a job of its own."""
    if call.arguments:
        interpreter.call(call.arguments[0], list(call.arguments[1:]), call.keywords, call.node)
    return Result("submitit.Job", call)


@models("detectron2.config.LazyCall", "detectron2.config.lazy.LazyCall")
def lazy_call(_interpreter: Interpreter, call: Call) -> Value:
    """``L(Adam)``; called, it gives a config."""
    return Result("detectron2.config.LazyCall", call, data=call.argument(0))


@models("detectron2.config.LazyCall.__call__")
def make_lazy(interpreter: Interpreter, call: Call) -> Value:
    """A config with the function as its target."""
    target = call.receiver.data if isinstance(call.receiver, Result) else None
    made = interpreter.container(
        "config", {"_target_": target or Unknown(), **call.keywords}, call.node, is_open=not call.complete
    )
    nest(interpreter, made)
    return made


@models("detectron2.config.LazyConfig.load")
def load_lazy(interpreter: Interpreter, call: Call) -> Value:
    """A Python file whose names are the config."""
    path = path_text(call.argument(0, "filename"))
    found = find_config(interpreter, path) if path is not None else None
    source = interpreter.modules.source(found) if found is not None else None
    if source is None or found is None:
        return interpreter.container("config", {}, call.node, is_open=True)
    names = follow_file(interpreter, found, list(source.tree.body), {})
    made = interpreter.container("config", {name: value for name, value in names.items() if _is_setting(name, value)})
    nest(interpreter, made)
    return made


@models("detectron2.config.LazyConfig.apply_overrides")
def apply_overrides(interpreter: Interpreter, call: Call) -> Value:
    """``LazyConfig.apply_overrides(cfg, ["train.lr=0.1"])``."""
    from crashcart.readers.interpreter.libraries.hydra_config import Override, word_value

    config, given = call.argument(0, "cfg"), call.argument(1, "overrides")
    if isinstance(config, Container) and given is not None:
        for item in interpreter.listed(given)[0]:
            text = constant_of(item)
            if isinstance(text, str) and "=" in text:
                key, _, written = text.partition("=")
                value = word_value(interpreter, Override("", key, None, written, item), many=False)
                put(interpreter, config, key.split("."), value)
    return config if config is not None else Unknown()


@models("detectron2.config.instantiate")
def instantiate_lazy(interpreter: Interpreter, call: Call) -> Value:
    """Call the target of a lazy config."""
    return build(interpreter, call.argument(0) or Unknown(), call)


# ---- gin


@models("gin.configurable", "gin.register", "gin.external_configurable")
def configurable(_interpreter: Interpreter, call: Call) -> Value:
    """A function or class whose defaults come from bindings; with a name it is a decorator."""
    first = call.argument(0)
    return first if isinstance(first, (Function, Class)) else Result(call.name, call)


@models("@gin.configurable", "@gin.register")
def mark_configurable(interpreter: Interpreter, function: Value, decorator: Value, _node: ast.AST) -> Value:
    """``@gin.configurable``."""
    name = constant_of(decorator.argument(0, "name_or_fn")) if isinstance(decorator, Result) else None
    own = function.name if isinstance(function, (Function, Class)) else ""
    interpreter.store.set(function, "(gin)", Constant(name if isinstance(name, str) else own))
    known: dict[str, Value] = interpreter.store.get("gin", "(configurables)") or {}
    interpreter.store.set("gin", "(configurables)", {**known, str(name or own): function})
    return function


def bound_default(interpreter: Interpreter, function: Function, name: str) -> Value | None:
    """What a binding gives for a parameter that a call leaves out."""
    bindings: dict[str, Value] | None = interpreter.store.get("gin", "(bindings)")
    if not bindings:
        return None
    marked = interpreter.store.get(function, "(gin)")
    if marked is None and function.owner is not None and function.name == "__init__":
        marked = interpreter.store.get(function.owner, "(gin)")
    own = constant_of(marked)
    return bindings.get(f"{own}.{name}") if isinstance(own, str) else None


@models(
    "gin.parse_config_file",
    "gin.parse_config",
    "gin.parse_config_files_and_bindings",
    "gin.bind_parameter",
    "gin.add_config_file_search_path",
)
def parse_gin(interpreter: Interpreter, call: Call) -> Value:
    """Read bindings of files and of the command line."""
    found: dict[str, Value] = dict(interpreter.store.get("gin", "(bindings)") or {})
    if call.method == "bind_parameter":
        name = constant_of(call.argument(0))
        if isinstance(name, str):
            found[name] = call.argument(1) or Unknown()
    elif call.method == "parse_config":
        for text in _texts(interpreter, call.argument(0)):
            _read_gin(interpreter, text, found, Constant(None))
    elif call.method != "add_config_file_search_path":
        given = call.argument(0, "config_files") or call.argument(0, "config_file")
        for path in _texts(interpreter, given):
            _read_gin_file(interpreter, path, found, 0)
        for text in _texts(interpreter, call.argument(1, "bindings")) if call.method.endswith("bindings") else ():
            _read_gin(interpreter, text, found, Constant(None))
    interpreter.store.set("gin", "(bindings)", found)
    return NONE


def _texts(interpreter: Interpreter, value: Value | None) -> list[str]:
    items = interpreter.listed(value)[0] if isinstance(value, Container) else [value] if value is not None else []
    return [text for item in items if isinstance(text := constant_of(item), str)]


def _read_gin_file(interpreter: Interpreter, path: str, found: dict[str, Value], depth: int) -> None:
    place = find_config(interpreter, path)
    if place is None or depth > _DEEPEST:
        return
    try:
        text = text_of(place)
    except CommandError:
        return
    from crashcart.model import Evidence, Fact

    for line, number in _logical_lines(text):
        if line.startswith("include"):
            _read_gin_file(interpreter, line.removeprefix("include").strip().strip("'\""), found, depth + 1)
        else:
            fact = Fact(
                "config.gin",
                None,
                Evidence("config", line[:200], f"{place}:{number}"),
                "file",
                line.partition("=")[0].strip(),
            )
            _read_gin(interpreter, line, found, Constant(None, (fact,), direct=True))


def _logical_lines(text: str) -> list[tuple[str, int]]:
    """Lines of a gin file without comments; an open bracket goes on to the next."""
    found: list[tuple[str, int]] = []
    waiting, start = "", 0
    for number, raw in enumerate(text.splitlines()[: _MOST_BINDINGS * 4], 1):
        line = raw.partition("#")[0].rstrip()
        if not waiting:
            start = number
        waiting = f"{waiting} {line}".strip().removesuffix("\\").strip()
        if waiting and sum(map(waiting.count, "([{")) <= sum(map(waiting.count, ")]}")):
            found.append((waiting, start))
            waiting = ""
    return found


def _read_gin(interpreter: Interpreter, text: str, found: dict[str, Value], origin: Constant) -> None:
    for line in text.splitlines():
        match = _BINDING.fullmatch(line)
        if match is None or len(found) > _MOST_BINDINGS:
            continue
        key, written = match[1], match[2].strip()
        name = key.rpartition("/")[2]
        parts = name.split(".")
        short = ".".join(parts[-2:])
        found[short] = _gin_value(interpreter, written, found, origin)


def _gin_value(interpreter: Interpreter, text: str, found: dict[str, Value], origin: Constant) -> Value:
    if text.startswith("%"):
        return found.get(text[1:].rpartition("/")[2], Unknown())
    if text.startswith("@"):
        name = text[1:].removesuffix("()").rpartition("/")[2]
        known: dict[str, Value] = interpreter.store.get("gin", "(configurables)") or {}
        function = known.get(name.rpartition(".")[2]) or known.get(name)
        if function is None:
            function = resolve_target(interpreter, Constant(name)) if "." in name else None
        if function is None:
            return Unknown()
        return Result("gin.reference", None, data=function) if text.endswith("()") else function
    try:
        return from_plain(interpreter, ast.literal_eval(text), origin)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return unknown_from(origin)


def gin_given(interpreter: Interpreter, value: Value, node: ast.AST) -> Value:
    """A bound value when it is used: ``@width()`` is called then."""
    if isinstance(value, Result) and value.name == "gin.reference" and isinstance(value.data, Value):
        return interpreter.call(value.data, [], {}, node)
    return value


@models(
    "gin.REQUIRED",
    "gin.clear_config",
    "gin.finalize",
    "gin.unlock_config",
    "gin.constant",
    "gin.config_scope",
    "gin.operative_config_str",
)
def ignored(_interpreter: Interpreter, call: Call) -> Value:
    """Nothing that is followed."""
    return Result(call.name, call)
