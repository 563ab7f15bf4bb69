"""Real jobs that meet a limit of memory, handles or disk under `crashcart run`."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("torch")
from dying import CRASHCART, PATIENCE, blamed, prepared, ran, told, training, until, words

pytestmark = pytest.mark.processes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return prepared(tmp_path, monkeypatch)


# Memory limits. The kernel kills only under a control group; those can be made as root, or where systemd or a scheduler has
# given the user a part of the tree. RLIMIT_AS works everywhere, but refuses memory instead of killing.
@pytest.fixture
def limit() -> Iterator[Callable[[int], dict[str, Any]]]:
    """How to start a process under a limit of so many bytes; skips, with the reason, where nothing can do it."""
    made: list[Path] = []

    def start_under(size: int) -> dict[str, Any]:
        group, name = _own_group()
        inner = group / f"crashcart-test-{os.getpid()}"
        try:
            inner.mkdir()
            made.append(inner)
            (inner / name).write_text(str(size))
        except OSError as problem:
            pytest.skip(f"no control group with a memory limit can be made here: {problem}")
        return {"preexec_fn": lambda: (inner / "cgroup.procs").write_text(str(os.getpid()))}

    yield start_under
    for inner in made:
        with contextlib.suppress(AssertionError, OSError):
            until(partial(_is_empty, inner))
        inner.rmdir()


def _is_empty(group: Path) -> bool:
    return not (group / "cgroup.procs").read_text()


def _own_group() -> tuple[Path, str]:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
    path = Path("/proc/self/cgroup").read_text().splitlines()[-1].split(":", 2)[2]
    return Path("/sys/fs/cgroup" + path), "memory.max"


def test_the_kernels_kill_under_a_memory_limit(folder: Path, limit: Callable[[int], dict[str, Any]]) -> None:
    diagnosis = ran(folder, *training("eat"), **limit(1200 << 20))
    # How often its memory was seen to rise before the kill, once or twice, is a matter of moments.
    assert diagnosis.findings[0].cause in {"host-memory/oom-kill", "host-memory/leak"}
    killed = next(finding for finding in diagnosis.findings if finding.cause == "host-memory/oom-kill")
    assert (killed.level, diagnosis.ending.first_rank) == ("did", 1)
    assert "oom_kill of the job's control group: from 0 to 1" in words(killed)
    assert "outside/user" not in blamed(diagnosis)


@pytest.mark.long
def test_memory_that_climbs_until_the_kill_is_a_leak(folder: Path, limit: Callable[[int], dict[str, Any]]) -> None:
    diagnosis = ran(folder, *training("eat slowly"), **limit(1300 << 20))
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("host-memory/leak", 1)
    assert "without levelling off" in words(diagnosis.findings[0])


def test_memory_that_is_refused(folder: Path) -> None:
    size = 4 << 30
    diagnosis = ran(folder, *training("eat"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("host-memory/leak", 1)
    assert "rank 1 grew" in words(diagnosis.findings[0])
    refused = next(finding for finding in diagnosis.findings if finding.cause == "host-memory/oom-kill")
    assert "a host memory allocation of rank 1 failed" in words(refused)


def test_a_limit_of_the_launch_script_that_a_request_met_can_be_raised(folder: Path) -> None:
    (folder / "ask.py").write_text("import torch\ntorch.empty(3 << 30, dtype=torch.uint8)\n")
    (folder / "train.sh").write_text(f"ulimit -v 3000000\n{sys.executable} ask.py\n")
    finding = ran(folder, "bash", "train.sh").findings[0]
    assert (finding.cause, "(ulimit -v)" in words(finding)) == ("host-memory/oom-kill", True)
    assert "+ulimit -v 6000000" in finding.fixes[0].diff


def test_open_files_are_counted_against_their_limit(folder: Path) -> None:
    diagnosis = ran(folder, *training("open"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512)))
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("host-memory/fds", 1)
    assert "open files; the limit is 512" in words(diagnosis.findings[0])


def test_a_full_disk_is_seen(folder: Path) -> None:
    if shutil.which("unshare") is None or subprocess.run(_with_small_disk("true"), check=False).returncode:
        pytest.skip("no file system of limited size can be mounted here, not even in a namespace of our own")
    (folder / "small").mkdir()
    inner = " ".join([*CRASHCART, "--", *training("fill")])
    script = f"mount -t tmpfs -o size=32m tmpfs small && cp train.py small && cd small && {inner}"
    subprocess.run(_with_small_disk(script), check=False, timeout=PATIENCE, capture_output=True)
    diagnosis = told(folder)
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("host-memory/disk-full", 1)
    assert " left when rank 1 raised RuntimeError while writing " in words(diagnosis.findings[0])


def _with_small_disk(script: str) -> list[str]:
    """A shell that may mount without harm to anybody, as root or not."""
    return ["unshare", "-m" if os.geteuid() == 0 else "-Urm", "sh", "-c", script]
