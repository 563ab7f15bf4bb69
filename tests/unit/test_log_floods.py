"""A log in which every line is of interest costs little more than one in which none is, and hides nothing that is rare."""

from __future__ import annotations

import random
import string
from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.readers import logs
from crashcart.readers.logs import read_logs, scanner, windows
from crashcart.readers.logs.floods import Floods
from crashcart.readers.logs.scan import Scanner
from crashcart.readers.logs.windows import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ENGINES = ["hyperscan", "re2", "stdlib"]
CRASH = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    main()\nRuntimeError: device-side assert\n'
CHANCE = random.Random(11)
WORDS = ["".join(CHANCE.choices(string.ascii_lowercase, k=6)) for _ in range(400_000)]
PHRASES = ("Killed", "loss nan", "CUDA out of memory.", "Segmentation fault", "RuntimeError: x", "exit code 1", "Aborted")
ALIKE: dict[str, Callable[[int], str]] = {
    "one word": lambda _: "Killed\n",
    "carriage returns": lambda _: "Killed\r",
    "many times a line": lambda number: "Killed" * 600 + f" {number}\n",
    "a number": lambda number: f"ERROR {number} failed\n",
    "nan": lambda number: (
        f"[00:{number // 60 % 60:02}:{number % 60:02}] step {number} loss: nan grad_norm: nan lr: 1.0e-04\n"
    ),
    "tracebacks": lambda number: CRASH.replace("9", str(number)),
    "several": lambda number: f"{PHRASES[number % 7]} {number}\n",
}
UNLIKE: dict[str, Callable[[int], str]] = {
    "a word and a text": lambda number: f"{WORDS[number]} Killed\n",
    "a text and a word": lambda number: f"ERROR {WORDS[number]} failed\n",
    "two texts": lambda number: f"{PHRASES[number * 7919 % 7]} {PHRASES[number * 104729 % 5]} {WORDS[number]}\n",
}
FLOODS = {**ALIKE, **UNLIKE}


