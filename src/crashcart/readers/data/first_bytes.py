"""What a file is by its first bytes: a Git LFS pointer, a web page, nothing at all."""

from __future__ import annotations

import os

from crashcart.regular_files import read_start

__all__ = ["stand_in"]

_POINTER = b"version https://git-lfs.github.com/spec"
_PAGES = (b"<!doctype html", b"<html", b'<?xml version="1.0" encoding="utf-8"?><error', b"<head")
_LARGEST = 1 << 20


def stand_in(path: str, size: int) -> str:
    """``empty``, ``pointer`` or ``page``; nothing where the file may be what its name says."""
    if size == 0:
        return "empty"
    if size > _LARGEST:
        return ""
    try:
        head = read_start(path, 200).lstrip()
    except OSError:
        return ""
    if head.startswith(_POINTER):
        return "pointer"
    page = head.lower().startswith(_PAGES)
    return (
        "page" if page and os.path.splitext(path)[1].lower() not in {".html", ".htm", ".xml", ".svg", ".txt", ".md"} else ""
    )
