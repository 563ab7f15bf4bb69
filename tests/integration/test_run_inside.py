"""`crashcart run` reaches the job's own Python processes, however they are started, and changes nothing of them."""

from __future__ import annotations

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
    from crashcart.flight import Flight
from supervised import python, run, start, the_run, until

pytestmark = pytest.mark.processes

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
    assert "train.py" in told


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


def test_a_segmentation_fault_leaves_its_stack(folder: Path) -> None:
    (folder / "job.py").write_text("import ctypes, time; time.sleep(1.5)\ndef boom():\n    ctypes.string_at(0)\nboom()\n")
    assert run(sys.executable, "job.py").returncode == -11
    finding = crashcart.why([str(the_run(folder))]).findings[0]
    assert finding.cause == "code/bug"
    assert "job.py:3 in boom" in " ".join(item.quote for sign in finding.signs for item in sign.evidence)


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
        job.wait(150)
