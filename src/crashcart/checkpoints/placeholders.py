"""Files that stand where a checkpoint should be and are something else.

A clone without git-lfs leaves a pointer of 130 bytes, a download behind a login leaves a web page, a bucket without
rights leaves an XML or JSON error, a full disk or a killed save leaves nothing or zeros:

    version https://git-lfs.github.com/spec/v1
    oid sha256:4d7a2146...
    size 4265380512
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.model import Problem, in_words
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from crashcart.checkpoints.spans import Span

HEAD_BYTES: Final = 4096
_LFS: Final = b"version https://git-lfs.github.com/spec/"
_LFS_SIZE: Final = re.compile(rb"^size (\d{1,15})\s*$", re.MULTILINE)
_WEB_PAGE: Final = re.compile(rb"\s*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_XML: Final = re.compile(rb"\s*<(\?xml|Error>)")
_JSON: Final = re.compile(rb'\s*\{\s*"')


def placeholder(span: Span) -> Problem | None:
    """Say what stands there instead of a checkpoint, if something does."""
    if span.size == 0:
        return Problem("broken", "the file is empty (0 bytes)")
    head = span.at(0, min(HEAD_BYTES, span.size))
    says = _text(head, span.size) or _zeros(head, span)
    return Problem("broken", says) if says else None


def _text(head: bytes, size: int) -> str | None:
    if head.startswith(_LFS):
        found = _LFS_SIZE.search(head)
        real = f" of {in_words(to_int(found.group(1), 0))}" if found else ""
        return f"a Git LFS pointer ({size} bytes), not the file{real}: run `git lfs pull`"
    if _WEB_PAGE.match(head):
        return f"a web page ({in_words(size)}), not a checkpoint: the download was answered by a page"
    if _XML.match(head):
        return f"an XML answer ({in_words(size)}), not a checkpoint: the download was refused"
    if _JSON.match(head):
        return f"JSON text ({in_words(size)}), not a checkpoint: perhaps the error message of a download"
    return None


def _zeros(head: bytes, span: Span) -> str | None:
    if any(head):
        return None
    if span.size <= len(head) or not any(span.at(span.size - len(head), len(head))):
        return f"all zeros at its beginning and its end ({in_words(span.size)}): the data never reached the disk"
    return "begins with zeros: its first page never reached the disk"
