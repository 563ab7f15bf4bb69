"""What stands before every line of a log changes nothing of what the log says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.readers.logs import read_logs

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.model import Diagnosis

STEPS = [f"step {step}/400 loss 2.{step} lr 1e-4" for step in range(10, 100, 10)]
CRASH = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 10, in main',
    '    lr = config["lr"]',
    "KeyError: 'lr'",
]
HEADERS = {
    "time": "2026-11-15T07:12:01.1234567Z ",
    "bracketed time": "[2026-11-15 07:12:01] ",
    "time of day": "07:12:01.5 ",
    "journald": "Nov 15 07:12:01 n1 python[4711]: ",
    "journald with ISO time": "2026-11-15T07:12:01+0000 n1 python[4711]: ",
    "mpirun": "[1,0]<stderr>:",
    "pdsh": "node01: ",
    "compose": "trainer  | ",
    "pod and time": "[pod/train-0/main] 2026-11-15T07:12:01.123456789Z ",
    "loguru": "2026-11-15 07:12:01.000 | INFO     | train:main:12 - ",
    "logging": "2026-11-15 07:12:01,000 - INFO - train - ",
    "logger before level": "2026-11-15 07:12:01,000 - train.loop - INFO - ",
    "basic logging": "INFO:root:",
    "level in a column": "INFO     ",
    "deepspeed": "[2026-11-15 07:12:01,000] [INFO] [logging.py:96:log_dist] [Rank 0] ",
    "airflow": "[2026-11-15, 07:12:01 UTC] {subprocess.py:93} INFO - ",
}


def why(path: Path, lines: list[str]) -> Diagnosis:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return crashcart.why([str(path)], look_around=False)


def meaning(diagnosis: Diagnosis) -> tuple[object, ...]:
    findings = [(finding.cause, finding.role, finding.level) for finding in diagnosis.findings]
    return diagnosis.ending.state, diagnosis.ending.step, findings


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_header_on_every_line_changes_nothing(tmp_path: Path, header: str) -> None:
    plain = why(tmp_path / "plain.log", [*STEPS, *CRASH])
    carried = why(tmp_path / "carried.log", [header + line for line in [*STEPS, *CRASH]])
    assert meaning(carried) == meaning(plain)
    assert plain.findings[0].cause == "config/missing-or-wrong"


@pytest.mark.parametrize(
    "header",
    [
        "train\tRun\t2026-11-15T13:00:0{}.1234567Z ",
        "[  {}.123s] ",
        "179513398{}.000 ",
        "<13>1 2026-11-15T13:00:0{}Z host python 7 - - ",
    ],
)
def test_a_header_of_any_shape_is_known_by_the_frames_of_a_traceback(tmp_path: Path, header: str) -> None:
    lines = [*STEPS, *CRASH]
    plain = why(tmp_path / "plain.log", lines)
    carried = why(tmp_path / "carried.log", [header.format(number % 10) + line for number, line in enumerate(lines)])
    assert meaning(carried) == meaning(plain)


def test_lines_without_the_beginning_of_a_traceback_keep_theirs(tmp_path: Path) -> None:
    """A program that prints a word before a traceback has not carried the other lines."""
    (tmp_path / "log").write_text("\n".join([*STEPS, "worker 3 says " + CRASH[0], *CRASH[1:]]), encoding="utf-8")
    assert read_logs([str(tmp_path / "log")]).lines[0].text == STEPS[0]


@pytest.mark.parametrize("key", ["textPayload", "message", "MESSAGE"])
def test_entries_of_log_services_are_unwrapped(tmp_path: Path, key: str) -> None:
    lines = [*STEPS, *CRASH]
    plain = why(tmp_path / "plain.log", lines)
    carried = why(tmp_path / "log", [json.dumps({key: line, "timestamp": "2026-11-15T13:00:00Z"}) for line in lines])
    assert meaning(carried) == meaning(plain)


def test_a_record_of_the_program_with_numbers_in_it_stays(tmp_path: Path) -> None:
    record = json.dumps({"time": "2026-11-15T13:00:00Z", "message": "step", "loss": 0.25})
    (tmp_path / "log").write_text(f"{record}\n" * 5, encoding="utf-8")
    assert read_logs([str(tmp_path / "log")]).lines[0].text == record


def test_evidence_is_quoted_as_it_stands_in_the_file(tmp_path: Path) -> None:
    header = HEADERS["loguru"]
    found = why(tmp_path / "carried.log", [header + line for line in [*STEPS, *CRASH]])
    quotes = {item.where: item.quote for finding in found.findings for sign in finding.signs for item in sign.evidence}
    assert quotes["carried.log:13"] == f"{header}KeyError: 'lr'"


def test_mpirun_tells_the_rank(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"[1,{rank}]<stdout>:step {rank}\n" for rank in range(4)), encoding="utf-8")
    assert [line.rank for line in read_logs([str(tmp_path / "log")]).lines] == [0, 1, 2, 3]


def test_docker_entries_are_unwrapped(tmp_path: Path) -> None:
    lines = ["loading", "10%\r20%\r30%", 'File "a"', "Größe"]
    entries = [json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-11-15T07:12:01Z"}) for line in lines]
    (tmp_path / "log").write_text("\n".join(entries) + "\n", encoding="utf-8")
    found = read_logs([str(tmp_path / "log")]).lines
    assert [(line.number, line.text) for line in found] == [
        (1, "loading"), (2, "10%"), (2, "20%"), (2, "30%"), (3, 'File "a"'), (4, "Größe"),
    ]  # fmt: skip
    assert len({line.order for line in found}) == len(found)


def test_the_header_of_a_logger_stays_where_tracebacks_have_none(tmp_path: Path) -> None:
    lines = [*(HEADERS["logging"] + step for step in STEPS * 20), *CRASH]
    (tmp_path / "log").write_text("\n".join(lines), encoding="utf-8")
    assert read_logs([str(tmp_path / "log")]).lines[0].text.startswith("2026-11-15")


def test_a_level_counts_where_lines_have_several(tmp_path: Path) -> None:
    """What is logged as a warning beside lines of other levels was got over."""
    warned = [f"WARNING:root:{line}" for line in ["RuntimeError: CUDA out of memory."]]
    logged = [f"INFO:root:{step}" for step in STEPS]
    assert why(tmp_path / "log", [*logged, *warned]).ending.state != "crashed"
    frames = [f"INFO:root:{line}" for line in CRASH[:2]]
    (tmp_path / "log").write_text("\n".join([*logged, *frames, *warned]), encoding="utf-8")
    last = read_logs([str(tmp_path / "log")]).lines[-1]
    assert (last.text, last.level) == ("RuntimeError: CUDA out of memory.", "WARNING")


@pytest.mark.parametrize("word", ["loss", "step", "epoch 3", "wandb", "Epoch3"])
def test_names_of_numbers_and_programs_are_no_nodes(tmp_path: Path, word: str) -> None:
    (tmp_path / "log").write_text(f"{word}: 1 of 10\n" * 30, encoding="utf-8")
    assert read_logs([str(tmp_path / "log")]).lines[0].text == f"{word}: 1 of 10"
