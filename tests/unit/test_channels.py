"""What passes through the channels of a job's ranks, and when."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from crashcart.run.channels import Channels, Held
from crashcart.run.output import Stream, Streams

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Job:
    """A job of a launcher and two ranks, whose words we write ourselves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "logs"
        self.folder.mkdir()
        user = os.open(folder / "user", os.O_WRONLY | os.O_CREAT)
        main, self.launcher = os.pipe()
        streams = Streams((0, self.launcher, self.launcher), (Stream(main, user, "output.log"),), None, None, None)
        self.channels = Channels(str(folder), streams, {0: Held(main, 0)})
        self._reads = {self.launcher: main}
        self.zero, self.one = self._rank(0), self._rank(1)

    def _rank(self, rank: int) -> int:
        read, write = os.pipe()
        self.channels.new(read, 0, rank, self.channels.attempt(rank, 0))
        self._reads[write] = read
        return write

    def say(self, *words: tuple[int, bytes]) -> None:
        """Say things at once."""
        for writer, text in words:
            os.write(writer, text)
        self.channels.copy([self._reads[writer] for writer, _ in words])

    def log(self, name: str = "output.log") -> bytes:
        """What a log holds now."""
        return (self.folder / name).read_bytes()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    one = Job(tmp_path)
    yield one
    one.channels.close()


def test_lines_of_two_ranks_are_not_glued(job: Job) -> None:
    job.say((job.zero, b"loss "))
    job.say((job.one, b"loss 2\n"))
    job.say((job.zero, b"1\n"))
    assert job.log() == b"loss 2\nloss 1\n"
    assert job.log("rank0.log") == b"loss 1\n"


def test_a_line_without_an_end_is_passed_on_after_a_moment(job: Job) -> None:
    job.say((job.zero, b"name? "))
    wait = job.channels.pass_late()
    assert wait is not None
    assert wait < 1
    time.sleep(wait + 0.01)
    assert job.channels.pass_late() is None
    assert job.log() == b"name? "


@pytest.mark.parametrize("bar", [b"\r 10%|#", b"\n\r 10%|#\x1b[A"])
def test_a_bar_is_passed_on_at_once_and_whole(job: Job, bar: bytes) -> None:
    job.say((job.zero, bar))
    assert job.log() == bar


def test_a_launcher_speaks_after_the_ranks(job: Job) -> None:
    job.say((job.launcher, b"rank 1 died\n"), (job.one, b"Error\n"))
    assert job.log() == b"Error\nrank 1 died\n"
    assert job.log("launcher.log") == b"rank 1 died\n"


def test_what_is_shown_of_a_key_comes_before_the_answer(job: Job) -> None:
    job.channels.typed = time.monotonic()
    job.say((job.zero, b"answer\n"), (job.launcher, b"key\r\n"))
    assert job.log() == b"key\r\nanswer\n"
