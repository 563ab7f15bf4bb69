"""What every test gets: our own errors are not swallowed."""

from __future__ import annotations

import pytest

from crashcart import engine


@pytest.fixture(autouse=True)
def _our_errors_fail_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RAISE_OUR_ERRORS", True)
