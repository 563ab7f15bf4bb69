"""Limits that a launch script sets for its programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.readers.job import shell
from crashcart.readers.job.command import read_script

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from crashcart.readers.job.evaluation import Evaluator
    from crashcart.readers.job.syntax import Source


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("ulimit -v 4000000", "limit.address_space", 4000000 * 1024),
        ("ulimit -f 6000", "limit.file_size", 6000 * 1024),
        ("ulimit -Sn 1024", "limit.open_files", 1024),
        ("SIZE=6000\nulimit -f $SIZE", "limit.file_size", 6000 * 1024),
    ],
)
def test_a_limit_is_a_fact_with_its_place(tmp_path: Path, line: str, name: str, value: int) -> None:
    script = tmp_path / "train.sh"
    script.write_text(f"{line}\npython train.py\n")
    facts = {fact.name: fact for fact in read_script(str(script))}
    assert facts[name].value == value
    span = facts[name].span
    assert span is not None
    assert script.read_text()[span.start : span.end].strip("$") in line


@pytest.mark.parametrize(
    "line", ["ulimit -v unlimited", "ulimit -v", "ulimit -v $ROOM", "ulimit -v 1e9", "ulimit -v " + "9" * 400]
)
def test_what_is_no_number_is_no_limit(tmp_path: Path, line: str) -> None:
    script = tmp_path / "train.sh"
    script.write_text(f"{line}\npython train.py\n")
    assert not [fact for fact in read_script(str(script)) if fact.name.startswith("limit.")]


def test_a_limit_of_a_file_that_is_taken_in_counts_too(tmp_path: Path) -> None:
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk" / "limits.sh").write_text("ulimit -c 0\nulimit -f $((2 * 1024))   # KiB\n")
    script = tmp_path / "train.sh"
    script.write_text("source desk/limits.sh\npython train.py\n")
    (limit,) = [fact for fact in read_script(str(script)) if fact.name == "limit.file_size"]
    assert limit.value == 2 << 20
    assert limit.span is not None
    assert (tmp_path / "desk" / "limits.sh").read_text()[limit.span.start : limit.span.end] == "$((2 * 1024))"


def test_a_limit_behind_the_command_does_not_count(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("python train.py\nulimit -v 4000\n")
    assert not [fact for fact in read_script(str(script)) if fact.name.startswith("limit.")]


def test_a_script_of_many_programs_is_run_in_thought_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import torch\nopt = torch.optim.SGD(m.parameters())\nfor b in d:\n    loss(b).backward()\n    opt.step()\n"
    for number in range(6):
        (tmp_path / f"t{number}.py").write_text(program)
    lines = (f"python t{number % 6}.py --lr 0.{number}\n" for number in range(600))
    (tmp_path / "train.sh").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    run: list[str] = []
    evaluated = shell._evaluated

    def counted(source: Source, known: Mapping[str, str]) -> Evaluator:
        run.append(source.file)
        return evaluated(source, known)

    monkeypatch.setattr(shell, "_evaluated", counted)
    assert crashcart.check(["train.sh"]).files_read > 2
    assert run == ["train.sh"]


def test_a_limit_of_open_files_is_raised_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.sh").write_text("ulimit -n 128\npython train.py\n")
    error = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    open(path)\nOSError: [Errno 24] Too many open files: 'a'\n"
    (tmp_path / "x.log").write_text(error)
    diagnosis = crashcart.why(["x.log"], scripts=["train.sh"])
    assert diagnosis.findings[0].cause == "host-memory/fds"
    assert '+ulimit -n "$(ulimit -Hn)"' in (diagnosis.findings[0].fixes[0].diff or "")
