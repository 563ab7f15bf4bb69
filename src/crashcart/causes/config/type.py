"""A setting has the wrong type: text where a number belongs, a float for an integer, a list for a scalar.

What happens: the program reads a value that looks right in the file and is something else in memory, and the first code that
calculates with it dies, often on one rank after the other: in an optimizer's ``__init__``, in ``range()``, in a sampler.

Why: PyYAML (YAML 1.1) takes ``1e-4`` for text: a float needs a decimal point and a signed exponent (``1.0e-4``; ``1.0e4`` is
text too, ``1.0e+4`` is not). OmegaConf reads the same line as a number, so the loader decides. ``"False"`` from a command
line is true, ``--epochs = 20`` with blanks passes ``=``, pyhocon and environment variables give text.

How it shows: ``'<=' not supported between instances of 'float' and 'str'`` in torch/optim; ``1e-41e-41e-4...`` in a log,
which is a text multiplied by an integer and not interleaved output; ``batch_size should be a positive integer value, but got
batch_size=14`` (the text '14'); a validator's ``Input should be a valid integer``.

What to do: write the number so that this loader reads a number, or convert it once where the settings are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong, weak
from crashcart.causes._joined import edits_of
from crashcart.causes.config._spelling import as_number
from crashcart.causes.config._texts import Misread, failing, misread
from crashcart.causes.config._where import SETTINGS, says
from crashcart.log import evidence
from crashcart.model import Edit, Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Fact

title = "A setting has the wrong type (for example text instead of a number)"
piece = "load_yaml"
alike = ("code/bug", "config/missing-or-wrong")
NUMBER = r"[+-]?(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?"
COMPARED = r"'[<>]=?' not supported between instances of '(?:(?:int|float|Tensor)' and 'str|str' and '(?:int|float|Tensor))'"
CALCULATED = (
    r"unsupported operand type\(s\) for [-+*/%]{1,20}=?: '(?:(?:int|float|Tensor)' and 'str|str' and '(?:int|float|Tensor))'|"
    r"can't multiply sequence by non-int of type 'float'|must be real number, not str|bad operand type for .{0,200}: 'str'|"
    r"could not convert string to float|invalid literal for int\(\) with base 10: '\d|"
    r"'(?:float|str|list)' object cannot be interpreted as an integer|can only concatenate str|"
    r"int\(\) argument must be a string.{0,200} not '(?:list|NoneType|dict)'"
)
OPTIMIZER = (
    r"/optim/|optimizers?\b|lr_scheduler|scheduler|Adam|SGD|group\['\w+'\]|\b(?:lr|learning_rate|eps|weight_decay|"
    r"momentum|warmup\w*)\b"
)
NO_SETTING = r"is_better|ReduceLROnPlateau|sort_values|\bsorted\(|\.sort\(|pandas/|metric|compute_|numpy/core/fromnumeric"
NUMERIC = (
    "train.batch_size", "train.global_batch_size", "train.accumulation", "train.max_steps", "train.epochs",
    "train.learning_rate", "train.warmup", "train.warmup_ratio", "train.clip", "train.sequence_length", "train.seed",
    "eval.batch_size", "eval.period", "sample.batch_size", "sample.period", "save.period", "log.period", "loader.workers",
    "loader.prefetch", "data.chunk",
)  # fmt: skip
FALSE = frozenset({"false", "0", "no", "off", "none", "f", "n"})
TRUTH = 'lambda text: text.lower() in ("1", "true", "yes", "on", "y", "t")'

phrases = (
    decisive(
        "e-",  # too short for the scanner: seen near the crash that follows
        says="a number is repeated without a space: it is text that was multiplied by an integer",
        pattern=r"(?<![\w.])(\d(?:\.\d+)?e-\d{1,2}?)\1+(?![\w.])",
        any_level=True,
    ),
    decisive(
        "input should be a valid integer", "input should be a valid number", "input should be a valid boolean",
        "input should be a valid list", "input should be a valid string", "input should be a valid dict",
        "value is not a valid integer", "value is not a valid float", "value could not be parsed to a boolean",
        "could not be converted to integer", "could not be converted to float", "could not be converted to boolean",
        "wrong value type for field", "type mismatch (<class", "expected a <class 'int'>", "expected a <class 'float'>",
        "expected a <class 'bool'>", "is not a valid integer", "is not a valid float",
        says="a validator rejects the type of a setting",
    ),
    decisive(
        "batch_size should be a positive integer value", "num_samples should be a positive integer value",
        says="the number is positive but rejected: it is text or a float",
        pattern=r"but got \w{1,60}=['\"]?(?:[1-9]\d{0,20}['\"]?\s*|\d{1,20}\.\d{1,20}\s*|\[.{0,200})$",
    ),
    strong("not supported between instances of", says="a number was compared with text", pattern=COMPARED),
    strong("can't multiply sequence by non-int of type 'float'", says="a text was multiplied by a number"),
    strong("'str' object cannot be interpreted as an integer", "an integer is required (got type str)", says="text instead of "
        "an integer"),
    strong("for object of type 'str'", says="a text was formatted as a number",
           pattern=r"Unknown format code '[defg]' for object of type 'str'"),
    strong(
        "error: argument -", "could not convert string to float", "invalid value for '-",
        says="a command-line value has the wrong type",
        pattern=r"argument -\S{1,200}(?:, -\S{1,200}|/-\S{1,200})?: invalid \w{1,60} value: ['\"][^'\"\s]|"
                r"could not convert string to float: '[\d.]{1,24}(?:e-?\d{1,20})?[^\d'.]{1,200}'\s{0,20}$|"
        r"Invalid value for '-",
    ),
    weak("unsupported operand type(s) for", "object cannot be interpreted as an integer", "must be real number, not str",
         says="arithmetic with a value of the wrong type", pattern=CALCULATED),
)  # fmt: skip
stacks = (
    Stack(r"torch/optim/(?!lr_scheduler)\w+\.py:__init__$", "the traceback ends where the optimizer reads its settings"),
)


def in_log(case: Case) -> Iterator[Sign]:
    """Arithmetic or a comparison with text, told apart by the frames: an optimizer or settings, or a metric."""
    for raised in case.log.uncaught():
        compared, calculated = says(raised, COMPARED), says(raised, CALCULATED)
        if not (compared or calculated):
            continue
        inner = raised.stack(3)
        if compiled(NO_SETTING).search(inner):
            yield Sign(
                "against",
                "the text is a metric or a column, not a setting",
                (evidence(raised.line),),
                order=raised.line.order,
            )
        elif compiled(OPTIMIZER).search(inner):
            told = "an optimizer or schedule got text instead of a number"
            yield Sign("decisive", told, (evidence(raised.line),), order=raised.line.order)
        elif compiled(SETTINGS).search(inner):
            yield Sign("strong", "the value comes from the settings", (evidence(raised.line),), order=raised.line.order)


def in_config(case: Case) -> Iterator[Sign]:
    """A setting whose value, as the program's loader reads it, has another type than it seems."""
    if case.before:
        for one in misread(case):
            places = (*((one.fact.evidence,) if one.fact is not None else ()), *one.places)
            yield Sign(one.strength, one.says, places, fatal=one.strength != "weak")
        return
    for one in failing(case):
        places = (*one.places, *((one.fact.evidence,) if one.fact is not None else ()))
        yield Sign(one.strength, one.says, places)
    if case.checkpoints or case.step:
        return  # the program got past reading its settings
    for fact in _texts(case):
        says_so = f"the program reads {fact.spelling or fact.name} as the text {fact.value!r}, not as a number"
        yield Sign("strong", says_so, (fact.evidence,))


