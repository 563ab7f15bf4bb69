"""The JSON of `why`, `check`, `doctor` and `runs` is what `docs/schema/schema-1.json` says, for every case and plan."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import test_cases
import test_plans

import crashcart
from crashcart.cli import main
from crashcart.report.data import json_text, plain

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "schema-1.json").read_text(encoding="utf-8"))


def closed(schema: Any) -> Any:
    """The schema without room for properties that it does not name: a reader of JSON may meet new ones, our tests may not."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(one) for name, one in schema.items()}
    return {"additionalProperties": False, **inner} if "required" in schema else inner


VALIDATORS = {
    kind: jsonschema.Draft202012Validator({**closed(SCHEMA), "anyOf": [{"$ref": f"#/$defs/{kind}"}]})
    for kind in ("diagnosis", "runs")
}


def is_no_json(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def validate(text: str) -> dict[str, Any]:
    """The answer, where it is JSON to every parser and fits the schema."""
    answer: dict[str, Any] = json.loads(text, parse_constant=is_no_json)
    problems = VALIDATORS["runs" if "runs" in answer else "diagnosis"].iter_errors(answer)
    assert not [f"{problem.json_path}: {problem.message[:300]}" for problem in problems]
    return answer


def output_of(*arguments: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        main(arguments)
    return output.getvalue()


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_case_fits(tmp_path: Path) -> None:
    for number, section in enumerate(test_cases.sections()):
        folder = tmp_path / str(number)
        diagnosis = crashcart.why(**test_cases.written(section, folder))
        validate(json_text(plain(diagnosis)))


def test_every_plan_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, section in enumerate(test_plans.sections()):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        for name, body in section.of("file"):
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(body, encoding="utf-8")
        validate(output_of("check", "--json", "--show-job", *shlex.split(section.of("check")[0][1])))


@pytest.mark.usefixtures("folder")
def test_doctor_and_an_empty_list_of_runs_fit() -> None:
    assert validate(output_of("doctor", "--json"))["machine"]
    validate(output_of("runs", "--json"))


def test_what_json_has_no_word_for_is_told_in_words() -> None:
    told = {"a": float("inf"), "b": [float("nan"), (1, 2)], (1, 2): {None: 3}, "d": b"x"}
    assert json.loads(json_text(told), parse_constant=is_no_json) == {  # type: ignore[arg-type]
        "a": "inf",
        "b": ["nan", [1, 2]],
        "(1, 2)": {"None": 3},
        "d": "b'x'",
    }
