"""`crashcart run` on real processes: the job behaves as it would without us, and nothing of it is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path
from supervised import CRASHCART, python, run, start, the_run, until

pytestmark = pytest.mark.processes


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
        ).wait(150)
    expected = "".join(f"o{i}\ne{i}\n" for i in range(1, 6))
    assert (folder / "both").read_text() == expected
    assert (the_run(folder) / "logs" / "output.log").read_text() == expected


def test_input_reaches_the_job(folder: Path) -> None:
    assert run("cat", flags=("--quiet",), input="typed\n").stdout == "typed\n"
    assert the_run(folder).exists()


def test_a_signal_death_is_told_as_a_shell_tells_it(folder: Path) -> None:
    done = run("bash", "-c", "kill -9 $$")
    assert done.returncode == -9
    assert json.loads((the_run(folder) / "exit.json").read_text())["signal"] == "SIGKILL"


@pytest.mark.parametrize(("name", "code"), [("no-such-command-here", 127), ("/etc/passwd", 126)])
@pytest.mark.usefixtures("folder")
def test_a_command_that_cannot_start_has_the_shells_code(name: str, code: int) -> None:
    done = run(name)
    assert done.returncode == code
    assert name in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_command_it_is_our_own_failure(folder: Path) -> None:
    done = subprocess.run(CRASHCART, capture_output=True, text=True, timeout=150, check=False)
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
    assert job.wait(150) == 5


def test_a_job_that_swallows_term_is_killed_after_the_grace_that_was_given(folder: Path) -> None:
    code = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(60)"
    job = start(*python(code), flags=("--grace", "1"), stdout=subprocess.PIPE)
    assert job.stdout is not None
    job.stdout.readline()
    job.send_signal(signal.SIGTERM)
    assert job.wait(150) == -9
    sent = [json.loads(line) for line in (the_run(folder) / "recording" / "events.jsonl").read_text().splitlines()]
    assert [event["signal"] for event in sent if event["kind"] == "sent"] == ["SIGKILL"]


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
    assert job.wait(150) == 0
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
    assert job.communicate(timeout=150)[0] == b""
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
    assert "still running" in done.stderr
    left = json.loads((the_run(folder) / "run.json").read_text())["left"]
    assert len(left) == 1
    os.kill(left[0]["pid"], signal.SIGKILL)


def test_secrets_do_not_reach_the_record(folder: Path) -> None:
    """In the command, the environment, uncommitted changes and an exception; only the user's own log has them."""
    word, token = "Zebra-" + "hunter2", "gh" + "p_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZaB3dE5gH7j"
    program = folder / "train.py"
    program.write_text(f"raise ValueError('password={word}' + 'x' * 970 + ' {token} ' + 'y' * 2000 + ' token: {token}')\n")
    (folder / "conf").touch()
    for words in ("init -q", "add -A", "-c user.name=a -c user.email=a@b commit -qm ."):
        subprocess.run(["git", *words.split()], check=True)
    (folder / "conf").write_text(f"password:\n  {word}\nurl: https://me:{word}@host\n")
    environment = {**os.environ, "WANDB_API_KEY": "k" * 40, "NCCL_PROXY": f"http://me:{word}@host"}
    arguments = [str(program), "--api_key", token, "--db-password", word, f"--token={token}"]
    done = run(sys.executable, *arguments, flags=("--notify", f"cat > {folder}/told"), env=environment)
    outputs = [line for line in done.stderr.splitlines() if line.startswith("crashcart:")]
    outputs.append((folder / "told").read_text())
    files = (path for path in the_run(folder).rglob("*") if path.is_file() and path.name != "command")
    outputs += [path.read_bytes().decode("utf-8", "replace") for path in files if path.parent.name != "logs"]
    for text in outputs:
        assert not any(part in text for part in (word, token[4:16], token[-12:], "k" * 40)), text
    assert "[hidden]" in (the_run(folder) / "git.diff").read_text()
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
        [sys.executable, "-m", "crashcart.cli", "runs", "--json"], capture_output=True, text=True, timeout=150, check=True
    )
    outcomes = [row["outcome"] for row in json.loads(done.stdout)["runs"]]
    assert sorted(outcomes) == ["failed (4)", "finished"]


def test_the_newest_run_is_explained_without_being_named(folder: Path) -> None:
    run("bash", "-c", "echo first; exit 3")
    done = subprocess.run(
        [sys.executable, "-m", "crashcart", "why", "--json"], capture_output=True, text=True, timeout=150, check=True
    )
    told = json.loads(done.stdout)
    assert told["run"] == the_run(folder).name
    assert told["ending"]["exit_code"] == 3


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
