"""How far a run came, from the files of its tracker."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from crashcart.readers.traces import tfevents
from crashcart.readers.traces.tfevents import last_step
from crashcart.readers.traces.tracker import mlrun_status, wandb_step

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
    assert last_step(EVENTS) == 1900


@pytest.mark.parametrize("lost", [1, 5, 13, 40])
def test_a_half_written_end_costs_its_own_record_only(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(EVENTS.read_bytes()[:-lost])
    assert last_step(path) == 1900


def test_a_damaged_record_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1"
    content = bytearray(EVENTS.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    assert (last_step(path) or 1900) < 1900


def test_scalars_of_tensorflow_two_count_and_what_is_no_scalar_does_not(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.2"
    scalar = field(8, b"\x08\x01" + field(4, struct.pack("<f", 0.5)))
    picture = field(8, b"\x08\x01" + field(4, struct.pack("<9f", *range(9))))
    path.write_bytes(record(event(3, field(1, b"loss") + scalar)) + record(event(4, field(1, b"image") + picture)))
    assert last_step(path) == 3


def test_of_a_large_file_the_end_is_found_by_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.out.tfevents.3"
    path.write_bytes(EVENTS.read_bytes() * 50)
    monkeypatch.setattr(tfevents, "MAX_READ", 3000)
    assert last_step(path) == 1900


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"\xff" * 4096, b"not an event file\n" * 99, record(b"\xff" * 64)])
def test_what_is_no_event_file_gives_nothing_and_no_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "events.out.tfevents.4"
    path.write_bytes(content)
    assert last_step(path) is None


def test_wandb_tells_the_last_step(tmp_path: Path) -> None:
    path = tmp_path / "wandb-summary.json"
    content = {"loss": 0.113, "note": "x", "_timestamp": 1794734650.6, "_runtime": 8519.2, "_step": 1999, "_wandb": {}}
    path.write_text(json.dumps(content))
    assert wandb_step(path) == 1999


@pytest.mark.parametrize("content", ['{"loss": 0.1', "[1]", "", "[" * 100_000, "x" * (9 << 20)])
def test_a_summary_that_is_cut_off_or_hostile_is_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "wandb-summary.json"
    path.write_text(content)
    assert wandb_step(path) is None


def test_an_mlflow_run_that_was_killed_is_still_called_running(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "meta.yaml").write_text("end_time: null\nrun_id: 3f2a9c\nstart_time: 1794726131000\nstatus: 1\n")
    (tmp_path / "metrics" / "loss").write_text("1794726131000 0.5 100\n1794734650612 0.113 1999\n17947346")
    run = mlrun_status(tmp_path / "meta.yaml")
    assert run is not None
    assert (run.status, run.step) == ("RUNNING", 1999)


def test_a_folder_that_is_no_mlflow_run_is_none(tmp_path: Path) -> None:
    (tmp_path / "meta.yaml").write_text("artifact_location: x\nlifecycle_stage: active\n")
    assert mlrun_status(tmp_path) is None
