"""Whether an answer is JSON to every parser and fits the published schema, with no property that the schema does not name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

__all__ = ["SCHEMA", "problems_of"]

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "schema" / "schema-1.json").read_text(encoding="utf-8"))


def _closed(schema: Any) -> Any:
    """The schema without room for more: a reader of JSON may meet new properties, our tests may not."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _closed(one) for name, one in schema.items()}
    return {"additionalProperties": False, **inner} if "required" in schema else inner


_VALIDATORS = {
    kind: jsonschema.Draft202012Validator({"$defs": _closed(SCHEMA["$defs"]), "$ref": f"#/$defs/{kind}"})
    for kind in ("diagnosis", "runs")
}


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def problems_of(text: str) -> list[str]:
    """What is wrong with an answer; nothing where it is well."""
    try:
        answer = json.loads(text, parse_constant=_refuse)
    except ValueError as problem:
        return [str(problem)]
    validator = _VALIDATORS["runs" if "runs" in answer else "diagnosis"]
    return [f"{problem.json_path}: {problem.message[:300]}" for problem in validator.iter_errors(answer)]
