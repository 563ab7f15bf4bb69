"""A mypy plugin: text and data from outside become numbers in ``crashcart.numbers`` alone.

``int(match["pid"])`` works in every test and raises for the log of some user. Reported are, in all of crashcart but the modules
below::

    int(x), float(x), Decimal(x)       where x may be text, bytes, an object or Any: use to_int, to_float
    int(x), round(x), math.ceil(x)     where x may be a float: infinity and NaN have no whole number
    float(x)                           where x was narrowed to int | float: data from outside, and 10**400 fits no float
    map(int, texts)                    as each of them
    datetime.fromtimestamp(x), time.localtime(x)    raise for times that are far away: use to_datetime, format_time

Constants such as ``float("inf")`` are not reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import AnyType, FunctionLike, Instance, Type, TypeVarType, UnionType, get_proper_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy.checker import TypeChecker

EXEMPT = (
    "crashcart.numbers",
    "crashcart.inside",  # stands alone, and catches every error of its own
    "crashcart.train",  # a library for the numbers of its users' own programs
    "crashcart.readers.machine.trials",  # run by the job's own Python, with numbers that we gave them
    # What the kernel wrote under /proc:
    *(f"crashcart.run.{name}" for name in ("outside", "movement", "stacks", "status", "stopping", "suspending", "witness")),
    # What another process of ours wrote a moment ago:
    *(f"crashcart.run.{name}" for name in ("alarms", "exit", "last", "pages", "rank_output", "starting")),
)
_TEXT = frozenset({f"builtins.{name}" for name in ("str", "bytes", "bytearray", "memoryview", "object")})
_FROM_TEXT = frozenset({"builtins.int", "builtins.float", "builtins.complex", "decimal.Decimal", "fractions.Fraction"})
_WHOLE = frozenset({"builtins.int", "builtins.round", "math.floor", "math.ceil", "math.trunc"})
_CLOCKS = frozenset({"time.localtime", "time.gmtime", "time.ctime"})
_DATES = frozenset(
    {f"datetime.{kind}.{name}" for kind in ("datetime", "date") for name in ("fromtimestamp", "utcfromtimestamp")}
)


def plugin(version: str) -> type[Plugin]:  # noqa: ARG001 - the signature that mypy asks for
    """The entry that mypy looks for."""
    return NumbersPlugin


class NumbersPlugin(Plugin):
    """Looks at every call that makes a number or a date."""

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """Look at functions and at classes that are called."""
        if fullname in _FROM_TEXT | _WHOLE | _CLOCKS or fullname == "builtins.map":
            return lambda context: _look(context, fullname)
        return None

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        """Look at methods of dates."""
        return (lambda context: _look(context, fullname)) if fullname in _DATES else None


def _look(context: FunctionContext | MethodContext, called: str) -> Type:
    module = cast("TypeChecker", context.api).tree.fullname
    ours = f"{module}.".startswith("crashcart.") and not any(f"{module}.".startswith(f"{name}.") for name in EXEMPT)
    given = [get_proper_type(kinds[0]) for kinds in context.arg_types if kinds]
    problem = _problem(called, given) if ours and given else ""
    if problem:
        context.api.fail(f"{called.rpartition('.')[2]}() {problem}; use crashcart.numbers", context.context)
    return context.default_return_type


def _problem(called: str, given: Sequence[Type]) -> str:
    first = given[0]
    if called == "builtins.map":
        makes_numbers = (
            isinstance(first, FunctionLike) and first.is_type_obj() and first.type_object().fullname in _FROM_TEXT
        )
        return "with a class of numbers raises for what is none" if makes_numbers else ""
    if called in _CLOCKS | _DATES:
        return "raises for a time that is far away"
    if called in _FROM_TEXT and _may_be(first, _TEXT):
        return "raises for text or data that is no number"
    if called in _WHOLE and len(given) == 1 and _may_be(first, {"builtins.float"}):
        return "raises for infinity and NaN"
    if called == "builtins.float" and isinstance(first, UnionType) and _may_be(first, {"builtins.int"}):
        return "raises for an int that no float can hold"
    return ""


def _may_be(kind: Type, names: frozenset[str] | set[str]) -> bool:
    kind = get_proper_type(kind)
    if isinstance(kind, UnionType):
        return any(_may_be(item, names) for item in kind.items)
    if isinstance(kind, TypeVarType):
        return _may_be(kind.upper_bound, names)
    if isinstance(kind, AnyType):
        return "builtins.object" in names
    return isinstance(kind, Instance) and kind.type.fullname in names and kind.last_known_value is None
