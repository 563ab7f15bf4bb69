"""An error of our own costs users one line and one answer; under the tests it fails, in every process that a test starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import conftest
import pytest

from crashcart import cause as knowledge
from crashcart import cli
from crashcart.errors import DEBUG, CommandError, Missing, our_errors
from crashcart.readers import rules
from crashcart.verbs.check import check
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nRuntimeError: CUDA out of memory.\n'
OOM = "gpu-memory/train-step"


def fail(*_: object) -> Any:
    raise KeyError("planted")


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is for users, who have not set the variable."""
    monkeypatch.delenv(DEBUG)


def cause(identity: str) -> knowledge.Cause:
    return next(one for one in knowledge.causes() if one.id == identity)


def fail_in_log(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(cause("data/download").parts, "in_log", fail)


def fail_in_fix(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cause(OOM), "_fix", fail)


def fail_in_experiment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cause(OOM), "settle", fail)


def fail_in_stacks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("crashcart.engine.stack_signs", fail)


def fail_in_kernel_reader(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("crashcart.readers.gather._Gathering._read_kernel", fail)


@pytest.mark.parametrize(
    ("plant", "what"),
    [
        (fail_in_log, "data/download"),
        (fail_in_fix, f"{OOM} (fixes)"),
        (fail_in_experiment, f"{OOM} (experiment)"),
        (fail_in_stacks, "the innermost frames"),
        (fail_in_kernel_reader, "kernel log"),
    ],
)
@pytest.mark.usefixtures("users")
def test_a_part_that_fails_costs_one_line_and_no_answer(
    plant: Callable[[pytest.MonkeyPatch], None], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    (tmp_path / "train.log").write_text(LOG)
    diagnosis = why([str(tmp_path / "train.log")])
    assert diagnosis.findings[0].cause == OOM
    gaps = [gap for gap in diagnosis.not_looked if "internal error" in gap.why]
    assert [gap.what for gap in gaps] == [what]
    assert gaps[0].why.startswith("internal error in crashcart: KeyError")
    assert "planted" not in gaps[0].why  # a message may quote the log


@pytest.mark.usefixtures("users")
def test_a_rule_that_fails_costs_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = next(rule for rule in rules._rules() if rule.__name__.endswith(".zero_rate"))
    monkeypatch.setattr(rule, "look", fail)
    (folder / "train.py").write_text("import torch\n")
    gaps = [gap.what for gap in check(["train.py"]).not_looked if "internal error" in gap.why]
    assert gaps == ["crashcart.readers.rules.zero_rate"]


@pytest.mark.parametrize("plant", [fail_in_log, fail_in_fix, fail_in_experiment, fail_in_stacks, fail_in_kernel_reader])
def test_under_the_tests_it_is_raised_and_written_down(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    (tmp_path / "train.log").write_text(LOG)
    with pytest.raises(KeyError, match="planted"):
        why([str(tmp_path / "train.log")])
    assert conftest.OUR_ERRORS.read_text(encoding="utf-8").count("KeyError: 'planted'") == 1
    conftest.OUR_ERRORS.unlink()  # or this test would fail, as any other does that leaves one


PROGRAM = """\
import sys
from crashcart import cause, cli
failing = next(one for one in cause.causes() if one.id == "data/download")
failing.parts["in_log"] = lambda case: {}["planted"]
cli.main(["why", "--json", "train.log"])
"""


def test_a_process_that_a_test_starts_fails_too_even_when_nobody_looks_at_it(folder: Path) -> None:
    (folder / "train.log").write_text(LOG)
    subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=False, timeout=60)
    assert "KeyError: 'planted'" in conftest.OUR_ERRORS.read_text(encoding="utf-8")
    conftest.OUR_ERRORS.unlink()


def test_the_same_process_of_a_user_answers(folder: Path) -> None:
    (folder / "train.log").write_text(LOG)
    plain = {name: value for name, value in os.environ.items() if name != DEBUG}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60, env=plain)
    told = json.loads(done.stdout)
    assert told["findings"][0]["cause"] == OOM
    assert any(gap["what"] == "data/download" and "internal error" in gap["why"] for gap in told["not_looked"])


@pytest.mark.parametrize(
    ("arguments", "code"), [(["why", "x.log"], 70), (["check", "."], 70), (["run", "--", "true"], 125), (["runs"], 70)]
)
@pytest.mark.usefixtures("users", "folder")
def test_an_unexpected_error_is_one_sentence_and_an_exit_code(
    arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_run", fail)
    assert cli.main(arguments) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "Traceback" not in told.err
    assert "KeyError" in told.err
    assert DEBUG in told.err


@pytest.mark.parametrize("answer", [CommandError("no such file"), Missing("train.batch_size"), KeyboardInterrupt()])
@pytest.mark.usefixtures("users")
def test_answers_are_not_taken_for_errors(answer: BaseException) -> None:
    with pytest.raises(type(answer)), our_errors("a part", fail):
        raise answer


def test_what_the_machine_refuses_is_told_in_its_own_words() -> None:
    told: list[tuple[str, str, str]] = []
    with our_errors("a part", lambda *words: told.append(words)):
        raise PermissionError(13, "Permission denied", "train.log")
    assert told == [("a part", "[Errno 13] Permission denied: 'train.log'", "")]
