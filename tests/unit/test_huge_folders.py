"""A folder may be a whole machine: what is looked at is bounded, and the answer says what was left out."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.cli import main
from crashcart.readers import gather, logs, plan, project, scene
from crashcart.readers.logs import read_logs
from crashcart.readers.traces import survivors
from crashcart.regular_files import walk

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.log import Raised

CPU_SECONDS, LARGEST_KB = 5.0, 150_000
PROGRAM = """
import resource, sys
from crashcart.cli import main
code = main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
used = resource.getrusage(resource.RUSAGE_SELF)
sys.stderr.write(f"\\n{peak.split()[1]} {used.ru_utime + used.ru_stime} {code}")
"""
DEATH = 'step 1 loss 0.5\nTraceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: rank {}\n'


def _not_checked(folder: Path) -> str:
    return "\n".join(f"{gap.what}: {gap.why}" for gap in crashcart.why(str(folder)).not_looked)


def _write_logs(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"job{number}x.log").write_text(DEATH.format(number))
        os.utime(folder / f"job{number}x.log", (1e9 + number, 1e9 + number))


def _many(folder: Path) -> None:
    for number in range(12_000):
        (folder / f"f{number}.{('log', 'sh', 'yaml', 'py', 'pt', 'json')[number % 6]}").write_text(
            "python train.py --lr 1\n"
        )


def _deep(folder: Path) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        here, above = os.open("d", os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(here)


def _loops(folder: Path) -> None:
    for number in range(100):
        inner = folder / f"d{number}"
        inner.mkdir()
        for other in range(20):
            (inner / f"l{other}").symlink_to(f"../d{(number * 7 + other) % 100}")
        (inner / "up").symlink_to("..")
        (inner / "self").symlink_to("self")
    (folder / "machine").symlink_to("/")


def _junk(folder: Path) -> None:
    chance = random.Random(1)
    words = [
        "Error",
        "nan",
        "loss",
        "step",
        "CUDA out of memory",
        "Killed",
        "[rank3]:",
        "Traceback (most recent call last):",
        "\n",
        "1.5",
    ]
    for number in range(600):
        (folder / f"a{number}.log").write_text(" ".join(chance.choices(words, k=4000)))
        (folder / f"b{number}.log").write_bytes(chance.randbytes(20_000))


@pytest.mark.parametrize("verb", ["why", "check", "doctor", "runs"])
@pytest.mark.parametrize("tree", [_many, _deep, _loops, _junk])
def test_no_folder_takes_long_or_much_memory(tmp_path: Path, verb: str, tree: object) -> None:
    assert callable(tree)
    try:
        tree(tmp_path)
        _assert_bounded(tmp_path, verb)
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path)], check=True)  # what is so deep pytest cannot remove


@pytest.mark.parametrize("verb", ["why", "check", "doctor", "runs"])
def test_a_link_to_a_whole_machine_takes_neither(tmp_path: Path, verb: str) -> None:
    (tmp_path / "run").symlink_to("/")
    _assert_bounded(tmp_path / "run", verb)


def _assert_bounded(folder: Path, verb: str) -> None:
    words = [verb] if verb == "runs" else [verb, str(folder)]
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        env={**os.environ, "CRASHCART_RUNS": str(folder)},
        text=True,
        check=True,
    )
    *errors, last = ended.stderr.splitlines()
    peak, seconds, code = last.split()
    assert code in {"0", "1", "2"}
    assert not any("Traceback" in line for line in errors)
    assert float(seconds) < CPU_SECONDS
    assert int(peak) < LARGEST_KB


def test_a_search_that_is_given_up_is_said_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(survivors, "MAX_SECONDS", 0.0)
    found = survivors.survivors(tmp_path)
    assert found.not_looked[0].why == f"there is too much below {tmp_path}: stopped after 0 entries"
    monkeypatch.setattr(survivors, "MAX_SECONDS", 10.0)
    monkeypatch.setattr(survivors, "MAX_ENTRIES", 2)
    found = survivors.survivors(tmp_path)
    assert found.not_looked[0].what == f"{tmp_path}/a and 2 more folders" or found.not_looked[0].what.endswith(
        "2 more folders"
    )


def test_of_too_many_logs_the_newest_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_logs(tmp_path, 6)
    monkeypatch.setattr(logs, "_SEARCHED_BYTES", 3 * len(DEATH))
    assert {raised.message for raised in _raised(tmp_path)} == {"rank 3", "rank 4", "rank 5"}
    assert "3 of the logs, such as job2x.log: there is too much to read" in _not_checked(tmp_path)


def test_when_time_is_up_one_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_logs(tmp_path, 6)
    monkeypatch.setattr(gather, "_SEARCH_SECONDS", -1.0)
    monkeypatch.setattr(gather, "_LEAST_LOG_SECONDS", 0.0)
    assert {raised.message for raised in _raised(tmp_path)} == {"rank 5"}
    assert "5 of the logs" in _not_checked(tmp_path)


def _raised(folder: Path) -> list[Raised]:
    return gather.gather(gather.Given([str(folder)])).log.raised


def test_what_is_kept_of_many_logs_is_bounded_also_where_they_were_named(tmp_path: Path) -> None:
    chance = random.Random(1)
    for number in range(400):
        text = "".join(f"ERROR {chance.randbytes(20).hex()} failed\n\n\n\n" for _ in range(1000))
        (tmp_path / f"r{number}.log").write_text(text)
    notes: list[str] = []
    log = read_logs([str(path) for path in sorted(tmp_path.iterdir())], notes=notes)
    assert sum(max(len(line.text), 47) + 1 for line in log.lines) < 6 << 20
    assert any("of the logs, such as" in note for note in notes)


def test_a_file_that_is_no_text_is_read_only_where_it_was_named(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(random.Random(1).randbytes(9000))
    assert f"a log: {tmp_path}/a.log is not a text file." in _not_checked(tmp_path)
    assert read_logs([str(tmp_path / "a.log")]).lines
    for encoding in ("utf-8", "utf-16", "latin-1", "shift-jis"):
        (tmp_path / "a.log").write_text(("Schritt 1: Größe\n" if encoding == "latin-1" else "ステップ 1\n") * 3, encoding)
        assert read_logs([str(tmp_path / "a.log")], seconds=1.0).lines, encoding


def test_of_too_many_jobs_some_are_checked_and_the_rest_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("import torch\nfor batch in ():\n    loss.backward()\n")
    for number in range(9):
        (tmp_path / f"s{number}.sh").write_text(f"python train.py --lr {number}\n")
        (tmp_path / f"c{number}.yaml").write_text("lr: 1\n")
    monkeypatch.setattr(plan, "_MOST_JOBS", 5)
    assert main(["check", "--notes", str(tmp_path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "4 of 9 launch scripts: there are too many" in told
    assert "4 of 9 configs: there are too many" in told
    monkeypatch.setattr(plan, "_FOLDER_SECONDS", -1.0)
    monkeypatch.setattr(project, "_ENTRIES_SECONDS", 0.0)
    assert main(["check", str(tmp_path)]) == 2
    assert "9 of 9 launch scripts (there are too many" in capsys.readouterr().err


def test_a_walk_ends_when_its_time_is_up(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    problems: list[tuple[str, str]] = []
    assert [names for _, names, _ in walk(str(tmp_path), problems, processor_seconds=0.0)] == [[]]
    assert problems == [(str(tmp_path), "there are too many files: the rest was not looked at")]


def test_of_a_whole_machine_only_scripts_of_the_program_that_died_are_followed(tmp_path: Path) -> None:
    for folder, program_name in (("one/src", "train.py"), ("two/app", "train.py"), ("three", "other.py")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / program_name).write_text("raise ValueError('x')\n")
    (tmp_path / "one" / "run.sh").write_text("python src/train.py --lr 1\n")
    (tmp_path / "two" / "run.sh").write_text("python app/train.py\n")
    (tmp_path / "three" / "run.sh").write_text("python other.py\n")
    (tmp_path / "two" / "scripts").mkdir()
    (tmp_path / "two" / "scripts" / "launch.sh").write_text("python ../app/train.py\n")
    scripts = sorted(map(str, tmp_path.rglob("*.sh")))

    def followed(folder: str, program_name: str) -> list[str]:
        entry = str(tmp_path / folder / program_name)
        return [os.path.relpath(script, tmp_path) for script in scripts if scene._may_start(script, entry)]

    assert followed("one/src", "train.py") == ["one/run.sh"]
    assert followed("two/app", "train.py") == ["two/run.sh", "two/scripts/launch.sh"]
    assert followed("three", "other.py") == ["three/run.sh"]


def test_a_sourced_file_that_is_no_script_is_not_parsed(tmp_path: Path) -> None:
    (tmp_path / "env.sh").write_bytes(b"\0" * 3_000_000)
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "run.sh").write_text("source env.sh\npython train.py --lr 1\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "check", "run.sh"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    kilobytes, seconds, code = done.stderr.split()[-3:]
    assert (int(kilobytes) < LARGEST_KB, float(seconds) < CPU_SECONDS, code) == (True, True, "0"), done.stderr


def test_a_quoted_line_of_a_large_file_is_compared_without_taking_the_file_apart(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("ab\n" * 1_600_000 + "raise X\n")
    frames = (
        '  File "train.py", line 1600001, in <module>\n    raise X\n  File "train.py", line 1600001, in f\n    raise X\n'
    )
    (tmp_path / "train.log").write_text(f"step 1 loss 2\nTraceback (most recent call last):\n{frames}ValueError: x\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "why", "train.log"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    kilobytes, seconds, code = done.stderr.split()[-3:]
    assert (int(kilobytes) < 2 * LARGEST_KB // 3, float(seconds) < CPU_SECONDS, code) == (True, True, "0"), done.stderr
