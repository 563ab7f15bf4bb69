"""When parts of a log were printed, as the keeper notes it, and which program they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from history import START, History

from crashcart.attribution import of_training
from crashcart.engine import examine
from crashcart.log import Line
from crashcart.readers.logs import structured
from crashcart.recording.print_times import PrintTimes, read_print_times

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.case import Case


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recording").mkdir()
    return tmp_path


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def test_what_follows_within_a_moment_has_the_time_of_the_first(folder: Path) -> None:
    clock = Clock()
    times = PrintTimes(str(folder), clock)
    for after, size in ((0.0, 0), (0.001, 10), (0.002, 20), (1.0, 30)):
        clock.now = START + after
        times.note("output.log", size)
    times.close()
    printed = read_print_times(str(folder))["output.log"]
    assert printed.offsets == [0, 30]
    assert printed.at(25) == pytest.approx((START, START + 0.005))
    assert printed.at(30) == pytest.approx((START + 1, START + 1.005))


def test_days_of_output_need_little(folder: Path) -> None:
    clock = Clock()
    times = PrintTimes(str(folder), clock)
    for number in range(60_000):
        clock.now += 0.01
        times.note("output.log", number)
    assert (folder / "recording" / "print_times").stat().st_size < 1 << 20
    earliest, latest = read_print_times(str(folder))["output.log"].at(59_999) or (0.0, 0.0)
    assert earliest - 0.2 < clock.now < latest + 0.2


def test_a_copied_log_keeps_its_times(folder: Path) -> None:
    clock = Clock()
    times = PrintTimes(str(folder), clock)
    times.note("output.log", 0)
    clock.now += 5
    times.note("output.log", 100)
    times.copied("output.log", "launcher.log", 7)
    printed = read_print_times(str(folder))["launcher.log"]
    assert printed.offsets == [7, 107]
    assert printed.at(3) is None


@pytest.mark.parametrize(
    "text",
    ["", "x", "1e999 0 output.log\n", "nan 0 output.log\n", "5 -1 output.log\n", "5 9 output.log\n4 3 output.log\n", "5 9"],
)
def test_damaged_times_are_none(folder: Path, text: str) -> None:
    (folder / "recording" / "print_times").write_text(text)
    assert read_print_times(str(folder)) == {}


def _case(*lines: tuple[float, str]) -> Case:
    """A sampler, a training, and the sampler again, that printed these lines at these times."""
    history = History(code=0)
    history.process(10, 1, "program", "python sample.py --bars 2", born=1)
    history.gone(10, 9, code=0)
    history.process(20, 1, "rank", "python train.py", born=10, rank=0, steps=100)
    history.gone(20, 50, code=0)
    history.process(30, 1, "program", "python sample.py --bars 4", born=51)
    history.gone(30, 60, code=0)
    case = history.case()
    printed = []
    for number, (time, text) in enumerate(lines, 1):
        line = Line("output.log", number, 100 * number, text)
        line.printed = (START + time, START + time + 0.01)
        printed.append(line)
    case.log = structured(printed)
    return case


WARNING = "WARNING: no EMA weights found in the checkpoint, EMA starts anew"


def test_a_warning_of_a_sampler_is_none_of_the_training() -> None:
    case = _case((5, WARNING), (20, "step 10 loss 2.5"), (30, "step 20 loss 1.5"), (55, WARNING))
    assert [line.number for line in of_training(case).log.lines] == [2, 3]
    assert not any(finding.role == "cause" for finding in examine(case).findings)


def test_the_last_words_of_the_training_are_its_own_and_so_is_what_the_script_says_after_it() -> None:
    case = _case((8, "preparing"), (50.2, "saved"), (65, "the script is done"))
    assert [line.number for line in of_training(case).log.lines] == [2, 3]


def test_lines_without_a_time_may_be_of_anybody() -> None:
    case = _case((5, WARNING), (20, "step 10 loss 2.5"))
    for line in case.log.lines:
        line.printed = None
    assert of_training(case) is case
