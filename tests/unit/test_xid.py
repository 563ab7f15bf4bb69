"""Xid codes: what they mean and who is to blame."""

from __future__ import annotations

import pytest

from crashcart.readers.kernel.xid import meaning, whose_fault


@pytest.mark.parametrize("code", [13, 31, 43, 45, 68])
def test_a_fault_of_the_program_is_not_blamed_on_the_hardware(code: int) -> None:
    assert whose_fault(code) == "application"


@pytest.mark.parametrize("code", [48, 63, 64, 74, 79, 94, 95])
def test_memory_link_and_bus_errors_are_blamed_on_the_hardware(code: int) -> None:
    assert whose_fault(code) == "hardware"


def test_a_disputed_code_is_called_so() -> None:
    assert whose_fault(109) == "either"
    assert "disagree" in meaning(109).action or "device plugin" in meaning(109).action


def test_the_meanings_that_the_seed_had_wrong_are_right() -> None:
    assert "Double Bit ECC" in meaning(48).name
    assert "page fault" in meaning(31).name
    assert "stopped" in meaning(43).name


@pytest.mark.parametrize("code", [0, 177, 99999, -1])
def test_a_code_nobody_knows_is_unknown_and_never_an_error(code: int) -> None:
    assert whose_fault(code) == "unknown"
    assert meaning(code).code == code
    assert meaning(code).severity == "unknown"


def test_every_code_of_the_catalogue_has_a_name_and_an_action() -> None:
    rows = [meaning(code) for code in range(1, 177)]
    assert all(row.name and row.action and row.severity for row in rows)
    assert not any("[" in row.action or "ROBUST_CHANNEL" in row.name for row in rows)


def test_a_code_with_one_party_only_is_blamed_on_it() -> None:
    assert whose_fault(38) == "driver"
    assert whose_fault(110) == "hardware"
    assert whose_fault(119) == "either"
