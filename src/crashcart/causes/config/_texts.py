"""Settings that are not what they look like once their loader has read them: text for a number, 8 for 010, true for None.

The same line is deadly under PyYAML with a plain dict and harmless under OmegaConf, so the loader that the program uses, its
typed layers and its own conversions decide; and so does whether the program calculates with the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.causes.config._sections import key_of, meets, same_section, section_of, squeezed
from crashcart.causes.config._spelling import ODD, as_number, as_plain
from crashcart.causes.config._words import as_word
from crashcart.numbers import to_int
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Fact, Strength

__all__ = ["Misread", "as_number", "misread"]

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
TEXT_LOADERS = frozenset({"pyyaml", "huggingface", "strictyaml", "mmengine", "json"})
INFINITE = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}


@record(frozen=True)
class Misread:
    """One setting, how sure it is that it kills the job, what it is for the program, where that matters, and the right text."""

    fact: Fact
    strength: Strength
    says: str
    use: Fact | None = None
    instead: str | None = None


def misread(case: Case) -> Iterator[Misread]:
    """Every setting of the job's YAML files that the program will not get as it was meant."""
    used = case.facts["config.loader"].value if "config.loader" in case.facts else ""
    if not used and "launch.kind" in case.facts and case.facts["launch.kind"].value == "program":
        return  # an installed program (llamafactory-cli, tune) knows how to read its own configs
    for fact in _written(case):
        is_yaml = fact.span is not None and fact.span.file.endswith((".yaml", ".yml"))
        loader = str(used) if is_yaml else "json"
        if (word := as_word(case, fact, loader, known=fact.name in NUMERIC)) is not None:
            found: Misread | None = Misread(fact, *word)
        elif isinstance(fact.value, bool):
            found = _switch(fact, loader)
        elif isinstance(fact.value, str):
            found = _text(case, fact, loader)
        else:
            found = _odd_number(case, fact)
        if found is not None:
            yield found


def _written(case: Case) -> Iterator[Fact]:
    """The values of YAML files that count: what a flag says otherwise, or a later line or file, does not."""
    for name, group in case.seen.items():
        for fact in _nearest(case, group) if not name.startswith("code.") else ():
            if isinstance(fact.value, list) or not (_in_file(fact) or _is_override(case, fact)):
                continue
            if fact.origin == "file" and not name.startswith("config.") and case.facts.get(name, fact).origin == "flag":
                continue
            yield fact


def _in_file(fact: Fact) -> bool:
    return fact.origin == "file" and fact.span is not None and fact.span.file.endswith((".yaml", ".yml", ".json", ".toml"))


def _is_override(case: Case, fact: Fact) -> bool:
    """``--set optim.lr=1e-4`` in a program that reads its overrides with PyYAML."""
    kinds = {str(one.value) for one in case.all("code.override_reader")}
    return fact.origin == "flag" and kinds == {"pyyaml"} and fact.evidence.quote == f"{fact.spelling}={fact.value}"


def _nearest(case: Case, group: list[Fact]) -> Iterator[Fact]:
    """Of a key that stands twice the last is what the program sees; each document of a file stands for itself."""
    several = {one.evidence.where.rsplit(":", 1)[0] for one in case.all("config.documents")}
    last = {fact.spelling: fact for fact in group if fact.origin == "file"}
    for fact in group:
        if fact.origin != "file" or last[fact.spelling] is fact or fact.evidence.where.rsplit(":", 1)[0] in several:
            yield fact


def _text(case: Case, fact: Fact, loader: str) -> Misread | None:
    text = str(fact.value)
    glued = compiled(GLUED).fullmatch(text.lower())
    number = glued["number"] if glued else text if compiled(NUMBER).fullmatch(text.lower()) else INFINITE.get(text.lower())
    if number is None or number in {"", "."}:
        return _odd_text(case, fact)
    told = f"{fact.spelling} is the text {text!r} for the program, not a number"
    instead = _instead(text, glued["rest"] if glued else "")
    use, converted = find_use(case, fact), _converted(case, fact)
    if converted == "int" and ("." in text or "e" in text.lower()):
        return Misread(fact, "decisive", f"{told}, and int() cannot read it", _conversion(case, fact), instead)
    if converted or _typed(case, fact):
        return None
    if loader == "huggingface" and fact.name in NUMERIC:
        return Misread(fact, "decisive", f"{told}: parse_yaml_file checks no types", None, instead)
    if use is not None and loader in TEXT_LOADERS:
        if "*" in str(use.value.get("key", "")):  # asked for by a name that the code puts together
            return Misread(
                fact, "strong", f"{told}, and {use.value['how']} needs a number when it is asked for", use, instead
            )
        return Misread(fact, "decisive", f"{told}, and {use.value['how']} needs a number", use, instead)
    quoted = glued or "e" not in text.lower()  # every loader reads 1e-4 differently, '0.1' all the same
    unknown = not loader and not case.all("code.setting_number") and not case.all("config.unnamed")
    if fact.name in NUMERIC and (loader in TEXT_LOADERS or unknown) and not _read_elsewhere(case, fact):
        return Misread(fact, "strong", f"{told}, when {_reader(loader)} and the program calculates with it", None, instead)
    if fact.name in NUMERIC and (loader in {"mixed", ""} or quoted):
        return Misread(fact, "weak", f"{told}, if PyYAML reads this file", None, instead)
    exponent = compiled(EXPONENT).fullmatch(fact.evidence.quote) if loader in TEXT_LOADERS else None
    return Misread(fact, "weak", told, None, instead) if exponent else None


