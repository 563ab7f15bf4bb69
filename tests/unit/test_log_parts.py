"""A log in several files, in whatever order they are named, says what it says in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.readers.logs import read_logs

if TYPE_CHECKING:
    from pathlib import Path

CRASH = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 10, in main',
    '    lr = config["lr"]',
    "KeyError: 'lr'",
]
LOG = [*(f"step {step}/400 loss 2.5 lr 1e-4" for step in range(10, 400, 10)), *CRASH]


def written(folder: Path, **parts: list[str]) -> None:
    for name, lines in parts.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def meaning(folder: Path, *names: str) -> tuple[object, ...]:
    diagnosis = crashcart.why([str(folder / name) for name in names], look_around=False)
    findings = [(finding.cause, finding.role, finding.level) for finding in diagnosis.findings]
    return diagnosis.ending.state, diagnosis.ending.step, findings


@pytest.mark.parametrize("at", [20, len(LOG) - 3, len(LOG) - 2, len(LOG) - 1])
@pytest.mark.parametrize(
    ("older", "newer"),
    [("t.log.1", "t.log"), ("t.log-20261114", "t.log"), ("q_1.log", "q_2.log"), ("t.log.10", "t.log")],
)
def test_a_log_cut_in_two_is_one_in_any_order(tmp_path: Path, at: int, older: str, newer: str) -> None:
    written(tmp_path, whole=LOG, **{older: LOG[:at], newer: LOG[at:]})
    assert meaning(tmp_path, older, newer) == meaning(tmp_path, "whole")
    assert meaning(tmp_path, newer, older) == meaning(tmp_path, "whole")


def test_rotated_parts_are_ordered_by_number(tmp_path: Path) -> None:
    names = ["t.log.10", "t.log.2", "t.log.1", "t.log"]
    written(tmp_path, **{name: [f"part {place}"] for place, name in enumerate(names)})
    found = read_logs([str(tmp_path / name) for name in sorted(names)])
    assert [line.text for line in found.lines] == ["part 0", "part 1", "part 2", "part 3"]
    assert [line.rank for line in found.lines] == [None] * 4


def test_logs_that_came_one_after_the_other_are_ordered_by_time(tmp_path: Path) -> None:
    later = [f"2026-11-15 09:0{minute}:00 later" for minute in range(5)]
    earlier = [f"2026-11-15 08:0{minute}:00 earlier" for minute in range(5)]
    written(tmp_path, a=later, b=earlier)
    found = read_logs([str(tmp_path / "a"), str(tmp_path / "b")]).lines
    assert [line.file for line in found] == ["b"] * 5 + ["a"] * 5


def test_logs_of_the_same_time_stay_as_given(tmp_path: Path) -> None:
    lines = [f"2026-11-15 09:0{minute}:00 text" for minute in range(5)]
    written(tmp_path, a=lines[1:], b=lines[:-1])
    assert read_logs([str(tmp_path / "a"), str(tmp_path / "b")]).lines[0].file == "a"


def test_logs_of_ranks_are_not_taken_for_parts(tmp_path: Path) -> None:
    written(tmp_path, **{"rank_0.log": LOG[:-1], "rank_1.log": LOG[-1:]})
    found = read_logs([str(tmp_path / "rank_0.log"), str(tmp_path / "rank_1.log")])
    assert {line.rank for line in found.lines} == {0, 1}
    assert not any(raised.kind and raised.frames for raised in found.raised)


def test_numbered_logs_without_a_newest_are_those_of_ranks(tmp_path: Path) -> None:
    written(tmp_path, **{"t.log.0": ["step 1"], "t.log.1": ["step 2"]})
    found = read_logs([str(tmp_path / "t.log.0"), str(tmp_path / "t.log.1")])
    assert [line.rank for line in found.lines] == [0, 1]


def test_a_log_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    written(tmp_path, **{"t.log": LOG, "copy.log": LOG})
    (tmp_path / "link.log").symlink_to("t.log")
    for names in (("t.log", "t.log"), ("link.log", "t.log"), ("t.log", "copy.log")):
        assert len(read_logs([str(tmp_path / name) for name in names]).lines) == len(LOG)


def test_ranks_that_printed_the_same_are_two(tmp_path: Path) -> None:
    written(tmp_path, **{"rank0.log": LOG, "rank1.log": LOG})
    found = read_logs([str(tmp_path / "rank0.log"), str(tmp_path / "rank1.log")])
    assert {line.rank for line in found.lines} == {0, 1}
