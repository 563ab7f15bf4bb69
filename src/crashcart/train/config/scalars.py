"""What a plain word of YAML stands for: the answer of PyYAML where that was right.

1e-4  1E5  1.0e4  -.5       numbers, as YAML 1.2, JSON and Python have it; strings for PyYAML, which wants 1.0e-4 and 1.0e+4
0o17                        15; a string for PyYAML
010  08                     10 and 8, as YAML 1.2 has it; 8 and a string for PyYAML. The first is told
1:30                        a string; 90 for PyYAML
1_000  0x1F  0b11  yes  off  2024-01-01        1000, 31, 3, True, False, a date: as PyYAML
None  nan  inf              strings, as in every loader of YAML, and told: null, .nan and .inf are meant
"""

from __future__ import annotations

import datetime as dt
import math
import re

__all__ = ["note_on", "plain"]

_TRUE = ("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON")
_FALSE = ("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF")
_WORDS: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **{sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
}
_FIRST = frozenset("-+.0123456789")
_INT = re.compile(r"[-+]?[0-9][0-9_]*")
_BASED = re.compile(r"[-+]?0(?:o[0-7][0-7_]*|x_*[0-9a-fA-F][0-9a-fA-F_]*|b_*[01][01_]*)")
# YAML 1.2, and what PyYAML takes besides.
_FLOAT = re.compile(
    r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    r"|(?:[-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?"
)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?"
    r"(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?"
)
_OCTAL = re.compile(r"[-+]?0[0_]*[1-7][0-7_]*")
_MEANT = {
    "none": "null",
    "nan": ".nan",
    "inf": ".inf",
    "+inf": ".inf",
    "-inf": "-.inf",
    "infinity": ".inf",
    "-infinity": "-.inf",
}
_COMMENT = re.compile(r"[-+]?[.0-9][-+.0-9eE_]*#.*", re.DOTALL)


def plain(text: str) -> object:
    """The value of a word without quotes; an integer that is too long for Python raises ValueError."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _FIRST:
        return text
    if _INT.fullmatch(text):
        return int(text.replace("_", ""))
    if _BASED.fullmatch(text):
        return int(text.replace("_", ""), 0)
    if _FLOAT.fullmatch(text):
        number = float(text.replace("_", ""))
        return text if math.isinf(number) else number  # 6e2158 begins a commit
    return _moment(text)


def note_on(text: str) -> str | None:
    """What a reader should know about a word that is read otherwise than it looks."""
    meant = _MEANT.get(text.lower())
    if meant:
        return f"{text} is a string in YAML; write {meant}, or quotes around it if you mean the word."
    digits = text.replace("_", "")
    if _OCTAL.fullmatch(text) and int(digits, 10) != int(digits, 8):
        return (
            f"{text} is read as {int(digits, 10)}; PyYAML reads {int(digits, 8)}. "
            f"Write 0o{digits.lstrip('-+0')} for the latter."
        )
    if _FLOAT.fullmatch(text) and math.isinf(float(text.replace("_", ""))):
        return f"{text} is larger than any float and stays a string; put it in quotes, or write .inf."
    if _COMMENT.fullmatch(text):
        return f"{text} is a string: a comment needs a space before #."
    return None


def _moment(text: str) -> object:
    """A date or a time as PyYAML gives it; what only looks like one is a string."""
    date = _DATE.fullmatch(text)
    try:
        if date:
            return dt.date(int(date[1]), int(date[2]), int(date[3]))
        if _TIME.fullmatch(text):
            from yaml import ScalarNode
            from yaml.constructor import SafeConstructor

            return SafeConstructor().construct_yaml_timestamp(ScalarNode("tag:yaml.org,2002:timestamp", text))
    except ValueError:
        return text
    return text
