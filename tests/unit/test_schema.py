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
from answer_schema import SCHEMA, problems_of

import crashcart
from crashcart.cli import main
from crashcart.report.data import json_text, plain


def validate(text: str) -> dict[str, Any]:
    assert not problems_of(text)
    answer: dict[str, Any] = json.loads(text)
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
    assert json.loads(json_text(told), parse_constant=pytest.fail) == {  # type: ignore[arg-type]
        "a": "inf",
        "b": ["nan", [1, 2]],
        "(1, 2)": {"None": 3},
        "d": "b'x'",
    }