def flood(line: Callable[[int], str], size: int) -> str:
    """Lines of that many bytes."""
    lines: list[str] = []
    written = 0
    while written < size:
        lines.append(line(len(lines)))
        written += len(lines[-1])
    return "".join(lines)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each line that a scanner gave to Python."""
    spans: list[int] = []
    lines = Scanner.lines

    def counted(self: Scanner, buffer: bytearray, start: int, end: int) -> Iterator[tuple[int, int]]:
        for span in lines(self, buffer, start, end):
            spans.append(span[0])
            yield span

    monkeypatch.setattr(Scanner, "lines", counted)
    return spans


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("line", FLOODS.values(), ids=FLOODS)
def test_few_of_the_lines_that_all_match_are_looked_at(
    tmp_path: Path, given: list[int], line: Callable[[int], str], engine: str
) -> None:
    (tmp_path / "log").write_text(flood(line, 4 << 20), newline="")
    log = read_logs([str(tmp_path / "log")], engine=engine)
    assert len(given) < 8_000
    assert sum(len(kept.text) for kept in log.lines) < 1 << 20
    assert len(log.lines) < 40_000


@pytest.mark.parametrize("line", FLOODS.values(), ids=FLOODS)
def test_all_engines_keep_the_same_lines_of_a_flood(tmp_path: Path, line: Callable[[int], str]) -> None:
    (tmp_path / "log").write_text(flood(line, 1 << 20) + CRASH + flood(line, 1 << 20), newline="")
    kept = [
        [(one.number, one.text) for one in read_logs([str(tmp_path / "log")], engine=engine).lines] for engine in ENGINES
    ]
    assert kept[0] == kept[1] == kept[2]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("line", FLOODS.values(), ids=FLOODS)
def test_what_is_rare_is_found_in_a_flood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: Callable[[int], str], engine: str
) -> None:
    monkeypatch.setattr(logs, "_ONE_FILE", Budget(shaped=0))
    rare = "train.sh: line 3: 4242 Bus error (core dumped) python train.py"
    (tmp_path / "log").write_text(flood(line, 3 << 20) + rare + "\n" + flood(line, 3 << 20), newline="")
    assert rare in {kept.text for kept in read_logs([str(tmp_path / "log")], engine=engine).lines}


def test_a_line_that_says_the_same_in_another_way_is_found_in_a_flood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_ONE_FILE", Budget(shaped=0))
    rare = "train.sh: line 3: 4242 Killed                  python train.py"
    (tmp_path / "log").write_text("Killed\n" * 400_000 + rare + "\n" + "Killed\n" * 400_000)
    log = read_logs([str(tmp_path / "log")])
    assert [kept.number for kept in log.lines if kept.text == rare] == [400_001]


def test_the_last_line_of_a_flood_is_kept(tmp_path: Path) -> None:
    steps = "".join(f"step {number} loss: 0.5 lr: 1.0e-04\n" for number in range(100_000))
    (tmp_path / "log").write_text(flood(ALIKE["nan"], 3 << 20) + "last [1] loss: nan\n" + steps)
    numbers = [kept.number for kept in read_logs([str(tmp_path / "log")]).lines if "loss: nan" in kept.text]
    assert max(numbers) == flood(ALIKE["nan"], 3 << 20).count("\n") + 1
    assert min(numbers) == 1


@pytest.mark.parametrize("text", ["loss nan\n", "Killed\n", "CUDA out of memory. \n"])
def test_a_flood_gets_the_answer_of_a_short_log(tmp_path: Path, text: str) -> None:
    answers = []
    for count in (2_000, 600_000):
        (tmp_path / "log").write_text(text * count)
        diagnosis = crashcart.why([str(tmp_path / "log")], look_around=False)
        answers.append((diagnosis.findings[0].cause, [gap.why for gap in diagnosis.not_looked]))
    assert answers[0] == answers[1]


def test_what_was_left_out_of_a_flood_of_unlike_lines_is_said(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(flood(UNLIKE["a word and a text"], 2 << 20))
    notes: list[str] = []
    read_logs([str(tmp_path / "log")], notes=notes)
    assert [note.partition(": ")[2] for note in notes] == [
        'most of the thousands of lines with "Killed"; the first and the last were read'
    ]


def test_lines_with_too_many_texts_to_learn_are_sampled_and_that_is_said(tmp_path: Path, given: list[int]) -> None:
    texts = [text for text in sorted({text for cause in crashcart.cause.causes() for phrase in cause.phrases for text in phrase.literals}) if len(text) > 9]  # fmt: skip
    CHANCE.shuffle(texts)
    (tmp_path / "log").write_text(flood(lambda number: f"{texts[number * 7919 % len(texts)]} {number}\n", 4 << 20))
    notes: list[str] = []
    log = read_logs([str(tmp_path / "log")], notes=notes)
    assert len(given) < 20_000
    assert len(log.lines) < 40_000
    assert any("some from everywhere were read" in note for note in notes)


def test_shapes_are_forgotten_before_they_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0
    keep_new_shapes = windows._Walk._keep_new_shapes

    def measured(self: windows._Walk, limit: int, filled: int) -> None:
        nonlocal most
        keep_new_shapes(self, limit, filled)
        most = max(most, len(self._shapes))

    monkeypatch.setattr(windows._Walk, "_keep_new_shapes", measured)
    (tmp_path / "log").write_text("\n".join(WORDS) * 2)
    read_logs([str(tmp_path / "log")])
    assert 100_000 < most <= windows._MOST_NEW


def test_a_flood_is_learned_with_what_always_stands_around_it() -> None:
    floods = Floods(scanner())
    text = "".join(f"[{number}] step {number} loss: nan lr: 0.1 ({number})\n" for number in range(500)).encode()
    hits = [(match, text.index(b"\n", match)) for match in range(len(text)) if text[match - 1 : match] == b"\n"]
    assert floods.learn(text, hits)
    assert floods.texts == [b" loss: nan lr: 0.1 ("]
    assert b"nan" not in floods.blanked(text)
    assert b"loss: nan, aborting" in floods.blanked(b"step 3 loss: nan, aborting\n")
    assert len(floods.blanked(text)) == len(text)
    assert not floods.learn(text, hits)
