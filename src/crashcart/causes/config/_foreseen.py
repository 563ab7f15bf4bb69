"""What a program will refuse at its start: seen in the command, the config files and the folder before it is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes.config._contradictions import contradictions
from crashcart.causes.config._sections import squeezed
from crashcart.model import Edit, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case
    from crashcart.model import Fact

__all__ = ["foreseen", "mended"]

# Variables that stand in advice and in scripts, and that nobody reads.
UNREAD = ("TORCH_DISTRIBUTED_TIMEOUT", "TORCH_DIST_TIMEOUT", "PYTORCH_DISTRIBUTED_TIMEOUT")


def foreseen(case: Case) -> Iterator[Sign]:
    """Each thing for which the program ends within seconds, and what is odd and worth knowing."""
    for fact in case.all("arguments.refused"):
        yield Sign("decisive", fact.value["says"], (fact.evidence,))
    yield from _files(case)
    for fact in _each_path_once(case.all("path.missing")):
        yield _missing(case, fact)
    yield from contradictions(case)
    for name in UNREAD:
        given = case.facts.get(f"environment.{name}")
        if given is not None:
            says = f"torch does not read a variable {name}: the timeout does not change, unless the program itself reads it"
            yield Sign("weak", says, (given.evidence,), fatal=False)


def _each_path_once(facts: Sequence[Fact]) -> list[Fact]:
    """Of what is said of a path twice, as ``data.json`` and ``./data.json``, that which knows where it is read."""
    found: dict[str, Fact] = {}
    for fact in sorted(facts, key=lambda fact: "read_at" not in fact.value):
        found.setdefault(fact.value["path"].removeprefix("./").rstrip("/"), fact)
    return [fact for fact in facts if fact in found.values()]


def mended(case: Case) -> Iterator[Fix]:
    """The flag as the program knows it, where only its spelling is wrong."""
    edits = tuple(
        Edit(fact.span, fact.value["instead"])
        for fact in case.all("arguments.refused")
        if fact.span is not None and fact.value["instead"]
    )
    if edits:
        yield Fix("Use the flag's correct name", "same-recipe", "nothing else of the command changes", edits=edits)
    for fact in case.all("path.missing"):
        if fact.value.get("maker"):
            name, maker = fact.value["path"].rpartition("/")[2], fact.value["maker"]
            yield Fix(f"Run {maker} first", "by-hand", f"it lies where {name} should be, and names it")
        elif fact.value.get("placeholder"):
            place = f" at {fact.evidence.where}" if fact.evidence.where else ""
            yield Fix(f"Use the path of your own files{place}", "by-hand", "the current value is a placeholder")


def _files(case: Case) -> Iterator[Sign]:
    """Config files that cannot be parsed, that hold one text, several documents, or a key twice."""
    loader = case.facts["config.loader"].value if "config.loader" in case.facts else ""
    for fact in case.all("config.unreadable"):
        yield Sign("decisive", str(fact.value).rstrip("."), (fact.evidence,))
    for fact in case.all("config.document"):
        if isinstance(fact.value, str) and ":" in fact.value:
            says = "every loader reads this file as one long string: a space is missing after a colon"
            yield Sign("decisive", says, (fact.evidence,))
    for fact in case.all("config.duplicate"):
        refused = loader in {"omegaconf", "hydra", "ruamel"}
        after = ", and this loader rejects the file" if refused else ": the later one silently wins"
        yield Sign("decisive" if refused else "weak", f"{fact.value} stands twice{after}", (fact.evidence,), fatal=refused)
    for fact in case.all("config.documents"):
        if loader == "pyyaml" and not any("_all" in call.evidence.quote for call in case.all("code.config_loader")):
            says = "the file contains several YAML documents, and the program's loader accepts only one"
            yield Sign("decisive", says, (fact.evidence,))


def _missing(case: Case, fact: Fact) -> Sign:
    """A path that is not there: certain for what is read at the start and belongs here, a condition for other data."""
    kind, path = fact.value["kind"], fact.value["path"]
    places = tuple(dict.fromkeys([fact.evidence, *([fact.value["read_at"]] if "read_at" in fact.value else [])]))
    if fact.value.get("placeholder"):
        return Sign("decisive", f"{path} is a placeholder that was never filled in, and the program reads it", places)
    says = f"the {'data path' if kind == 'data' else kind} {path} does not exist"
    key = squeezed(fact.spelling.lstrip("-").rpartition(".")[2])
    is_read = "read_at" in fact.value  # by what was followed, which would have shown that the program looks for it first
    looked = not is_read and any(squeezed(checked.value) == key for checked in case.all("code.path_checked"))
    if fact.value["elsewhere"] or looked or (fact.origin == "default" and not fact.value.get("folder_here")):
        return Sign("weak", f"{says} here; it may exist on the machine that will run the job", places, fatal=False)
    if key == "restorefile":
        return Sign("weak", f"{says}: fairseq then starts from scratch and only mentions it in its log", places, fatal=False)
    # What the code or a config names may not have been fetched or made yet, unless a name is misspelt.
    is_typed = fact.origin not in {"code", "default", "file"} or kind in {"config", "program"}
    is_of_here = kind not in {"data", "checkpoint"} or fact.value.get(
        "folder_here"
    )  # else it is downloaded, or trained before
    if fact.value["sure"] and (fact.value.get("near") or (is_typed and is_of_here)):
        return Sign("decisive", says, places)
    return Sign("strong", f"{says}, if the job is started from here", places)
