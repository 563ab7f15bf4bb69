"""Settings that the program itself refuses: its own checks end it with the values of this launch.

    if args.net not in MODELS: raise ValueError(...)         assert args.algo in ["a2c", "ppo"]
    MODELS[args.model]                                       KeyError for a name that is not there
    TrainerConfig(**config)                                  TypeError for a key that it does not take
    cfg.merge_from_file(args.cfg)                            KeyError for a key that the defaults do not have
    config["optimizer"]["grad_acc_step"]                     KeyError for a key that the file does not have
    args.base_lr                                             AttributeError for one that is read as an attribute
    cfg.data_dir                                             of OmegaConf, where the file says ``???``

The program was followed with the values of its launch, and comes surely to the check. Told is what a flag or a file decides alone.
"""

from __future__ import annotations

import ast
from difflib import get_close_matches
from typing import TYPE_CHECKING

from crashcart.model import Fact
from crashcart.readers.interpreter.values import Constant, Container
from crashcart.readers.job.argv import span_of_flag
from crashcart.readers.rules.failed_arithmetic import is_arithmetic, may_be_caught

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Failure
    from crashcart.readers.interpreter.values import Value

_ASKED = frozenset({"flag", "file", "environment"})
_LONGEST = 160
_LACKING = frozenset({"KeyError", "AttributeError", "MissingMandatoryValue"})


def look(execution: Execution) -> Iterator[Fact]:
    """``arguments.refused`` for the first check that the program does not get past."""
    for failure in execution.trace.failures:
        if not failure.region.is_certain() or may_be_caught(failure.region) or is_arithmetic(failure):
            continue
        is_own_check = isinstance(failure.node, (ast.Raise, ast.Assert, ast.Expr))
        is_of_few = failure.error in _LACKING or bool(failure.choices)
        if not (is_own_check or is_of_few or "unexpected keyword" in failure.says):
            continue  # of a parser, which says it in its own words, or of a type
        lacking = _lacking(execution, failure)
        if lacking is not None:
            yield lacking
            return
        setting = next((fact for value in failure.values for fact in value.origins if fact.origin in _ASKED), None)
        if setting is None or not _is_decided(failure):
            continue
        close = _nearest(execution, failure)
        says = f"the program refuses {_named(setting)}: {_reason(failure)}" + (f": did you mean {close}?" if close else "")
        span = span_of_flag(setting.evidence, setting.spelling) if close and setting.origin == "flag" else None
        yield Fact(
            "arguments.refused", {"says": says, "instead": ""}, setting.evidence, setting.origin, setting.spelling, span
        )
        return


def _lacking(execution: Execution, failure: Failure) -> Fact | None:
    """A key that the program reads and that its config file does not have."""
    owner, key = failure.values[0] if failure.values else None, failure.values[-1] if failure.values else None
    if (
        failure.error not in {"KeyError", "AttributeError"}
        or not isinstance(owner, Container)
        or not isinstance(key, Constant)
    ):
        return None
    if key.origins:
        return None
    origins = {name: _file_of(execution, value) for name, value in execution.interpreter.entries(owner).items()}
    files = {fact.evidence.where.rpartition(":")[0] for fact in origins.values() if fact is not None}
    if len(files) != 1 or execution.interpreter.store.get(owner, "open"):
        return None
    close = _nearest(execution, failure)
    beside = origins.get(close) or next(fact for fact in origins.values() if fact is not None)
    says = f"the program reads the key {key.value}, which {files.pop()} does not have" + (
        f": did you mean {close}?" if close else ""
    )
    return Fact("arguments.refused", {"says": says, "instead": ""}, beside.evidence, "file", beside.spelling)


def _file_of(execution: Execution, value: Value, depth: int = 4) -> Fact | None:
    """Where a config file says a value, or the first part of one."""
    fact = next((fact for fact in value.origins if fact.origin == "file"), None)
    if fact is None and isinstance(value, Container) and depth:
        content = execution.interpreter.items(value)
        parts = content.values() if isinstance(content, dict) else content
        return next((found for part in parts if (found := _file_of(execution, part, depth - 1)) is not None), None)
    return fact


def _is_decided(failure: Failure) -> bool:
    """Whether known values decide the check: those of an assert or a test, the key of an item, a keyword."""
    if failure.error in _LACKING:
        return failure.error == "MissingMandatoryValue" or isinstance(failure.values[-1], Constant)
    return bool(failure.values) and (
        isinstance(failure.values[0], (Constant, Container)) or "unexpected keyword" in failure.says
    )


def _named(setting: Fact) -> str:
    value = str(setting.value)
    named = setting.spelling or setting.name
    return named if value == named or len(value) > _LONGEST else f"{named} {value}".strip()


def _reason(failure: Failure) -> str:
    if failure.says:
        return f"{failure.error}: {failure.says}"[:_LONGEST]
    if isinstance(failure.node, ast.Assert):
        return f"its check fails: {ast.unparse(failure.node.test)}"[:_LONGEST]
    return f"{failure.error} at {failure.evidence.where}"


def _nearest(execution: Execution, failure: Failure) -> str:
    """The key that was probably meant."""
    owner, key = failure.values[0], failure.values[-1]
    if failure.choices and isinstance(key, Constant):
        return next(iter(get_close_matches(str(key.value), [*map(str, failure.choices)], n=1, cutoff=0.75)), "")
    if (
        failure.error not in {"KeyError", "AttributeError"}
        or not isinstance(owner, Container)
        or not isinstance(key, Constant)
    ):
        return ""
    content = execution.interpreter.items(owner)
    names = [name for name in content if isinstance(name, str)] if isinstance(content, dict) else []
    return next(iter(get_close_matches(str(key.value), names, n=1, cutoff=0.75)), "")
