"""`crashcart run` on a terminal: the job sees one too, and its keys reach it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import IO, TYPE_CHECKING, Any

import pytest
from terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes

CRASHCART = [sys.executable, "-m", "crashcart", "run", "--quiet", "--", sys.executable, "-c"]
STOPPED = """
import sys, time
try:
    print("ready", flush=True)
    print("ready", file=sys.stderr, flush=True)
    time.sleep(30)
except KeyboardInterrupt:
    raise SystemExit(9)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRASHCART_RUNS", raising=False)


def on_a_terminal(code: str, keys: bytes, after: bytes, **files: IO[bytes]) -> tuple[int, bytes]:
    """Run on a terminal of 91 columns, type the keys once the text was seen; the exit code and what was shown."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 91, 0, 0))
    job = subprocess.Popen(
        [*CRASHCART, code],
        stdin=slave,
        stdout=files.get("stdout", slave),
        stderr=files.get("stderr", slave),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - a session of its own, as a shell gives
    )
    os.close(slave)
    seen = b""
    typed = False
    with contextlib.suppress(OSError):
        while select.select([master], [], [], 20)[0] and (piece := os.read(master, 4096)):
            seen += piece
            if after in seen and not typed:
                typed = True
                os.write(master, keys)
    return job.wait(150), seen


def test_the_job_sees_a_terminal_and_its_keys(tmp_path: Path) -> None:
    code = "import os, sys; print(sys.stdin.isatty(), sys.stdout.isatty(), os.get_terminal_size().columns); print('>' + input('name? '))"
    done, seen = on_a_terminal(code, b"Ada\r", b"name? ")
    assert done == 0
    assert b"True True 91" in seen
    assert b">Ada" in seen
    (log,) = tmp_path.glob("crashcart_runs/*/logs/output.log")
    assert b"name? " in log.read_bytes()


def test_control_c_interrupts_the_job() -> None:
    assert on_a_terminal(STOPPED, b"\x03", b"ready")[0] == 9


@pytest.mark.parametrize("redirected", ["stdout", "stderr"])
def test_control_c_reaches_a_job_with_one_stream_in_a_file(tmp_path: Path, redirected: str) -> None:
    with (tmp_path / "file").open("wb") as file:
        assert on_a_terminal(STOPPED, b"\x03", b"ready", **{redirected: file})[0] == 9


def facts(folder: Path) -> dict[str, Any]:
    for path in folder.glob("crashcart_runs/*/run.json"):
        told: dict[str, Any] = json.loads(path.read_text())
        return told
    return {}


def until(condition: object, seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


SEVERAL = 'for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "$@" <&0 & done; wait'


def ranks(code: str) -> Terminal:
    return Terminal([*CRASHCART[:-2], "bash", "-c", SEVERAL, "bash", sys.executable, "-c", code])


def test_a_rank_sees_a_terminal_and_its_prompt_is_answered(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "if os.environ['RANK'] == '0':\n"
        "    print(sys.stdin.isatty(), sys.stdout.isatty(), os.get_terminal_size().columns)\n"
        "    print('>' + input('name? '))\n"
    )
    terminal = ranks(code)
    terminal.see(b"True True 91\r\n")
    terminal.see(b"name? ")
    terminal.type(b"Ada\r")
    terminal.see(b"Ada\r\n>Ada\r\n")
    assert terminal.close() == 0
    (log,) = tmp_path.glob("crashcart_runs/*/logs/rank0.log")
    assert log.read_bytes() == b"True True 91\r\nname? >Ada\r\n"


def test_breakpoint_works_in_a_rank() -> None:
    terminal = ranks("import os\nx = 41\nif os.environ['RANK'] == '0':\n    breakpoint()\n    print('went on')\n")
    terminal.see(b"(Pdb) ")
    terminal.type(b"p x + 1\r")
    terminal.see(b"42\r\n")
    terminal.type(b"c\r")
    terminal.see(b"went on\r\n")
    assert terminal.close() == 0


WIDTHS = (
    "import os, sys, time\n"
    "known = 0\n"
    "print('ready', flush=True)\n"
    "for i in range(2000):\n"
    "    width = os.get_terminal_size().columns\n"
    "    if width != known and os.environ.get('RANK', '0') == '0':\n"
    "        print('width', width, flush=True)\n"
    "    known = width\n"
    "    if os.path.exists('end'):\n        break\n"
    "    time.sleep(0.02)\n"
)


@pytest.mark.parametrize("several", [True, False], ids=["two ranks", "one process"])
def test_a_window_that_changes_its_size_reaches_the_job_whoever_keeps_it(tmp_path: Path, several: bool) -> None:  # noqa: FBT001
    terminal = ranks(WIDTHS) if several else Terminal([*CRASHCART, WIDTHS])
    terminal.see(b"width 91\r\n")
    terminal.resize(77)
    terminal.see(b"width 77\r\n")
    (facts,) = tmp_path.glob("crashcart_runs/*/run.json")
    os.kill(json.loads(facts.read_text())["keeper"], signal.SIGKILL)
    terminal.resize(66)
    terminal.see(b"width 66\r\n")
    (tmp_path / "end").touch()
    assert terminal.close() == 0


def test_keys_reach_the_job_after_the_keeper_was_killed(tmp_path: Path) -> None:
    terminal = Terminal([*CRASHCART, "print('>' + input('name? '))"])
    terminal.see(b"name? ")
    (facts,) = tmp_path.glob("crashcart_runs/*/run.json")
    while "keeper" not in json.loads(facts.read_text()):
        time.sleep(0.02)
    os.kill(json.loads(facts.read_text())["keeper"], signal.SIGKILL)
    time.sleep(0.5)
    terminal.type(b"Ada\r")
    terminal.see(b">Ada")
    assert terminal.close() == 0


COUNTS = (
    "import os, time\n"
    "for i in range(3000):\n"
    "    print('count', i, flush=True)\n"
    "    time.sleep(0.02)\n"
    "    if os.path.exists('end'):\n        break\n"
    "print('name?', end=' ', flush=True)\n"
    "print('>' + input())\n"
)


def shell() -> Terminal:
    """An interactive shell: who gives a stopped job its terminal again."""
    terminal = Terminal(["bash", "--norc", "--noprofile", "--noediting", "-i"])
    terminal.type(b"PS1='shell\\076 '\r")
    terminal.see(b"shell> ")
    return terminal


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("redirected", ["", " > out 2>&1", " | cat"])
def test_control_z_suspends_the_job_and_fg_resumes_it(tmp_path: Path, redirected: str) -> None:
    (tmp_path / "job.py").write_text(COUNTS)
    terminal = shell()
    line = " ".join(shlex.quote(word) for word in [*CRASHCART[:-1], "job.py"])
    terminal.type(f"{line}{redirected}\r".encode())
    until(lambda: "job" in facts(tmp_path))
    job = facts(tmp_path)["job"]
    until(lambda: next(tmp_path.glob("crashcart_runs/*/logs/output.log")).stat().st_size > 50)
    terminal.type(b"\x1a")
    terminal.see(b"Stopped")
    terminal.see(b"shell> ")
    assert state(job) == "T"
    terminal.type(b"echo $((6*7))\r")
    terminal.see(b"42\r\n")
    terminal.see(b"shell> ")
    assert terminal.echoes
    terminal.type(b"fg\r")
    until(lambda: state(job) != "T")
    (tmp_path / "end").touch()
    until(lambda: b"name? " in next(tmp_path.glob("crashcart_runs/*/logs/output.log")).read_bytes())
    if redirected == " | cat":
        terminal.see(b"name? ")
    terminal.type(b"Ada\r")
    terminal.see(b"shell> ")
    log = next(tmp_path.glob("crashcart_runs/*/logs/output.log")).read_bytes()
    assert b">Ada" in log
    assert terminal.echoes
    terminal.type(b"exit\r")
    terminal.close()


def test_a_job_sent_to_the_background_leaves_the_keys_to_the_shell(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(COUNTS.replace("print('count', i, flush=True)", "pass"))
    terminal = shell()
    terminal.type(" ".join(shlex.quote(word) for word in [*CRASHCART[:-1], "job.py"]).encode() + b" &\r")
    until(lambda: "job" in facts(tmp_path))
    terminal.type(b"echo $((6*7))\r")
    terminal.see(b"42\r\n")
    assert terminal.echoes
    terminal.type(b"fg\r")
    until(lambda: not terminal.echoes)
    terminal.type(b"\x1a")
    terminal.see(b"Stopped")
    terminal.type(b"bg\r")
    until(lambda: state(facts(tmp_path)["job"]) != "T")
    terminal.type(b"echo $((7*7))\r")
    terminal.see(b"49\r\n")
    terminal.type(b"fg\r")
    until(lambda: not terminal.echoes)
    (tmp_path / "end").touch()
    terminal.see(b"name? ")
    terminal.type(b"Ada\r")
    terminal.see(b">Ada")
    terminal.see(b"shell> ")
    terminal.type(b"exit\r")
    terminal.close()


def test_control_z_where_no_shell_could_resume_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "end").touch()
    terminal = Terminal([*CRASHCART, COUNTS])
    terminal.see(b"name? ")
    terminal.type(b"\x1a")
    terminal.type(b"Ada\r")
    terminal.see(b">Ada")
    assert terminal.close() == 0


def test_a_suspended_time_is_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASHCART_HANG_SECONDS", "1")
    (tmp_path / "job.py").write_text(
        "import os, time, torch\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for i in range(3000):\n"
        "    optimizer.step()\n    time.sleep(0.02)\n"
        "    open('begun', 'w').close() if i == 100 else None\n"
        "    if os.path.exists('end'):\n        break\n"
    )
    terminal = shell()
    terminal.type(" ".join(shlex.quote(word) for word in [*CRASHCART[:-1], "job.py"]).encode() + b"\r")
    until((tmp_path / "begun").exists)
    terminal.type(b"\x1a")
    terminal.see(b"Stopped")
    terminal.see(b"shell> ")
    time.sleep(7)
    terminal.type(b"fg\r")
    time.sleep(3)
    (tmp_path / "end").touch()
    terminal.see(b"shell> ")
    terminal.type(b"exit\r")
    terminal.close()
    (events,) = tmp_path.glob("crashcart_runs/*/recording/events.jsonl")
    kinds = [json.loads(line)["kind"] for line in events.read_text().splitlines()]
    assert "suspended" in kinds
    assert "hang" not in kinds[kinds.index("suspended") :]


@pytest.mark.parametrize("redirected", ["", " > out 2>&1"])
def test_control_c_ends_the_loop_of_a_shell(tmp_path: Path, redirected: str) -> None:
    """A shell goes on with its loop unless the program itself died of the interrupt."""
    (tmp_path / "job.py").write_text("import time\nopen('begun', 'w').close()\ntime.sleep(60)\n")
    line = " ".join(shlex.quote(word) for word in [*CRASHCART[:-1], "job.py"])
    terminal = Terminal(["bash", "-c", f"for i in 1 2; do {line}{redirected}; echo went on; done; echo after"])
    until((tmp_path / "begun").exists)
    until(lambda: "job" in facts(tmp_path))
    terminal.type(b"\x03")
    assert terminal.close() == -signal.SIGINT
    assert b"went on" not in terminal.shown
    assert (facts(tmp_path)["state"], facts(tmp_path)["signal"]) == ("stopped", "SIGINT")


def test_an_interrupt_that_was_sent_ends_us_as_it_ended_the_job() -> None:
    job = subprocess.Popen([*CRASHCART, "import time; print('ready', flush=True); time.sleep(60)"], stdout=subprocess.PIPE)
    assert job.stdout is not None
    assert job.stdout.readline() == b"ready\n"
    job.send_signal(signal.SIGINT)
    assert job.wait(150) == -signal.SIGINT


def test_a_closed_terminal_that_takes_the_reader_with_it_does_not_end_the_job(tmp_path: Path) -> None:
    code = (
        "import time\nopen('begun', 'w').close()\n"
        "for i in range(100):\n    print('line', i, flush=True)\n    time.sleep(0.02)\nopen('done', 'w').close()"
    )
    terminal = Terminal(["bash", "-c", shlex.join([*CRASHCART, code]) + " | tee seen"])
    until((tmp_path / "begun").exists)
    until(lambda: "job" in facts(tmp_path))
    os.close(terminal.master)
    until((tmp_path / "done").exists)
    until(lambda: b"line 99" in next(tmp_path.glob("crashcart_runs/*/logs/output.log")).read_bytes())
    terminal.program.wait(150)


@pytest.mark.parametrize(
    "behind", [b"", b" &", b" > out 2>&1 < /dev/null &"], ids=["foreground", "background", "redirected"]
)
def test_a_closed_terminal_does_not_end_the_job_of_a_shell(tmp_path: Path, behind: bytes) -> None:
    """The kernel hangs up on the job in the foreground, the shell on those in the background; a later `kill -HUP` is passed on."""
    code = (
        "import signal, time\nsignal.signal(signal.SIGHUP, lambda *_: open('hung', 'a').write('.'))\n"
        "open('begun', 'w').close()\nopen('end', 'a').close()\nwhile not open('end').read(): time.sleep(0.02)\n"
        "open('done', 'w').close()"
    )
    terminal = shell()
    terminal.type(shlex.join([*CRASHCART, code]).encode() + behind + b"\r")
    until((tmp_path / "begun").exists)
    until(lambda: "pid" in facts(tmp_path))
    os.close(terminal.master)
    terminal.program.wait(150)
    time.sleep(0.7)
    assert not (tmp_path / "hung").exists()
    os.kill(facts(tmp_path)["pid"], signal.SIGHUP)
    until((tmp_path / "hung").exists)
    (tmp_path / "end").write_text("now")
    until((tmp_path / "done").exists)
    assert (tmp_path / "hung").read_text() == "."
