"""One file: by structure and checksum, without running anything in it."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from typing import TYPE_CHECKING

import pytest
from checkpoint_parts import Hostile, file_with, model, noise, safetensors_bytes, zipped

from crashcart import checkpoints
from crashcart.checkpoints.model import DamageError, in_words, worst
from crashcart.checkpoints.paper import Global, Table
from crashcart.checkpoints.pickles import walk
from crashcart.checkpoints.steps import named_epoch, named_step

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "step", "epoch"),
    [
        ("checkpoint-2000", 2000, None),
        ("checkpoint_3", 3, None),
        ("step_500", 500, None),
        ("step-500.pt", 500, None),
        ("epoch=3-step=100.ckpt", 100, 3),
        ("epoch=3-step=100-v1.ckpt", 100, 3),
        ("global_step12", 12, None),
        ("iter_0000500", 500, None),
        ("ckpt_00012.pth", 12, None),
        ("model_0004999.pth", 4999, None),
        ("checkpoint_epoch_7.pth.tar", None, 7),
        ("model_epoch3_step40.pt", 40, 3),
        ("last.ckpt", None, None),
        ("vit_b_16.pth", None, None),
        ("resnet50.pth", None, None),
        ("model-00001-of-00003.safetensors", None, None),
        ("pytorch_model_fsdp_0", None, None),
        ("footstep3.bin", None, None),
    ],
)
def test_step_and_epoch_are_read_from_the_name(name: str, step: int | None, epoch: int | None) -> None:
    assert (named_step(name), named_epoch(name)) == (step, epoch)


def test_the_worst_verdict_wins_and_nothing_is_whole() -> None:
    assert worst(("whole", "unknown", "doubtful", "broken", "whole")) == "broken"
    assert worst(("whole", "unknown")) == "unknown"
    assert worst(()) == "whole"


def test_sizes_are_written_as_people_say_them() -> None:
    assert [in_words(size) for size in (0, 1, 999, 999_999, 9_200_000_000)] == [
        "0 bytes",
        "1 byte",
        "999 bytes",
        "1.0 MB",
        "9.2 GB",
    ]


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_is_followed_in_every_protocol(protocol: int) -> None:
    value = {"epoch": 3, "list": [1, 2, (3,)], "set": {4}, "frozen": frozenset({5}), "bytes": b"x", "none": None}
    followed = walk(pickle.dumps(value, protocol))
    assert isinstance(followed.value, Table)
    pairs = dict(followed.value.pairs)
    assert pairs["epoch"] == 3
    assert pairs["list"] == [1, 2, (3,)]
    assert pairs["none"] is None


def test_a_call_in_a_pickle_stays_on_paper(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    followed = walk(pickle.dumps(Hostile(marker)))
    assert followed.imports == (Global(os.system.__module__, "system"),)
    assert not marker.exists()


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\x80\x02", b"\x80\x02}", b"\x80\x02.", b"R.", b"h\x05.", b"(", b"\x8e" + b"\xff" * 8]
)
def test_a_damaged_pickle_is_damage_and_nothing_else(data: bytes) -> None:
    with pytest.raises(DamageError):
        walk(data)


def test_a_hostile_pickle_keeps_its_verdict_and_is_named(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    found = checkpoints.inspect(file_with(tmp_path, "model_1.pkl", pickle.dumps({"model": Hostile(marker), "epoch": 2})))
    assert found.verdict == "whole"
    assert "suspicious: imports os.system" in found.reasons
    assert found.epoch == 2
    assert not marker.exists()


def test_classes_of_the_user_are_named_without_suspicion(tmp_path: Path) -> None:
    stream = b"\x80\x02cmy_project.config\nSettings\n)\x81."
    found = checkpoints.inspect(file_with(tmp_path, "state.pkl", stream))
    assert found.reasons == ("loading it imports my_project.config.Settings",)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"\0" * 20_000, "all zeros"),
        (b"\0" * 5_000 + b"x" * 5_000, "begins with zeros"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4265380512\n", "4.3 GB"),
        (b"<!DOCTYPE html><html><body>Sign in</body></html>", "web page"),
        (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "XML"),
        (b'{"error": "Repository not found"}', "JSON"),
    ],
)
@pytest.mark.parametrize("name", ["model.safetensors", "model.pt", "pytorch_model.bin", "last.ckpt"])
def test_what_stands_in_for_a_checkpoint_is_named(tmp_path: Path, name: str, content: bytes, word: str) -> None:
    found = checkpoints.inspect(file_with(tmp_path, name, content))
    assert (found.verdict, found.kind) == ("broken", "placeholder")
    assert word in found.reasons[0]


def test_safetensors_is_whole_when_every_byte_has_a_tensor(tmp_path: Path) -> None:
    content = safetensors_bytes({"a": ([2, 3], noise(24)), "empty": ([0], b""), "b": ([], noise(4))})
    assert checkpoints.inspect(file_with(tmp_path, "m.safetensors", content)).verdict == "whole"


@pytest.mark.parametrize("cut", [1, 7, 8, 20, 90, 200, 1000])
def test_safetensors_that_was_cut_is_broken(tmp_path: Path, cut: int) -> None:
    content = model()
    found = checkpoints.inspect(file_with(tmp_path, "m.safetensors", content[:cut]))
    assert found.verdict == "broken"
    assert "ends" in found.reasons[0]


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b'{"a": 1}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}',
        b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "a": {}}',
        b"[" * 100_000,
    ],
)
def test_safetensors_with_a_senseless_header_is_broken(tmp_path: Path, header: bytes) -> None:
    content = struct.pack("<Q", len(header)) + header + noise(4)
    assert checkpoints.inspect(file_with(tmp_path, "m.safetensors", content)).verdict == "broken"


def test_zeros_from_the_middle_of_a_row_are_doubted(tmp_path: Path) -> None:
    content = model(3000)
    lost = content[: len(content) - 5001] + b"\0" * 5001
    found = checkpoints.inspect(file_with(tmp_path, "m.safetensors", lost))
    assert found.verdict == "doubtful"
    assert "from the middle of 'weight'" in found.reasons[0]


@pytest.mark.parametrize(
    "tensors",
    [
        {"a": ([30, 20], noise(2400)), "z": ([900], bytes(3600))},
        {"embedding": ([50, 30], noise(40 * 120) + bytes(10 * 120))},
        {"bias": ([8], bytes(32))},
        {"a": ([100], noise(396) + bytes(4))},
        {"a": ([100], noise(392) + bytes(8)), "z": ([900], bytes(3600))},
    ],
    ids=[
        "untrained bias",
        "unused rows",
        "only a small zero tensor",
        "one zero value",
        "zeros before an untrained bias",
    ],
)
def test_zeros_that_belong_to_the_model_are_not_doubted(tmp_path: Path, tensors: dict[str, tuple[list[int], bytes]]) -> None:
    assert checkpoints.inspect(file_with(tmp_path, "m.safetensors", safetensors_bytes(tensors))).verdict == "whole"


def test_a_zip_of_another_writer_is_read_too(tmp_path: Path) -> None:
    content = zipped({"archive/data.pkl": pickle.dumps(OrderedDict(step=7), 2), "archive/version": b"3\n"})
    found = checkpoints.inspect(file_with(tmp_path, "m.pt", content))
    assert (found.verdict, found.kind) == ("whole", "torch-zip")


def test_a_zip_without_a_pickle_is_broken(tmp_path: Path) -> None:
    found = checkpoints.inspect(file_with(tmp_path, "m.pt", zipped({"archive/version": b"3\n"})))
    assert found.verdict == "broken"
    assert "data.pkl" in found.reasons[0]


def test_a_storage_of_the_wrong_length_is_broken(tmp_path: Path) -> None:
    stream = b"\x80\x02(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x08tQ."
    right = zipped({"a/data.pkl": stream, "a/data/0": noise(32)})
    short = zipped({"a/data.pkl": stream, "a/data/0": noise(28)})
    absent = zipped({"a/data.pkl": stream})
    verdicts = [checkpoints.inspect(file_with(tmp_path, "m.pt", content)).verdict for content in (right, short, absent)]
    assert verdicts == ["whole", "broken", "broken"]


def test_a_record_that_unpacks_without_end_is_not_followed(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}, 2))
        archive.writestr("a/data/0", bytes(50_000_000))
    content = stream.getvalue()
    assert checkpoints.inspect(file_with(tmp_path, "m.pt", content)).verdict == "whole"
    lying = content.replace(struct.pack("<L", 50_000_000), struct.pack("<L", 5_000))
    tracemalloc.start()
    found = checkpoints.inspect(file_with(tmp_path, "m.pt", lying))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.verdict == "broken"
    assert peak < 8 << 20


def test_a_tar_of_torch_0_1_is_an_unknown_format(tmp_path: Path) -> None:
    found = checkpoints.inspect(file_with(tmp_path, "m.pth.tar", b"sys_info" + bytes(249) + b"ustar" + bytes(300)))
    assert found.verdict == "unknown"
    assert "unknown format" in found.reasons[0]


def test_a_budget_too_small_for_the_checksums_is_said(tmp_path: Path) -> None:
    path = file_with(tmp_path, "m.pt", zipped({"a/data.pkl": pickle.dumps({}, 2), "a/data/0": noise(5000)}))
    shallow = checkpoints.inspect(path, budget_bytes=100)
    assert shallow.verdict == "whole"
    assert any("structure only" in reason for reason in shallow.reasons)
    assert not checkpoints.inspect(path).reasons


def test_an_index_asks_for_every_shard_and_every_tensor(tmp_path: Path) -> None:
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    file_with(tmp_path, names[0], safetensors_bytes({"a": ([4], noise(16))}))
    second = file_with(tmp_path, names[1], safetensors_bytes({"b": ([4], noise(16))}))
    index = file_with(
        tmp_path, "model.safetensors.index.json", json.dumps({"weight_map": {"a": names[0], "b": names[1]}}).encode()
    )
    assert checkpoints.inspect(tmp_path).verdict == checkpoints.inspect(index).verdict == "whole"
    second.write_bytes((tmp_path / names[0]).read_bytes())
    assert "lacks 1 tensors" in checkpoints.inspect(tmp_path).reasons[0]
    second.unlink()
    assert checkpoints.inspect(index).verdict == "broken"
    index.unlink()
    assert "written last" in checkpoints.inspect(tmp_path).reasons[0]
