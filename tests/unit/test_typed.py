"""Type checkers and editors see what the package offers."""

from __future__ import annotations

import ast
from pathlib import Path

import crashcart
import crashcart.train

HERE = Path(crashcart.__file__).parent


def test_the_package_says_that_it_is_typed() -> None:
    assert (HERE / "py.typed").is_file()


def test_every_piece_of_the_library_is_named_for_type_checkers_too() -> None:
    source = (HERE / "train" / "__init__.py").read_text(encoding="utf-8")
    named = {
        alias.asname for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert named - {None, "annotations"} == set(crashcart.train.__all__)


def test_help_tells_what_to_write() -> None:
    for name in crashcart.train.__all__:
        told = getattr(crashcart.train, name).__doc__
        assert told, name
        assert "docs/" not in told, f"{name}: an installed package has no docs folder"