def in_code(case: Case) -> Iterator[Sign]:
    """A flag that takes every text for true: deadly for what the command says, else worth knowing."""
    for fact in case.all("code.bool_flag"):
        given = next((one for one in case.facts.values() if one.spelling in fact.value and one.origin == "flag"), None)
        if given is not None and str(given.value).lower() in FALSE:
            told = f"{given.spelling} {given.value} turns it on: type=bool makes every non-empty text true"
            yield Sign("decisive", told, (given.evidence, fact.evidence))
        else:
            told = f"{fact.value[0]} is declared with type=bool, so `{fact.value[0]} False` turns it on"
            yield Sign("weak", told, (fact.evidence,), fatal=False)


def _texts(case: Case) -> Iterator[Fact]:
    for name in NUMERIC:
        fact = case.facts.get(name)
        if (
            fact is not None
            and isinstance(fact.value, str)
            and fact.origin == "file"
            and compiled(NUMBER).fullmatch(fact.value)
        ):
            yield fact


def fix(case: Case) -> Iterator[Fix]:
    """The number written so that every YAML loader reads a number; a flag that reads its text."""
    flags = tuple(Edit(fact.span, TRUTH) for fact in case.all("code.bool_flag") if fact.span is not None)
    if flags:
        why = "bool('False') is True, so a flag must compare its text. Commands that pass a value to the flag keep working"
        yield Fix("Parse the flag's text", "exact", why, edits=flags)
    found = list(misread(case) if case.before else failing(case))
    taken = tuple(dict.fromkeys(edit for one in found for edit in one.edits))
    if taken:
        why = "values from the command line or environment are text; convert them to numbers where they are read"
        yield Fix("Convert the text to a number", "exact", why, edits=taken)
    if not (flags or taken) or any(not one.edits for one in found) or (not case.before and any(True for _ in _texts(case))):
        yield from _as_numbers(case, found)


def _as_numbers(case: Case, found: list[Misread]) -> Iterator[Fix]:
    handed = edits_of(case.all("code.loader_handed"))
    if handed:
        why = "it reads 1e-4 as a number, and everything else as before"
        yield Fix("Read the file with crashcart.train.load_yaml", "exact", why, edits=handed)
    if case.before:
        # One text for a number was meant as one everywhere in the file: mending half of them would only move the death.
        placed = [(one.fact, one) for one in found if one.fact is not None]
        sure = {fact.evidence.where.rsplit(":", 1)[0] for fact, one in placed if one.strength != "weak"}
        written = [(fact, one.instead) for fact, one in placed if fact.evidence.where.rsplit(":", 1)[0] in sure]
    else:
        written = [(one.fact, one.instead) for one in found if one.fact is not None and one.instead is not None]
        written += [(fact, as_number(str(fact.value))) for fact in _texts(case)]
    # An alias stands where its anchor does: one edit for both.
    edits = tuple(dict.fromkeys(Edit(fact.span, text) for fact, text in written if fact.span and text is not None))
    why = "YAML 1.1 needs a decimal point and a signed exponent (1.0e-4, 1.0e+4); or convert the value where the settings are read"
    yield Fix("Write the value as a number", "exact" if edits else "by-hand", why, edits=edits)


experiment = Experiment(
    title="Print repr() of every setting as the program reads it, and run one step",
    start_from="the beginning",
    stop_after="the first optimizer step",
    confirms="a numeric setting prints with quotes, and with the number written as 1.0e-4 the same step passes",
    refutes="all numeric settings print as numbers: then the text comes from the data or the code",
)
