"""Data files that are damaged, hostile or not what they seem, looked at before a job starts."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

import crashcart
from crashcart.readers.data.looking import Looking

np = pytest.importorskip("numpy")
PROGRAM = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset

DATA_DIR = "data"


class Items(Dataset):
    def __init__(self, folder):
        self.folder = folder

    def __getitem__(self, at):
        return read(self.folder, at)


for batch in DataLoader(Items(DATA_DIR), batch_size=4):
    pass
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(PROGRAM, encoding="utf-8")
    Path("data").mkdir()
    return Path("data")


def said(cause: str) -> list[tuple[str, str]]:
    found = crashcart.check(command=["python", "train.py"]).findings
    return [(one.level, sign.says) for one in found if one.cause == cause for sign in one.signs]


def answers(path: Path) -> list[dict[str, Any]]:
    looking = Looking()
    try:
        return looking.at(str(path)).answers
    finally:
        looking.close()


def test_stand_ins_are_told_by_their_first_bytes(data: Path) -> None:
    np.save(data / "a.npy", np.zeros(4))
    (data / "b.npy").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    (data / "c.npy").write_text("<!DOCTYPE html><html>404</html>")
    (data / "d.npy").touch()
    told = said("data/placeholder-file")
    assert [level for level, _ in told] == ["can", "can"]
    assert "Git LFS pointer" in told[0][1]
    assert "web page" in told[1][1]
    assert "0 bytes" in said("data/corrupt-or-missing")[0][1]


def test_an_array_that_was_cut_is_unreadable_and_a_whole_one_is_not(data: Path) -> None:
    np.save(data / "whole.npy", np.zeros((100, 8), "float32"))
    np.save(data / "cut.npy", np.zeros((100, 8), "float32"))
    with open(data / "cut.npy", "r+b") as file:
        file.truncate(1000)
    told = said("data/corrupt-or-missing")
    assert len(told) == 1
    assert "cut.npy" in told[0][1]
    assert "the header promises" in told[0][1]


def test_pickled_arrays_are_never_loaded(data: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, ("exploded",)

    np.save(data / "objects.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    assert answers(data)[0]["not_looked"] == "it holds pickled objects"
    assert not Path("exploded").exists()


def test_nan_in_some_rows_is_a_condition(data: Path) -> None:
    values = np.zeros((50, 3), "float32")
    values[17, 1] = np.nan
    np.save(data / "states.npy", values)
    told = said("numerics/bad-data")
    assert told[0][0] == "can"
    assert "states.npy" in told[0][1]


def test_a_zip_bomb_costs_no_memory(data: Path) -> None:
    header = (
        b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }".ljust(117) + b"\n"
    )
    with zipfile.ZipFile(data / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header + b"\0" * 200_000_000)
    (answer,) = answers(data)
    assert answer["tables"]["x"]["shape"] == [1000000000]


def test_hdf5_that_was_cut_or_links_in_a_circle(data: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(data / "circle.h5", "w") as file:
        file["x"] = np.zeros(4)
        group = file.create_group("a")
        group["up"] = h5py.SoftLink("/a")
        group["back"] = file["a"]
        group["away"] = h5py.ExternalLink("/etc/passwd", "/x")
    with h5py.File(data / "cut.h5", "w") as file:
        file["x"] = np.zeros(40_000)
    with open(data / "cut.h5", "r+b") as handle:
        handle.truncate(20_000)
    found = {os.path.basename(one["path"]): one for one in answers(data)}
    assert "/x" in found["circle.h5"]["tables"]
    assert "truncated" in found["cut.h5"]["problem"]


def test_lmdb_that_was_cut_does_not_kill_the_check(data: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(data / "db"), map_size=1 << 24) as env, env.begin(write=True) as transaction:
        for at in range(2000):
            transaction.put(str(at).encode(), b"x" * 2000)
    with open(data / "db" / "data.mdb", "r+b") as file:
        file.truncate(9000)
    (answer,) = answers(data)
    assert "problem" in answer, answer


def test_images_that_were_cut_and_images_of_two_sizes(data: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for name, size in (("a.png", (32, 24)), ("b.png", (48, 24)), ("c.png", (32, 24))):
        image.fromarray(np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)).save(data / name)
    with open(data / "c.png", "r+b") as file:
        file.truncate(900)
    assert "c.png" in said("data/corrupt-or-missing")[0][1]
    told = said("data/shape")
    assert told[0][0] == "can"
    assert "[24, 32, 3]" in told[0][1]


def test_parquet_without_rows_and_with_labels_out_of_range(data: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    Path("train.py").write_text(
        PROGRAM.replace('"data"', '"data/train.parquet"') + "\nNUM_CLASSES = 10\nnum_classes = NUM_CLASSES\n"
    )
    parquet.write_table(pyarrow.table({"x": [0.5] * 4, "label": [0, 3, 9, 10]}), data / "train.parquet")
    found = crashcart.check(command=["python", "train.py", "--num_classes", "10"]).findings
    assert [(one.level, "goes up to 10" in one.signs[0].says) for one in found if one.cause == "data/label-range"] == [
        ("can", True)
    ]
    parquet.write_table(pyarrow.table({"x": pyarrow.array([], pyarrow.float32())}), data / "train.parquet")
    assert said("data/empty-or-short")[0][0] == "will"


def test_a_line_that_is_no_json(data: Path) -> None:
    (data / "good.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    (data / "cut.jsonl").write_text('{"a": 1}\n{"a": "never clos')
    told = said("data/corrupt-or-missing")
    assert len(told) == 1
    assert "cut.jsonl" in told[0][1]


def test_many_files_are_sampled_evenly_and_the_number_is_told(data: Path) -> None:
    for at in range(600):
        (data / f"{at:04}.jsonl").write_text('{"a": 1}\n')
    notes = crashcart.check(command=["python", "train.py"]).notes
    assert any(one.quote.startswith("looked at 200 of 600 data files") for one in notes)


def test_a_missing_library_is_a_gap_and_no_verdict(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"\0" * 100)
    hidden = Path("hidden")
    hidden.mkdir()
    (hidden / "h5py.py").write_text("raise ModuleNotFoundError(\"No module named 'h5py'\", name='h5py')\n")
    monkeypatch.syspath_prepend(hidden.resolve())
    told = crashcart.check(command=["python", "train.py"])
    assert any("h5py is not installed" in one.why for one in told.not_looked)
    assert not [one for one in told.findings if one.cause == "data/corrupt-or-missing"]


def test_a_pattern_below_another_folder_names_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").touch()
    (tmp_path / "train.py").write_text(
        "import torch\nfrom pathlib import Path\n"
        "def size(path):\n    return sum(file.stat().st_size for file in Path(path).glob('**/*'))\n"
        "data = list(Path('clips').glob('*.npy'))\ntorch.ones(1)\n"
    )
    assert not [one for one in crashcart.check(command=["python", "train.py"]).findings if one.level != "note"]
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips/empty.npy").touch()
    found = [one.cause for one in crashcart.check(command=["python", "train.py"]).findings if one.level != "note"]
    assert found == ["data/corrupt-or-missing"]


def test_labels_of_a_plain_array_are_called_by_its_file(data: Path) -> None:
    np.save(data / "labels.npy", np.arange(1, 11))
    Path("config.json").write_text('{"labels": "data/labels.npy", "num_classes": 10}', encoding="utf-8")
    Path("train.py").write_text(
        'import json\nimport numpy as np\nimport torch\ncfg = json.load(open("config.json"))\n'
        'labels = np.load(cfg["labels"])\nhead = torch.nn.Linear(4, cfg["num_classes"])\n',
        encoding="utf-8",
    )
    told = said("data/label-range")
    assert [level for level, _ in told] == ["can"]
    assert told[0][1].startswith("data/labels.npy goes up to 10")


@pytest.mark.parametrize("read", [True, False])
def test_weights_that_are_a_pointer(data: Path, *, read: bool) -> None:
    (data / "backbone.pth").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    Path("config.json").write_text('{"pretrained": "data/backbone.pth", "lr": 0.1}', encoding="utf-8")
    load = 'torch.load(cfg["pretrained"])' if read else 'print(cfg["lr"])'
    Path("train.py").write_text(
        f'import json\nimport torch\ncfg = json.load(open("config.json"))\n{load}\n', encoding="utf-8"
    )
    expected = [("will", "data/backbone.pth is a Git LFS pointer, not the data")] if read else []
    assert said("data/placeholder-file") == expected


def test_a_folder_of_weights_of_which_one_is_a_pointer_is_a_condition(data: Path) -> None:
    (data / "pytorch_model.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    (data / "model.safetensors").write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ")
    Path("config.json").write_text('{"model_path": "data"}', encoding="utf-8")
    code = 'import json\nimport torch\nfrom transformers import AutoModel\ncfg = json.load(open("config.json"))\n'
    Path("train.py").write_text(f'{code}AutoModel.from_pretrained(cfg["model_path"])\n', encoding="utf-8")
    assert [level for level, _ in said("data/placeholder-file")] == ["can"]


@pytest.mark.parametrize(
    ("work", "level"), [("tarfile.open(folder).extractall()", "note"), ("urllib.request.urlretrieve(URL)", "can")]
)
def test_little_data_is_soon_prepared_by_the_first_rank(data: Path, work: str, level: str) -> None:
    np.save(data / "a.npy", np.zeros(4))
    code = f"""
import tarfile
import urllib.request

import numpy as np
import torch.distributed as dist

DATA_DIR = "data"
URL = "http://data.lab/rows.csv"


def prepare(folder):
    {work}
    np.savez("index.npz", np.load(folder))


dist.init_process_group("nccl")
if dist.get_rank() == 0:
    prepare(DATA_DIR)
dist.barrier()
"""
    Path("train.py").write_text(code, encoding="utf-8")
    found = crashcart.check(command=["torchrun", "--nproc-per-node", "2", "train.py"]).findings
    assert [one.level for one in found if one.cause == "distributed/slow-rank"] == [level]
