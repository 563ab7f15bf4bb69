"""Healthy programs do not notice `crashcart run`: same exit code, output, losses, files, and processes left behind."""

from __future__ import annotations

import os
import warnings

import matrix
import pytest
from comparison import Comparison, compare_apart

_TRIES = 4  # on a busy machine a bare program differs from itself now and then; that says nothing about crashcart


def _explain(comparison: Comparison) -> str:
    return "\n".join(
        [f"{comparison.name}: {comparison.verdict}", *(f"{what}:\n{diff}" for what, diff in comparison.differences.items())]
    )


@pytest.mark.parametrize("name", [program.name for program in matrix.PROGRAMS.values() if program.ci])
def test_a_healthy_program_does_not_notice(name: str) -> None:
    """A difference must show twice: a program that differs from itself in one run of ten passes two bare runs mostly.

    `benchmarks/harm.py` runs each of them bare twice in any case.
    """
    program = matrix.PROGRAMS[name]
    reason = matrix.why_skipped(program)
    if reason:
        pytest.skip(reason)
    expected = "as documented" if program.documented else "equal"
    seen: list[Comparison] = []
    while len(seen) < _TRIES:
        seen.append(compare_apart(name, 3 * program.timeout_seconds + 30, twice=False))
        if seen[-1].verdict == expected or [one.verdict for one in seen].count("differs") == 2:
            break
    if len(seen) > 1:
        warnings.warn(f"{len(seen)} comparisons: {_explain(seen[0])}", stacklevel=1)
    assert seen[-1].verdict == expected, _explain(seen[-1])


def test_few_programs_are_documented_exceptions() -> None:
    assert len([program for program in matrix.PROGRAMS.values() if program.documented]) <= 3


def test_every_program_of_the_folder_is_in_the_matrix() -> None:
    used = {name for program in (matrix.CONTROL, *matrix.PROGRAMS.values()) for name in program.files}
    there = {
        name
        for name in os.listdir(os.path.join(os.path.dirname(matrix.__file__), "programs"))
        if name.endswith((".py", ".sh"))
    }
    assert used == there


def test_a_difference_is_seen() -> None:
    seen = compare_apart(matrix.CONTROL.name, 60)
    assert seen.verdict == "differs"
    assert set(seen.differences) == {"exit code", "stdout", "stderr", "files", "temporary files", "processes"}
