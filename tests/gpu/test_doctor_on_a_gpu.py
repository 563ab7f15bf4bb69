"""`crashcart doctor` where there is a card: what NVML says, who holds memory, and the allocation test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crashcart.readers.machine.nvml import cards

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.gpu
HOLDER = """
import sys, torch
free, total = torch.cuda.mem_get_info()
held = torch.zeros(int(total * 0.4), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _a_card_is_there() -> None:
    found = cards()
    if not found.each:
        pytest.skip(found.why or "no card")


@contextmanager
def holding() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid


def doctor(*arguments: str) -> tuple[int, dict[str, Any]]:
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    command = [sys.executable, "-m", "crashcart", "doctor", "--json", *arguments, "--", sys.executable, "train.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=500, check=False, env={**os.environ, "PATH": path}
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def of(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [row for row in data["machine"] if row["name"] == name]


def test_every_card_is_told() -> None:
    code, data = doctor()
    (every,) = of(data, "cards")
    assert every["state"] == "ok"
    assert every["value"]["driver"][0].isdigit()
    assert every["value"]["cuda"][0] >= 11
    for card in every["value"]["each"]:
        assert card["total"] > card["used"] >= 0
        assert card["capability"][0] >= 5
        assert card["uuid"].startswith("GPU-")
        assert card["pcie"][3] >= 1
    for name in ("card_memory", "card_processes", "card_heat", "card_power", "card_clock", "card_throttle", "card_ecc"):
        assert {row["state"] for row in of(data, name)} <= {"ok", "warning"}, of(data, name)
    assert code == any(row["state"] == "bad" for row in data["machine"])
    assert not [one for one in data["findings"] if one["level"] == "will"], data["findings"]


def test_the_torch_of_this_interpreter_fits_the_driver() -> None:
    torch = pytest.importorskip("torch")
    _, data = doctor()
    (found,) = of(data, "torch")
    assert found["value"]["version"] == torch.__version__
    assert ".".join(map(str, found["value"]["cuda"])) == torch.version.cuda
    assert found["state"] == "ok"


def test_memory_that_somebody_holds_is_a_warning() -> None:
    with holding() as pid:
        _, data = doctor()
    (memory, *_), (processes, *_) = of(data, "card_memory"), of(data, "card_processes")
    assert memory["state"] == "warning"
    assert any(one["cause"] == "gpu-memory/other-process" for one in data["findings"])
    assert str(pid) in processes["says"] or "cannot be seen" in processes["says"] or "none" in processes["says"]


def test_the_memory_of_an_idle_card_is_written_and_read_back() -> None:
    _, data = doctor("--active")
    tests = {row["label"]: row for row in data["machine"] if row["group"] == "tests"}
    assert tests["two ranks, gloo"]["state"] == "ok"
    first = tests["GPU 0 memory"]
    if first["state"] == "unknown" and first["says"].startswith("not tried"):
        pytest.skip(first["says"])
    assert first["state"] == "ok", first
    assert first["value"]["bytes"] > 1 << 30
    if len([label for label in tests if label.startswith("GPU")]) > 1:
        assert tests["two ranks, nccl"]["state"] == "ok"


def test_a_busy_card_is_left_alone() -> None:
    with holding():
        _, data = doctor("--active")
    (first, *_) = [row for row in data["machine"] if row["label"] == "GPU 0 memory"]
    assert first["state"] == "unknown"
    assert first["says"].startswith("not tried")
