"""The first words of the command line, without secrets."""

from __future__ import annotations

import sys

_NAMES = ("key", "token", "secret", "passw", "credential")
_FORMS = ("hf_", "sk-", "ghp_", "gho_", "github_pat_", "glpat-", "AKIA", "ASIA", "wandb_v1_", "xox", "nvapi-", "AIza", "eyJ")
_HIDDEN = "[hidden]"


def shown() -> list[str]:
    """At most four, each cut at 200 characters."""
    words: list[str] = []
    secret_follows = False
    for word in [str(word) for word in getattr(sys, "argv", [])[:4]]:
        name, equals, value = word.partition("=")
        named = any(part in name.lower() for part in _NAMES)
        if secret_follows and not word.startswith("-"):
            words.append(_HIDDEN)
        elif named and equals:
            words.append(name + "=" + _HIDDEN)
        elif any(form in word for form in _FORMS) or ("://" in word and "@" in word) or _like_a_key(value or word):
            words.append(_HIDDEN)
        else:
            words.append(word[:200])
        secret_follows = named and not equals and word.startswith("-")
    return words


def _like_a_key(word: str) -> bool:
    return len(word) == 40 and all(letter in "0123456789abcdef" for letter in word)
