"""`crashcart run` in places and under conditions that a training job meets: the job is as it would be without us."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import crashcart
from crashcart.readers.flight import read_flight

pytestmark = pytest.mark.processes

RUN = [sys.executable, "-m", "crashcart.cli", "run", "--"]
SOURCE = str(Path(crashcart.__file__).parent.parent)
SYSTEM_PYTHON = "/usr/bin/python3"
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRASHCART_RUNS", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def run(*command: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *command], capture_output=True, text=True, timeout=90, check=False, **more)


def shell(line: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """A line for a shell in which $RUN is the command and $PYTHON the interpreter."""
    environment = {**os.environ, "RUN": " ".join(RUN), "PYTHON": sys.executable, **more.pop("env", {})}
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=90, check=False, env=environment, **more
    )


def the_run(folder: Path) -> Path:
    (found,) = [path for path in (folder / "crashcart_runs").iterdir() if path.is_dir()]
    return found


def facts(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((the_run(folder) / "run.json").read_text())
    return told


def test_words_that_are_no_text_reach_the_job_as_they_are(folder: Path) -> None:
    done = shell(r"""LANG=C LC_ALL=C PYTHONUTF8=0 $RUN bash -c 'printf %s "$1" | od -An -tx1; exit 3' x $'\xff\n\xc3\xa4'""")
    assert (done.returncode, done.stdout.split()) == (3, ["ff", "0a", "c3", "a4"])
    assert "\ufffd" in facts(folder)["command"]
    assert b"\xff" in (the_run(folder) / "command").read_bytes()
    shown = subprocess.run([sys.executable, "-m", "crashcart", "why"], capture_output=True, timeout=60, check=True)
    assert b"Traceback" not in shown.stderr


def test_an_environment_of_any_bytes_is_passed_on(folder: Path) -> None:
    done = shell(
        r"""export NCCL_X=$'a\nb' TORCH_Y=$'\xff\xfe'; $RUN bash -c 'printf %s "$NCCL_X$TORCH_Y" | od -An -tx1; exit 3'"""
    )
    assert (done.returncode, done.stdout.split()) == (3, ["61", "0a", "62", "ff", "fe"])
    assert facts(folder)["environment"]["TORCH_Y"] == "\ufffd\ufffd"


def test_a_command_line_of_a_hundred_thousand_letters_costs_no_time(folder: Path) -> None:
    done = run("bash", "-c", "echo ${#1}; exit 3", "x", "a" * 100_000)
    assert (done.returncode, done.stdout) == (3, "100000\n")
    assert len((the_run(folder) / "command").read_text()) > 100_000
    assert len(facts(folder)["command"]) < 20_000


@pytest.mark.parametrize(
    ("before", "code"),
    [
        ("timeout 60", 3), ("nohup", 3), ("setsid -w", 3), ("env -u HOME", 3), ("nice", 3), ("ulimit -n 64;", 3),
        ("ulimit -v 4000000;", 3), ("umask 077;", 3), ("umask 000;", 3), ("TMPDIR=/nonexistent", 3), ("exec <&-;", 3),
    ],
)  # fmt: skip
def test_what_surrounds_it_changes_nothing(folder: Path, before: str, code: int) -> None:
    done = shell(f"{before} $RUN bash -c 'umask; echo ${{HOME-none}}; exit {code}'")
    bare = shell(f"{before} bash -c 'umask; echo ${{HOME-none}}; exit {code}'")
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout)
    assert stat.S_IMODE(the_run(folder).stat().st_mode) == 0o700
    assert facts(folder)["state"] == "failed"


def test_a_time_limit_around_it_ends_the_job(folder: Path) -> None:
    done = shell("timeout 3 $RUN sleep 60")
    assert done.returncode == 124
    told = crashcart.why([str(the_run(folder))])
    assert told.ending.state == "stopped"
    assert told.findings[0].cause == "outside/preempted"


def test_three_hundred_processes_under_a_limit_of_open_files(folder: Path) -> None:
    done = shell("ulimit -n 128; $RUN bash -c 'for i in $(seq 300); do sleep 4 & done; wait; exit 3'")
    assert done.returncode == 3, done.stderr
    assert len(read_flight(str(the_run(folder))).processes) > 250


@pytest.mark.parametrize(
    ("name", "value"),
    [("PYTHONPATH", "shadows"), ("PYTHONWARNINGS", "error"), ("PYTHONDEVMODE", "1"), ("PYTHONINSPECT", "1")],
)
def test_variables_for_the_jobs_python_do_not_change_ours(folder: Path, name: str, value: str) -> None:
    (folder / "shadows").mkdir()
    for module in ("resource", "shlex", "select", "platform"):
        (folder / "shadows" / f"{module}.py").write_text("raise RuntimeError('not for crashcart')\n")
    variables = {**os.environ, name: str(folder / value) if "PATH" in name else value}
    done = run("sh", "-c", "exit 3", env=variables)
    assert done.returncode == 3
    assert all(line.startswith("crashcart: ") for line in done.stderr.splitlines())


@pytest.mark.parametrize("left_over", ["title.py", "padding"])
def test_a_title_of_its_own_hides_no_program(folder: Path, left_over: str) -> None:
    # What setproctitle does: the command line is written over in place, here not to its end.
    code = (
        "import ctypes, time\n"
        "place = int(open('/proc/self/stat').read().rsplit(')', 1)[1].split()[45])\n"
        f"title = b'my training' + bytes(open('/proc/self/cmdline').read().index({left_over!r}) - 11)\n"
        "ctypes.memmove(place, title, len(title))\n"
        "time.sleep(2.5)\n"
        "print(open('/proc/self/cmdline').read()[:11], flush=True)\n"
        "{}['no such key']\n"
    )
    (folder / "title.py").write_text(code)
    done = run(sys.executable, "title.py", *("padding" for _ in range(10)))
    if "my training" not in done.stdout:
        pytest.skip("the command line cannot be written over here")
    told = crashcart.why([str(the_run(folder))])
    assert told.findings[0].signs[0].says.startswith("title.py raised KeyError")


def test_a_process_that_was_not_reached_is_not_said_to_have_raised_nothing(folder: Path) -> None:
    (folder / "train.py").write_text("import time\ntime.sleep(2)\n{}['no such key']\n")
    assert run(sys.executable, "-S", "train.py").returncode == 1
    told = crashcart.why([str(the_run(folder))])
    assert told.findings[0].cause == "code/bug"
    assert "KeyError" in told.findings[0].signs[0].says
    assert not any("without an exception" in sign.says for one in told.findings for sign in one.signs)


def _usable_by_nobody() -> bool:
    probe = [
        *NOBODY,
        SYSTEM_PYTHON,
        "-c",
        f"import sys; assert sys.version_info >= (3, 10); open({SOURCE!r} + '/crashcart/cli.py')",
    ]
    try:
        return os.getuid() == 0 and subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not _usable_by_nobody(), reason="needs root, setpriv, and a Python and a source that others may read")
@pytest.mark.parametrize("hidden", [False, True])
def test_another_user_without_a_place_to_write_or_a_look_at_others(tmp_path: Path, *, hidden: bool) -> None:
    place = Path(tempfile.mkdtemp())  # what pytest gives nobody may enter
    place.chmod(0o777)
    line = [
        *NOBODY,
        "env",
        "-i",
        "HOME=/nonexistent",
        f"PYTHONPATH={SOURCE}",
        f"PATH={os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE=1",
        f"TMPDIR={place}",
    ]
    job = [SYSTEM_PYTHON, "-m", "crashcart.cli", "run", "--", SYSTEM_PYTHON, "-c", "import time; time.sleep(2); {}[1]"]
    if hidden:
        hide = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
        line = ["unshare", "--mount", "bash", "-c", hide, "x", *line]
    done = subprocess.run([*line, *job], capture_output=True, text=True, timeout=90, check=False, cwd=tmp_path)
    if hidden and "mount:" in done.stderr:
        pytest.skip("/proc cannot be mounted here")
    assert done.returncode == 1, done.stderr
    assert "Permission denied" in done.stderr
    (made,) = place.glob("crashcart-65534/runs/2*")
    flight = read_flight(str(made))
    assert [one.reached for one in flight.ranks] == [True]
    assert max(value for _, value in flight.series("process", "rss")) > 1 << 20
    assert crashcart.why([str(made)]).findings[0].cause == "code/bug"
    shutil.rmtree(place)


@pytest.mark.skipif(os.getuid() != 0, reason="mounts need root")
@pytest.mark.parametrize(
    ("without", "made_there"),
    [
        ("mount -t tmpfs -o ro none $PWD/ro && cd ro", False), ("umount -R /sys/fs/cgroup", True),
        ("mount -t tmpfs -o ro none /dev/shm", True), ("mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero > /dev/shm/x", True),
        ("mount -t tmpfs none /proc", True),
    ],
)  # fmt: skip
def test_what_a_machine_may_lack(folder: Path, without: str, made_there: bool) -> None:  # noqa: FBT001 - a parameter of the case
    (folder / "ro").mkdir()
    (folder / "in.sh").write_text(
        f"{{ {without}; }} > /dev/null || exit 77\n" + "$RUN bash -c 'sleep 1.5; echo fine; exit 3'\n"
    )
    done = shell("unshare --mount bash in.sh")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("nothing can be mounted here")
    assert (done.returncode, done.stdout) == (3, "fine\n"), done.stderr
    place = folder / "crashcart_runs" if made_there else folder / "state" / "crashcart" / "runs"
    assert list(place.glob("2*/exit.json"))


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_streams_that_were_closed_take_nothing_from_the_job(folder: Path, closed: str) -> None:
    done = shell(f"$RUN bash -c 'echo out; echo err >&2; exit 3' {closed}")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    kept = "".join(path.read_text() for path in sorted((the_run(folder) / "logs").iterdir()))
    assert sorted(kept.split()) == ["err", "out"]


def test_a_working_folder_that_is_gone(folder: Path) -> None:
    done = shell(
        "mkdir gone; cd gone; rmdir ../gone; $RUN bash -c 'echo still; exit 3' 2>&1 | grep -v getcwd; exit ${PIPESTATUS[0]}"
    )
    assert done.returncode == 3, done.stdout
    assert "still" in done.stdout
    assert list((folder / "state" / "crashcart" / "runs").glob("2*/exit.json"))
