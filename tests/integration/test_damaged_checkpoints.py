"""Real checkpoints of real libraries: the healthy ones are whole, the damaged ones never are, and nothing in them runs.

Each builder saves as its library does. A damage is chosen by a seed, so that case 137 is the same tomorrow.
Not generated, since it cannot be seen: a changed byte inside safetensors, old torch storages, JSON or `.metadata`.
"""

from __future__ import annotations

import functools
import os
import pickle
import random
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from saved import BUILDERS, Hostile, trained, training_state
from torch import nn

from crashcart import checkpoints

Builder = Callable[[Path], Path]
Damage = Callable[[Path, Path, random.Random], "str | None"]

DAMAGES = 200
TORCH_SUFFIXES = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".distcp"}
STATE_SUFFIXES = TORCH_SUFFIXES | {".safetensors", ".json"}
# Files that a model can do without, or that no other file speaks of.
DISPENSABLE = {"config.json", "generation_config.json"}


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """Return a function that saves a checkpoint once, and gives its root and itself."""

    @functools.cache
    def built(name: str) -> tuple[Path, Path]:
        root = tmp_path_factory.mktemp(name)
        return root, BUILDERS[name](root)

    return built


@pytest.mark.parametrize("name", BUILDERS)
def test_a_healthy_checkpoint_is_whole(name: str, build: Callable[[str], tuple[Path, Path]]) -> None:
    root, target = build(name)
    found = checkpoints.inspect(target)
    assert (found.verdict, [reason for reason in found.reasons if "model only" not in reason]) == ("whole", [])
    assert {item.verdict for item in checkpoints.find(root)} == {"whole"}
    chosen = checkpoints.newest_whole(root)
    assert chosen is not None
    assert chosen.path == target


@pytest.mark.parametrize(
    ("name", "kind", "step", "epoch"),
    [
        ("torch_zip", "torch-zip", 500, None),
        ("torch_legacy", "torch-legacy", 500, None),
        ("torch_script", "torch-script", None, None),
        ("distributed", "dcp", 500, None),
        ("accelerate_deepspeed", "accelerate", 2, None),
        ("hf_trainer", "trainer", 4, None),
        ("lightning", "lightning", 8, 1),
        ("deepspeed", "deepspeed", 12, None),
        ("megatron", "megatron", 500, None),
    ],
)
def test_kind_step_and_epoch_are_known(
    name: str, kind: str, step: int | None, epoch: int | None, build: Callable[[str], tuple[Path, Path]]
) -> None:
    found = checkpoints.inspect(build(name)[1])
    assert (found.kind, found.step, found.epoch) == (kind, step, epoch)


def test_step_and_epoch_are_read_from_inside_where_the_name_is_silent(tmp_path: Path) -> None:
    torch.save({"epoch": 3, "global_step": 70, "model": trained()[0].state_dict()}, tmp_path / "last.ckpt")
    found = checkpoints.inspect(tmp_path / "last.ckpt")
    assert (found.step, found.epoch) == (70, 3)


def unusual_contents() -> dict[str, Any]:
    base = torch.randn(50, 40)
    return {
        "bfloat16": torch.randn(7).bfloat16(),
        "float8": torch.randn(9).to(torch.float8_e4m3fn),
        "complex": torch.randn(5, dtype=torch.complex128),
        "unsigned": torch.arange(5).to(torch.uint16),
        "bool": torch.ones(3, dtype=torch.bool),
        "view": base[3:9, ::2],
        "shared": [base, base.t(), base.view(-1)[10:20]],
        "reinterpreted": base.view(torch.uint8)[:, 1:3],
        "empty": torch.empty(0, 4),
        "empty ones around": [torch.randn(30), *(torch.empty(0) for _ in range(6))],
        "scalar": torch.tensor(3),
        "sparse": torch.eye(5).to_sparse(),
        "sparse rows": torch.eye(5).to_sparse_csr(),
        "meta": torch.empty(3, device="meta"),
        "parameter": nn.Parameter(torch.randn(4)),
        "storage": torch.randn(3).untyped_storage(),
        "zeros": torch.zeros(4000),
        "module": nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)),
        "path": Path("somewhere"),
        "nothing": None,
    }


