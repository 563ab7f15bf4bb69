"""What speaks against a run that ended well, and what a program wrote down itself before it ended badly."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from history import START, History

from crashcart.account import account_of, reported
from crashcart.deaths import partners
from crashcart.doubts import emptied, is_in_doubt, repeat, saved_names, taken_over, untrained
from crashcart.engine import examine
from crashcart.flight import Event
from crashcart.log import Line
from crashcart.model import Evidence, Fact
from crashcart.readers.logs import read_logs, structured
from crashcart.readers.own_reports import own_reports

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.case import Case

LOGGED = (
    "10:00:01 INFO reading part 7\n10:00:02 ERROR the reader ends\nTraceback (most recent call last):\n"
    '  File "/job/feed.py", line 9, in read\n    return table["mass"]\nKeyError: \'mass\'\n'
)


def saved(history: History, pid: int, seconds: float, path: str, step: int) -> None:
    details = {"path": path, "step": step, "bytes": 100}
    history.flight.events.append(Event(START + seconds, "checkpoint", details, pid))


def two_slots(command: str, second: str, steps: int = 60) -> History:
    history = History()
    history.process(5, 1, "program", command, born=1, steps=60)
    saved(history, 5, 10, "/job/out/part-60.pt", 60)
    history.gone(5, 20, code=0)
    history.process(6, 1, "program", second, born=21, steps=steps)
    saved(history, 6, 30, "/job/out/part-60.pt", steps)
    history.gone(6, 40, code=0)
    return history


def test_a_second_start_that_saves_the_same_numbers_again_began_anew() -> None:
    flight = two_slots("python train.py --until 60 --resume auto", "python train.py --until 120 --resume auto").case().flight
    assert flight is not None
    again = repeat(flight)
    assert again is not None
    assert again.meant
    assert saved_names(flight) == ["part-60.pt"]


def test_a_start_that_says_that_it_does_not_go_on_is_not_meant_to() -> None:
    flight = two_slots("python train.py --seed 1 --resume never", "python train.py --seed 2 --resume never").case().flight
    assert flight is not None
    again = repeat(flight)
    assert again is not None
    assert not again.meant


def test_a_start_that_went_on_counts_its_steps_from_where_the_first_one_ended() -> None:
    flight = two_slots("python train.py --resume auto", "python train.py --resume auto", steps=30).case().flight
    assert flight is not None
    assert repeat(flight) is None


def test_the_state_that_another_program_had_saved_is_named() -> None:
    history = History()
    history.process(5, 1, "program", "python first.py", born=1, steps=40)
    saved(history, 5, 10, "/job/out/checkpoint-40/optimizer.pt", 40)
    history.gone(5, 20, code=0)
    history.process(6, 1, "program", "python second.py", born=21)
    history.flight.events.append(Event(START + 25, "optimizer", {"class": "SGD"}, 6))
    load = {"phase": "load", "edge": "end", "path": "/job/out/checkpoint-40/optimizer.pt"}
    history.flight.events.append(Event(START + 26, "phase", load, 6))
    history.gone(6, 40, code=0)
    flight = history.case().flight
    assert flight is not None
    ((stage, _),) = untrained(flight)
    state = taken_over(flight, stage)
    assert state is not None
    assert state[0].program == "first.py"
    assert is_in_doubt(flight)


def stuck(folder: Path, text: str) -> History:
    history = History(code=None)
    history.flight.facts["folder"] = str(folder)
    history.flight.ending = {"code": None, "signal": "SIGTERM", "time": START + 100}
    history.process(5, 1, "program", "python train.py", born=1, steps=20)
    hang = {"pid": 5, "since": START + 30, "where": "train.py:50 in main"}
    history.flight.events.append(Event(START + 60, "hang", hang))
    path = folder / "side.log"
    path.write_text(text, encoding="utf-8")
    return history


def test_what_a_program_logged_right_before_it_stood_still_is_the_first_event(tmp_path: Path) -> None:
    history = stuck(tmp_path, LOGGED)
    os.utime(tmp_path / "side.log", (START + 30, START + 30))
    reports = own_reports(history.flight)
    assert reports == [str(tmp_path / "side.log")]
    history.flight.facts["own_reports"] = reports
    case = history.case()
    case.log = read_logs(reports)
    written = reported(case)
    assert written is not None
    account = account_of(case)
    assert account.first is not None
    assert account.first.says == "the program caught KeyError at /job/feed.py:9 in read: 'mass' (written to side.log)"


def test_a_log_that_goes_on_after_the_traceback_had_got_over_it(tmp_path: Path) -> None:
    history = stuck(tmp_path, f"{LOGGED}10:00:03 INFO part 7 is left out\n")
    os.utime(tmp_path / "side.log", (START + 30, START + 30))
    assert own_reports(history.flight) == []


def test_what_a_shell_ran_before_it_became_the_program_is_no_partner_of_it() -> None:
    history = History(alive=True)
    history.process(5, 1, "program", "python train.py", born=1, steps=20)
    history.process(6, 5, "other", "python prepare.py", born=2)
    history.gone(6, 3, code=0)
    history.flight.events.append(Event(START + 4, "hello", {"how": "start"}, 5))
    history.process(7, 5, "other", "python serve.py", born=6)
    history.gone(7, 9, code=0)
    flight = history.case().flight
    assert flight is not None
    assert [process.pid for process in partners(flight, {5})] == [7]


def test_a_worker_of_a_pool_that_failed_is_what_the_program_waits_for() -> None:
    history = History(alive=True)
    history.process(5, 1, "program", "python train.py", born=1, steps=20)
    history.process(6, 5, "loader worker", "python train.py", born=2, copy=True)
    history.gone(6, 20, code=3)
    history.flight.events.append(Event(START + 60, "hang", {"pid": 5, "since": START + 22, "where": "train.py:50 in main"}))
    account = account_of(history.case())
    assert [event.kind for event in account.events] == ["began", "child ended", "stood still"]


def test_a_hook_that_runs_for_an_exception_is_not_what_the_process_died_of() -> None:
    from crashcart.flight import StackDump, Stood

    text = 'Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File "<crashcart/inside/inputs.py>", line 3 in look\n'
    history = History(code=134)
    history.process(5, 1, "program", "python train.py", born=1, steps=20)
    history.flight.stacks.append(StackDump(START + 31, "a fatal signal", (Stood(5, "program", None, (), text),)))
    history.gone(5, 32, signal="SIGABRT")
    assert examine(history.case()).findings[0].cause == "outside/crashcart"
    history.raised(5, 30, "RuntimeError", "the file cannot be closed")
    assert examine(history.case()).findings[0].cause == "code/bug"


def _few(parameters: int, losses: list[float], size: int = 4_000_000) -> Case:
    """A rank with one optimizer of so many numbers, which saved a model and printed these losses."""
    history = History()
    history.process(5, 1, "rank", "python tune.py", born=1, rank=0, steps=200)
    for kind, details in (
        ("optimizer", {"class": "AdamW", "groups": 1, "tensors": 1, "parameters": parameters}),
        ("checkpoint", {"path": "/job/tuned.pt", "step": 200, "bytes": size}),
    ):
        history.flight.events.append(Event(START + 20, kind, details, 5))
    history.gone(5, 40, code=0)
    case = history.case()
    lines = [Line("output.log", n, 100 * n, f"step {n * 10} loss {loss}") for n, loss in enumerate(losses, 1)]
    case.log = structured(lines)
    return case


NOISY = [1.61, 1.42, 1.55, 1.35, 1.47, 1.62, 1.40, 1.56]


def test_an_optimizer_of_a_few_numbers_of_a_model_does_not_train_it() -> None:
    finding = examine(_few(1, NOISY)).findings[0]
    assert (finding.cause, finding.role) == ("silent/not-learning", "cause")


@pytest.mark.parametrize(
    ("parameters", "losses"), [(1, [3.0, 2.5, 2.1, 1.7, 1.3, 1.0, 0.8, 0.7]), (9000, NOISY), (100_000, NOISY)]
)
def test_a_loss_that_falls_and_a_head_or_an_adapter_are_meant(parameters: int, losses: list[float]) -> None:
    assert not any(finding.role == "cause" for finding in examine(_few(parameters, losses)).findings)


def _resumed(step: int) -> History:
    history = History()
    history.process(5, 1, "rank", "python train.py", born=1, rank=0, steps=100)
    details = {"phase": "load", "edge": "end", "step": step, "path": "/job/ck/state.pt"}
    history.flight.events.append(Event(START + 2, "phase", details, 5))
    saved(history, 5, 30, "/job/ck/state.pt", 100)
    history.gone(5, 40, code=0)
    return history


@pytest.mark.parametrize(
    ("step", "saved_parts", "blamed"), [(0, ["optimizer"], True), (0, [], False), (100, ["optimizer"], False)]
)
def test_state_that_was_saved_and_is_left_behind_at_a_resume(step: int, saved_parts: list[str], *, blamed: bool) -> None:
    case = _resumed(step).case()
    place = Evidence("code", 'net.load_state_dict(state["net"])', "train.py:8")
    value = {"missing": ["optimizer"], "saved": saved_parts, "edits": ()}
    case.seen["code.resume"] = [Fact("code.resume", value, place, "code")]
    findings = [finding.cause for finding in examine(case).findings if finding.role == "cause"]
    assert findings == (["silent/resume-state-lost"] if blamed else [])


def trained(steps: int, **page: float) -> History:
    """A program that came to its end, with some numbers of its page."""
    history = History()
    history.process(5, 1, "program", "python train.py", born=1, steps=steps)
    history.flight.processes[5].page.update(page)
    history.gone(5, 40, code=0)
    return history


def told(history: History, kind: str, seconds: float = 10.0, **details: Any) -> History:
    history.flight.events.append(Event(START + seconds, kind, details, 5))
    return history


def blamed(history: History) -> list[str]:
    return [finding.cause for finding in examine(history.case()).findings if finding.role == "cause"]


NAMES: dict[str, Any] = {
    "missing_names": ["body.0.weight", "body.0.bias"],
    "unexpected_names": ["module.body.0.weight", "module.body.0.bias"],
}
LOAD: dict[str, Any] = {"given": 2, "missing": 2, "unexpected": 2, "step": 0, "class": "Net", "place": "/job/t.py:6 main"}


def test_a_load_that_took_nothing_is_told_with_its_line() -> None:
    history = told(trained(50), "weights", taken=0, **LOAD, **NAMES)
    (finding, *_) = examine(history.case()).findings
    assert (finding.cause, finding.role, finding.signs[0].strength) == ("silent/partial-load", "cause", "decisive")
    assert "/job/t.py:6" in [item.where for item in finding.signs[0].evidence]


@pytest.mark.parametrize(
    "loads",
    [
        [dict(LOAD, taken=0, step=40, **NAMES)],  # a copy of weights in the midst of a training
        [dict(LOAD, taken=0, **NAMES), dict(LOAD, taken=2, missing=0, unexpected=0)],  # the second prefix fitted
        [dict(LOAD, given=40, taken=38, missing_names=["head.weight"], unexpected_names=["fc.weight"])],  # a new head
        [dict(LOAD, given=1, taken=1, missing=30, unexpected=0, missing_names=["a.b"], unexpected_names=[])],  # a part
    ],
)
def test_loads_that_took_what_they_were_to_are_silent(loads: list[dict[str, Any]]) -> None:
    history = trained(50)
    for load in loads:
        told(history, "weights", **load)
    assert not blamed(history)


LAMBDA: dict[str, Any] = {"class": "LambdaLR"}
STEPS: dict[str, Any] = {"class": "StepLR"}
RISING = {"lr_made": 0.3, "lr_top": 0.05, "lr": 0.05}


def test_a_schedule_that_is_stepped_once_an_epoch_never_leaves_its_warm_up() -> None:
    history = told(trained(120, **RISING), "schedule", stepped=6, step=120, place="/job/t.py:9 main", **LAMBDA)
    assert blamed(history) == ["silent/not-learning"]


@pytest.mark.parametrize(
    ("page", "stepped"),
    [
        (RISING, 120),  # it is stepped with each batch, and the run is only short
        (RISING, 1),  # a first epoch
        ({**RISING, "lr": 0.01}, 6),  # it rose and fell
        ({**RISING, "lr_top": 0.2, "lr": 0.2}, 6),  # most of the way
        ({"lr_made": 0.0, "lr_top": 0.0, "lr": 0.0}, 6),  # meant so, or told as a rate of zero
        ({"lr_made": 1.0, "lr_top": 0.001, "lr": 0.0001}, 6),  # a constructor's rate that a schedule only scales
    ],
)
def test_other_schedules_are_silent(page: dict[str, float], stepped: int) -> None:
    history = told(trained(120, **page), "schedule", stepped=stepped, step=120, **LAMBDA)
    assert not blamed(history)


@pytest.mark.parametrize(("stepped", "rate", "blames"), [(600, 1e-9, True), (30, 1e-9, False), (600, 0.01, False)])
def test_a_rate_that_is_gone_long_before_the_end_is_told(stepped: int, rate: float, blames: bool) -> None:  # noqa: FBT001 - a parameter of the test
    history = trained(600, lr_made=0.05, lr=rate)
    settings = [["class", "StepLR"], ["step_size", 3], ["gamma", 0.3]]
    told(history, "settings", source="scheduler", place="/job/t.py:5 main", settings=settings)
    told(history, "schedule", stepped=stepped, step=600, place="/job/t.py:5 main", **STEPS)
    assert bool(blamed(history)) == blames


def without_best(message: str, kind: str = "FileNotFoundError", gave: int = 0) -> History:
    """A program whose loader of the evaluation gave so many batches, and that died later."""
    history = History(1)
    history.process(5, 1, "program", "python train.py", born=1, steps=40)
    told(history, "loader", number=0, role="training", batches=8, epochs=1, whole=True, place="/job/t.py:20 main")
    told(history, "loader", number=1, role="evaluation", batches=gave, epochs=1, whole=True, place="/job/t.py:28 main")
    history.raised(5, 30, kind, message)
    history.gone(5, 31, code=1)
    return history


def test_an_evaluation_without_a_batch_leads_to_what_is_missing_later() -> None:
    history = without_best("[Errno 2] No such file or directory: 'out/best.pth'")
    case = history.case()
    first = account_of(case).first
    assert first is not None
    assert first.says == "the loader of the evaluation gave no batch at /job/t.py:28"
    assert examine(case).findings[0].cause == "silent/eval-empty"


@pytest.mark.parametrize(("kind", "leads"), [("FileNotFoundError", True), ("ValueError", False)])
def test_the_file_may_have_been_for_another_program_to_write(kind: str, leads: bool) -> None:  # noqa: FBT001 - a parameter of the test
    flight = without_best("").flight
    message = "[Errno 2] No such file or directory: 'out/best.pth'"
    later = Event(START + 40, "exception", {"type": kind, "message": message}, 6)
    assert (emptied(flight, later) is not None) == leads


@pytest.mark.parametrize(
    "history",
    [
        without_best("[Errno 2] No such file or directory: 'out/best.pth'", gave=3),
        without_best("[Errno 2] No such file or directory: 'data/part-7.csv'"),
        without_best("CUDA error: an illegal memory access", "RuntimeError"),
    ],
)
def test_other_deaths_do_not_come_of_an_evaluation_without_a_batch(history: History) -> None:
    assert "silent/eval-empty" not in blamed(history)
