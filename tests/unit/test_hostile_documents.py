"""JSON, YAML, TOML and Python that would crash a parser, fill the memory, or end a reader that calls itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import crashcart
from crashcart.documents import DocumentError, compose_yaml, json_weight, load_json, load_toml, load_yaml, parse_python
from crashcart.errors import CommandError
from crashcart.readers.interpreter.libraries.hydra_config import _Grammar
from crashcart.readers.job.config import read_config_text

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(60)
DEEP = 50_000


@pytest.mark.parametrize(
    "text",
    ["[" * DEEP, "{a: " * DEEP, "- " * DEEP + "a", "? " * DEEP + "a", "x: [" * DEEP, "".join(" " * at + "a:\n" for at in range(200))],
)  # fmt: skip
def test_yaml_that_is_nested_too_deeply_is_refused_before_it_is_composed(text: str) -> None:
    with pytest.raises(DocumentError, match="nested more than 100 levels"):
        compose_yaml(text)
    with pytest.raises(CommandError, match=r"^a\.yaml is nested more than 100 levels deep\.$"):
        read_config_text(text, "a.yaml")


@pytest.mark.parametrize(
    "text", ["- a\n" * 500_000, "--- a\n" * 300_000, "[" + "a, " * 500_000 + "]", "a: {" + "b: 1, " * 200_000 + "}"]
)
def test_yaml_with_more_values_than_a_config_has_is_refused(text: str) -> None:
    with pytest.raises(DocumentError, match="data rather than a config"):
        compose_yaml(text)


def test_yaml_with_thousands_of_directives_is_refused() -> None:
    with pytest.raises(DocumentError, match="directives"):
        compose_yaml("".join(f"%TAG !a{number}! t\n" for number in range(50_000)) + "--- a\n")


@pytest.mark.parametrize("suffix", ["yaml", "json", "toml"])
def test_an_endless_key_above_many_values_is_refused(suffix: str) -> None:
    values = {"k" * 100_000: {f"a{number}": 1 for number in range(1000)}}
    texts = {
        "yaml": '"' + "k" * 1001 + '":\n' + "".join(f"  a{number}: 1\n" for number in range(1000)),
        "json": json.dumps(values),
        "toml": "[" + "k" * 100_000 + "]\n" + "".join(f"a{number} = 1\n" for number in range(1000)),
    }
    with pytest.raises(CommandError, match=r"has a key of .* characters|line 1"):
        read_config_text(texts[suffix], f"a.{suffix}")


@pytest.mark.parametrize("text", ["[" * DEEP, '{"a":' * DEEP, "[" * 500 + "]" * 500, '{"a":[' * 60 + "]}" * 60])
def test_json_that_is_nested_too_deeply_is_refused(text: str) -> None:
    for form in (text, text.encode()):
        with pytest.raises(DocumentError, match="nested more than 100 levels"):
            load_json(form)
    assert load_json("[" * 90 + "]" * 90)


@pytest.mark.parametrize(
    "text",
    [
        "[" + "{}," * 600_000 + "{}]",
        "[" + "0," * 1_200_000 + "0]",
        '"' + "x" * (40 << 20) + '"',
        '"é' + "x" * (20 << 20) + '"',
    ],
)
def test_json_that_would_not_fit_is_refused_before_it_is_read(text: str) -> None:
    with pytest.raises(DocumentError, match="more than fits into 64 MB"):
        load_json(text)


def test_the_weight_of_json_is_near_what_it_takes() -> None:
    import tracemalloc

    values: list[Any] = [
        [{"a": number} for number in range(20_000)],
        {f"k{number}": number for number in range(20_000)},
        [[]] * 20_000,
    ]
    for value in values:
        text = json.dumps(value)
        tracemalloc.start()
        kept = load_json(text)
        taken = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert kept == value
        assert 0.8 < json_weight(text) / taken < 4


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * DEEP,
        ".".join("a" * DEEP) + " = 1",
        "[" + ".".join("a" * 500) + "]",
        "a = " + "{b = " * 300 + "1" + "}" * 300,
    ],
)
def test_toml_that_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(DocumentError, match="nested more than 100 levels"):
        load_toml(text)


def test_numbers_that_python_reads_and_cannot_print_are_bounded(tmp_path: Path) -> None:
    digits = f"0x{'f' * 5000}"
    assert load_toml(f"a = [{{b = {digits}}}]") == {"a": [{"b": float("inf")}]}
    (tmp_path / "pyproject.toml").write_text(f"[tool.crashcart]\nignore = {digits}\n")
    (tmp_path / "train.py").write_text("import torch\nloss.backward()\n")
    assert "must be a list" in crashcart.check([str(tmp_path / "train.py")]).not_looked[0].why


@pytest.mark.parametrize(
    "text", ["!!timestamp a", "!!bool x", '!!int ""', "[*a]", "&a [*a]", "{<<: [&a {b: 1}, *a]}", "[" * DEEP]
)
def test_a_value_of_yaml_that_has_no_meaning_is_an_error_of_one_kind(text: str) -> None:
    with pytest.raises((ValueError, yaml.YAMLError)):
        load_yaml(text)


PROGRAMS = {
    "parentheses": "x = " + "(" * DEEP,
    "signs": "x = " + "-" * DEEP + "1",
    "sum": "x = " + "1 + " * DEEP + "1",
    "attributes": "x = a" + ".b" * DEEP,
    "calls": "x = a" + "()" * DEEP,
    "lambdas": "x = " + "lambda: " * DEEP + "1",
    "conditions": "x = " + "a if a else " * DEEP + "1",
    "branches": "if a: pass\n" + "elif a: pass\n" * 3000,
    "list": "x = [" + "0, " * DEEP * 2 + "]",
    "statements": "x = 1\n" * DEEP,
}


@pytest.fixture
def usual_recursion_limit() -> Iterator[None]:
    """As Python has it: libraries of other tests in the same process raise it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("usual_recursion_limit")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_no_person_wrote_is_refused(name: str) -> None:
    with pytest.raises((DocumentError, SyntaxError)):
        parse_python(PROGRAMS[name])


