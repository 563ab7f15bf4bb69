"""Kinds of failures whose repair is under way elsewhere. Delete this file, and what imports it, when those repairs are in."""

from __future__ import annotations

from fnmatch import fnmatchcase

__all__ = ["WAITING", "is_waiting"]

WAITING = (
    # Text from outside that becomes a number.
    "error:ValueError@*",
    "error:OverflowError@*",
    "schema:$.runs[[]N[]].started: 'inf' *",
    "schema:$.runs[[]N[]].started: 'nan' *",
    "schema:$.runs[[]N[]].ended: 'inf' *",
    "schema:$.runs[[]N[]].ended: 'nan' *",
    "error:AttributeError@readers/job/config.py:*",
    "error:KeyError@readers/job/config.py:*",
    # Regular files only, bounded reading and depth; run folders never written through links.
    "hang",
    "memory",
    "overwritten",
    "worker died: -11",
    # Secrets, terminal escapes, surrogates in file names.
    "secret:*",
    "control:*",
    "error:UnicodeEncodeError@*",
    # Patterns that are not linear.
    "slow@*",
)


def is_waiting(key: str) -> bool:
    """Whether a kind of failure is known and waits for its repair."""
    return any(fnmatchcase(key, pattern) for pattern in WAITING)
