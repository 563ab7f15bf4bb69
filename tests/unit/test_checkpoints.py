"""What is said about a checkpoint, tried on inputs made by hand: no torch, no training, nothing loaded."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest

from crashcart import checkpoints
from crashcart.checkpoints import accelerate, deepspeed, megatron, trainer
from crashcart.checkpoints.listing import Listing
from crashcart.checkpoints.model import DamageError, Look, in_words, worst
from crashcart.checkpoints.paper import Global, Table
from crashcart.checkpoints.pickles import walk
from crashcart.checkpoints.steps import named_epoch, named_step


class Hostile:
    """Unpickling it would create a file."""

    def __init__(self, marker: Path) -> None:
        """Keep the file that must never appear."""
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Say what unpickling should run."""
        return os.system, (f"touch {self.marker}",)


def safetensors_bytes(tensors: dict[str, tuple[list[int], bytes]], dtype: str = "F32") -> bytes:
    header, data = {}, b""
    for name, (shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def noise(count: int, seed: int = 0) -> bytes:
    chooser = random.Random(seed)
    return bytes(chooser.randrange(1, 256) for _ in range(count))


def file_with(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def listing(name: str, files: list[str], folders: list[str] | None = None) -> Listing:
    return Listing(Path("nowhere") / name, dict.fromkeys(files, 1), frozenset(folders or []))


def model(values: int = 300, seed: int = 0) -> bytes:
    return safetensors_bytes({"weight": ([values], noise(values * 4, seed))})


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


def zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


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


def says(found: object) -> str:
    return " | ".join(problem.says for problem in found)  # type: ignore[attr-defined]


TRAINER = [
    "model.safetensors",
    "optimizer.pt",
    "scheduler.pt",
    "rng_state.pth",
    "training_args.bin",
    "trainer_state.json",
]


@pytest.mark.parametrize(
    ("without", "added", "word"),
    [
        ([], [], ""),
        (["trainer_state.json"], [], "written last"),
        (["optimizer.pt"], [], "optimizer.pt is missing"),
        (["rng_state.pth"], ["rng_state_0.pth", "rng_state_2.pth"], "rank 1"),
        (["optimizer.pt", "scheduler.pt", "rng_state.pth"], [], ""),
        (["model.safetensors"], [], "no model weights"),
    ],
)
def test_the_trainers_folder_must_be_complete(without: list[str], added: list[str], word: str) -> None:
    files = [name for name in TRAINER if name not in without] + added
    looks = {name: Look("json", numbers={"global_step": 500}) for name in files}
    found = says(trainer.problems(listing("checkpoint-500", files), looks))
    assert word in found
    assert bool(word) == bool(found)


def test_the_trainers_state_must_be_of_the_same_step() -> None:
    looks = {name: Look("json", numbers={"global_step": 400}) for name in TRAINER}
    assert "says step 400" in says(trainer.problems(listing("checkpoint-500", TRAINER), looks))


@pytest.mark.parametrize(
    ("files", "word"),
    [
        (["model.safetensors", "optimizer.bin", "scheduler.bin", "random_states_0.pkl", "random_states_1.pkl"], ""),
        (["model.safetensors", "random_states_0.pkl"], ""),
        (["model.safetensors", "optimizer.bin"], "written last"),
        (["model.safetensors", "random_states_0.pkl", "random_states_2.pkl"], "rank 1"),
        (["optimizer.bin", "random_states_0.pkl"], "no model weights"),
        (["model.safetensors", "scheduler.bin", "random_states_0.pkl"], "optimizer.bin is missing"),
        (["model.safetensors", "model_2.safetensors", "random_states_0.pkl"], "number 1 of the model files"),
    ],
)
def test_accelerates_folder_must_be_complete(files: list[str], word: str) -> None:
    found = says(accelerate.problems(listing("checkpoint_1", files), {name: Look("torch-zip") for name in files}))
    assert word in found
    assert bool(word) == bool(found)


def test_ranks_that_saved_at_different_steps_are_doubted() -> None:
    files = ["model.safetensors", "random_states_0.pkl", "random_states_1.pkl"]
    looks = {name: Look("torch-zip", numbers={"step": number}) for number, name in enumerate(files)}
    assert "different steps: 1, 2" in says(accelerate.problems(listing("checkpoint_1", files), looks))


MODEL_STATES = "mp_rank_00_model_states.pt"
OPTIMIZER_STATES = [f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(4)]


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ([MODEL_STATES, *OPTIMIZER_STATES], ""),
        ([MODEL_STATES, *OPTIMIZER_STATES[:3]], "rank 3"),
        ([MODEL_STATES, *OPTIMIZER_STATES[1:]], "rank 0"),
        (OPTIMIZER_STATES, "model states are missing"),
        ([MODEL_STATES], "optimizer states are missing"),
    ],
)
def test_deepspeed_needs_a_file_of_every_rank(files: list[str], word: str) -> None:
    said = {
        MODEL_STATES: Look("torch-zip", numbers={"dp_world_size": 4, "global_steps": 12}, empty=frozenset({"optimizer"}))
    }
    looks = {name: said.get(name, Look("torch-zip")) for name in files}
    found = says(deepspeed.problems(listing("global_step12", files), looks))
    assert word in found
    assert bool(word) == bool(found)


