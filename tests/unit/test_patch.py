"""A fix becomes an edit that changes one value and nothing else."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from crashcart.model import Edit, Evidence, Fact, Fix, Span
from crashcart.patch import apply, resolve
from crashcart.readers.job.command import read_command, read_script
from crashcart.readers.job.config import read_config

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """# 训练
train:
  batch_size: 16     # per device
  lr: 1e-4           # the trap
  name: 'first run'
  tags: ["a", "b"]
data: {num_workers: 8, pin_memory: true}
"""


def facts_of(path: Path) -> dict[str, Fact]:
    read = read_script if path.suffix == ".sh" else read_config
    return {fact.name: fact for fact in read(str(path))}


def fixed(folder: Path, name: str, text: str, **settings: Any) -> tuple[str, Fix]:
    path = folder / name
    path.write_bytes(text.encode())
    wanted = {key.replace("__", "."): value for key, value in settings.items()}
    fix = resolve(Fix("t", "same-recipe", settings=wanted), facts_of(path))
    return apply(fix.edits).get(str(path), text), fix


def test_a_yaml_value_changes_and_comments_and_order_survive(tmp_path: Path) -> None:
    new, fix = fixed(tmp_path, "a.yaml", CONFIG, train__batch_size="half", loader__workers=2, loader__pin=False)
    assert new == CONFIG.replace("size: 16 ", "size: 8 ").replace("workers: 8", "workers: 2").replace("true", "false")
    assert len(fix.edits) == 3
    assert fix.arguments == {}


def test_the_number_that_was_a_string_becomes_a_number_for_pyyaml(tmp_path: Path) -> None:
    new, _ = fixed(tmp_path, "a.yaml", CONFIG, train__learning_rate=1e-4)
    assert yaml.safe_load(new)["train"]["lr"] == 1e-4
    assert "# the trap" in new
    new, _ = fixed(tmp_path, "a.yaml", CONFIG, train__learning_rate="half")
    assert yaml.safe_load(new)["train"]["lr"] == 5e-5
    assert "lr: 5.0e-05  " in new


@pytest.mark.parametrize(
    "value", ["x", "with 'quote'", "1e-4", "no", "a: b", "# c", "", "é", 3, 1e20, 1e-7, True, None, [1, 2], -0.5]
)
def test_any_value_is_written_so_that_it_reads_back(tmp_path: Path, value: object) -> None:
    for written in ("old", "'old'", '"old"', "7"):
        new, fix = fixed(tmp_path, "a.yaml", f"output_dir: {written}  # note\nx: 1\n", output__path=value)
        assert yaml.safe_load(new) == {"output_dir": value, "x": 1}
        assert "# note" in new
        assert len(fix.edits) == 1


def test_quotes_are_kept(tmp_path: Path) -> None:
    assert fixed(tmp_path, "a.yaml", "output_dir: 'a'\n", output__path="b")[0] == "output_dir: 'b'\n"
    assert fixed(tmp_path, "a.yaml", 'output_dir: "a"\n', output__path="b")[0] == 'output_dir: "b"\n'
    assert (
        fixed(tmp_path, "a.sh", "python t.py --report_to=\"wandb\" --n '3'\n", tracker__kind="none")[0]
        == "python t.py --report_to=\"none\" --n '3'\n"
    )


def test_json_and_toml_values_change_in_place(tmp_path: Path) -> None:
    text = '{\n\t"train_micro_batch_size_per_gpu": 8,\n\t"lr": 1e-4, "bf16": {"enabled": true}\n}\n'
    new, _ = fixed(tmp_path, "a.json", text, train__batch_size="quarter", train__learning_rate="half", train__bf16=False)
    assert json.loads(new) == {"train_micro_batch_size_per_gpu": 2, "lr": 5e-5, "bf16": {"enabled": False}}
    assert new.startswith('{\n\t"train_micro_batch_size_per_gpu": 2,\n')
    pytest.importorskip("tomllib")
    assert fixed(tmp_path, "a.toml", "# c\nbatch_size = 8 # n\n", train__batch_size="half")[0] == "# c\nbatch_size = 4 # n\n"


def test_a_flag_in_a_script_changes_where_it_stands(tmp_path: Path) -> None:
    text = "#!/bin/bash\n# note\npython t.py \\\n  --sample_batch_size=64 \\\n  --train_batch_size 16 \\\n  --lr=1e-4\n"
    new, fix = fixed(tmp_path, "a.sh", text, sample__batch_size=8, train__batch_size="half", train__learning_rate="half")
    assert new == text.replace("=64", "=8").replace(" 16 ", " 8 ").replace("1e-4", "5e-05")
    assert fix.diff.count("\n-") == 3 + fix.diff.count("\n---")


def test_a_variable_shared_by_two_flags_is_not_changed_for_both(tmp_path: Path) -> None:
    text = "BS=16\npython t.py --train_batch_size=$BS --sample_batch_size=$BS\n"
    assert fixed(tmp_path, "a.sh", text, sample__batch_size="half")[0] == text.replace(
        "sample_batch_size=$BS", "sample_batch_size=8"
    )
    text = "BS=16\npython t.py --train_batch_size=$BS\n"
    assert fixed(tmp_path, "a.sh", text, train__batch_size="half")[0] == text.replace("16", "8")


def test_a_flag_whose_value_only_the_shell_knows_can_take_a_literal(tmp_path: Path) -> None:
    text = "python t.py --sample_batch_size=$SBS\n"
    assert fixed(tmp_path, "a.sh", text, sample__batch_size=8)[0] == "python t.py --sample_batch_size=8\n"
    assert fixed(tmp_path, "a.sh", text, sample__batch_size="half")[1].edits == ()


def test_the_broken_script_of_seed_003_becomes_whole(tmp_path: Path) -> None:
    text = 'python3() { echo "$@"; }\npython3 imitate_episodes.py \\\n    --batch_size 2 \\  # 进一步减小\n    --num_epochs 2000 \\\n    # seed\n    --seed 0\n'
    new, fix = fixed(tmp_path, "a.sh", text, **{"script.broken_continuation": ""})
    done = subprocess.run(["bash", "-c", new], capture_output=True, text=True, check=True)
    assert done.stdout == "imitate_episodes.py --batch_size 2 --num_epochs 2000 --seed 0\n"
    assert "-    --batch_size 2 \\  # 进一步减小\n+    --batch_size 2 \\\n" in fix.diff


def test_windows_line_ends_are_taken_off_a_script(tmp_path: Path) -> None:
    text = "python t.py \\\r\n  --a 1\r\n"
    assert fixed(tmp_path, "a.sh", text, **{"script.broken_continuation": ""})[0] == "python t.py \\\n  --a 1\n"


def test_line_ends_and_a_missing_last_one_stay_as_they_are(tmp_path: Path) -> None:
    new, fix = fixed(tmp_path, "a.yaml", "batch_size: 4\r\nx: 1", train__batch_size=2)
    assert new == "batch_size: 2\r\nx: 1"
    assert "\\ No newline at end of file\n" in fix.diff


def test_the_diff_can_be_applied_by_patch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(CONFIG)
    facts = {fact.name: fact for fact in read_config("a.yaml")}
    fix = resolve(Fix("t", "same-recipe", settings={"train.batch_size": "half"}), facts)
    assert fix.diff.startswith("--- a/a.yaml\n+++ b/a.yaml\n")
    subprocess.run(["git", "apply", "-"], input=fix.diff, text=True, check=True, cwd=tmp_path)
    assert (tmp_path / "a.yaml").read_text() == CONFIG.replace("16", "8")


def test_a_flag_without_a_file_becomes_an_argument_in_its_own_spelling() -> None:
    facts = {fact.name: fact for fact in read_command("python t.py --sample-batch-size 64 data.lr=0.1")}
    fix = resolve(Fix("t", "same-recipe", settings={"sample.batch_size": "half", "train.learning_rate": "half"}), facts)
    assert fix.arguments == {"--sample-batch-size": "32", "data.lr": "0.05"}
    assert (fix.edits, fix.diff, fix.title) == ((), "", "t")


def test_an_unknown_setting_is_advised_only_with_a_literal_value() -> None:
    fix = resolve(Fix("t", "same-recipe", settings={"eval.batch_size": 8, "loader.workers": "half", "no.such": 1}), {})
    assert fix.arguments == {"--per_device_eval_batch_size": "8"}


def test_a_variable_of_the_environment_stays_one() -> None:
    facts = {fact.name: fact for fact in read_command("WANDB_MODE=online python t.py")}
    fix = resolve(Fix("t", "same-recipe", settings={"tracker.mode": "offline"}), facts)
    assert (fix.environment, fix.arguments) == ({"WANDB_MODE": "offline"}, {})


@pytest.mark.parametrize(
    ("old", "wanted", "new"),
    [("16", "half", "8"), ("16", "quarter", "4"), ("16", "double", "32"), ("16", "zero", "0"), ("3", "half", "1"), ("2", "quarter", "1"),
     ("0.5", "half", "0.25"), ("1", "half", None), ("0", "half", None), ("0", "zero", None), ("-1", "double", None), ("auto", "half", None),
     ("16", 16, None)],
)  # fmt: skip
def test_relative_values_never_reach_zero_and_never_change_nothing(
    tmp_path: Path, old: str, wanted: object, new: str | None
) -> None:
    text, fix = fixed(tmp_path, "a.yaml", f"batch_size: {old}\n", train__batch_size=wanted)
    assert text == f"batch_size: {new or old}\n"
    assert len(fix.edits) == (new is not None)


def test_an_edit_that_would_not_say_what_it_should_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\nbatch_size: 16\n")
    stale = Fact("train.batch_size", 16, Evidence("config", "", ""), "file", "batch_size", Span(str(path), 0, 1, 1))
    gone = Fact(
        "loader.workers", 8, Evidence("config", "", ""), "file", "num_workers", Span(str(tmp_path / "gone.yaml"), 0, 1, 1)
    )
    fix = resolve(
        Fix("t", "exact", settings={"train.batch_size": 8, "loader.workers": 2}),
        {"train.batch_size": stale, "loader.workers": gone},
    )
    assert (fix.edits, fix.diff) == ((), "")


def test_a_value_behind_an_alias_is_left_alone_when_two_settings_want_it(tmp_path: Path) -> None:
    new, fix = fixed(tmp_path, "a.yaml", "batch_size: &b 16\neval_batch_size: *b\n", eval__batch_size=4, train__batch_size=8)
    assert yaml.safe_load(new) in (
        {"batch_size": 4, "eval_batch_size": 4},
        {"batch_size": 8, "eval_batch_size": 16},
        {"batch_size": 16, "eval_batch_size": 16},
    )
    assert len(fix.edits) <= 1


def test_a_python_value_changes_and_the_file_still_parses(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text("loader = DataLoader(d, num_workers=8)  # note\n")
    fact = Fact("loader.workers", 8, Evidence("code", "", ""), "code", "num_workers", Span(str(path), 35, 36, 1))
    fix = resolve(Fix("t", "same-recipe", settings={"loader.workers": "half"}), {"loader.workers": fact})
    assert apply(fix.edits)[str(path)] == "loader = DataLoader(d, num_workers=4)  # note\n"


def test_a_script_that_changed_since_it_was_read_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    path.write_text("python t.py --batch_size 16\n")
    facts = facts_of(path)
    path.write_text("python other.py --lr 1 --batch_size 16\n")
    fix = resolve(Fix("t", "same-recipe", settings={"train.batch_size": "half"}), facts)
    assert (fix.edits, fix.arguments) == ((), {"--batch_size": "8"})


def test_edits_given_by_a_cause_are_applied_together_with_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("x: 1\nbatch_size: 16\n")
    given = Edit(Span(str(path), 3, 4, 1), "22")
    fix = resolve(Fix("t", "exact", settings={"train.batch_size": "half"}, edits=(given,)), facts_of(path))
    assert apply(fix.edits)[str(path)] == "x: 22\nbatch_size: 8\n"


def test_of_a_program_whose_parser_was_seen_no_foreign_flag_is_advised_and_a_value_in_its_code_is_named_with_its_line() -> (
    None
):
    seen = Evidence("recorder", "num_workers = 8 (DataLoader at train.py:40)", "recorder 12:00:00Z")
    facts = {"loader.workers": Fact("loader.workers", 8, seen, origin="recorded")}
    wanted = Fix("Fewer workers", "same-recipe", "less memory", settings={"loader.workers": "half", "train.clip": 1.0})
    without = resolve(wanted, facts, {"--lr": "lr"})
    assert (without.arguments, without.settings, without.safety) == ({}, {}, "by-hand")
    assert without.why == "less memory; num_workers = 8 (DataLoader at train.py:40) becomes 4"
    known = resolve(wanted, facts, {"--grad_clip": "grad_clip"})
    assert (known.arguments, known.safety) == ({"--grad_clip": "1.0"}, "same-recipe")
