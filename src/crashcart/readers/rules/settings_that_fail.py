"""Settings with which Python or a library will raise, or that the program takes for something else than they were meant to be.

    lr: 1e-4                      in a YAML file, read by PyYAML: the text '1e-4'
    AdamW(params, lr=cfg["lr"])   TypeError: '<=' not supported between instances of 'float' and 'str'
    compile: "False"              if cfg["compile"]: a text, and true
    resume: None                  torch.load(cfg["resume"]): a file of that name

The program was followed with the values that its own loader and parser give it, so a conversion on the way has already happened.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.model import Edit, Span
from crashcart.readers.interpreter.values import Constant, Library, Result, Unknown, constant_of
from crashcart.readers.job.command import typed
from crashcart.readers.rules.missing_inputs import READERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call, Event, Failure, Write
    from crashcart.readers.interpreter.values import Value

_NUMBER_ERRORS = {"TypeError", "ValueError"}
_TYPE_ERRORS = {*_NUMBER_ERRORS, "AttributeError", "KeyError"}
_NO = frozenset({"false", "no", "off"})
_NOTHING = frozenset({"None", "none"})


def look(execution: Execution) -> Iterator[Fact]:
    """``code.setting_fails``: the setting, what needs another type, and whether the program surely comes there.

    ``code.setting_misread``: a word that is true or a file, a switch that is no word. ``code.bool_flag``: a flag with ``type=bool``.
    """
    seen: set[tuple[str, int]] = set()
    for failure in execution.trace.failures:
        is_about_nothing = any(constant_of(value, value) is None for value in failure.values)  # what is None is at fault
        is_of_type = failure.error in _TYPE_ERRORS and not failure.choices
        for value in failure.values if is_of_type and not is_about_nothing else ():
            about = _failing(execution, failure, value)
            if about is None or _is_caught(failure):
                continue
            setting = about["setting"]
            key = (f"{setting.evidence.where} {setting.spelling}" if setting is not None else about["name"], failure.line)
            if key not in seen:
                seen.add(key)
                yield failure.fact("code.setting_fails", about)
    for write in execution.trace.writes:
        group, value = write.owner, write.value
        is_rate = isinstance(group, Result) and group.name == "torch.optim.param_group" and _is_setting(value)
        if is_rate and isinstance(constant_of(value), str):
            says = "the optimizer needs a number in its groups"
            yield write.fact("code.setting_fails", {**_about(write, value, says), "edits": _written_as_number(write)})
    yield from _misread(execution)
    yield from _flags(execution)
    if execution.trace.calls:
        yield execution.trace.calls[0].fact("code.trains", execution.trains)
    if (execution.trains or execution.optimizers) and not execution.interpreter.exhausted:
        yield execution.trace.calls[0].fact("code.followed", True)


def _failing(execution: Execution, failure: Failure, value: Value) -> dict[str, Any] | None:
    """What fails with a value that comes from outside; None where it comes from the program."""
    if isinstance(value, Unknown) and value.kind.startswith("environment:"):
        edits = _as_number(failure)
        return {
            "setting": None,
            "name": value.kind.partition(":")[2],
            "says": failure.says,
            "certain": False,
            "edits": edits,
        }
    if not (_is_setting(value) and failure.error in _NUMBER_ERRORS) and not _is_of_other_kind(failure, value):
        return None
    setting = value.origins[0]
    about = _about(failure, value, failure.says)
    is_override = setting.origin == "flag" and setting.evidence.quote.startswith(
        f"{setting.spelling}="
    )  # read as a config is
    if setting.origin in {"environment", "flag"} and not (is_override and setting.spelling[:1] != "-"):
        declared = _declared(execution, setting)
        about["edits"] = _with_type(declared) if declared is not None else _as_number(failure)
        about["declared"] = declared.evidence if declared is not None else None
    return about


def _about(event: Event, value: Value, says: str) -> dict[str, Any]:
    text = constant_of(value, value.origins[0].value)
    return {"setting": value.origins[0], "text": text, "says": says, "certain": event.region.is_certain(), "edits": ()}


def _is_setting(value: Value) -> bool:
    """Whether a value is a setting itself, or a text that was made of one: ``"1e-4" * 2``."""
    if not value.origins:
        return False
    if isinstance(value, Result):
        return value.name == "text" and isinstance(value.origins[0].value, str)
    if not isinstance(value, Constant) or not isinstance(value.value, (str, float)):
        return False
    return value.direct or (isinstance(value.value, str) and _is_text_of(value.value, value.origins[0]))


def _is_text_of(text: str, setting: Fact) -> bool:
    """Whether a text was made of a setting that is text, or is that setting as it was typed: ``0.0005`` of ``swa.lr=0.0005``."""
    return isinstance(setting.value, str) or (typed(text) == setting.value and setting.evidence.quote.endswith(text))


def _is_of_other_kind(failure: Failure, value: Value) -> bool:
    """Whether a number or a switch has no method of a text, or a text none of a mapping, or a switch is the key of a table of words."""
    if not (isinstance(value, Constant) and value.direct and value.origins):
        return False
    if failure.error == "AttributeError":
        wanted = dict if isinstance(value.value, str) else str
        return isinstance(failure.node, ast.Attribute) and hasattr(wanted, failure.node.attr) and failure.region.is_certain()
    return isinstance(value.value, bool) and failure.error in {"KeyError", "ValueError"}


def _is_caught(failure: Failure) -> bool:
    """Whether a ``try`` with handlers stands around it in the same function, or it fails for one of several values alone."""
    for region in failure.region.above():
        if region.kind == "option":  # of a value that is one of several, the tests around may know which
            return True
        if region.kind == "try" and bool(getattr(region.node, "handlers", None)):
            return True
        if region.kind == "call":
            return False
    return False


# ---- what makes a number of a text that comes from outside


def _declared(execution: Execution, setting: Fact) -> Call | None:
    """Where a flag is declared without a type."""
    for call in execution.trace.methods("add_argument"):
        names = [constant_of(argument) for argument in call.arguments]
        has_type = {"type", "action", "nargs", "choices"} & call.keywords.keys()
        if (setting.spelling in names or _default_of(call) is setting) and not has_type and call.complete:
            return call
    return None


def _default_of(call: Call) -> Fact | None:
    default = call.keywords.get("default")
    return default.origins[0] if default is not None and default.origins else None


def _with_type(call: Call) -> tuple[Edit, ...]:
    node, default = call.node, constant_of(call.keywords.get("default"))
    if not isinstance(node, ast.Call) or not node.args:
        return ()
    end = call.source.span(node.args[-1])
    kind = "int" if type(default) is int else "float"
    return (Edit(Span(end.file, end.end, end.end, end.line), f", type={kind}"),)


def _written_as_number(write: Write) -> tuple[Edit, ...]:
    """The number made where the text is put."""
    node = write.node
    if not isinstance(node, ast.Assign):
        return ()
    return (Edit(write.source.span(node.value), f"float({write.source.written(node.value)})"),)


def _as_number(failure: Failure) -> tuple[Edit, ...]:
    place = failure.place
    return (Edit(failure.source.span(place), f"float({failure.source.written(place)})"),) if place is not None else ()


# ---- what is read as something else


def _misread(execution: Execution) -> Iterator[Fact]:
    seen: set[tuple[str, str]] = set()

    def first(setting: Fact) -> bool:
        key = (setting.evidence.where, setting.spelling)
        return key not in seen and not seen.add(key)  # type: ignore[func-returns-value]

    for call in (call for name in READERS for call in execution.trace.named(name)):
        value = call.argument(READERS[call.name][0], READERS[call.name][1])
        if isinstance(value, Constant) and value.direct and value.origins and value.value in _NOTHING:
            says = "which is not empty: the program looks for a file with that name"
            if first(value.origins[0]):
                yield call.fact("code.setting_misread", {**_about(call, value, says), "instead": "null"})
    for decision in execution.trace.decisions:
        value, setting = decision.setting, decision.setting.origins[0]
        if isinstance(value.value, str) and value.value.lower() in _NO and decision.word is None:
            about = {**_about(decision, value, "which is true"), "instead": "false"}
        elif isinstance(value.value, bool) and decision.word is not None and _is_written(setting, decision.word):
            says = f"and never the word {decision.word!r}"
            about = {**_about(decision, value, says), "instead": f'"{decision.word}"'}
        else:
            continue
        if first(setting):
            yield decision.fact("code.setting_misread", about)


def _is_written(setting: Fact, word: str) -> bool:
    """Whether a switch stands in its file as this word: ``augment: on``."""
    return setting.evidence.quote.partition("#")[0].rstrip().lower().endswith(word.lower())


def _flags(execution: Execution) -> Iterator[Fact]:
    for call in execution.trace.methods("add_argument"):
        kind = call.keywords.get("type")
        names = [name for argument in call.arguments if isinstance(name := constant_of(argument), str)]
        if isinstance(kind, Library) and kind.name == "bool" and names:
            word = next((word for word in getattr(call.node, "keywords", ()) if word.arg == "type"), None)
            is_plain = word is not None and isinstance(word.value, ast.Name) and word.value.id == "bool"
            fact = call.source.fact("code.bool_flag", names, word.value) if word is not None and is_plain else None
            yield fact if fact is not None else call.fact("code.bool_flag", names)
