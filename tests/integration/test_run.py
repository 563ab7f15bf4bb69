"""`crashcart run` on real processes: the job behaves as it would without us, and nothing of it is lost."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.readers.flight import read_flight

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.flight import Flight

CRASHCART = [sys.executable, "-m", "crashcart.cli", "run"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRASHCART_RUNS", raising=False)
    return tmp_path


def run(*command: str, flags: tuple[str, ...] = (), **more: object) -> subprocess.CompletedProcess[str]:
    line = [*CRASHCART, *flags, "--", *command]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, **more)  # type: ignore[call-overload,no-any-return]


def start(*command: str, flags: tuple[str, ...] = (), **more: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*CRASHCART, *flags, "--", *command], **more)  # type: ignore[call-overload,no-any-return]


def the_run(folder: Path) -> Path:
    (found,) = [path for path in (folder / "crashcart_runs").iterdir() if path.is_dir()]
    return found


def until(condition: object, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_streams_and_exit_code_are_the_jobs_own(folder: Path) -> None:
    done = run("bash", "-c", "echo out; echo err >&2; exit 7", flags=("--quiet",))
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert (the_run(folder) / "logs" / "output.log").read_text() == "out\n"
    assert (the_run(folder) / "logs" / "errors.log").read_text() == "err\n"
    assert json.loads((the_run(folder) / "exit.json").read_text())["code"] == 7


def test_two_streams_into_one_file_keep_their_order(folder: Path) -> None:
    with (folder / "both").open("wb") as both:
        start(
            "bash", "-c", "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done", flags=("--quiet",), stdout=both, stderr=both
        ).wait(30)
    expected = "".join(f"o{i}\ne{i}\n" for i in range(1, 6))
    assert (folder / "both").read_text() == expected
    assert (the_run(folder) / "logs" / "output.log").read_text() == expected


def test_input_reaches_the_job(folder: Path) -> None:
    assert run("cat", flags=("--quiet",), input="typed\n").stdout == "typed\n"
    assert the_run(folder).exists()


def test_a_signal_death_is_told_as_a_shell_tells_it(folder: Path) -> None:
    done = run("bash", "-c", "kill -9 $$")
    assert done.returncode == 128 + 9
    assert json.loads((the_run(folder) / "exit.json").read_text())["signal"] == "SIGKILL"


@pytest.mark.parametrize(("name", "code"), [("no-such-command-here", 127), ("/etc/passwd", 126)])
@pytest.mark.usefixtures("folder")
def test_a_command_that_cannot_start_has_the_shells_code(name: str, code: int) -> None:
    done = run(name)
    assert done.returncode == code
    assert name in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_command_it_is_our_own_failure(folder: Path) -> None:
    done = subprocess.run(CRASHCART, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 125
    assert "crashcart run -- python train.py" in done.stderr
    assert not (folder / "crashcart_runs").exists()


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM])
@pytest.mark.usefixtures("folder")
def test_signals_are_passed_on(number: signal.Signals) -> None:
    code = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: (print('got it', flush=True), sys.exit(5)))\n"
        "print('ready', flush=True); time.sleep(30)"
    )
    job = start(*python(code), flags=("--quiet",), stdout=subprocess.PIPE)
    assert job.stdout is not None
    assert job.stdout.readline() == b"ready\n"
    job.send_signal(number)
    assert job.stdout.read() == b"got it\n"
    assert job.wait(20) == 5


def test_a_job_that_swallows_term_is_killed_after_its_grace(folder: Path) -> None:
    code = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(60)"
    job = start(*python(code), flags=("--grace", "1"), stdout=subprocess.PIPE)
    assert job.stdout is not None
    job.stdout.readline()
    job.send_signal(signal.SIGTERM)
    assert job.wait(20) == 128 + 9
    sent = [json.loads(line) for line in (the_run(folder) / "recording" / "events.jsonl").read_text().splitlines()]
    assert [event["signal"] for event in sent if event["kind"] == "sent"] == ["SIGKILL"]


@pytest.mark.usefixtures("folder")
def test_a_closed_terminal_does_not_reach_the_job() -> None:
    job = start(*python("import time\nprint('ready', flush=True)\ntime.sleep(1.5)\nprint('end')"), stdout=subprocess.PIPE)
    assert job.stdout is not None
    job.stdout.readline()
    job.send_signal(signal.SIGHUP)
    assert job.stdout.read() == b"end\n"
    assert job.wait(20) == 0


def test_the_supervisor_may_be_killed_at_any_moment(folder: Path) -> None:
    chance = random.Random(4)
    for attempt in range(8):
        place = folder / str(attempt)
        place.mkdir()
        code = "import time\nfor i in range(60):\n    print('line', i)\n    time.sleep(0.01)\nopen('done', 'w').close()"
        job = start(*python(code), cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.25 + chance.random() * 0.7)
        job.kill()
        job.wait()
        if not list(place.glob("crashcart_runs/*/logs/output.log")):
            continue  # it was killed before it had started anything
        until((place / "done").exists)
        until(lambda place=place: (the_run(place) / "exit.json").exists())
        log = (the_run(place) / "logs" / "output.log").read_text().splitlines()
        assert log == [f"line {i}" for i in range(60)]
        assert json.loads((the_run(place) / "exit.json").read_text())["code"] == 0


def test_the_keeper_may_be_killed_too(folder: Path) -> None:
    code = "import time\nfor i in range(80):\n    print('line', i, flush=True)\n    time.sleep(0.02)"
    job = start(*python(code), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    until(
        lambda: (
            list(folder.glob("crashcart_runs/*/run.json"))
            and "keeper" in json.loads((the_run(folder) / "run.json").read_text())
        )
    )
    os.kill(json.loads((the_run(folder) / "run.json").read_text())["keeper"], signal.SIGKILL)
    assert job.wait(30) == 0
    lines = (the_run(folder) / "logs" / "output.log").read_text().splitlines()
    assert len(lines) >= 79  # the piece in the keeper's hands may be lost
    assert lines[-1] == "line 79"


def test_nobody_waits_for_ever_where_keeper_supervisor_and_job_were_killed(folder: Path) -> None:
    """The second keeper is not the job's parent: it has to see its end all the same, and let go of the user's streams."""
    job = start(*python("import time\nprint('ready', flush=True)\ntime.sleep(600)"), stdout=subprocess.PIPE)
    assert job.stdout is not None
    job.stdout.readline()
    until(lambda: "keeper" in json.loads((the_run(folder) / "run.json").read_text()))
    first = json.loads((the_run(folder) / "run.json").read_text())
    os.kill(first["keeper"], signal.SIGKILL)
    until(lambda: "another took over" in (the_run(folder) / "recording" / "events.jsonl").read_text())
    job.kill()
    os.kill(first["job"], signal.SIGKILL)
    assert job.communicate(timeout=20)[0] == b""
    assert json.loads((the_run(folder) / "exit.json").read_text())["signal"] == "SIGKILL"


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASHCART_RUNS", "/proc/nowhere")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    done = run("bash", "-c", "echo fine; exit 3")
    assert (done.returncode, done.stdout) == (3, "fine\n")
    assert "/proc/nowhere" in done.stderr
    assert list((folder / "state" / "crashcart" / "runs").glob("*/run.json"))


def test_a_process_that_outlives_the_job_is_told(folder: Path) -> None:
    done = run("bash", "-c", "setsid sleep 20 > /dev/null 2>&1 & echo started")
    assert done.returncode == 0
    assert "still there" in done.stderr
    left = json.loads((the_run(folder) / "run.json").read_text())["left"]
    assert len(left) == 1
    os.kill(left[0]["pid"], signal.SIGKILL)


def test_secrets_do_not_reach_the_record(folder: Path) -> None:
    run(
        "bash", "-c", "true", "--api_key=abcd1234efgh5678", flags=("--quiet",), env={**os.environ, "WANDB_API_KEY": "k" * 40}
    )
    for path in the_run(folder).rglob("*"):
        if path.is_file() and path.name != "command":
            text = path.read_bytes()
            assert b"abcd1234efgh5678" not in text, path
            assert b"k" * 40 not in text, path
    assert (the_run(folder) / "command").stat().st_mode & 0o077 == 0
    assert the_run(folder).stat().st_mode & 0o077 == 0


def test_the_verdict_goes_to_the_users_command(folder: Path) -> None:
    run("bash", "-c", "exit 4", flags=("--notify", f"cat > {folder}/told"))
    assert json.loads((folder / "told").read_text())["event"] == "death"


@pytest.mark.usefixtures("folder")
def test_runs_lists_them_newest_first() -> None:
    run("bash", "-c", "exit 4")
    run("true")
    done = subprocess.run(
        [sys.executable, "-m", "crashcart.cli", "runs", "--json"], capture_output=True, text=True, timeout=20, check=True
    )
    outcomes = [row["outcome"] for row in json.loads(done.stdout)["runs"]]
    assert sorted(outcomes) == ["failed (4)", "finished"]


TRAIN = """
import sys, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
if len(sys.argv) > 1:
    raise ValueError("token=" + "hf_" + "A" * 34)
