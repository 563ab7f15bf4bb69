"""What every test gets: our own errors are not swallowed."""

from __future__ import annotations

import signal

import pytest

from crashcart import engine


@pytest.fixture(autouse=True)
def _our_errors_fail_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RAISE_OUR_ERRORS", True)


def pytest_configure() -> None:
    """A shell's background job ignores SIGINT and so do its children: tests that press Ctrl-C need it back."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
