"""The text of a config and its lines; the one error that is raised about it."""

from __future__ import annotations

import codecs
import os
import re
from typing import IO, Any, NamedTuple

__all__ = ["Source", "YamlError", "read"]

_BREAKS = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_NOT_TEXT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SUFFIXES = (".yaml", ".yml", ".json")
# The longer mark first: that of UTF-16 begins that of UTF-32.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class YamlError(ValueError):
    """What is wrong with a config, where (line and column count from 1), and the line as it stands."""

    def __init__(self, reason: str, file: str, line: int, column: int, text: str, more: str = "") -> None:
        super().__init__(reason, file, line, column, text, more)
        self.reason, self.file, self.line, self.column, self.text, self.more = reason, file, line, column, text, more

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: "
        shown = f"\n    {self.text}" if self.text else ""
        return f"{place}{self.reason}{shown}" + (f"\n{self.more}" if self.more else "")


class Source(NamedTuple):
    """A text, and how it is called in messages; `is_argument` for a string that may have been meant as a name."""

    name: str
    text: str
    is_argument: bool = False

    def error(self, reason: str, line: int, column: int) -> YamlError:
        """An error at a place that is counted from 0, as PyYAML does."""
        lines = _BREAKS.split(self.text)
        shown = lines[line].strip() if line < len(lines) else ""
        return YamlError(reason, self.name, line + 1, column + 1, shown[:200])


def read(source: str | os.PathLike[str] | bytes | IO[Any]) -> Source:
    """Take a path, text, bytes or an open file."""
    if isinstance(source, os.PathLike) or (isinstance(source, str) and _is_path(source)):
        path = os.fspath(source)
        with open(path, "rb") as file:
            return _checked(path, file.read())
    if isinstance(source, (bytes, bytearray)):
        return _checked("<bytes>", bytes(source))
    if isinstance(source, str):
        return _checked("<text>", source)._replace(is_argument="\n" not in source)
    if hasattr(source, "read"):
        return _checked(str(getattr(source, "name", "<file>")), source.read())
    raise TypeError(f"load_yaml takes a path, text or an open file, not {type(source).__name__}.")


def _is_path(given: str) -> bool:
    if "\n" in given or "\0" in given:
        return False
    looks_so = given.lower().endswith(_SUFFIXES) and not re.search(r":\s|^\s*[\[{]", given)
    return looks_so or os.path.exists(given)  # a folder too: to open it tells what it is


def _checked(name: str, content: str | bytes) -> Source:
    text = content if isinstance(content, str) else _decoded(name, content)
    given = Source(name, text.removeprefix("\ufeff"))
    wrong = _NOT_TEXT.search(given.text)
    if wrong:
        before = _BREAKS.split(given.text[: wrong.start()])
        says = f"the character U+{ord(wrong[0]):04X} is not allowed in YAML"
        raise given.error(says, len(before) - 1, len(before[-1]))
    return given


def _decoded(name: str, content: bytes) -> str:
    encoding = next((encoding for mark, encoding in _MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as problem:
        before = _BREAKS.split(content[: problem.start].decode(encoding, "replace"))
        given = Source(name, content.decode(encoding, "replace"))
        says = f"the file is not {encoding.upper()}: byte 0x{content[problem.start]:02x} cannot be read; save it as UTF-8"
        raise given.error(says, len(before) - 1, len(before[-1])) from None