"""


def flight(folder: Path) -> Flight:
    return read_flight(str(the_run(folder)))


@pytest.mark.parametrize("how", ["plain", "-E", "-I", "PYTHONPATH"])
def test_the_inside_is_reached_whatever_the_launch(folder: Path, how: str) -> None:
    (folder / "train.py").write_text(TRAIN)
    command = [sys.executable, *([how] if how.startswith("-") else []), "train.py"]
    if how == "PYTHONPATH":
        (folder / "train.sh").write_text(f"export PYTHONPATH=.\nexec {sys.executable} train.py\n")
        command = ["bash", "train.sh"]
    assert run(*command).returncode == 0
    assert [process.page["steps"] for process in flight(folder).processes.values() if process.page] == [30.0]


def test_a_process_that_was_not_reached_is_named_and_all_else_works(folder: Path) -> None:
    (folder / "train.py").write_text("import time\ntime.sleep(1.5)\nprint('done')\nraise SystemExit(6)\n")
    done = run(sys.executable, "-S", "train.py")
    assert (done.returncode, done.stdout) == (6, "done\n")
    seen = flight(folder)
    assert not any(process.reached for process in seen.processes.values())
    assert max(value for _, value in seen.series("process", "rss")) > 1 << 20
    (told,) = [gap.what for gap in crashcart.why([str(the_run(folder))]).not_looked if "inside" in gap.what]
    assert "rank 0" in told


@pytest.mark.usefixtures("folder")
def test_without_injection_nothing_is_put_into_the_job() -> None:
    code = "import os, sys; print([name for name in sys.modules if 'crashcart' in name], os.environ.get('PYTHONPATH'))"
    bare = subprocess.run(python(code), capture_output=True, text=True, check=True).stdout
    assert run(*python(code), flags=("--no-inject", "--quiet")).stdout == bare


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.13"])
def test_other_interpreters_are_reached_or_left_alone(folder: Path, version: str) -> None:
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} on this machine")
    (folder / "job.py").write_text("import sys\nprint(sys.version_info[:2])\nraise ValueError('bad')\n")
    done = run(str(found[0]), "job.py", flags=("--quiet",))
    assert done.returncode == 1
    assert done.stdout == f"({version.replace('.', ', ')})\n"
    assert "crashcart" not in done.stderr
    (raised,) = flight(folder).of_kind("exception")
    assert raised.details["type"] == "ValueError"


def test_what_an_exception_says_is_kept_without_its_secrets(folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN)
    run(sys.executable, "train.py", "fail")
    (raised,) = flight(folder).of_kind("exception")
    assert raised.details["type"] == "ValueError"
    for path in (the_run(folder) / "recording").rglob("*"):
        assert path.is_dir() or b"A" * 34 not in path.read_bytes()


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
    assert len(re.findall(r"the recording is incomplete: \d{6,} bytes of the log", done.stderr)) == 1
    (kept,) = small.glob("*/exit.json")
    assert json.loads(kept.read_text())["code"] == 1
    facts = json.loads((kept.parent / "run.json").read_text())
    assert (facts["state"], facts["code"]) == ("failed", 1)
    assert facts["lost"] > 100_000
    log = (kept.parent / "logs" / "output.log").read_text()
    assert log.endswith("line 39999 of a job that writes more than the disk can hold\n")
    assert "found no room on the disk" in log
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
    assert job.wait(20) == 0
    assert (the_run(folder) / "logs" / "output.log").read_bytes().count(b"\n") == 100_000


def piped(command: tuple[str, ...], folder: Path) -> tuple[list[int], str]:
    """The exit codes of ``crashcart run -- command | head -3``, and what was said on standard error."""
    words = shlex.join([*CRASHCART, "--", *command])
    line = f"{words} | head -3 > shown; echo ${{PIPESTATUS[@]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert (folder / "shown").read_text().count("\n") == 3
    return [int(code) for code in done.stdout.split()], done.stderr


def test_a_reader_that_goes_away_ends_the_job_as_without_us(folder: Path) -> None:
    code = "import time\nfor i in range(1000):\n    print('line', i, flush=True)\n    time.sleep(0.05)"
    codes, said = piped(python(code), folder)
    assert codes == [1, 0]
    assert "BrokenPipeError" in said
    assert "the reader of its standard output had gone" in said
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


def test_a_segmentation_fault_leaves_its_stack(folder: Path) -> None:
    (folder / "job.py").write_text("import ctypes, time; time.sleep(1.5)\ndef boom():\n    ctypes.string_at(0)\nboom()\n")
    assert run(sys.executable, "job.py").returncode == 128 + 11
    finding = crashcart.why([str(the_run(folder))]).findings[0]
    assert finding.cause == "code/bug"
    assert "job.py:3 in boom" in " ".join(item.quote for sign in finding.signs for item in sign.evidence)


def test_the_newest_run_is_explained_without_being_named(folder: Path) -> None:
    run("bash", "-c", "echo first; exit 3")
    done = subprocess.run(
        [sys.executable, "-m", "crashcart", "why", "--json"], capture_output=True, text=True, timeout=30, check=True
    )
    told = json.loads(done.stdout)
    assert told["run"] == the_run(folder).name
    assert told["ending"]["exit_code"] == 3


def test_tracebacks_are_those_of_the_bare_program(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import torch\n"
        "class Data(torch.utils.data.Dataset):\n"
        "    def __len__(self):\n        return 4\n"
        "    def __getitem__(self, index):\n        raise KeyError('no such sample')\n"
        "for batch in torch.utils.data.DataLoader(Data()):\n    pass\n"
    )
    bare = subprocess.run([sys.executable, "train.py"], capture_output=True, text=True, check=False)
    assert run(sys.executable, "train.py", flags=("--quiet",)).stderr == bare.stderr
    finding = crashcart.why([str(the_run(folder))]).findings[0]
    assert "crashcart/inside" not in finding.signs[0].says


def test_a_run_that_goes_on_is_told_as_such(folder: Path) -> None:
    (folder / "train.py").write_text(
        TRAIN.replace("range(30)", "range(3000)").replace(
            "optimizer.zero_grad()", "optimizer.zero_grad(); import time; time.sleep(0.01)"
        )
    )
    job = start(sys.executable, "train.py", flags=("--quiet",))
    try:
        until(lambda: list(folder.glob("crashcart_runs/*/recording/samples-*")))
        time.sleep(3)
        told = crashcart.why([str(the_run(folder))])
        assert told.ending.state == "running"
        assert told.findings == ()
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(30)


def test_nothing_is_left_in_memory_when_the_supervisor_was_killed(folder: Path) -> None:
    job = start(*python("import time; time.sleep(2)"), flags=("--quiet",))
    until(
        lambda: (
            list(folder.glob("crashcart_runs/*/run.json"))
            and "job" in json.loads((the_run(folder) / "run.json").read_text())
        )
    )
    live = json.loads((the_run(folder) / "run.json").read_text())["live"]
    assert os.path.isdir(live)
    job.kill()
    job.wait()
    until(lambda: not os.path.exists(live))
    assert list((the_run(folder) / "recording" / "inside").glob("*.events"))
