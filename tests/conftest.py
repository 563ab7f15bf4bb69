"""What every test gets: our own errors are not swallowed."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

from crashcart.errors import DEBUG
from crashcart.readers import plan

os.environ.pop("PYTHONUNBUFFERED", None)  # the jobs of the tests write as programs do
# Every process that a test starts inherits this: our own errors are raised there, and written here, whoever hides the exit.
OUR_ERRORS = Path(tempfile.mkdtemp(prefix="crashcart-errors-")) / "errors.txt"
os.environ[DEBUG] = str(OUR_ERRORS)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _our_errors_fail_the_test() -> Iterator[None]:
    OUR_ERRORS.unlink(missing_ok=True)
    yield
    assert not OUR_ERRORS.exists(), OUR_ERRORS.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `check` says of a job in a test does not depend on the cards and ports of the machine where the test runs."""
    monkeypatch.setattr(plan, "machine_facts", lambda _case: None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder in which the runs are kept too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRASHCART_RUNS", raising=False)
    return tmp_path


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is beyond the sample of a family of tests is `long`; only tests of real processes are tried again."""
    sizes: Counter[tuple[Path, str]] = Counter()
    for item in items:
        sample = item.get_closest_marker("sample")
        if sample is not None:
            family = (item.path, getattr(item, "originalname", item.name))
            sizes[family] += 1
            if sizes[family] > sample.args[0]:
                item.add_marker(pytest.mark.long)
        if item.get_closest_marker("processes") is not None:
            item.add_marker(pytest.mark.flaky(reruns=2))


def pytest_configure(config: pytest.Config) -> None:
    """Generated tests try the same examples each time, and others and more of them with `--hypothesis-seed`."""
    is_seeded = config.getoption("--hypothesis-seed") is not None
    settings.register_profile(
        "crashcart",
        max_examples=3000 if is_seeded else 150,
        derandomize=not is_seeded,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    settings.load_profile("crashcart")
    _restore_signals()


def _restore_signals() -> None:
    """A background job of a shell, or nohup, ignores signals, and so do its children: tests that send them need them back."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_unconfigure() -> None:
    shutil.rmtree(OUR_ERRORS.parent, ignore_errors=True)
