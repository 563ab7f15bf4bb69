"""No input keeps the answer back: what takes too long is left out and named, and the rest of the answer is given."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from crashcart import deadline, engine
from crashcart.cause import causes
from crashcart.deadline import (
    Allowance,
    OutOfTime,
    TookTooLongError,
    attempt,
    check,
    guarded,
    interrupting,
    is_spent,
    limited,
    together,
)
from crashcart.names import canonical
from crashcart.readers import logs, rules
from crashcart.readers.logs import read_logs, structured
from crashcart.verbs.check import check as check_job
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEATH = """Traceback (most recent call last):
  File "train.py", line 211, in <module>
    main()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.21 GiB is free.
"""


def endless(*_: object) -> Any:
    while True:
        check()


def stubborn() -> None:
    re.match(r"(a*)*b", "a" * 60)


def test_a_task_that_asks_ends_in_its_time() -> None:
    assert attempt(endless, 0.05, None) == (None, False)
    assert attempt(lambda: 3, 0.05, 0) == (3, True)


def test_a_regular_expression_is_interrupted_in_the_main_thread() -> None:
    before = signal.getsignal(signal.SIGPROF)
    with interrupting():
        assert attempt(stubborn, 0.1, None) == (None, False)
    assert signal.getsignal(signal.SIGPROF) is before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_nothing_is_interrupted_while_no_share_is_used() -> None:
    with interrupting():
        start = time.thread_time()
        while time.thread_time() - start < 0.3:
            pass


def test_other_threads_go_on_without_the_timer() -> None:
    told: list[object] = []

    def work() -> None:
        with interrupting():
            told.append(signal.getitimer(signal.ITIMER_PROF))
            told.append(attempt(endless, 0.05, "left out"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert told == [(0.0, 0.0), ("left out", False)]


def test_the_wider_limit_ends_both() -> None:
    assert attempt(lambda: attempt(endless, 60, "inner"), 0.05, ("outer", False)) == (("outer", False), False)
    assert attempt(lambda: attempt(endless, 0.05, "inner"), 60, ("outer", False)) == (("inner", False), True)


def test_errors_go_through_and_leave_no_limit_behind() -> None:
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 / 0, 0.01, 0.0)
    time.sleep(0.02)
    check()


def test_an_allowance_is_shared() -> None:
    allowance = Allowance(0.12, 0.1)
    assert [allowance.attempt(endless, None)[1] for _ in range(3)] == [False, False, False]
    assert allowance.attempt(lambda: 1, 0) == (0, False)


def test_parts_share_the_time_of_all_together() -> None:
    notes: list[tuple[str, str]] = []
    start = time.thread_time()
    with together(0.2):
        for number in range(10):
            guarded(f"part {number}", lambda what, why, _: notes.append((what, why)), endless, 0.15, None)
        assert is_spent()
    assert time.thread_time() - start < 1
    assert notes[0] == ("part 0", "took longer than 0.15 s")
    assert notes[9] == ("part 9", "the other parts took too long")
    assert not is_spent()
    assert attempt(lambda: 3, 0.05, 0) == (3, True)


def test_parts_that_have_taken_their_memory_begin_no_other() -> None:
    with together(60):
        assert not is_spent()
        held = bytearray(b"x") * (80 << 20)
        assert is_spent()
        del held


USAGE = """import sys
from crashcart.cli import main
code = main()
print([line for line in open("/proc/self/status") if line.startswith("VmHWM")][0].split()[1], file=sys.stderr)
sys.exit(code)
"""
ENDLESS_TRAINING = """import torch
def visit(number, items):
    total = 0
    for item in range(number):
        if items:
            total = visit(item, [*items, total]) + visit(total, items)
    return total
