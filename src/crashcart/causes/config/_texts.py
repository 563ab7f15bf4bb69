"""Settings that are not what they look like once their loader has read them: text for a number, 8 for 010, true for None.

The same line is deadly under PyYAML and harmless under OmegaConf. Where the program was followed, what it does with the value
decides. Where it was not, or does not read the file, what the value looks like is told with its condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.causes.config._spelling import ODD, as_number, as_plain
from crashcart.numbers import to_int
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Edit, Evidence, Fact, Strength

__all__ = ["Misread", "as_number", "failing", "misread"]

NUMBER = r"[+-]?(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?"
GLUED = rf"(?P<number>{NUMBER})(?P<rest>#.*|,)"
EXPONENT = r"[^'\"]{0,200}[:,\[-]\s{0,20}[+-]?\d[\d.]{0,20}[eE][+-]?\d{1,9}\s*(?:[,\]#].*)?"
NUMERIC = frozenset({
    "train.batch_size", "train.global_batch_size", "train.accumulation", "train.max_steps", "train.epochs",
    "train.learning_rate", "train.warmup", "train.warmup_ratio", "train.sequence_length", "train.seed", "eval.batch_size",
    "eval.period", "sample.batch_size", "sample.period", "save.period", "log.period", "loader.workers", "loader.prefetch",
    "data.chunk",
})  # fmt: skip
WORDS = frozenset({"train.precision", "save.strategy", "eval.strategy", "distributed.kind", "tracker.mode"})
NOTHING = frozenset({*NUMERIC, "train.clip", "loader.context", "distributed.config_path"})  # where no value is a value
TEXT_LOADERS = frozenset({"pyyaml", "huggingface", "strictyaml", "mmengine", "json"})
INFINITE = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}


@record(frozen=True)
class Misread:
    """One setting, how sure it is that it kills the job, what it is for the program, and what to write or to change instead."""

    fact: Fact | None
    strength: Strength
    says: str
    places: tuple[Evidence, ...] = ()
    instead: str | None = None
    edits: tuple[Edit, ...] = ()  # of the code, where the value comes from outside


def misread(case: Case) -> Iterator[Misread]:
    """Every setting of the job that the program will not get as it was meant."""
    used = str(case.facts["config.loader"].value) if "config.loader" in case.facts else ""
    claimed: set[tuple[str, str]] = set()
    for found in (*failing(case), *_as_words(case)):
        if found.fact is not None:
            claimed.add((found.fact.evidence.where, found.fact.spelling))
        yield found
    if not used and "launch.kind" in case.facts and case.facts["launch.kind"].value == "program":
        return  # an installed program (llamafactory-cli, tune) knows how to read its own configs
    for fact in _written(case):
        is_yaml = fact.span is not None and fact.span.file.endswith((".yaml", ".yml"))
        if (fact.evidence.where, fact.spelling) not in claimed:
            yield from _by_looks(case, fact, used if is_yaml else "json")


def failing(case: Case) -> Iterator[Misread]:
    """Settings with which the program raises, as it was followed."""
    for fact in case.all("code.setting_fails"):
        setting: Fact | None = fact.value["setting"]
        says, edits = fact.value["says"] or "the program ends itself there", tuple(fact.value["edits"])
        if setting is None:
            told = f"the program reads the variable {fact.value['name']} as text, and {says} (if it is set)"
            yield Misread(None, "strong", told, (fact.evidence,), None, edits)
            continue
        text, kind = fact.value["text"], type(fact.value["text"]).__name__.replace("str", "text")
        told = f"the program reads {setting.spelling} as the {kind} {text!r}, and {says}"
        declared = fact.value.get("declared")
        places = (fact.evidence, *((declared,) if declared is not None else ()))
        strength: Strength = "decisive" if fact.value["certain"] else "strong"
        yield Misread(setting, strength, told, places, None if edits else _instead(setting, text), edits)


def _as_words(case: Case) -> Iterator[Misread]:
    """Words that are true, or a file, for the program; switches that are no word."""
    for fact in case.all("code.setting_misread"):
        setting: Fact = fact.value["setting"]
        is_text = isinstance(fact.value["text"], str)
        says = f"the program reads {setting.spelling} as {'the text ' if is_text else ''}{fact.value['text']!r}, {fact.value['says']}"
        strength: Strength = "decisive" if fact.value["certain"] else "strong"
        yield Misread(setting, strength, says, (fact.evidence,), fact.value["instead"])


def _instead(setting: Fact, text: object) -> str | None:
    """The value as the program can use it: a number for a text, a whole number for a float, a text for a time."""
    if isinstance(text, float):
        return str(to_int(text)) if abs(text) < 1e15 and text == to_int(text) else None
    if not isinstance(text, str):
        written = compiled(r":\s{0,20}(?P<text>[^\s#]{1,200})\s{0,20}(?:#.{0,200})?$").search(setting.evidence.quote)
        return f'"{written["text"]}"' if written is not None else None
    written_text = setting.value if isinstance(setting.value, str) else text
    return _number(written_text) or (as_plain(written_text) if compiled(ODD).fullmatch(written_text) else None)


def _number(text: str) -> str | None:
    """A text that looks like a number, as one; also where a comment stands right behind it."""
    lower = text.lower()
    if lower in INFINITE:
        return INFINITE[lower]
    if compiled(NUMBER).fullmatch(lower):
        return as_number(text) if lower not in {"", "."} else None
    glued = compiled(GLUED).fullmatch(lower)
    if glued is None or glued["number"] in {"", "."}:
        return None
    number, rest = as_number(text.removesuffix(glued["rest"])), glued["rest"]
    return f"{number} {rest}" if rest.startswith("#") else number


def _by_looks(case: Case, fact: Fact, loader: str) -> Iterator[Misread]:
    """What a value looks like, of which it was not seen what the program does with it."""
    file = fact.evidence.where.rsplit(":", 1)[0]
    is_read = bool(case.all("code.followed")) and any(one.value["path"] == file for one in case.all("code.config_read"))
    if isinstance(fact.value, str):
        if fact.value in {"None", "none"}:
            yield from _nothing(fact, is_read=is_read)
        elif (number := _number(fact.value)) is not None:
            yield from _text(case, fact, loader, number, is_read=is_read)
    elif isinstance(fact.value, bool):
        written = compiled(r":\s*(?P<word>no|off|yes|on)\s*(?:#.{0,200})?$").search(fact.evidence.quote.lower())
        if written is not None and fact.name in WORDS and loader != "ruamel":
            says = f"the program reads {fact.spelling} as {fact.value}, not as the word {written['word']!r}"
            yield Misread(fact, "weak", says, (), f'"{written["word"]}"')
    elif isinstance(fact.value, int) and fact.name in NUMERIC:
        written = compiled(r":\s*(?P<text>0[0-7]+|\d+(?::[0-5]?\d){1,20})\s*(?:#.{0,200})?$").search(fact.evidence.quote)
        if written is not None and written["text"] != str(fact.value):
            says = f"the program reads {fact.spelling} as {fact.value}: YAML 1.1 reads {written['text']} in another base"
            yield Misread(fact, "weak", says)


def _nothing(fact: Fact, *, is_read: bool) -> Iterator[Misread]:
    """``resume: None`` is a text of four letters in every loader, and true."""
    if fact.name == "resume.path" and not is_read:
        says = (
            f"{fact.spelling} is the text 'None', which counts as true: the program may look for a checkpoint of that name"
        )
        yield Misread(fact, "strong", says, (), "null")
    elif fact.name in NOTHING and not is_read:
        yield Misread(fact, "weak", f"{fact.spelling} is the text 'None', not null", (), "null")


def _text(case: Case, fact: Fact, loader: str, number: str, *, is_read: bool) -> Iterator[Misread]:
    """A text that looks like a number."""
    file = fact.evidence.where.rsplit(":", 1)[0]
    if any(one.value["path"] == file and one.value["numbers"] for one in case.all("code.config_read")):
        return
    if any(type(one.value) in {int, float} for one in case.all(f"used.{fact.name}")):
        return  # a number is made of it on the way
    says = f"the program reads {fact.spelling} as the text {fact.value!r}, not as a number"
    quoted = "e" not in str(fact.value).lower() or not compiled(NUMBER).fullmatch(str(fact.value).lower())
    unknown = not loader and not case.all("config.unnamed") and not case.all("code.trains")
    if fact.name in NUMERIC and not is_read and (loader in TEXT_LOADERS or unknown):
        reader = "it is read as now" if loader else "PyYAML reads this file"
        yield Misread(fact, "strong", f"{says}, if {reader} and the program calculates with it", (), number)
    elif fact.name in NUMERIC and (loader in {"mixed", ""} or quoted):  # every loader reads 1e-4 differently, '0.1' alike
        yield Misread(fact, "weak", f"{says}, if PyYAML reads this file", (), number)
    elif loader in TEXT_LOADERS and compiled(EXPONENT).fullmatch(fact.evidence.quote):
        yield Misread(fact, "weak", says, (), number)


def _written(case: Case) -> Iterator[Fact]:
    """The values of config files that count: what a flag says otherwise, or a later line or file, does not."""
    for name, group in case.seen.items():
        for fact in _nearest(case, group) if not name.startswith("code.") else ():
            if isinstance(fact.value, list) or not _in_file(fact):
                continue
            if not name.startswith("config.") and case.facts.get(name, fact).origin == "flag":
                continue
            yield fact


def _in_file(fact: Fact) -> bool:
    return fact.origin == "file" and fact.span is not None and fact.span.file.endswith((".yaml", ".yml", ".json", ".toml"))


def _nearest(case: Case, group: list[Fact]) -> Iterator[Fact]:
    """Of a key that stands twice the last is what the program sees; each document of a file stands for itself."""
    several = {one.evidence.where.rsplit(":", 1)[0] for one in case.all("config.documents")}
    last = {fact.spelling: fact for fact in group if fact.origin == "file"}
    for fact in group:
        if fact.origin != "file" or last[fact.spelling] is fact or fact.evidence.where.rsplit(":", 1)[0] in several:
            yield fact
