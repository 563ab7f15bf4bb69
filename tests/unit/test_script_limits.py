"""Limits that a launch script sets for its programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crashcart.readers.job.command import read_script

if TYPE_CHECKING:
    from pathlib import Path


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


def test_a_limit_behind_the_command_does_not_count(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("python train.py\nulimit -v 4000\n")
    assert not [fact for fact in read_script(str(script)) if fact.name.startswith("limit.")]
