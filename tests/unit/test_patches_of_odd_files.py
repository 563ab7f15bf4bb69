"""Patches of files with other line ends or very long lines, and a patch that must not reach the training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.model import Edit, Fix, Span
from crashcart.patch import apply, resolve
from crashcart.readers.code.safe_arithmetic import safer, unsafe_operations
from crashcart.readers.code.source import Source
from crashcart.readers.remedies._scene import lines_of_script, span_in
from crashcart.readers.remedies.near_words import nearest

if TYPE_CHECKING:
    from pathlib import Path

DEATH = """step 1 loss 0.5
Traceback (most recent call last):
  File "t.py", line 7, in <module>
    main()
  File "t.py", line 5, in main
    y = x.numpy()
RuntimeError: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.
"""
PROGRAM = """import torch


def main(x=torch.ones(1, requires_grad=True)):
    y = x.numpy()

main()
"""
OUTSIDE = DEATH.replace('"t.py"', '"../t.py"')
TRAINED = """import lightning as L
import wandb


class Model(L.LightningModule):
    def training_step(self, batch, index):
        wandb.log({"loss": 1.0})


def main():
    L.Trainer(max_steps=100).fit(Model(), loader)


main()
"""
TRACKER = """step 1 loss 0.5
Traceback (most recent call last):
  File "t.py", line 14, in <module>
    main()
  File "t.py", line 11, in main
    L.Trainer(max_steps=100).fit(Model(), loader)
  File "/usr/lib/python3/site-packages/lightning/pytorch/trainer/trainer.py", line 538, in fit
    call._call_and_handle_interrupt(
  File "t.py", line 7, in training_step
    wandb.log({"loss": 1.0})
wandb.errors.errors.CommError: Error communicating with wandb process
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_new_lines_end_as_the_old_ones_do(tmp_path: Path, end: str) -> None:
    (tmp_path / "a.py").write_bytes(f"one{end}two{end}".encode())
    (text,) = apply([Edit(Span("a.py", 3, 3, 1), "\nmore\nmore")]).values()
    assert text == f"one{end}more{end}more{end}two{end}"


def test_no_patch_beside_a_line_that_nobody_can_read(tmp_path: Path) -> None:
    for length, patched in ((10, True), (300_000, False)):
        (tmp_path / "t.py").write_text(f"{PROGRAM}'{'x' * length}'\n")
        (tmp_path / "x.log").write_text(DEATH)
        assert any(fix.diff for fix in crashcart.why("x.log").findings[0].fixes) == patched


def test_what_a_tracker_raises_is_caught_where_it_is_called_and_not_around_the_training(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(TRAINED)
    (tmp_path / "x.log").write_text(TRACKER)
    diff = crashcart.why("x.log").findings[0].fixes[0].diff
    assert '+            wandb.log({"loss": 1.0})' in diff
    assert "main()" not in [line[1:].strip() for line in diff.splitlines() if line.startswith(("+", "-"))]


def test_what_is_tried_is_printed_without_what_is_handed_over(tmp_path: Path) -> None:
    call = 'connect(password="Zx9QwErTy77uIoPk").log('
    (tmp_path / "t.py").write_text(TRAINED.replace("wandb.log(", call))
    (tmp_path / "x.log").write_text(TRACKER.replace("wandb.log(", call))
    diff = crashcart.why("x.log").findings[0].fixes[0].diff
    assert 'print(f"a call was left out: {problem!r}", flush=True)' in diff
    assert "Zx9QwErTy77uIoPk" not in diff


def test_a_sum_is_made_of_all_branches(tmp_path: Path) -> None:
    text = (
        "import torch\n\n\ndef loss(x, m):\n    return torch.sqrt(x.pow(2).sum() if m is None else (x * m).pow(2).sum())\n"
    )
    (tmp_path / "n.py").write_text(text)
    source = Source("n.py", text)
    (operation,) = unsafe_operations(source, source.functions[0])
    assert "(x.pow(2).sum() if m is None else (x * m).pow(2).sum()) + 1e-12)" in apply(safer(source, operation))["n.py"]


def test_a_word_that_would_need_quotes_is_not_written() -> None:
    assert nearest("cosine_restart", ["cosine_restarts", "linear"]) == "cosine_restarts"
    assert nearest("cosine_restarts", ["cosine restarts", "linear"]) is None
    assert nearest("data_set.jsonl", ["data\x1b[31m_set.jsonl"]) is None


def test_choices_of_a_secret_are_not_told(tmp_path: Path) -> None:
    parser = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--api_key', choices=['a', 'Zx9QwErTy77uIoPk'])\n"
    )
    (tmp_path / "train.py").write_text(f"{parser}p.parse_args()\n")
    says = crashcart.check(command=["python", "train.py", "--api_key", "b"]).findings[0].signs[0].says
    assert "invalid choice" in says
    assert "Zx9QwErTy77uIoPk" not in says


def test_what_parses_and_does_not_compile_is_no_patch(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("names = load(held := path)\n")
    whole = Span("t.py", 8, 26, 1)
    for text, kept in (("[each for each in load(held := path)]", False), ("[each for each in load(path)]", True)):
        fix = resolve(Fix("Take them apart", "exact", "", edits=(Edit(whole, text),)), {})
        assert bool(fix.edits) == kept


def test_a_part_of_a_script_is_where_its_line_says(tmp_path: Path) -> None:
    text = "#!/bin/bash\n\nulimit -n 128\npython train.py\n"
    (tmp_path / "run.sh").write_text(text)
    for start, line, seen in lines_of_script("run.sh"):
        span = span_in(seen, start, start + len(line))
        assert (text[span.start : span.end], text.split("\n")[span.line - 1]) == (line, line)
    assert not list(lines_of_script("no.sh"))


def test_a_file_outside_of_the_job_is_not_patched_whatever_a_log_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.py").write_text(PROGRAM)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.log").write_text(OUTSIDE)
    monkeypatch.chdir(tmp_path / "job")
    fixes = crashcart.why(["train.log"]).findings[0].fixes
    assert not any(fix.edits or fix.diff for fix in fixes)
    assert any("../t.py lies outside of this job's folder" in fix.why for fix in fixes)
    (tmp_path / "setup.py").write_text("")  # now both are one project
    assert crashcart.why(["train.log"]).findings[0].fixes[0].edits


def test_a_link_that_leads_out_of_the_job_is_not_patched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "other.py").write_text(PROGRAM)
    (tmp_path / "job" / "t.py").symlink_to(tmp_path / "other.py")
    (tmp_path / "job" / "train.log").write_text(DEATH)
    monkeypatch.chdir(tmp_path / "job")
    assert not any(fix.edits for fix in crashcart.why(["train.log"]).findings[0].fixes)


@pytest.mark.parametrize(("old", "new", "is_kept"), [
    ("f(\n    1,  # the first\n    2,\n)", "f(1, 3)", False),
    ("f(\n    1,  # the first\n    2,\n)", "f(\n    1,  # the first\n    3,\n)", True),
    ("f('#')", "f('')", True),
    ("f(1)  # no more", "", True),
])  # fmt: skip
def test_a_patch_loses_no_comment(tmp_path: Path, old: str, new: str, is_kept: bool) -> None:  # noqa: FBT001 - of the table
    path = tmp_path / "t.py"
    path.write_text(f"# head\n{old}\n")
    fix = resolve(Fix("x", "exact", edits=(Edit(Span(str(path), 7, 7 + len(old), 2), new),)), {})
    assert bool(fix.edits) is is_kept