""" + "".join(f"def visit_{n}(x):\n    return visit(x, [x]) + visit_{n - 1}(x) + visit_{n - 1}(x)\n" for n in range(1, 90)) + "".join(
    f"visit_{n}({n})\n" for n in range(1, 90)
) + "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nloss.backward()\noptimizer.step()\n"  # fmt: skip


@pytest.mark.parametrize("named", ["programs", "targets"])
def test_many_jobs_take_the_time_and_memory_of_one(tmp_path: Path, named: str) -> None:
    names = [f"train_{number}.py" for number in range(40)]
    for name in names:
        (tmp_path / name).write_text(ENDLESS_TRAINING)
    (tmp_path / "Makefile").write_text("".join(f"{name[:-3]}:\n\tpython {name}\n" for name in names))
    words = {"programs": names, "targets": ["Makefile"]}[named]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", USAGE, "check", "--json", *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 10  # about four on a quiet machine
    assert int(done.stderr) >> 10 < 150
    assert any("too" in gap["why"] for gap in json.loads(done.stdout)["not_looked"])


def test_an_input_that_takes_too_long_is_named() -> None:
    with pytest.raises(TookTooLongError, match=r"a\.yaml took longer than 0\.05 s"):
        limited(endless, 0.05, "a.yaml")


def test_no_handler_of_errors_stops_it() -> None:
    assert not issubclass(OutOfTime, Exception)


def test_a_cause_that_does_not_end_is_named_and_the_others_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cause = next(one for one in causes() if one.id == "slow/data")
    monkeypatch.setattr(engine, "_CAUSE_SECONDS", 0.1)
    monkeypatch.setitem(cause.parts, "in_log", endless)
    (tmp_path / "x.log").write_text(DEATH)
    diagnosis = why([str(tmp_path / "x.log")], look_around=False)
    assert diagnosis.findings[0].cause == "gpu-memory/train-step"
    assert [one.why for one in diagnosis.not_looked if one.what == "slow/data"] == ["took longer than 0.1 s"]


def test_a_part_of_a_log_that_takes_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "find_deaths", endless)
    notes: list[str] = []
    assert structured([], notes, 0.2).deaths == []
    assert notes == ["finding ends of processes in it took longer than 0.1 s"]


def test_a_rule_that_does_not_end_is_named_and_the_others_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = next(rule for rule in rules._rules() if rule.__name__.endswith("zero_rate"))
    monkeypatch.setattr(rules, "_ALL_RULES_SECONDS", 1.0)
    monkeypatch.setattr(rule, "look", endless)
    (tmp_path / "train.py").write_text("import torch\nx = 1\nloss.backward()\n")
    monkeypatch.chdir(tmp_path)
    told = check_job(["train.py"]).not_looked
    assert [one.what for one in told if "longer" in one.why] == ["zero rate in the code"]


@pytest.mark.parametrize(
    "key", ["dataloader" * 40, "dataloader" * 40_000, "n" * 999, "data.loader." * 80, "gradaccum" * 100]
)
def test_a_long_key_has_no_name(key: str) -> None:
    start = time.thread_time()
    assert canonical(key) is None
    assert time.thread_time() - start < 2


# What took minutes: each must now end well within the time of one part.
LOGS: dict[str, Callable[[], str]] = {
    "digits after step words": lambda: ("step " + "9" * 5600 + "\n") * 40,
    "one line of digits": lambda: "loss " + "9" * 3_000_000,
    "one line of blanks": lambda: "Error: " + " " * 3_000_000 + "x",
    "tracebacks": lambda: DEATH * 4000,
    "ranks": lambda: "".join(f"[rank{number}]: RuntimeError: {number}\n" for number in range(10_000)),
    "deaths": lambda: "got signal: 9\n" * 20_000,
    "nan": lambda: "".join(f"step {number} loss nan grad_norm inf\n" for number in range(30_000)),
    "causes of causes": lambda: "Caused by: ValueError: x\nThe above exception was the direct cause of\n" * 8000,
    "bars": lambda: "".join(f"\rEpoch 1: {number % 100}%|██ | {number}/9999 [00:01<01:00, 3.2it/s]" for number in range(20_000)),
    "errors, each unlike the others": lambda: "".join(
        f"ERROR {'abcdefgh'[number % 8] * (number % 50)} RuntimeError: {number:x}\n" for number in range(20_000)
    ),
}  # fmt: skip


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_logs_that_multiply_are_answered(tmp_path: Path, log: Callable[[], str]) -> None:
    (tmp_path / "x.log").write_text(log())
    start = time.thread_time()
    why([str(tmp_path / "x.log")], look_around=False)
    assert time.thread_time() - start < 10  # seconds of processor time; about one on a quiet machine


def test_what_is_kept_of_a_log_is_bounded_where_every_line_is_of_interest(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    kept = []
    for count in (40_000, 160_000):
        path.write_text(
            "".join(
                f"ERROR {number * 7919 % 99991:x} RuntimeError: {number:x}{'q' * (number % 23)}\n" for number in range(count)
            )
        )
        kept.append(sum(len(line.text) for line in read_logs([str(path)]).lines))
    assert kept[1] < kept[0] + (128 << 10)
    assert kept[1] < 2 << 20


JOBS: dict[str, dict[str, str]] = {
    "a number of 20,000 digits": {"c.yaml": f"lr: {'9' * 20_000}\n"},
    "a key of dataloaders": {"c.yaml": f"{'dataloader' * 40}: 1\n"},
    "tables": {"c.toml": "".join(f"[t{number}]\nlr = 1\n" for number in range(6000))},
    "open substitutions": {"train.sh": "$(" * 100_000 + "\npython train.py\n"},
    "open quotes": {"train.sh": "\"'\"\"'" * 40_000 + "\npython train.py\n"},
    "variables": {"train.sh": "".join(f"V{number}=$U{number}x\n" for number in range(15_000)) + "python train.py\n"},
    "braces": {"train.sh": "python train.py " + "{a,b}" * 40 + "\n"},
    "a script that calls itself": {"train.sh": "f() { f; f; }\nf\nsource train.sh\nbash train.sh\npython train.py\n"},
    "a script of a megabyte": {"train.sh": "echo hello\n" * 100_000 + "python train.py\n"},
    "variables that double": {"Makefile": "A0=x\n" + "".join(f"A{n}=$(A{n - 1})$(A{n - 1})\n" for n in range(1, 60)) + "train:\n\tpython t.py $(A59)\n"},
    "a line of a megabyte": {"train.py": f"import torch\nx = [{'1, ' * 300_000}]\nloss.backward()\n"},
}  # fmt: skip


@pytest.mark.parametrize("files", JOBS.values(), ids=JOBS)
def test_jobs_that_multiply_are_answered(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "crashcart.cli", "check", "--json", next(iter(files))],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    if done.returncode == 2:
        assert done.stderr.count("\n") == 1
    else:
        assert json.loads(done.stdout)["verb"] == "check"


def test_what_cannot_be_interrupted_is_tried_in_a_child_and_its_time_counts() -> None:
    def busy() -> None:
        while True:
            pass

    before = deadline.spent()
    assert deadline.ends_in_time(lambda: next(iter(())), 1.0)  # an error is an end
    assert not deadline.ends_in_time(busy, 0.2)
    assert 0.1 < deadline.spent() - before < 2

    def tries() -> None:
        deadline.ends_in_time(busy, 0.3)
        check()

    assert attempt(tries, 0.1, None) == (None, False)
