"""In which letters a Python file is written: by its byte order mark or its coding line (PEP 263), else UTF-8.

Reader and patch must agree on it: a place in a file is counted in characters, and two bytes that are one letter in UTF-8 are two
in Latin-1.
"""

from __future__ import annotations

import codecs
import re

from crashcart.regular_files import read_start

__all__ = ["UnknownEncodingError", "encoding_of", "encoding_of_file"]

MARK = b"\xef\xbb\xbf"
COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
BLANK = re.compile(rb"[ \t\f]*(?:#.*|\r)?\n?")
_HEAD = 4096


class UnknownEncodingError(SyntaxError):
    """A coding line that Python itself refuses."""


def encoding_of(data: bytes) -> str:
    """The encoding of a Python file from its first two lines, for reading and for writing it again."""
    if data.startswith(MARK):
        return "utf-8-sig"
    first, second = [*data[:_HEAD].split(b"\n", 2), b"", b""][:2]
    lines = [first, second] if BLANK.fullmatch(first) else [first]
    found = next((match for line in lines if (match := COOKIE.match(line))), None)
    if found is None:
        return "utf-8"
    name = found[1].decode("ascii")
    try:
        known = codecs.lookup(name)
    except LookupError:
        raise UnknownEncodingError(f"unknown encoding: {name}") from None
    return known.name if getattr(known, "_is_text_encoding", True) else "utf-8"


def encoding_of_file(path: str) -> str:
    """The same for a file, UTF-8 where it is no Python or its coding line names nothing."""
    if not path.endswith(".py"):
        return "utf-8"
    try:
        return encoding_of(read_start(path, _HEAD))
    except UnknownEncodingError:
        return "utf-8"
