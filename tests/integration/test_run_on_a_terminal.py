"""`crashcart run` on a terminal: the job sees one too, and its keys reach it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from typing import IO, TYPE_CHECKING

import pytest

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
