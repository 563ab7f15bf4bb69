"""How the code makes the name of a config file out of a word: ``f"{name}.yaml"``, ``"configs/" + name + ".yaml"``.

A launch then says ``--config lora_b``, and no argument of it ends as a config file does.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code.source import name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program

HOLE = "{}"
MADE = re.compile(r"[\w./-]*\{\}\.(?:ya?ml|json|toml)")
ENDS = re.compile(r"\.(?:ya?ml|json|toml)\b")
FIELD = re.compile(r"%s|\{\w*\}")
# Keys by which a config file names those that it builds upon.
PARENTS = ("defaults", "_base_", "base", "_parent_", "parent", "parents", "inherit", "inherits", "inherit_from", "extends")


def look(program: Program) -> Iterator[Fact]:
    """``code.config_template``: the name with ``{}`` for the word. ``code.config_parents``: the key of the files below a file."""
    by_yaml = program.imports("yaml")
    for source in program.sources:
        if not ENDS.search(source.text):
            continue
        for node in (*source.nodes(ast.JoinedStr, ast.BinOp), *source.calls("format")):
            if isinstance(parent(node), ast.BinOp) or _is_written(node):
                continue
            made = _template(node)
            if MADE.fullmatch(made):
                yield source.fact("code.config_template", made, node)
    for source in program.sources if by_yaml else ():
        for text in source.nodes(ast.Constant):
            if isinstance(text.value, str) and text.value in PARENTS and _is_asked(text):
                yield source.fact("code.config_parents", text.value, text)


def _is_written(node: ast.expr) -> bool:
    """``open(f"{name}.yaml", "w")``: the name of what the program leaves behind."""
    above = parent(node)
    modes = [*above.args[1:2], *(one.value for one in above.keywords)] if isinstance(above, ast.Call) else []
    return any(isinstance(one, ast.Constant) and str(one.value)[:1] in {"w", "a", "x"} for one in modes)


def _is_asked(text: ast.Constant) -> bool:
    """``cfg.pop("defaults", [])``, ``cfg["_base_"]``, ``"base" in cfg``."""
    above = parent(text)
    if isinstance(above, ast.Call):
        return name_of(above.func).rpartition(".")[2] in {"pop", "get"}
    return isinstance(above, (ast.Subscript, ast.Compare))


def _template(node: ast.expr) -> str:
    """The text of an expression with a hole for each name in it; empty where it is more than that."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(one) for one in node.values)
    if isinstance(node, (ast.FormattedValue, ast.Name, ast.Attribute, ast.Subscript)):
        return HOLE
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left) + _template(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return FIELD.sub(HOLE, str(node.left.value))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return FIELD.sub(HOLE, _template(node.func.value))
    return ""
