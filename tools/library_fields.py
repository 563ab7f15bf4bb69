"""Writes the table of the dataclasses of transformers and trl: `python tools/library_fields.py > .../library_fields.txt`.

The interpreter reads the table in place of the libraries, which need not be installed where a job is checked.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from enum import Enum
from typing import Any

_TRL = (
    "SFTConfig",
    "DPOConfig",
    "GRPOConfig",
    "KTOConfig",
    "RewardConfig",
    "RLOOConfig",
    "ModelConfig",
    "ScriptArguments",
)
# Members that earlier versions had.
_OLDER_MEMBERS = {"OptimizerNames": ("adamw_hf", "adamw_apex_fused")}
_PLAIN = {int: "int", float: "float", str: "str", bool: "bool", type(None): "None"}


def annotation(kind: Any) -> str:  # noqa: ANN401 - a type of any form
    """A type in names that the table knows; an enumeration is a text, anything else is ``Any``."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "str"
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, parts))}]"
    if origin is list:
        return f"list[{annotation(parts[0])}]"
    if origin is dict or kind is dict:
        return "dict"
    if parts and origin is not tuple:
        return " | ".join(dict.fromkeys(annotation(part) for part in parts))
    return "Any"


def default(field: dataclasses.Field[Any]) -> str:
    """The default of a field as it would be written; empty where it must be given."""
    value = field.default
    if value is dataclasses.MISSING:
        if field.default_factory is dataclasses.MISSING:
            return ""
        value = field.default_factory()
    if isinstance(value, Enum):
        value = value.value
    return f" = {value!r}" if isinstance(value, (int, float, str, bool, type(None), list, dict)) else " = ..."


def options(field: dataclasses.Field[Any], kind: Any) -> str:  # noqa: ANN401 - likewise
    """The options for argparse that stand in the metadata, and the members of the enumeration that a text is made into."""
    found = {name: list(value) if name == "choices" else value for name, value in field.metadata.items() if name != "help"}
    for part in (kind, *typing.get_args(kind)):
        if isinstance(part, type) and issubclass(part, Enum):
            found["members"] = [*(member.value for member in part), *_OLDER_MEMBERS.get(part.__name__, ())]
    return f"  # {found!r}" if found else ""


def write(cls: type, name: str, base: type | None, base_name: str) -> None:
    """One class: the fields that its base does not have in the same way."""
    known = {field.name: field for field in dataclasses.fields(base)} if base is not None else {}
    hints = typing.get_type_hints(cls)
    sys.stdout.write(f"    class {name}{f'({base_name})' if base is not None else ''}:\n")
    count = 0
    for field in dataclasses.fields(cls):
        inherited = known.get(field.name)
        kind = hints[field.name]
        if inherited is not None and (default(inherited), options(inherited, kind)) == (
            default(field),
            options(field, kind),
        ):
            continue
        sys.stdout.write(f"        {field.name}: {annotation(kind)}{default(field)}{options(field, kind)}\n")
        count += 1
    if not count:
        sys.stdout.write("        pass\n")


def main() -> None:
    """Write the table to standard output."""
    import transformers
    import trl

    arguments = transformers.TrainingArguments
    sys.stdout.write(f"# transformers {transformers.__version__}, trl {trl.__version__}; see tools/library_fields.py\n")
    sys.stdout.write("class transformers:\n")
    write(arguments, "TrainingArguments", None, "")
    write(transformers.Seq2SeqTrainingArguments, "Seq2SeqTrainingArguments", arguments, "transformers.TrainingArguments")
    sys.stdout.write("class trl:\n")
    for name in _TRL:
        cls = getattr(trl, name)
        base = arguments if issubclass(cls, arguments) else None
        write(cls, name, base, "transformers.TrainingArguments")


if __name__ == "__main__":
    main()
