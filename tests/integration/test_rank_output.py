"""Ranks have logs of their own under `crashcart run`; the joint log and the user's streams have every line, whole."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import crashcart

pytestmark = pytest.mark.processes

RUN = [sys.executable, "-m", "crashcart", "run", "--quiet"]
TALKS = """
import os, sys, time
rank = os.environ["RANK"]
for i in range(200):
    sys.stdout.write("rank %s " % rank)
    sys.stdout.flush()
    sys.stdout.write("line %d\\n" % i)
    sys.stdout.flush()
"""
LASTS = """
import os, time
for i in range(120):
    print("rank", os.environ["RANK"], "line", i, flush=True)
    time.sleep(0.02)
open("done" + os.environ["RANK"], "w").close()
"""
SEVERAL = 'for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "$@" & done; wait; echo the launcher is done'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("CRASHCART_RUNS", "RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def two_ranks(code: str, python: str = sys.executable, script: str = SEVERAL) -> list[str]:
    Path("job.py").write_text(code)
    return ["bash", "-c", script, "bash", python, "job.py"]


def run(command: list[str], flags: tuple[str, ...] = (), **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *flags, "--", *command], capture_output=True, text=True, timeout=90, check=False, **more)  # type: ignore[call-overload,no-any-return]


def logs() -> dict[str, str]:
    return {path.name: path.read_text() for path in Path().glob("crashcart_runs/*/logs/*")}


def facts() -> dict[str, object]:
    for path in Path().glob("crashcart_runs/*/run.json"):
        told: dict[str, object] = json.loads(path.read_text())
        return told
    return {}


def until(condition: object, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize("together", [True, False], ids=["one stream", "two streams"])
def test_each_rank_has_its_log_and_lines_are_whole(together: bool) -> None:  # noqa: FBT001
    if together:
        done = subprocess.run(
            [*RUN, "--", *two_ranks(TALKS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
            check=False,
        )
    else:
        done = run(two_ranks(TALKS))
    assert done.returncode == 0
    found = logs()
    for rank in "01":
        assert found[f"rank{rank}.log"] == "".join(f"rank {rank} line {i}\n" for i in range(200))
    assert found["launcher.log"] == "the launcher is done\n"
    assert done.stdout == found["output.log"]
    assert done.stdout.endswith("the launcher is done\n")
    lines = done.stdout.splitlines()
    assert len(lines) == 401
    assert all(re.fullmatch(r"rank \d line \d+", line) for line in lines[:-1])


def test_both_streams_of_a_rank_are_in_its_log() -> None:
    done = run(two_ranks("import os\nos.write(1, b'out\\n')\nos.write(2, b'err\\n')"))
    assert (done.stdout, done.stderr) == ("out\nout\nthe launcher is done\n", "err\nerr\n")
    assert sorted(logs()["rank1.log"].splitlines()) == ["err", "out"]


def test_what_the_user_redirected_stays_there() -> None:
    script = 'for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "$@" > mine$r & done; wait'
    done = run(two_ranks("import sys\nprint('out')\nprint('err', file=sys.stderr)", script=script))
    assert (done.stdout, done.stderr) == ("", "err\nerr\n")
    assert Path("mine1").read_text() == "out\n"
    assert logs()["rank1.log"] == "err\n"


def test_what_a_rank_starts_speaks_through_its_channel() -> None:
    code = (
        "import os, subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'print(1 + 1)'], check=True)\n"
        "if os.fork() == 0:\n    print('child', flush=True)\n    os._exit(0)\n"
        "os.wait()"
    )
    assert run(two_ranks(code)).returncode == 0
    assert logs()["rank0.log"] == logs()["rank1.log"] == "2\nchild\n"


@pytest.mark.parametrize("variables", [{}, {"RANK": "1", "WORLD_SIZE": "2"}], ids=["plain", "a rank of ours"])
def test_one_process_has_no_log_of_its_own(variables: dict[str, str]) -> None:
    """What a scheduler says of the whole command is not said of a rank below it."""
    assert run([sys.executable, "-c", "print('plain')"], env={**os.environ, **variables}).stdout == "plain\n"
    assert logs() == {"output.log": "plain\n", "errors.log": ""}


def test_without_injection_ranks_share_the_log() -> None:
    assert run(two_ranks("print('line')"), flags=("--no-inject",)).returncode == 0
    assert set(logs()) == {"output.log", "errors.log"}


def test_a_rank_that_is_started_again_has_another_log() -> None:
    again = SEVERAL.replace("wait;", 'wait; TORCHELASTIC_RESTART_COUNT=1 RANK=0 WORLD_SIZE=2 "$@";')
    assert run(two_ranks("import os; print(os.environ.get('TORCHELASTIC_RESTART_COUNT'))", script=again)).returncode == 0
    found = logs()
    assert (found["rank0.log"], found["rank1.log"], found["rank0-attempt2.log"]) == ("None\n", "None\n", "1\n")


def test_an_old_interpreter_is_served_too() -> None:
    found = sorted(Path("~/.pyenv/versions").expanduser().glob("3.8.*/bin/python"))
    if not found:
        pytest.skip("no Python 3.8 on this machine")
    assert run(two_ranks(TALKS, str(found[0]))).returncode == 0
    assert logs()["rank1.log"].count("\n") == 200


def test_a_killed_keeper_costs_the_ranks_nothing() -> None:
    job = subprocess.Popen([*RUN, "--", *two_ranks(LASTS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: "rank 1 line 9\n" in logs().get("rank1.log", "") and "keeper" in facts())
    keeper = facts()["keeper"]
    assert isinstance(keeper, int)
    os.kill(keeper, signal.SIGKILL)
    out, err = job.communicate(timeout=60)
    assert (job.returncode, err) == (0, "")
    assert Path("done0").exists()
    assert Path("done1").exists()
    found = logs()
    for rank in "01":
        lines = found[f"rank{rank}.log"].splitlines()
        assert len(lines) >= 117  # the lines in the keeper's hands may be lost
        assert lines[-1] == f"rank {rank} line 119"
    assert out.endswith("the launcher is done\n")
    assert "exit.json" in {path.name for path in Path().glob("crashcart_runs/*/*")}


def test_a_killed_supervisor_costs_the_ranks_nothing() -> None:
    job = subprocess.Popen([*RUN, "--", *two_ranks(LASTS)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: "rank 1 line 9\n" in logs().get("rank1.log", ""))
    job.kill()
    job.wait()
    until(lambda: list(Path().glob("crashcart_runs/*/exit.json")))
    until(lambda: "the launcher is done" in logs()["output.log"])
    assert logs()["rank0.log"] == "".join(f"rank 0 line {i}\n" for i in range(120))


def test_a_keeper_that_does_not_answer_is_not_waited_for() -> None:
    script = SEVERAL.replace("for r", "until [ -e stopped ]; do sleep 0.05; done; for r")
    job = subprocess.Popen(
        [*RUN, "--", *two_ranks("open('ran', 'a').write('x')", script=script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    until(lambda: "keeper" in facts())
    keeper = facts()["keeper"]
    assert isinstance(keeper, int)
    os.kill(keeper, signal.SIGSTOP)
    Path("stopped").touch()
    try:
        until(lambda: Path("ran").exists() and Path("ran").read_text() == "xx")
    finally:
        os.kill(keeper, signal.SIGCONT)
    assert job.communicate(timeout=150)[0] == b"the launcher is done\n"
    assert job.returncode == 0


def test_the_answer_names_the_log_of_the_rank() -> None:
    Path("train.py").write_text(
        "import os, torch\n"
        "for step in range(5):\n    print('step', step, 'loss', 1.0, flush=True)\n"
        "if os.environ['RANK'] == '1':\n    raise KeyError('no such sample')\n"
    )
    done = run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py"])
    assert done.returncode == 1
    (folder,) = Path().glob("crashcart_runs/*/run.json")
    told = crashcart.why([str(folder.parent)])
    assert told.ending.first_rank == 1
    said = [item for sign in told.findings[0].signs for item in sign.evidence if item.source == "log"]
    assert {(item.where.rpartition(":")[0], item.rank) for item in said} == {("rank1.log", 1)}
    assert "ChildFailedError" in logs()["launcher.log"]
    assert "ChildFailedError" not in logs()["rank1.log"]
