"""A folder of many files and ranks, and the search for the newest whole one."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import tempfile
from collections import OrderedDict
from pathlib import Path

import pytest
from checkpoint_parts import Hostile, file_with, listing, model, noise, safetensors_bytes, zipped

from crashcart import checkpoints
from crashcart.checkpoints import accelerate, deepspeed, megatron, trainer
from crashcart.checkpoints.model import Look


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
            assert "internal error" not in " ".join(found.reasons)


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
