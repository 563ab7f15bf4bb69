"""Config files are read as their loader reads them, with the place of every value."""

from __future__ import annotations

import datetime as dt
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from crashcart.errors import CommandError
from crashcart.readers.job.config import read_config

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.model import Fact

VGGT = """# 配置 for one card
max_img_per_gpu: 32        # four batches
accum_steps: 4
optim:
  optimizer:
    lr: 2e-5               # was 5e-5
  gradient_clip:
    configs:
      - module_name: ["depth_head"]
        max_norm: 0.5
data:
  train: {num_workers: 16, prefetch_factor: 8}
  val:
    num_workers: 4
    persistent_workers: no
img_nums: [2, 24]
"""


def read(folder: Path, text: str, name: str = "train.yaml") -> list[Fact]:
    path = folder / name
    path.write_text(text, newline="")
    return read_config(str(path))


def values(facts: list[Fact]) -> dict[str, Any]:
    return {fact.name: fact.value for fact in facts}


def test_values_get_their_names_and_the_parents_decide(tmp_path: Path) -> None:
    found = values(read(tmp_path, VGGT))
    expected = {"train.images_per_device": 32, "train.accumulation": 4, "train.learning_rate": "2e-5", "train.clip": 0.5,
                "loader.workers": 16, "loader.prefetch": 8, "eval.workers": 4, "eval.persistent": False,
                "data.images_per_sequence": [2, 24], "config.optim.gradient_clip.configs[0].module_name[0]": "depth_head"}  # fmt: skip
    assert {name: found.get(name) for name in expected} == expected


def test_the_span_is_the_value_and_nothing_else(tmp_path: Path) -> None:
    for fact in read(tmp_path, VGGT):
        assert fact.span is not None
        assert yaml.safe_load(VGGT[fact.span.start : fact.span.end]) == fact.value
        assert VGGT.split("\n")[fact.span.line - 1].strip() == fact.evidence.quote
        assert fact.evidence.where == f"{tmp_path}/train.yaml:{fact.span.line}"


@pytest.mark.parametrize(
    "text",
    ["1e-4", "1.0e-4", "1e4", "1.0e4", "1.0e+4", "1_000", "on", "no", "y", "08", "010", "0o10", "1:30", "12:30:45.5", "None", "null", "~", "inf",
     ".inf", "2024-01-01", '"16"', "'x'", "1e-4#x", ""],
)  # fmt: skip
def test_a_value_is_what_pyyaml_makes_of_it(tmp_path: Path, text: str) -> None:
    document = f"lr: {text}\n"
    assert values(read(tmp_path, document)) == {"train.learning_rate": yaml.safe_load(document)["lr"]}


def test_the_trap_of_seed_004_stays_a_string(tmp_path: Path) -> None:
    fact = read(tmp_path, "model: x\nlearning_rate: 1e-4  # note\n")[1]
    assert (fact.name, fact.value, fact.spelling, fact.evidence.where[-13:]) == (
        "train.learning_rate",
        "1e-4",
        "learning_rate",
        "/train.yaml:2",
    )


@pytest.mark.parametrize("before", ["\ufeff", "# ⭐🎯\n", 'a: "\u2028"\n', "a: 1\r\n"])
def test_marks_and_strange_characters_do_not_shift_the_span(tmp_path: Path, before: str) -> None:
    text = f"{before}lr: 1e-4\r\n"
    span = read(tmp_path, text)[-1].span
    assert span is not None
    assert text[span.start : span.end] == "1e-4"


def test_merged_keys_are_read_and_overridden(tmp_path: Path) -> None:
    text = "base: &base\n  lr: 0.1\n  batch_size: 4\ntrain:\n  <<: *base\n  lr: 0.2\n"
    assert values(read(tmp_path, text))["train.learning_rate"] == yaml.safe_load(text)["train"]["lr"] == 0.2
    paths = {fact.spelling: fact.value for fact in read(tmp_path, text)}
    assert paths["train.batch_size"] == 4


def test_a_document_that_is_one_string_for_want_of_a_blank_is_shown_as_such(tmp_path: Path) -> None:
    assert values(read(tmp_path, "lr:1e-4\n")) == {"config.document": "lr:1e-4"}


def test_several_documents_are_read_and_told(tmp_path: Path) -> None:
    assert values(read(tmp_path, "lr: 0.1\n---\nseed: 2\n")) == {
        "train.learning_rate": 0.1,
        "config.documents": 2,
        "train.seed": 2,
    }


def test_a_key_that_stands_twice_is_told(tmp_path: Path) -> None:
    found = values(read(tmp_path, "a:\n  lr: 0.1\n  lr: 0.2\n"))
    assert (found["config.duplicate"], found["train.learning_rate"]) == ("a.lr", 0.2)


def test_a_group_of_hydra_is_put_below_its_name(tmp_path: Path) -> None:
    read(tmp_path, "batch_size: 4\n", "val.yaml")
    fact = read_config(str(tmp_path / "val.yaml"), prefix="data.val")[0]
    assert (fact.name, fact.spelling) == ("eval.batch_size", "data.val.batch_size")


