"""When a job is killed, and when it is left alone: a list of moments in, the signals sent out."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from crashcart.run.stopping import GRACE_SECONDS, Stopping

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def job() -> Iterator[int]:
    """A process that ignores TERM, to be signalled."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def sent(stopping: Stopping, clock: Clock, seconds: int, *, saving: bool = False) -> list[tuple[int, str]]:
    found = []
    for clock.now in range(seconds):
        name = stopping.advance(saving=saving, before_kill=list)
        if name:
            found.append((int(clock.now), name))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_follows_a_signal_unless_a_grace_was_given(job: int, number: signal.Signals) -> None:
    clock = Clock()
    stopping = Stopping(job, None, clock)
    stopping.ask(number)
    assert sent(stopping, clock, 3600) == []
    assert (stopping.asked, stopping.by_us) == (number.name, False)


def test_with_a_grace_term_follows_an_interrupt_and_kill_follows_term(job: int) -> None:
    clock = Clock()
    stopping = Stopping(job, 5.0, clock)
    stopping.ask(signal.SIGINT)
    assert sent(stopping, clock, 60) == [(5, "SIGTERM"), (10, "SIGKILL")]
    assert stopping.by_us


def test_a_checkpoint_that_is_being_written_gets_more_time(job: int) -> None:
    clock = Clock()
    stopping = Stopping(job, 5.0, clock)
    stopping.ask(signal.SIGTERM)
    assert sent(stopping, clock, 100, saving=True) == [(50, "SIGKILL")]


def test_a_hung_job_is_killed_after_the_usual_grace(job: int) -> None:
    clock = Clock()
    stopping = Stopping(job, None, clock)
    stopping.stop()
    assert sent(stopping, clock, 60) == [(int(GRACE_SECONDS), "SIGKILL")]


def test_a_signal_that_asks_for_no_end_begins_no_stop(job: int) -> None:
    clock = Clock()
    stopping = Stopping(job, 5.0, clock)
    stopping.ask(signal.SIGUSR1)
    assert sent(stopping, clock, 60) == []
    assert stopping.asked is None
