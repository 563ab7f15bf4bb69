"""A pydantic model, of version 1 or 2, filled from a config; keys that it would leave out in silence are refused."""

from __future__ import annotations

import sys
import typing
from typing import Any

from crashcart.train.config.schemas import Path, Report, unknown_key

__all__ = ["fill", "is_model"]


# How models say that a field with an alias may also be given by its own name; else pydantic leaves that key out in silence.
_BY_NAME = ("populate_by_name", "validate_by_name", "allow_population_by_field_name")


def is_model(schema: object) -> bool:
    """Whether it is one; pydantic is not loaded for the question."""
    bases = [getattr(sys.modules.get(name), "BaseModel", None) for name in ("pydantic", "pydantic.v1")]
    return isinstance(schema, type) and any(base is not None and issubclass(schema, base) for base in bases)


def fill(value: Any, schema: Any, path: Path, report: Report) -> Any:  # noqa: ANN401 - an instance of the model
    """Validate by the model's own rules, and report what it says at its place."""
    problems: list[tuple[Path, str]] = []
    _look_for_unknown(value, schema, path, problems)
    for place, says in problems:
        report(place, says, at_key=True)
    try:
        model = schema.model_validate(value) if hasattr(schema, "model_validate") else schema.parse_obj(value)
    except ValueError as problem:  # ValidationError of both versions
        told = getattr(problem, "errors", None)
        if told is None:
            raise
        known = {place for place, _ in problems}
        for one in told():
            place = (*path, *one["loc"])
            if place not in known and not (one["type"] in {"extra_forbidden", "value_error.extra"} and problems):
                report(place, str(one["msg"]))
        return None
    return model


def _look_for_unknown(value: Any, schema: Any, path: Path, problems: list[tuple[Path, str]]) -> None:  # noqa: ANN401 - any value, any model
    if isinstance(value, list):
        for at, item in enumerate(value):
            _look_for_unknown(item, schema, (*path, at), problems)
        return
    if not isinstance(value, dict):
        return
    settings = getattr(schema, "model_config", None) or vars(getattr(schema, "Config", object))
    by_name = any(settings.get(name) for name in _BY_NAME)
    named = {
        spelling: annotation
        for name, (aliases, annotation) in _fields(schema).items()
        for spelling in ((*aliases, name) if by_name or not aliases else aliases)
    }
    for key, item in value.items():
        if key not in named:
            if settings.get("extra") not in ("allow", "Extra.allow") and not _takes_anything(schema):
                problems.append(((*path, key), unknown_key(key, named)))
            continue
        inner = list(_models_in(named[key]))
        if len(inner) == 1:
            _look_into(item, inner[0], named[key], (*path, key), problems)


def _look_into(item: Any, model: Any, annotation: Any, path: Path, problems: list[tuple[Path, str]]) -> None:  # noqa: ANN401 - any value
    keyed = any(typing.get_origin(one) is dict for one in (annotation, *typing.get_args(annotation)))
    if keyed and isinstance(item, dict):
        for key, value in item.items():
            _look_for_unknown(value, model, (*path, key), problems)
    else:
        _look_for_unknown(item, model, path, problems)


def _fields(schema: Any) -> dict[str, tuple[list[str], Any]]:  # noqa: ANN401 - a model
    """Name -> its other spellings and its type."""
    if hasattr(schema, "model_fields"):
        return {name: (list(_spellings(field)), field.annotation) for name, field in schema.model_fields.items()}
    return {name: ([field.alias], field.outer_type_) for name, field in schema.__fields__.items()}


def _spellings(field: Any) -> typing.Iterator[str]:  # noqa: ANN401 - a field of pydantic 2
    for alias in (field.alias, field.validation_alias):
        for one in getattr(alias, "choices", [alias]):
            if isinstance(one, str):
                yield one
            elif one is not None:
                yield str(one.path[0])


def _takes_anything(schema: Any) -> bool:  # noqa: ANN401 - a model
    """A model of a single value (RootModel) or with validators that see all keys before the fields do."""
    if not {"root", "__root__"}.isdisjoint(_fields(schema)):
        return True
    before = getattr(getattr(schema, "__pydantic_decorators__", None), "model_validators", {})
    return any(one.info.mode != "after" for one in before.values()) or bool(getattr(schema, "__pre_root_validators__", ()))


def _models_in(annotation: Any) -> typing.Iterator[Any]:  # noqa: ANN401 - a type
    if is_model(annotation):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _models_in(inner)
