"""`crashcart run` on a terminal: the job sees one too, and its keys reach it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import IO, TYPE_CHECKING

import pytest
from terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

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
    return job.wait(20), seen


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