def test_a_python_config_is_read_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text("optim = dict(lr=0.1)\nmax_iters = 100\n")
    text = "_base_ = './base.py'\n名 = 'é'; batch_size = 12  # note\ngrad_accum = 5 * 8\nimport os; os.abort()\nx = os.getcwd()\n"
    (tmp_path / "c.py").write_text(text + "train_dataloader = {'num_workers': 4}\n")
    facts = {fact.name: fact for fact in read_config(str(tmp_path / "c.py"))}
    named = ("train.learning_rate", "train.max_steps", "train.batch_size", "train.accumulation", "loader.workers")
    assert [facts[name].value for name in named] == [0.1, 100, 12, 40, 4]
    span = facts["train.batch_size"].span
    assert span is not None
    assert text[span.start : span.end] == "12"


def test_a_python_config_that_leads_back_to_itself_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("_base_ = ['b.py']\n")
    (tmp_path / "b.py").write_text("_base_ = 'a.py'\n")
    with pytest.raises(CommandError, match="lead back to itself"):
        read_config(str(tmp_path / "a.py"))


def test_json_is_read_with_places_and_as_json_gives_it(tmp_path: Path) -> None:
    text = """{
\t"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto",
\t"bf16": {"enabled": true}, "lr": 1e-4,
\t"steps": 1e9, "betas": [0.9, 1e-3], "n": null, "s": "a\\"b\\u00e9", "e": [], "o": {}
}"""
    facts = read(tmp_path, text, "ds.json")
    found = values(facts)
    assert (found["train.global_batch_size"], found["train.batch_size"], found["train.bf16"]) == (64, "auto", True)
    assert (found["train.learning_rate"], found["train.max_steps"], found["config.betas"]) == (1e-4, 1e9, [0.9, 1e-3])
    for fact in facts:
        assert fact.span is not None
        assert json.loads(text[fact.span.start : fact.span.end]) == fact.value


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib comes with Python 3.11")
def test_toml_values_have_places_where_they_stand_plainly(tmp_path: Path) -> None:
    text = '# c\nbatch_size = 8 # note\n[optim]\nlr = 1e-4\nname = "a # b"\n[data.val]\nnum_workers = 2\nshape = [1, 2]\nday = 2024-01-01\n'
    facts = {fact.name: fact for fact in read(tmp_path, text, "job.toml")}
    assert {name: fact.value for name, fact in facts.items()} == {
        "train.batch_size": 8, "train.learning_rate": 1e-4, "config.optim.name": "a # b", "eval.workers": 2,
        "config.data.val.shape": [1, 2], "config.data.val.day": dt.date(2024, 1, 1),
    }  # fmt: skip
    written = {name: text[fact.span.start : fact.span.end] for name, fact in facts.items() if fact.span}
    assert written["train.learning_rate"] == "1e-4"
    assert written["config.optim.name"] == '"a # b"'


def test_axolotl_calls_the_global_batch_batch_size(tmp_path: Path) -> None:
    found = values(read(tmp_path, "micro_batch_size: 2\nbatch_size: 16\n"))
    assert found == {"train.batch_size": 2, "train.global_batch_size": 16}


def test_a_secret_is_not_kept(tmp_path: Path) -> None:
    assert "abc123" not in repr(read(tmp_path, "wandb:\n  api_key: abc123\n"))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.yaml", "a: [1,\nb: 2\n", r"a\.yaml cannot be read as YAML: line [23]: "),
        ("a.yaml", "a: \x00\n", "cannot be read as YAML"),
        ("a.json", '{"a": 1,}', r"a\.json cannot be read as JSON: .*line 1"),
        ("a.json", "[" * 100_000, "nested more than 100 levels"),
        ("a.toml", "a = \n", "cannot be read as TOML"),
        ("a.json", "[" + "1," * 30_000 + "1]", "more than 20000 values"),
        ("a.yaml", "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)), "more than 20000"),
        ("a.yaml", "a: &a\n  b: *a\n", "more than 20000 values|nested too deeply"),
        ("a.yaml", "#" * 5_000_001, "larger than 5 MB"),
    ],
)  # fmt: skip
def test_a_bad_file_gives_one_sentence_and_no_traceback(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(CommandError, match=says) as caught:
        read(tmp_path, text, name)
    assert "\n" not in str(caught.value)


def test_what_is_no_file_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is a folder, not a file"):
        read_config(str(tmp_path))
    (tmp_path / "x.yaml").write_bytes(b"a: \xff\xfe\n")
    with pytest.raises(CommandError, match="not UTF-8"):
        read_config(str(tmp_path / "x.yaml"))


def test_an_empty_config_and_tags_of_the_programs_own_are_no_errors(tmp_path: Path) -> None:
    assert read(tmp_path, "# nothing\n") == []
    known = values(read(tmp_path, "a: !include other.yaml\nlr: !ref <rate>\nb: !!python/tuple [1, 2]\nday: 2024-13-01\n"))
    assert "config.a" not in known  # what only the program's own loader can tell is unknown
    assert "<rate>" not in known.values()
    assert known["config.day"] == "2024-13-01"