def _odd_text(case: Case, fact: Fact) -> Misread | None:
    """``1,000``, ``10%``, ``00:30:00``, ``(0.9, 0.95)``: text in every loader, and deadly where the program calculates with it."""
    text = str(fact.value)
    use = find_use(case, fact) if compiled(ODD).fullmatch(text) else None
    if use is None or "*" in str(use.value.get("key", "")) or _converted(case, fact) or _typed(case, fact):
        return None
    told = f"{fact.spelling} is the text {text!r} for the program, not a number, and {use.value['how']} needs a number"
    return Misread(fact, "decisive", told, use, as_plain(text))


def _reader(loader: str) -> str:
    return "it is read as now" if loader else "PyYAML reads this file"


def _instead(text: str, rest: str) -> str:
    if text.lower() in INFINITE:
        return INFINITE[text.lower()]
    number = as_number(text.removesuffix(rest))
    return f"{number} {rest}" if rest.startswith("#") else number


def _switch(fact: Fact, loader: str) -> Misread | None:
    """``mixed_precision: no`` is False under YAML 1.1."""
    written = compiled(r":\s*(?P<word>no|off|yes|on)\s*(?:#.{0,200})?$").search(fact.evidence.quote.lower())
    if written is None or fact.name not in WORDS or loader == "ruamel":
        return None
    told = f"{fact.spelling} is {fact.value} for the program, not the word {written['word']!r}"
    strength: Strength = "decisive" if loader == "huggingface" and fact.name.endswith("strategy") else "weak"
    return Misread(fact, strength, told, None, f'"{written["word"]}"')


def _odd_number(case: Case, fact: Fact) -> Misread | None:
    """A float where only a whole number will do; an octal or a time that was meant as something else."""
    if isinstance(fact.value, float) and fact.value == int_or_none(fact.value):
        use = find_use(case, fact, whole=True)
        if use is not None and "*" not in str(use.value.get("key", "")) and not _converted(case, fact):
            told = f"{fact.spelling} is the float {fact.value}, and {use.value['how']} needs a whole number"
            return Misread(fact, "decisive", told, use, str(to_int(fact.value)))
    if isinstance(fact.value, int) and fact.name in NUMERIC:
        written = compiled(r":\s*(?P<text>0[0-7]+|\d+(?::[0-5]?\d){1,20})\s*(?:#.{0,200})?$").search(fact.evidence.quote)
        if written is not None and written["text"] != str(fact.value):
            told = f"{fact.spelling} is {fact.value} for the program: YAML 1.1 reads {written['text']} in another base"
            return Misread(fact, "weak", told)
    return None


def int_or_none(value: float) -> int | None:
    """The whole number that a float is."""
    return to_int(value) if abs(value) < 1e15 and value == to_int(value) else None


def _read_elsewhere(case: Case, fact: Fact) -> bool:
    """Whether the program calculates with settings of this name, all of them in other sections of the config."""
    key = key_of(fact)
    return find_use(case, fact) is None and any(
        meets(str(use.value.get("key", "")), key) for use in case.all("code.setting_number")
    )


def find_use(case: Case, fact: Fact, *, whole: bool = False) -> Fact | None:
    """Where the program calculates with this setting."""
    key, above = key_of(fact), section_of(fact)
    for use in case.all("code.setting_number"):
        if whole and not use.value["whole"]:
            continue
        if meets(str(use.value.get("key", "")), key) and same_section(case, use, fact):
            return use
        if "below" in use.value and squeezed(use.value["below"]) == above and key in map(squeezed, use.value["names"]):
            return use
    return None


def _conversion(case: Case, fact: Fact) -> Fact | None:
    return next((one for one in case.all("code.setting_converted") if meets(one.value["key"], key_of(fact))), None)


def _converted(case: Case, fact: Fact) -> str:
    """What makes a number of this setting first, the most forgiving of several; empty where nothing does."""
    key = key_of(fact)
    found = {one.value["by"] for one in case.all("code.setting_converted") if meets(one.value["key"], key)}
    return "" if not found else "int" if found == {"int"} else "float"


def _typed(case: Case, fact: Fact) -> bool:
    """Whether a layer with types stands between the file and the program."""
    key = key_of(fact)
    return any(one.value is None or key in {squeezed(name) for name in one.value} for one in case.all("code.typed_layer"))
