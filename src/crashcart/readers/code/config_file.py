"""The config files that the code itself names: what it opens by a fixed name, and what Hydra is told to compose."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from crashcart.readers.code.source import keyword, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

NAMED = re.compile(r"[\w./-]+\.(?:ya?ml|toml)|[\w./-]{0,200}(?:conf|cfg|param)[\w./-]{0,40}\.json")
CONFIG = re.compile(r"c(?:on)?f(?:i)?g|conf|param|setting|opt|exp")
WRITING = re.compile(
    r"(?i)dump|save|write|copy|rename|remove|unlink|print|log|warn|error|exists|is_?file|endswith|download|upload"
)


def look(program: Program) -> Iterator[Fact]:
    """``code.config_file``: its name, at the text. ``code.hydra``: path and name, and the flag that gives the name.

    ``code.config_module``: a module whose name comes from outside is imported: ``cfg = importlib.import_module(sys.argv[1])``.
    ``code.hydra_store``: configs that are in no file.
    """
    for source in program.sources:
        for call in source.calls("importlib.import_module", "__import__"):
            above = getattr(call, "parent", None)
            names = [name_of(one).lower() for one in above.targets] if isinstance(above, ast.Assign) else []
            if call.args and not isinstance(call.args[0], ast.Constant) and any(CONFIG.search(name) for name in names):
                yield source.fact("code.config_module", source.written(call.args[0]), call)
        yield from _hydra(source)
        for call in source.calls("ConfigStore.instance", "hydra.plugins.SearchPathPlugin"):
            yield source.fact("code.hydra_store", value=True, node=call)
        for text in source.nodes(ast.Constant):
            if isinstance(text.value, str) and NAMED.fullmatch(text.value) and _is_read(text):
                yield source.fact("code.config_file", text.value, text)


def _is_read(text: ast.Constant) -> bool:
    above = getattr(text, "parent", None)
    if isinstance(above, ast.Call):
        return not WRITING.search(name_of(above.func).rpartition(".")[2])
    if isinstance(above, ast.Assign):
        return any(re.search(r"(?i)conf|cfg|yaml|path", name_of(target)) for target in above.targets)
    return isinstance(above, ast.arguments) or (isinstance(above, ast.BinOp) and isinstance(above.op, ast.Div))


def _hydra(source: Source) -> Iterator[Fact]:
    for call in source.calls("hydra.main"):
        path, name = _text(keyword(call, "config_path", 0)), _text(keyword(call, "config_name", 1))
        yield source.fact("code.hydra", {"path": path if path is not None else ".", "name": name, "main": True}, call)
    paths = [keyword(call, "config_path", 0) for call in source.calls("hydra.initialize", "hydra.experimental.initialize")]
    for call in source.calls("hydra.compose", "hydra.experimental.compose"):
        named = keyword(call, "config_name", 0)
        value: dict[str, Any] = {"path": next((_text(path) for path in paths if path), "."), "name": _text(named)}
        if isinstance(named, ast.Attribute):
            value["argument"] = named.attr
            value["name"] = _default(source, named.attr)
        yield source.fact("code.hydra", value, call)


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _default(source: Source, flag: str) -> str | None:
    """The default of the flag that gives the name."""
    for call in source.calls("add_argument"):
        names = [_text(one) or "" for one in call.args]
        if flag in {name.lstrip("-").replace("-", "_") for name in names}:
            return _text(keyword(call, "default"))
    return None
