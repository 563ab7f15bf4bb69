"""Settings whose value is a word and should be nothing, or no word and should be one, for a program that asks for that.

``resume: None`` is true, ``compile: "False"`` is true, ``mode: on`` is True and equals no word, ``12:30:00`` is a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.causes.config._sections import key_of, meets, same_section, squeezed

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.model import Fact, Strength

__all__ = ["as_word"]

# The strength, the sentence, where it matters, and what to write instead.
Word = tuple["Strength", str, "Fact | None", "str | None"]
FALSE = frozenset({"false", "no", "off"})
CHECKPOINT = r"(?i)resume|ckpt|checkpoint|pretrain|weights|load|init|restore"
# These convert by types of their own.
TYPED = frozenset({"typed", "jsonargparse", "yacs"})


def as_word(case: Case, fact: Fact, loader: str, *, known: bool) -> Word | None:
    """What a value is for a program that asks for a word or a truth; None where that is no matter. ``known``: a number."""
    if loader in TYPED or fact.value is None:
        return None
    if isinstance(fact.value, str):
        if fact.value in {"None", "none"}:
            return _nothing(case, fact, known=known)
        return _false_text(case, fact)
    if isinstance(fact.value, (bool, int, float)):
        return _no_word(case, fact)
    return None


def _nothing(case: Case, fact: Fact, *, known: bool) -> Word | None:
    """``resume: None`` is a text of four letters in every loader, and true."""
    if _uses(case, fact, "code.setting_word") or _is_handled(case, fact):
        return None
    asked = next(iter(_uses(case, fact, "code.setting_asked")), None)
    path = fact.name == "resume.path" or compiled(CHECKPOINT).search(fact.spelling.rpartition(".")[2]) is not None
    if asked is not None and path:
        told = f"{fact.spelling} is the text 'None', which is not nothing: the program looks for a checkpoint of that name"
        return "decisive", told, asked, "null"
    if fact.name == "resume.path":
        told = f"{fact.spelling} is the text 'None', which is true: the program can look for a checkpoint of that name"
        return "strong", told, None, "null"
    if asked is not None or known or fact.name in {"train.clip", "loader.context", "distributed.config_path"}:
        return "weak", f"{fact.spelling} is the text 'None', not nothing", asked, "null"
    return None


def _false_text(case: Case, fact: Fact) -> Word | None:
    """A text that says no, and is true."""
    asked = [one for one in _uses(case, fact, "code.setting_asked") if one.value["truth"]]
    if str(fact.value).lower() not in FALSE or not asked:
        return None
    if _uses(case, fact, "code.setting_word") or _is_handled(case, fact):
        return None
    return "decisive", f"{fact.spelling} is the text {fact.value!r}, which is true", asked[0], "false"


def _no_word(case: Case, fact: Fact) -> Word | None:
    """A switch or a number where the program wants a word."""
    if _is_handled(case, fact):
        return None
    if isinstance(fact.value, bool):
        found = compiled(r":\s*(?P<word>no|off|yes|on)\s*(?:#.{0,200})?$").search(fact.evidence.quote.lower())
        for use in _uses(case, fact, "code.setting_word") if found else ():
            if found is not None and use.value["how"] == "plain" and found["word"] in map(str, use.value["words"]):
                told = f"{fact.spelling} is {fact.value} for the program, and never the word {found['word']!r}"
                return "decisive", told, use, f'"{found["word"]}"'
    for use in _uses(case, fact, "code.setting_method"):  # asked first: a config may hold 20,000 values
        if any(isinstance(one.value, str) and key_of(one) == key_of(fact) for group in case.seen.values() for one in group):
            return None
        told = f"{fact.spelling} is {fact.value!r} for the program and no text: it has no {use.value['method']}()"
        return "decisive", told, use, _quoted(fact)
    return None


def _quoted(fact: Fact) -> str | None:
    """The value as it is written, as text."""
    written = compiled(r":\s{0,20}(?P<text>[^\s#]{1,200})\s{0,20}(?:#.{0,200})?$").search(fact.evidence.quote)
    return f'"{written["text"]}"' if written is not None else None


def _uses(case: Case, fact: Fact, name: str) -> list[Fact]:
    key = key_of(fact)
    return [use for use in case.all(name) if squeezed(str(use.value["key"])) == key and same_section(case, use, fact)]


def _is_handled(case: Case, fact: Fact) -> bool:
    """Whether the program looks at the kind of the value itself."""
    by = {"isinstance", "eval", "literal_eval", "safe_load", "yaml.safe_load", "ast.literal_eval"}
    return any(one.value["by"] in by and meets(one.value["key"], key_of(fact)) for one in case.all("code.setting_converted"))
