"""`crashcart run` on a real GPU: the job is the same to the bit, and what memory did is told by phase."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
PROGRAMS = str(Path(__file__).with_name("programs.py"))


def bare(name: str, folder: Path) -> str:
    command = [sys.executable, PROGRAMS, name]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, check=False).stdout


def recorded(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "crashcart", "run", "--quiet", "--", sys.executable, PROGRAMS, name]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, check=False)


def findings(folder: Path) -> list[dict[str, object]]:
    (path,) = folder.glob("crashcart_runs/*/findings.json")
    return list(json.loads(path.read_text())["findings"])


@pytest.mark.parametrize("name", ["plain", "compiled", "graphed"])
def test_losses_are_the_same_to_the_bit(name: str, tmp_path: Path) -> None:
    expected = bare(name, tmp_path)
    assert expected.count("0x") >= 30
    done = recorded(name, tmp_path)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_no_synchronisation_is_added(tmp_path: Path) -> None:
    assert int(recorded("synchronisations", tmp_path).stdout) <= int(bare("synchronisations", tmp_path))


def test_memory_that_runs_out_while_sampling_is_told_by_phase(tmp_path: Path) -> None:
    assert recorded("sampling", tmp_path).returncode == 1
    first = findings(tmp_path)[0]
    assert first["cause"] == "gpu-memory/eval-or-sample", first
    assert "recorder" in {item["source"] for item in first["evidence"]}  # type: ignore[attr-defined]


def test_a_card_that_somebody_else_holds_is_told_as_such(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, PROGRAMS, "holder"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline().startswith(b"held")
    try:
        assert recorded("crowded", tmp_path).returncode == 1
    finally:
        other.communicate()
    assert findings(tmp_path)[0]["cause"] == "gpu-memory/other-process"


def test_samples_of_the_card_are_real(tmp_path: Path) -> None:
    from crashcart.readers.flight import read_flight

    recorded("plain", tmp_path)
    (run,) = tmp_path.glob("crashcart_runs/*/run.json")
    flight = read_flight(str(run.parent))
    assert max(value for _, value in flight.series("gpu", "used")) > 0
    assert max((value for _, value in flight.series("page", "allocated")), default=0) > 0
