"""Keeps secrets and terminal tricks out of everything that is shown or written.

Logs, commands and environments hold keys: a report gets pasted into public issues. Known token forms are replaced wherever
they stand, and so is whatever follows a name such as ``--api_key`` or ``password:``. A bare run of 40 hexadecimal digits may be
a wandb key, so it goes too, unless a word beside it says that it is a commit.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from crashcart.record import names_of, replace

__all__ = ["clean", "clean_all"]

HIDDEN = "[hidden]"
_TOKENS = re.compile(
    r"wandb_v1_\w{20,}|\bhf_[A-Za-z0-9]{16,}|\bapi_org_[A-Za-z0-9]{16,}|\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{12,20}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bsk-[A-Za-z0-9_-]{16,}|\bxox[abprs]-[\w-]{10,}"
    r"|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}|\bnpm_[A-Za-z0-9]{20,}|\bpypi-[\w-]{20,}|\bnvapi-[\w-]{16,}"
)
_NAMED = re.compile(
    r"(?P<name>(?:\b|_|--?)(?:[\w.-]{0,80}?(?:api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?\w{0,40})?|auth[_-]?token|passw(?:or)?d|passwd"
    r"|[_-]token|hf_token|private[_-]?key|credentials?)|token))(?P<between>[\"']?\s{0,2}(?::|=>|=)\s{0,2}[\"']?)"
    r"(?P<value>[^\s\"',;&}\])]{6,})",
    re.IGNORECASE,
)
_FLAG = re.compile(
    r"(?P<name>--?[\w.-]{0,80}(?:key|token|secret|passw(?:or)?d|passwd|credentials?))(?P<between>\s+[\"']?)(?P<value>[^\s\"'-][^\s\"']{5,})",
    re.IGNORECASE,
)
_BEARER = re.compile(
    r"\b(?P<name>Bearer|Basic|Authorization:|wandb login(?: --relogin)?|--token|netrc password)\s+(?P<value>[\w.~+/=-]{8,})",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]{0,30}://)[^\s/@:]+:[^\s/@]+@")
_HEX = re.compile(r"(?<![0-9a-fA-F])(?:local-)?[0-9a-f]{40}(?![0-9a-fA-F])")
_COMMIT = re.compile(r"(?:commit|revision|sha1?|git|hash|snapshots?/|rev|HEAD)\W{0,12}$", re.IGNORECASE)
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL)
_NOT_SECRET = re.compile(
    r"(?:none|null|true|false|[\d.,:]+|\*+|tokens?|bos|eos|pad\w*|<[^>]*>|\[\w+\]|\$\{?\w+\}?|\d+[kmb]?|max_\w+|num_\w+)[.:,;]*$",
    re.IGNORECASE,
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
_COUNTS = re.compile(
    r"(?:max|num|n|total|new|per|input|output|pad|eos|bos|unk|mask|special|added|prompt|train|tokens?)[_-]*token$",
    re.IGNORECASE,
)

Plain = TypeVar("Plain")


def clean(text: str) -> str:
    """The text without secrets and control characters."""
    if _CONTROLS.search(text):
        text = _CONTROLS.sub("", text)
    text = _KEY_BLOCK.sub(HIDDEN, text)
    text = _TOKENS.sub(HIDDEN, text)
    text = _BEARER.sub(lambda match: f"{match['name']} {HIDDEN}", text)
    text = _NAMED.sub(_named, _FLAG.sub(_named, text))
    text = _ADDRESS.sub(lambda match: f"{match['scheme']}{HIDDEN}@", text)
    return _HEX.sub(lambda match: match[0] if _COMMIT.search(text[: match.start()][-24:]) else HIDDEN, text)


def _named(match: re.Match[str]) -> str:
    if _NOT_SECRET.match(match["value"]) or _COUNTS.search(match["name"]):
        return match[0]
    return f"{match['name']}{match['between']}{HIDDEN}"


def clean_all(value: Plain) -> Plain:
    """The same data with every text in it cleaned: records, tuples, lists and dictionaries all the way down."""
    return _walk(value)  # type: ignore[no-any-return]


def _walk(value: Any) -> Any:  # noqa: ANN401 - any plain data
    if isinstance(value, str):
        return clean(value)
    names = names_of(value)
    if names is not None:
        return replace(value, **{name: _walk(getattr(value, name)) for name in names})
    if isinstance(value, (tuple, list)):
        return type(value)(_walk(item) for item in value)
    if isinstance(value, dict):
        return {_walk(key): _walk(item) for key, item in value.items()}
    return value