@pytest.mark.parametrize(
    "line",
    ["x = " + "a + " * 600 + "1", "x = a" + ".b" * 700, "x = a" + "(1).g" * 300, "x = a" + "[0]" * 500,
     "if a: pass\n" + "elif a: pass\n" * 300, "x = " + "a and not " * 400 + "b", "f(" * 90 + "lr" + ")" * 90],
)  # fmt: skip
def test_a_program_at_the_edge_costs_no_rule_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import torch\nimport deep\nopt = torch.optim.SGD([], lr='1e-4')\nopt.step()\n")
    Path("deep.py").write_text(f"import torch, argparse\nfrom torch.utils.data import DataLoader\n{line}\n")
    diagnosis = crashcart.check(command=["python", "train.py"])
    assert {gap.what for gap in diagnosis.not_looked} <= {"deep.py"}
    assert {gap.why for gap in diagnosis.not_looked} <= {
        "is nested too deeply to be read",
        "it is nested too deeply to be read",
    }


@pytest.mark.parametrize(
    "name", ["a\\u0000b", "~\\u0000", "~a\\u0000b/c", "\\ud800", "x" * 5000, "/*/*/*/*/*/*/*/*", "a" * 300 + "/*"]
)
def test_a_name_that_no_file_can_have_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    keys = ("data_path", "train_data", "output_dir", "resume_from_checkpoint", "model_path", "config_path", "weights")
    Path("c.json").write_text("{" + ", ".join(f'"{key}": "{name}"' for key in keys) + "}")
    Path("train.sh").write_text("python train.py --config c.json --deepspeed c.json\n")
    Path("train.py").write_text(
        "import json, torch\ncfg = json.load(open('c.json'))\ntorch.load(cfg['weights'])\nopen(cfg['data_path'])\n"
        "opt = torch.optim.SGD([], lr=cfg['lr'])\nopt.step()\ntorch.save({}, cfg['output_dir'])\n"
    )
    assert crashcart.check(["train.sh"]).verb == "check"
    Path("train.log").write_text("step 1\nRuntimeError: x\n")
    assert crashcart.why(["train.log"], configs=["c.json"]).findings


@pytest.mark.parametrize("word", ["[}", "[" * 14 + "1" + "]" * 14, "{a:[}", "[[}, 1]"])
def test_a_word_for_hydra_that_is_no_value_ends(word: str) -> None:
    grammar = _Grammar(word)
    grammar.value(0)
    assert grammar.position >= len(word) - 1


def test_code_of_words_alone_is_refused_like_code_of_marks() -> None:
    with pytest.raises(DocumentError, match="hand-written"):
        parse_python("x = " + " and ".join(["a"] * 90_000))