@pytest.mark.parametrize(
    ("folders", "word"),
    [
        (["mp_rank_00", "mp_rank_01"], ""),
        (["mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000", "mp_rank_01_001"], ""),
        (["mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_001"], "rank 1_0"),
        (["mp_rank_01"], "rank 0"),
    ],
)
def test_megatron_needs_a_folder_of_every_rank(folders: list[str], word: str) -> None:
    looks = {f"{folder}/model_optim_rng.pt": Look("torch-zip", numbers={"iteration": 500}) for folder in folders}
    found = says(megatron.problems(listing("iter_0000500", [], folders), looks))
    assert word in found
    assert bool(word) == bool(found)


def test_a_tracker_that_names_nothing_is_broken(tmp_path: Path) -> None:
    file_with(tmp_path, "latest", b"global_step12")
    (found,) = checkpoints.find(tmp_path)
    assert (found.verdict, found.step, found.reasons) == ("broken", 12, ("latest names it, and it is not there",))


def test_a_checkpoint_with_fewer_ranks_than_the_one_before_is_doubted(tmp_path: Path) -> None:
    state = zipped({"a/data.pkl": pickle.dumps({"step": 1}, 2)})
    for step, count in ((1, 3), (2, 2), (3, 2)):
        file_with(tmp_path, f"checkpoint_{step}/model.safetensors", model())
        for rank in range(count):
            file_with(tmp_path, f"checkpoint_{step}/random_states_{rank}.pkl", state)
    assert [found.verdict for found in checkpoints.find(tmp_path)] == ["whole", "doubtful", "whole"]


def test_a_checkpoint_without_the_weights_that_the_one_before_has_is_doubted(tmp_path: Path) -> None:
    state = zipped({"a/data.pkl": pickle.dumps({"step": 1}, 2)})
    for step in (1, 2):
        file_with(tmp_path, f"checkpoint_{step}/ema/weights.safetensors", model())
        file_with(tmp_path, f"checkpoint_{step}/random_states_0.pkl", state)
    file_with(tmp_path, "checkpoint_1/model.safetensors", model())
    assert [found.verdict for found in checkpoints.find(tmp_path)] == ["doubtful", "whole"]


def test_found_newest_first_by_step_then_by_time(tmp_path: Path) -> None:
    for age, name in enumerate(["step_20.safetensors", "b/step_100.safetensors", "a/step_20.safetensors", "z.safetensors"]):
        os.utime(file_with(tmp_path, name, model()), (1_000_000 - age, 1_000_000 - age))
    file_with(tmp_path, "train.bin", noise(64))
    found = [str(item.path.relative_to(tmp_path)) for item in checkpoints.find(tmp_path)]
    assert found == ["b/step_100.safetensors", "step_20.safetensors", "a/step_20.safetensors", "z.safetensors"]
    assert len(checkpoints.find(tmp_path, limit=2)) == 2


def test_the_newest_whole_one_is_chosen(tmp_path: Path) -> None:
    file_with(tmp_path, "step_1.safetensors", model())
    whole = file_with(tmp_path, "step_2.safetensors", model())
    file_with(tmp_path, "step_3.safetensors", model()[:-5])
    chosen = checkpoints.newest_whole(tmp_path)
    assert chosen is not None
    assert chosen.path == whole
    assert checkpoints.newest_whole(tmp_path / "nowhere") is None


