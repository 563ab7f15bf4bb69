"""The job's output under `crashcart run` when the disk is full, or its reader is slow or goes away."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

from supervised import CRASHCART, python, run, start, the_run

pytestmark = pytest.mark.processes


@pytest.fixture
def small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 800 KB for the runs."""
    place = folder / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=800k", "none", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk needs the right to mount one")
    monkeypatch.setenv("CRASHCART_RUNS", str(place))
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_full_disk_costs_lines_and_nothing_else(small: Path) -> None:
    code = (
        "for i in range(40000): print('line', i, 'of a job that writes more than the disk can hold')\n"
        "raise ValueError('what it died of')"
    )
    done = run(*python(code))
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (1, 40000)
    assert done.stderr.count("Traceback") == 1
    assert (
        len(re.findall(r"the recording is incomplete, because the disk is full: \d{6,} bytes of the log", done.stderr)) == 1
    )
    (kept,) = small.glob("*/exit.json")
    assert json.loads(kept.read_text())["code"] == 1
    facts = json.loads((kept.parent / "run.json").read_text())
    assert (facts["state"], facts["code"]) == ("failed", 1)
    assert facts["lost"] > 100_000
    log = (kept.parent / "logs" / "output.log").read_text()
    assert log.endswith("line 39999 of a job that writes more than the disk can hold\n")
    assert "bytes of this log were lost: the disk is full" in log
    found = json.loads((kept.parent / "findings.json").read_text())["findings"]
    assert "code/bug" in [finding["cause"] for finding in found]
    assert not (kept.parent / "reserve").exists()


def test_a_disk_that_the_job_itself_has_filled_does_not_lose_its_end(small: Path) -> None:
    code = (
        "import os\n"
        f"with open({str(small / 'model.pt')!r}, 'wb', buffering=0) as file:\n"
        "    while True:\n        file.write(bytes(4096))\n"
    )
    done = run(*python(code))
    assert done.returncode == 1
    assert "No space left" in done.stderr
    (kept,) = small.glob("*/exit.json")
    assert json.loads(kept.read_text())["code"] == 1
    assert json.loads((kept.parent / "run.json").read_text())["state"] == "failed"
    assert "No space left" in (kept.parent / "logs" / "errors.log").read_text()


def test_no_room_is_taken_once_a_run_has_ended(folder: Path) -> None:
    assert "incomplete" not in run("true").stderr
    assert not (the_run(folder) / "reserve").exists()


def test_a_slow_reader_gets_everything(folder: Path) -> None:
    code = "for i in range(100000): print('line', i, 'of a job that writes faster than anybody reads')"
    job = start(*python(code), flags=("--quiet",), stdout=subprocess.PIPE)
    assert job.stdout is not None
    time.sleep(2)
    assert job.stdout.read().count(b"\n") == 100_000
    assert job.wait(150) == 0
    assert (the_run(folder) / "logs" / "output.log").read_bytes().count(b"\n") == 100_000


def piped(command: tuple[str, ...], folder: Path, *, bare: bool = False) -> tuple[list[int], str]:
    """The exit codes of ``crashcart run -- command | head -3``, and what was said on standard error."""
    words = shlex.join([*([] if bare else [*CRASHCART, "--"]), *command])
    line = f"{words} | head -3 > shown; echo ${{PIPESTATUS[@]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert (folder / "shown").read_text().count("\n") == 3
    return [int(code) for code in done.stdout.split()], done.stderr


def test_a_reader_that_goes_away_ends_the_job_as_without_us(folder: Path) -> None:
    code = "import time\nfor i in range(1000):\n    print('line', i, flush=True)\n    time.sleep(0.05)"
    codes, said = piped(python(code), folder)
    assert codes == piped(python(code), folder, bare=True)[0]
    assert codes[0] > 0
    assert "BrokenPipeError" in said
    assert "its standard output was closed by its reader" in said
    *log, _ = (the_run(folder) / "logs" / "output.log").read_text().split("\n")  # the last may be without its end
    assert log == [f"line {i}" for i in range(len(log))]
    assert 3 <= len(log) < 900


def test_a_reader_that_goes_away_is_a_signal_to_other_programs(folder: Path) -> None:
    assert piped(("bash", "-c", "while sleep 0.05; do echo line; done"), folder)[0] == [128 + signal.SIGPIPE, 0]


def test_ranks_get_to_know_that_nobody_reads_on(folder: Path) -> None:
    (folder / "job.sh").write_text(
        'for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "$@" & done; wait; ls ended0 ended1 > /dev/null'
    )
    code = (
        "import os, time\n"
        "try:\n    for i in range(1000):\n        print('line', i, flush=True)\n        time.sleep(0.05)\n"
        "except BrokenPipeError:\n    open('ended' + os.environ['RANK'], 'w').close()\n    os._exit(0)"
    )
    assert piped(("bash", "job.sh", *python(code)), folder)[0] == [0, 0]


def test_a_slow_reader_is_no_reader_that_went_away(folder: Path) -> None:
    line = shlex.join([*CRASHCART, "--quiet", "--", "bash", "-c", "echo one; sleep 1; echo two"])
    done = subprocess.run(
        ["bash", "-c", f"{line} | (sleep 3; cat); echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "one\ntwo\n0\n"
    assert the_run(folder).exists()
