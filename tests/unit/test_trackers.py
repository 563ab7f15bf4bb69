"""How far a run came, from the files of its tracker."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import pytest

from crashcart.readers.traces import tfevents
from crashcart.readers.traces.tfevents import tfevents_last
from crashcart.readers.traces.tracker import mlrun_status, wandb_summary

EVENTS = Path(__file__).parent / "data" / "events.out.tfevents.1794732096.node1"  # written by tensorboardX 2.6.5


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", tfevents._masked(length)) + data + struct.pack("<I", tfevents._masked(data))


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def event(step: int, value: bytes) -> bytes:
    return b"\x09" + struct.pack("<d", 1e9 + step) + b"\x10" + bytes([step]) + field(5, field(1, value))


def test_the_checksum_is_the_one_that_tensorboard_uses() -> None:
    assert tfevents._masked(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_the_last_step_of_a_real_file_is_read() -> None:
    tail = tfevents_last(EVENTS)
    assert tail.step == 1900
    assert tail.wall_time == pytest.approx(1794733732.0)
    step, loss = tail.scalars["train/loss"][-1]
    assert (step, loss) == (1900, struct.unpack("f", struct.pack("f", 1 / 1901))[0])
    assert [step for step, _ in tail.scalars["train/lr"]] == [1500, 1600, 1700, 1800, 1900]
    assert tail.ending == ""


@pytest.mark.parametrize("lost", [1, 5, 13, 40])
def test_a_half_written_end_costs_its_own_record_only(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(EVENTS.read_bytes()[:-lost])
    tail = tfevents_last(path)
    assert tail.step == 1900
    assert "cut off" in tail.ending


def test_a_damaged_record_ends_the_reading_and_is_said(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1"
    content = bytearray(EVENTS.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    tail = tfevents_last(path)
    assert tail.step is not None
    assert tail.step < 1900
    assert tail.ending


def test_scalars_of_tensorflow_two_and_values_that_are_not_finite_are_read(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.2"
    tensor = field(8, b"\x08\x01" + field(4, struct.pack("<f", 0.5)))
    nan = b"\x15" + struct.pack("<f", math.nan)
    path.write_bytes(record(event(3, field(1, b"loss") + tensor)) + record(event(4, field(1, b"loss") + nan)))
    first, second = tfevents_last(path).scalars["loss"]
    assert first == (3, 0.5)
    assert math.isnan(second[1])


def test_of_a_large_file_the_end_is_found_by_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.out.tfevents.3"
    path.write_bytes(EVENTS.read_bytes() * 50)
    monkeypatch.setattr(tfevents, "MAX_READ", 3000)
    tail = tfevents_last(path)
    assert tail.step == 1900
    assert tail.records < 100
    assert tail.ending == ""


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"\xff" * 4096, b"not an event file\n" * 99, record(b"\xff" * 64)])
def test_what_is_no_event_file_gives_nothing_and_no_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "events.out.tfevents.4"
    path.write_bytes(content)
    assert tfevents_last(path).step is None


def test_wandb_tells_the_last_step_and_when(tmp_path: Path) -> None:
    path = tmp_path / "wandb-summary.json"
    content = {"loss": 0.113, "note": "x", "_timestamp": 1794734650.6, "_runtime": 8519.2, "_step": 1999, "_wandb": {}}
    path.write_text(json.dumps(content))
    summary = wandb_summary(path)
    assert summary is not None
    assert (summary.step, summary.last_write, summary.runtime_seconds) == (1999, 1794734650.6, 8519.2)
    assert summary.values == {"loss": 0.113}


@pytest.mark.parametrize("content", ['{"loss": 0.1', "[1]", "", "[" * 100_000, "x" * (9 << 20)])
def test_a_summary_that_is_cut_off_or_hostile_is_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "wandb-summary.json"
    path.write_text(content)
    assert wandb_summary(path) is None


def test_an_mlflow_run_that_was_killed_is_still_called_running(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "meta.yaml").write_text("end_time: null\nrun_id: 3f2a9c\nstart_time: 1794726131000\nstatus: 1\n")
    (tmp_path / "metrics" / "loss").write_text("1794726131000 0.5 100\n1794734650612 0.113 1999\n17947346")
    run = mlrun_status(tmp_path / "meta.yaml")
    assert run is not None
    assert (run.status, run.start, run.end, run.step) == ("RUNNING", 1794726131.0, None, 1999)
    assert run.metrics["loss"] == (1999, 0.113)


def test_a_folder_that_is_no_mlflow_run_is_none(tmp_path: Path) -> None:
    (tmp_path / "meta.yaml").write_text("artifact_location: x\nlifecycle_stage: active\n")
    assert mlrun_status(tmp_path) is None