def test_metadata_that_is_something_else_is_broken(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    file_with(tmp_path, "step-5/__0_0.distcp", noise(100))
    file_with(tmp_path, "step-5/.metadata", pickle.dumps(Hostile(marker)))
    found = checkpoints.inspect(tmp_path / "step-5")
    assert (found.verdict, found.kind) == ("broken", "dcp")
    assert not marker.exists()


def test_links_are_followed_once(tmp_path: Path) -> None:
    file_with(tmp_path, "run/step_1.safetensors", model())
    (tmp_path / "run/last.safetensors").symlink_to("step_1.safetensors")
    (tmp_path / "run/loop").symlink_to(tmp_path)
    (tmp_path / "run/itself").symlink_to("itself")
    (tmp_path / "run/gone.safetensors").symlink_to("deleted.safetensors")
    found = {item.path.name: item.verdict for item in checkpoints.find(tmp_path)}
    assert found == {"step_1.safetensors": "whole", "gone.safetensors": "broken"}


def test_an_empty_folder_with_a_step_is_broken(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-500").mkdir()
    (found,) = checkpoints.find(tmp_path)
    assert (found.verdict, found.step, found.reasons) == ("broken", 500, ("the folder is empty",))


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.pt")
    for name in ("latest", "config.json", ".metadata", "__0_0.distcp"):
        (tmp_path / "step_1").mkdir(exist_ok=True)
        os.mkfifo(tmp_path / "step_1" / name)
    assert checkpoints.inspect(tmp_path / "step_1").verdict != "whole"
    assert checkpoints.inspect(tmp_path / "model.pt").verdict == "unknown"
    assert checkpoints.inspect(tmp_path / "nowhere.pt").verdict == "unknown"
    assert checkpoints.inspect("nul\0byte.pt").verdict == "unknown"


def test_what_may_not_be_read_is_unknown_and_says_so() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        file_with(folder, "step_1.safetensors", model()).chmod(0)
        file_with(folder, "closed/step_2.safetensors", model())
        (folder / "closed").chmod(0)
        as_root = os.geteuid() == 0
        try:
            if as_root:
                os.seteuid(65534)
            found = {item.path.name: (item.verdict, item.reasons) for item in checkpoints.find(folder)}
        finally:
            if as_root:
                os.seteuid(0)
            (folder / "closed").chmod(0o700)
    assert {verdict for verdict, _ in found.values()} == {"unknown"}
    assert all("Permission denied" in reasons[0] for _, reasons in found.values())
    assert set(found) == {"step_1.safetensors", "closed"}


def mutated(content: bytes, chooser: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chooser.randrange(1, 12)):
        changed[chooser.randrange(len(changed))] = chooser.randrange(256)
    return bytes(changed[: chooser.randrange(1, len(changed) + 1)])


def test_no_damage_makes_our_readers_stumble(tmp_path: Path) -> None:
    chooser = random.Random(5)
    protocol_2 = pickle.dumps({"a": [1, 2.0, "x", b"y", None, (1, {2})], "b": OrderedDict(c=3)}, 2)
    originals = {
        "m.safetensors": safetensors_bytes({"a": ([2, 3], noise(24)), "b": ([9], noise(36))}),
        "m.pt": zipped({"a/data.pkl": protocol_2, "a/data/0": noise(90)}),
        "m.pkl": pickle.dumps({"a": [1, 2.0, "x", b"y", None, (1, {2})], "b": OrderedDict(c=3)}, 4),
        "d/.metadata": protocol_2,
        "s/model.safetensors.index.json": b'{"weight_map": {"a": "model-00001-of-00001.safetensors"}}',
    }
    for _ in range(300):
        for name, content in originals.items():
            path = file_with(tmp_path, name, mutated(content, chooser))
            found = checkpoints.inspect(path.parent if name[1] == "/" else path)
            assert "stumbled" not in " ".join(found.reasons)


def test_neither_torch_nor_safetensors_is_imported() -> None:
    script = (
        "import sys, crashcart.checkpoints as c; c.find('.');"
        "print([name for name in ('torch', 'safetensors', 'numpy', 'pickle') if name in sys.modules])"
    )
    source = str(Path(checkpoints.__file__).parents[2])
    answer = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() in {"[]", "['pickle']"}  # pickletools imports pickle; nothing calls it
