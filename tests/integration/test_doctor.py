"""`crashcart doctor` on the machine where the tests run, as whoever runs them and as nobody."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

SOURCE = str(Path(__file__).parents[2] / "src")
ABSENT = "crashcart0"
SYSTEM_PYTHON = "/usr/bin/python3"


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    command = [sys.executable, "-m", "crashcart", "doctor", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "PATH": path, **environment}
    )


def rows(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    assert done.stderr == ""
    return {row["label"]: row for row in json.loads(done.stdout)["machine"]}


def test_the_verdict_is_the_first_line_and_the_exit_code_follows_it() -> None:
    done = doctor()
    first = done.stdout.splitlines()[0]
    assert first.startswith("This machine is not fit" if done.returncode else "This machine is fit")
    assert all(word in done.stdout for word in ("shared memory", "open files", "/proc/meminfo", "interfaces"))
    long = [line for line in done.stdout.splitlines() if len(line) > 80 and "[/" not in line]
    assert long == []


def test_json_has_the_findings_and_a_table_of_the_machine() -> None:
    done = doctor("--json")
    data = json.loads(done.stdout)
    assert (data["schema"], data["verb"]) == (1, "doctor")
    assert {row["state"] for row in data["machine"]} <= {"ok", "warning", "bad", "unknown"}
    assert done.returncode == any(row["state"] == "bad" for row in data["machine"])
    gaps = {gap["what"] for gap in data["not_looked"]}
    assert {f"{row['group']}: {row['label']}" for row in data["machine"] if row["state"] == "unknown"} == gaps
    assert rows(done)["memory"]["value"]["total"] > 0


def test_the_torch_of_the_interpreter_on_the_path_is_read_and_not_imported() -> None:
    found = rows(doctor("--json"))["torch"]
    assert found["state"] == "ok" or "CPU" in found["says"]
    assert found["where"].endswith("torch/version.py")


def test_variables_of_the_shell_that_name_nothing_here() -> None:
    found = rows(doctor("--json", GLOO_SOCKET_IFNAME=ABSENT, NCCL_IB_HCA=ABSENT))
    assert [found[name]["state"] for name in ("GLOO_SOCKET_IFNAME", "NCCL_IB_HCA")] == ["warning", "warning"]


def test_variables_of_a_job_that_name_nothing_here(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(f"export GLOO_SOCKET_IFNAME={ABSENT}\ntorchrun --nproc_per_node=2 train.py\n")
    assert rows(doctor("--json", str(script)))["GLOO_SOCKET_IFNAME"]["state"] == "warning"
    script.write_text("#SBATCH --nodes=4\nsrun python train.py\n")
    assert "runs it on another machine" in " ".join(doctor(str(script)).stdout.split())


def test_two_ranks_really_meet() -> None:
    found = rows(doctor("--json", "--active"))["two ranks, gloo"]
    assert found["state"] == "ok", found


def test_two_ranks_that_cannot_meet_are_told_with_the_reason() -> None:
    done = doctor("--active", GLOO_SOCKET_IFNAME=ABSENT)
    assert done.returncode == 1
    assert "not fit" in done.stdout.splitlines()[0]
    assert f"find address for: {ABSENT}" in " ".join(done.stdout.split())


def test_without_torch_the_tests_could_not_look(tmp_path: Path) -> None:
    python = Path(sys.executable).resolve()
    bare = tmp_path / "bin" / "python"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec {python} -I -S "$@"\n')
    bare.chmod(0o755)
    done = doctor("--json", "--active", "--", str(bare), "train.py")
    assert {row["state"] for row in json.loads(done.stdout)["machine"] if row["group"] == "tests"} == {"unknown"}


@pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("setpriv") is None or not os.path.exists(SYSTEM_PYTHON),
    reason="needs root, setpriv and a Python for everybody",
)
def test_nobody_gets_an_answer_too(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(SOURCE, source)
    for folder in (tmp_path, *tmp_path.parents):
        if not os.stat(folder).st_mode & 0o001:
            if folder.owner() != "root" or "pytest" not in str(folder):
                pytest.skip(f"{folder} is closed to others")
            folder.chmod(0o755)
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", SYSTEM_PYTHON, "-m", "crashcart", "doctor"]
    version = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import sys; print(sys.version_info >= (3, 10))"], capture_output=True, check=True
    )
    if version.stdout.strip() != b"True":
        pytest.skip("the system's Python is too old")
    environment = {"PYTHONPATH": str(source), "HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment, cwd="/")
    assert done.stdout.startswith("This machine is"), done.stderr
    assert done.stderr == ""


PROGRAM = """\
import os

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    weight = torch.ones(1, requires_grad=True)
    (weight * 2).sum().backward()
    dist.all_reduce(weight.grad)
    os.write(1, f"gradient {weight.grad.item()}\\n".encode())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""


def check(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    command = [sys.executable, "-m", "crashcart", "check", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=folder, env={**os.environ, "PATH": path}
    )


def test_a_job_with_a_taken_port_and_an_interface_that_is_not_here_runs_after_its_patch(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "train.py").write_text(PROGRAM)
        launch = f"export GLOO_SOCKET_IFNAME={ABSENT}\n{sys.executable} -m torch.distributed.run --nproc_per_node=2 --master_port={port} train.py\n"
        (tmp_path / "train.sh").write_text(launch)
        found = json.loads(check(tmp_path, "--json", "train.sh").stdout)["findings"]
        assert {one["cause"] for one in found if one["level"] == "can"} == {"distributed/network", "distributed/rendezvous"}
        done = check(tmp_path, "--fix", "train.sh")
        assert "No problems found" in done.stdout, done.stdout
        ran = subprocess.run(["bash", "train.sh"], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert ran.stdout.count("gradient 4.0") == 2, ran.stderr


def test_an_interface_of_the_shell_is_told_of_a_command_that_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", ABSENT)
    done = check(tmp_path, "--", "torchrun", "--nproc_per_node=2", "train.py")
    assert done.returncode == (1 if shutil.which("sbatch") is None else 0)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    assert check(tmp_path, "--", "torchrun", "--nproc_per_node=2", "train.py").returncode == 0
