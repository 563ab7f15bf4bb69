"""The account of what happened: events in order, the first abnormal one, and what only followed from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from history import START, History

from crashcart.account import account_of
from crashcart.case import Case
from crashcart.engine import examine
from crashcart.flight import Event
from crashcart.model import Edit, Evidence, Fact, Fix, Span
from crashcart.readers.logs import read_logs

if TYPE_CHECKING:
    from pathlib import Path

STEPS = "".join(f"step {step} loss: {2.0 - step / 100}\n" for step in range(1, 8))
KEY_ERROR = (
    'Traceback (most recent call last):\n  File "train.py", line 40, in <module>\n    main()\n'
    "  File \"train.py\", line 12, in load\n    return table[name]\nKeyError: 'left_arm'\n"
)


def story_of(folder: Path, text: str) -> list[tuple[str, bool]]:
    path = folder / "train.log"
    path.write_text(text, encoding="utf-8")
    return [(event.says, event.abnormal) for event in account_of(Case(log=read_logs([str(path)]))).events]


def test_a_log_tells_the_last_step_then_the_exception_then_what_the_launcher_saw(tmp_path: Path) -> None:
    end = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 77) of binary: python\n"
    assert story_of(tmp_path, STEPS + KEY_ERROR + end) == [
        ("step 7 was the last one printed before this", False),
        ("the program raised KeyError at train.py:12 in load: 'left_arm'", True),
        ("rank 0 exited with code 1", False),
    ]


def test_the_echo_that_is_printed_first_is_not_the_first_abnormal_event(tmp_path: Path) -> None:
    lost = (
        'Traceback (most recent call last):\n  File "train.py", line 30, in <module>\n    dist.barrier()\n'
        "RuntimeError: [gloo/transport/tcp/pair.cc:544] Connection closed by peer [127.0.0.1]:1234\n"
    )
    first = [says for says, abnormal in story_of(tmp_path, lost + KEY_ERROR) if abnormal]
    assert first == ["the program raised KeyError at train.py:12 in load: 'left_arm'"]


def test_a_loss_that_stays_nan_comes_before_the_assert_that_stops_it(tmp_path: Path) -> None:
    nan = "".join(f"step {step} loss: nan\n" for step in range(8, 12))
    stopped = (
        'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    assert ok\nAssertionError: loss\n'
    )
    assert story_of(tmp_path, STEPS + nan + stopped)[:2] == [
        ("step 7 was the last one printed before this", False),
        ("loss was nan at step 8", True),
    ]


def test_what_the_program_got_over_is_no_event(tmp_path: Path) -> None:
    more = "".join(f"step {step} loss: 0.5\n" for step in range(8, 30))
    assert story_of(tmp_path, STEPS + KEY_ERROR + more) == []


def test_a_recorded_story_begins_with_the_stage_and_marks_the_first_death() -> None:
    history = History(code=1)
    history.ranks(20, 6, first_pid=21)
    history.raised(22, 30, "ValueError", "no such sample")
    history.gone(22, 30.1, code=1)
    history.gone(21, 30.5, signal="SIGTERM")
    history.gone(20, 31, code=1)
    account = account_of(history.case())
    assert [event.says for event in account.events] == [
        "train.py started with 2 ranks",
        "rank 1 raised ValueError: no such sample",
        "rank 0 (pid 21) was killed by SIGTERM.",
    ]
    assert account.first is not None
    assert account.first.rank == 1


def test_a_thread_that_died_before_the_standstill_is_what_happened_first() -> None:
    history = History(alive=True)
    history.process(5, 1, "program", "python train.py", born=1, steps=20)
    details = {"type": "OSError", "message": "no route", "thread": "uploader", "frames": ["train.py:31 upload"]}
    history.flight.events.append(Event(START + 20, "exception", details, 5))
    history.flight.events.append(Event(START + 60, "hang", {"pid": 5, "since": START + 25, "where": "train.py:50 in main"}))
    account = account_of(history.case())
    assert [event.kind for event in account.events] == ["began", "thread died", "stood still"]
    assert account.first is not None
    assert account.first.kind == "thread died"


def test_the_json_has_the_story_of_a_log_without_times(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(STEPS + KEY_ERROR, encoding="utf-8")
    story = examine(Case(log=read_logs([str(path)]))).story
    assert [event.time for event in story] == [None, None]
    assert [item.where.rpartition(":")[2] for event in story for item in event.evidence] == ["7", "13"]


def test_a_loss_that_was_nan_comes_before_the_file_that_only_a_better_number_would_have_written(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    nan = "".join(f"step {step} loss {0.5 - step / 100}\nloss nan, step skipped ({step} so far)\n" for step in range(1, 9))
    path.write_text(nan, encoding="utf-8")
    history = History(code=1)
    history.process(5, 1, "program", "python train.py", born=1, steps=20)
    history.raised(5, 30, "FileNotFoundError", "[Errno 2] No such file or directory: 'best.pt'")
    history.gone(5, 30.5, code=1)
    case = history.case()
    case.log = read_logs([str(path)])
    assert examine(case).findings[0].cause != "numerics/bad-data"
    place = Evidence("code", "if error < best:", "train.py:8")
    value = {"file": "best.pt", "condition": "error < best", "compares": True, "place": place}
    case.seen["code.unwritten_file"] = [Fact("code.unwritten_file", value, place, "code")]
    diagnosis = examine(case)
    assert diagnosis.findings[0].cause == "numerics/bad-data"
    assert [event.says for event in diagnosis.story if event.abnormal] == [
        "a loss was printed as NaN: loss nan, step skipped (1 so far)"
    ]
    assert "best.pt is only written where `error < best`" in [sign.says for sign in diagnosis.findings[0].signs]


def test_the_line_that_the_first_fix_changes_is_named() -> None:
    history = History(code=1)
    history.process(5, 1, "program", "python train.py", born=1, steps=20)
    history.raised(5, 30, "KeyError", "'loss'")
    history.gone(5, 30.5, code=1)
    case = history.case()
    edit = Edit(Span("card.py", 10, 20, 25), "next(rows)")
    place = Evidence("code", "last = rows[-1]", "card.py:25")
    case.seen["scene.remedy"] = [
        Fact("scene.remedy", (("code/bug",), Fix("Take it", "exact", "it is there", edits=(edit,))), place, "code")
    ]
    signs = examine(case).findings[0].signs
    assert [item.where for sign in signs if "first fix" in sign.says for item in sign.evidence] == ["card.py:25"]


def test_of_a_thread_and_a_child_process_that_ended_the_last_one_before_the_standstill_counts() -> None:
    history = History(alive=True)
    history.process(5, 1, "program", "python train.py", born=1, steps=20)
    history.process(6, 5, "other", "python train.py", born=2)
    details = {"type": "OSError", "message": "no encoder", "thread": "video", "frames": ["train.py:31 record"]}
    history.flight.events.append(Event(START + 20, "exception", details, 5))
    history.gone(6, 30, code=0)
    history.flight.events.append(Event(START + 60, "hang", {"pid": 5, "since": START + 31, "where": "train.py:50 in main"}))
    account = account_of(history.case())
    assert account.first is not None
    assert account.first.kind == "child ended"


def test_a_batch_that_one_rank_alone_left_out_comes_before_the_lost_connection(tmp_path: Path) -> None:
    for rank, text in ((0, "step 1 loss 0.5\nstep 2 loss 0.4\n"), (1, "step 1 loss 0.5\nnan loss, skipping batch\n")):
        (tmp_path / f"rank{rank}.log").write_text(text, encoding="utf-8")
    history = History(code=1)
    history.ranks(20, 6, first_pid=21)
    history.gone(22, 30, code=0)
    history.raised(21, 30.2, "RuntimeError", "[gloo/transport/tcp/pair.cc:553] Connection closed by peer")
    history.gone(21, 30.3, code=1)
    case = history.case()
    case.log = read_logs([str(tmp_path / "rank0.log"), str(tmp_path / "rank1.log")])
    account = account_of(case)
    assert account.first is not None
    assert (account.first.kind, account.first.rank) == ("batch skipped", 1)
    assert account.first.says == "only rank 1 skipped a batch: nan loss, skipping batch"
    assert next(event for event in account.events if event.abnormal) == account.first


def test_an_exception_that_the_program_caught_and_printed_before_it_left_is_the_first_event(tmp_path: Path) -> None:
    history = History(code=1)
    history.process(5, 1, "rank", "python main.py", born=1, rank=0, steps=80)
    history.gone(5, 30, code=1)
    case = history.case()
    path = tmp_path / "output.log"
    path.write_text(
        "step 80 loss 0.1\nError executing job with overrides: []\nTraceback (most recent call last):\n"
        '  File "/job/main.py", line 21, in main\n    for s, target in loader:\n'
        '  File "/job/windows.py", line 9, in draw\n    torch.randint(0, 0)\n'
        "RuntimeError: random_ expects 'from' to be less than 'to'\n\nSet HYDRA_FULL_ERROR=1 for a complete stack trace.\n"
    )
    case.log = read_logs([str(path)])
    account = account_of(case)
    assert account.first is not None
    assert account.first.says.startswith("the program caught RuntimeError at /job/windows.py:9 in draw")
    assert [event.kind for event in account.events][-1] == "ended"


@pytest.mark.parametrize("last", ["SystemExit: 1", "KeyboardInterrupt"])
def test_what_only_ends_the_program_is_not_told_as_caught(tmp_path: Path, last: str) -> None:
    history = History(code=1)
    history.process(5, 1, "rank", "python main.py", born=1, rank=0, steps=80)
    history.gone(5, 30, code=1)
    case = history.case()
    path = tmp_path / "output.log"
    path.write_text(f'Traceback (most recent call last):\n  File "/job/main.py", line 21, in main\n    go()\n{last}\n')
    case.log = read_logs([str(path)])
    account = account_of(case)
    assert account.first is None or "caught" not in account.first.says