@pytest.mark.parametrize("what", unusual_contents())
@pytest.mark.parametrize("new_format", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_unusual_tensors_raise_no_alarm(what: str, *, new_format: bool, tmp_path: Path) -> None:
    try:
        torch.save(unusual_contents()[what], tmp_path / "model.pt", _use_new_zipfile_serialization=new_format)
    except (RuntimeError, NotImplementedError):
        pytest.skip("torch itself cannot save this in the old format")
    found = checkpoints.inspect(tmp_path / "model.pt")
    assert (found.verdict, found.reasons) == ("whole", ())


def test_a_file_without_checksums_is_whole_and_says_so(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(compute_crc32=False)
    try:
        torch.save(training_state(), tmp_path / "model.pt")
    finally:
        torch.serialization.set_crc32_options(compute_crc32=True)
    found = checkpoints.inspect(tmp_path / "model.pt")
    assert found.verdict == "whole"
    assert "without checksums" in found.reasons[0]


def state_files(target: Path) -> list[Path]:
    paths = [target] if target.is_file() else sorted(path for path in target.rglob("*") if path.is_file())
    return [path for path in paths if path.suffix in STATE_SUFFIXES or path.name == ".metadata"]


def cut(target: Path, _: Path, chooser: random.Random) -> str:
    path = chooser.choice(state_files(target))
    size = chooser.randrange(path.stat().st_size - 1)
    os.truncate(path, size)
    return f"{path.name} cut to {size} bytes"


def emptied(target: Path, _: Path, chooser: random.Random) -> str:
    path = chooser.choice(state_files(target))
    os.truncate(path, 0)
    return f"{path.name} emptied"


def deleted(target: Path, _: Path, chooser: random.Random) -> str | None:
    if target.is_file():
        return None
    path = chooser.choice([path for path in state_files(target) if path.name not in DISPENSABLE])
    path.unlink()
    return f"{path.name} deleted"


def lost_pages(target: Path, _: Path, chooser: random.Random) -> str | None:
    path = chooser.choice([path for path in state_files(target) if path.suffix != ".json"])
    content = path.read_bytes()
    start = chooser.randrange(0, max(1, len(content) - 64), 4096)
    path.write_bytes(content[:start] + bytes(len(content) - start))
    return f"{path.name} zeros from {start} on"


def flipped(target: Path, _: Path, chooser: random.Random) -> str | None:
    zips = [path for path in state_files(target) if path.read_bytes()[:2] == b"PK" and path.name != "scripted.pt"]
    if not zips:
        return None
    path = chooser.choice(zips)
    content = bytearray(path.read_bytes())
    place = chooser.randrange(len(content))
    content[place] ^= 1 << chooser.randrange(8)
    path.write_bytes(content)
    return f"{path.name} one bit changed at {place}"


def replaced(target: Path, _: Path, chooser: random.Random) -> str:
    path = chooser.choice([path for path in state_files(target) if path.suffix != ".json"])
    instead = (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4265380512\n",
        b"<!doctype html><html><title>Sign in</title></html>",
        b'{"error": "Invalid credentials"}',
        bytes(path.stat().st_size),
    )
    number = chooser.randrange(len(instead))
    path.write_bytes(instead[number])
    return f"{path.name} replaced by placeholder {number}"


def mixed_up(target: Path, _: Path, chooser: random.Random) -> str | None:
    """Put one shard, slice file or rank in the place of another."""
    groups = ("-of-00002", "_optim_states", "_model_states", ".distcp", "model.safetensors", "optimizer")
    paths = [path for path in state_files(target) if any(word in path.name for word in groups)]
    sources = [path for path in state_files(target) if path.suffix != ".json"]
    if target.is_file() or not paths:
        return None
    path = chooser.choice(paths)
    other = chooser.choice([source for source in sources if source.name.split("_")[0] != path.name.split("_")[0]] or [None])
    if "_states" in path.name:
        path.rename(path.with_name(path.name.replace("rank_0", "rank_7").replace("rank_1", "rank_7")))
        return f"{path.name} renamed to rank 7"
    shard = [source for source in sources if "-of-00002" in source.name and source != path]
    if "-of-00002" in path.name:
        shutil.copy(shard[0], path)
        return f"{path.name} overwritten by the other shard"
    if path.suffix != ".distcp" or other is None:
        return None
    shutil.copy(other, path)
    return f"{path.name} overwritten by {other.name}"


def hostile(target: Path, marker: Path, chooser: random.Random) -> str:
    """Put a pickle that would run a command where the state was, whole or spliced into the old file."""
    path = chooser.choice([path for path in state_files(target) if path.suffix != ".json"])
    content, trap = path.read_bytes(), pickle.dumps(Hostile(marker), 2)
    place = content.find(b"\x80\x02")
    if chooser.random() < 0.5 and place >= 0:
        path.write_bytes(content[:place] + trap + content[place + len(trap) :])
        return f"{path.name} spliced"
    path.write_bytes(trap)
    return f"{path.name} replaced by a trap"


ALL_DAMAGES: tuple[Damage, ...] = (cut, emptied, deleted, lost_pages, flipped, replaced, mixed_up, hostile)


@pytest.mark.parametrize("seed", range(DAMAGES))
def test_a_damaged_checkpoint_is_never_called_whole(
    seed: int, build: Callable[[str], tuple[Path, Path]], tmp_path: Path
) -> None:
    chooser = random.Random(seed)
    root, healthy = build(list(BUILDERS)[seed % len(BUILDERS)])
    copy, marker = tmp_path / "copy", tmp_path / "ran"
    shutil.copytree(root, copy, symlinks=True)
    target = copy / healthy.relative_to(root)
    damage = next(what for _ in range(100) if (what := chooser.choice(ALL_DAMAGES)(target, marker, chooser)))
    found = checkpoints.inspect(target)
    assert found.verdict != "whole", damage
    assert found.reasons, damage
    assert "internal error" not in " ".join(found.reasons), damage
    chosen = checkpoints.newest_whole(copy)
    assert chosen is None or chosen.path != target, damage
    assert not marker.exists(), damage


def test_every_bit_of_a_torch_file_matters(tmp_path: Path) -> None:
    torch.save({"weight": torch.randn(5), "step": 3}, tmp_path / "model.pt")
    content = (tmp_path / "model.pt").read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        (tmp_path / "model.pt").write_bytes(changed)
        assert checkpoints.inspect(tmp_path / "model.pt").verdict != "whole", place


def test_a_well_made_trap_is_named_and_not_sprung(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    torch.save({"model": trained()[0].state_dict(), "extra": Hostile(marker)}, tmp_path / "model.pt")
    found = checkpoints.inspect(tmp_path / "model.pt")
    assert (found.verdict, found.reasons) == ("whole", ("suspicious: imports os.system",))
    assert not marker.exists()


WATCHED = """
import sys
from crashcart import checkpoints
checkpoints.find(sys.argv[1])  # imports what it needs
seen = []
sys.addaudithook(lambda event, _: seen.append(event))
found = checkpoints.find(sys.argv[1])
forbidden = {"pickle.find_class", "os.system", "subprocess.Popen", "exec", "compile", "import", "marshal.loads"}
print(len(found), sorted(forbidden & set(seen)), "torch" in sys.modules)
"""


def test_the_interpreter_sees_no_import_and_no_execution(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    trap = {"model": torch.randn(3), "extra": Hostile(marker)}
    torch.save(trap, tmp_path / "step_1.pt")
    torch.save(trap, tmp_path / "step_2.pt", _use_new_zipfile_serialization=False)
    (tmp_path / "step_3.pkl").write_bytes(pickle.dumps(trap["extra"]))
    (tmp_path / "step_4").mkdir()
    (tmp_path / "step_4" / ".metadata").write_bytes(pickle.dumps(trap["extra"]))
    source = str(Path(checkpoints.__file__).parents[2])
    answer = subprocess.run(
        [sys.executable, "-c", WATCHED, str(tmp_path)],
        env={"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == "4 [] False"
    assert not marker.exists()


def test_memory_stays_bounded_while_checksums_are_read(tmp_path: Path) -> None:
    torch.save(torch.randn(12_000_000), tmp_path / "model.pt")
    tracemalloc.start()
    found = checkpoints.inspect(tmp_path / "model.pt")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.verdict == "whole"
    assert found.size_bytes > 48_000_000
    assert peak < 8 << 20


def test_a_repacked_archive_is_whole(tmp_path: Path) -> None:
    torch.save(training_state(), tmp_path / "model.pt")
    with zipfile.ZipFile(tmp_path / "model.pt") as old, zipfile.ZipFile(tmp_path / "again.pt", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert checkpoints.inspect(tmp_path / "again.pt").verdict == "whole"
