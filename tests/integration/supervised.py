"""Jobs under `crashcart run`, as tests start them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

CRASHCART = [sys.executable, "-m", "crashcart.cli", "run"]


def run(*command: str, flags: tuple[str, ...] = (), **more: object) -> subprocess.CompletedProcess[str]:
    line = [*CRASHCART, *flags, "--", *command]
    return subprocess.run(line, capture_output=True, text=True, timeout=200, check=False, **more)  # type: ignore[call-overload,no-any-return]


def start(*command: str, flags: tuple[str, ...] = (), **more: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*CRASHCART, *flags, "--", *command], **more)  # type: ignore[call-overload,no-any-return]


def the_run(folder: Path) -> Path:
    (found,) = [path for path in (folder / "crashcart_runs").iterdir() if path.is_dir()]
    return found


def until(condition: object, seconds: float = 60.0) -> None:
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
