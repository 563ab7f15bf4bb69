"""A false alarm costs more than a miss: logs of runs that are well, full of what looks bad, blame nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import crashcart

LOGS = sorted((Path(__file__).parent / "healthy").glob("*.log"))


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_a_healthy_run_is_not_blamed_for_anything(log: Path) -> None:
    diagnosis = crashcart.why([str(log)])
    assert [finding.cause for finding in diagnosis.findings if finding.role == "cause"] == []


def test_there_are_many_kinds() -> None:
    assert len(LOGS) >= 40
