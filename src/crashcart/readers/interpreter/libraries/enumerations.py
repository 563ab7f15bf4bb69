"""Words that stand for a member of an enumeration, and that are refused where it has no such member.

--save_strategy step             ValueError: 'step' is not a valid SaveStrategy, please select one of ['no', 'steps', ...]
get_scheduler(args.lr_scheduler, optimizer)
class Mode(str, Enum): ...       Mode(args.mode)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.names import is_secret
from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.libraries.field_types import fields_in
from crashcart.readers.interpreter.values import Class, Constant, Instance, Library, Value

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

__all__ = ["refuse_other_members", "refuse_others"]

_DIVIDING = ("gradient_accumulation_steps",)
# Of diffusers, which has an enumeration of its own.
_DIFFUSERS_SCHEDULES = (
    "linear",
    "cosine",
    "cosine_with_restarts",
    "polynomial",
    "constant",
    "constant_with_warmup",
    "piecewise_constant",
)


def refuse_others(
    interpreter: Interpreter, value: Value | None, members: Sequence[Any], enumeration: str, node: ast.AST
) -> None:
    """A value that is none of the members ends the program."""
    if isinstance(value, Constant) and isinstance(value.value, str) and value.value not in members:
        says = f"{value.value!r} is not a valid {enumeration}, please select one of {list(members)}"
        interpreter.fail(node, "ValueError", says, value, choices=tuple(members))


def refuse_other_members(interpreter: Interpreter, made: Value, name: str, node: ast.AST) -> None:
    """The fields of a dataclass of a library that become members of an enumeration once they are given; a trainer divides by others."""
    for field_name in _DIVIDING:
        value = interpreter.peek(made, field_name)
        if isinstance(value, Constant) and type(value.value) is int and value.value == 0:
            interpreter.fail(node, "ZeroDivisionError", f"the trainer divides by {field_name}", value)
    owners = made.cls.library_bases() if isinstance(made, Instance) and isinstance(made.cls, Class) else [name]
    for field in (
        field for owner in owners for field in fields_in(interpreter, Library(owner))
    ):  # also where a subclass has it anew
        members = (field.options or {}).get("members")
        if members is not None:
            refuse_others(interpreter, interpreter.peek(made, field.name), members, field.name, node)


@models("transformers.get_scheduler", "transformers.optimization.get_scheduler")
def transformers_schedule(interpreter: Interpreter, call: Call) -> None:
    """A schedule by its name."""
    fields = fields_in(interpreter, Library("transformers.TrainingArguments"))
    members = next(
        (field.options["members"] for field in fields if field.name == "lr_scheduler_type" and field.options), None
    )
    if members is not None:
        refuse_others(interpreter, call.argument(0, "name"), members, "SchedulerType", call.node)


@models("diffusers.optimization.get_scheduler")
def diffusers_schedule(interpreter: Interpreter, call: Call) -> None:
    """A schedule by its name."""
    refuse_others(interpreter, call.argument(0, "name"), _DIFFUSERS_SCHEDULES, "SchedulerType", call.node)


@models("enum.Enum()", "Enum()", "enum.IntEnum()", "enum.StrEnum()")
def member_by_value(
    interpreter: Interpreter, cls: Class, arguments: list[Value], _keywords: dict[str, Value], call: Call
) -> Value:
    """The member of an enumeration of the program that has a value."""
    from crashcart.readers.interpreter.libraries.hf_parser import enum_members

    members = enum_members(interpreter, cls)
    wanted = arguments[0] if arguments else None
    for name, value in members.items() if isinstance(wanted, Constant) else ():
        if isinstance(value, Constant) and value.value == wanted.value:  # type: ignore[union-attr]
            return interpreter.libraries.member(interpreter, cls, name, value)  # type: ignore[no-any-return]
    plain = [value.value for value in members.values() if isinstance(value, Constant)]
    holds_secrets = any(is_secret(name) for name in members)
    if members and not holds_secrets and len(plain) == len(members) and interpreter._find_method(cls, "_missing_") is None:
        refuse_others(interpreter, wanted, plain, cls.name, call.node)
    return Instance(cls, call)
