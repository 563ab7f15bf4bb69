"""Projects like those of the incidents, with real HDF5 episodes: found before the launch, patched, and then really run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import crashcart
from crashcart.repair import repairs, write

pytest.importorskip("torch")
h5py = pytest.importorskip("h5py")
np = pytest.importorskip("numpy")
SAFETIES = frozenset({"exact", "same-recipe", "changes-training"})
CHUNKS = {
    "configs/base.yaml": """\
common:
  action_chunk_size: 64   # steps
dataset:
  hdf5_dir: data/episodes
""",
    "data/__init__.py": "",
    "data/hdf5_vla_dataset.py": """\
import fnmatch
import os

import h5py
import numpy as np
import yaml


class HDF5VLADataset:
    def __init__(self):
        with open("configs/base.yaml") as file:
            config = yaml.safe_load(file)
        self.CHUNK_SIZE = config["common"]["action_chunk_size"]
        self.index = []
        for root, _, files in os.walk(config["dataset"]["hdf5_dir"]):
            for name in sorted(fnmatch.filter(files, "*.hdf5")):
                path = os.path.join(root, name)
                with h5py.File(path, "r") as f:
                    n = f["action"].shape[0]
                self.index += [(path, start) for start in range(max(0, n - self.CHUNK_SIZE + 1))]

    def __len__(self):
        return len(self.index)

    def get_item(self, i):
        path, start = self.index[i]
        with h5py.File(path, "r") as f:
            state = f["observations"]["qpos"][start]
            action = f["action"][start : start + self.CHUNK_SIZE]
        return {"state": state.astype(np.float32), "action": action.astype(np.float32)}
""",
    "main.py": """\
import argparse

import torch
from torch.utils.data import DataLoader, Dataset

from data.hdf5_vla_dataset import HDF5VLADataset


class VLAConsumerDataset(Dataset):
    def __init__(self):
        self.hdf5_dataset = HDF5VLADataset()

    def __len__(self):
        return len(self.hdf5_dataset)

    def __getitem__(self, index):
        return self.hdf5_dataset.get_item(index)


def train(args):
    loaders = [
        DataLoader(
            VLAConsumerDataset(), batch_size=size, shuffle=True, num_workers=args.dataloader_num_workers, persistent_workers=True
        )
        for size in (args.train_batch_size, args.sample_batch_size)
    ]
    model = torch.nn.Linear(14, 14)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for batch in loaders[0]:
        loss = (model(batch["state"]) - batch["action"].mean(1)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_batch_size", type=int, default=4)
    parser.add_argument("--sample_batch_size", type=int, default=8)
    parser.add_argument("--dataloader_num_workers", type=int, default=1)
    train(parser.parse_args())
""",
}
CACHE = {
    "constants.py": """\
DATA_DIR = "data"
SIM_TASK_CONFIGS = {
    "transfer_cube": {"dataset_dir": DATA_DIR + "/transfer_cube", "num_episodes": 6, "camera_names": ["top"]},
}
""",
    "episodes.py": """\
import os

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader


class EpisodicDataset(torch.utils.data.Dataset):
    def __init__(self, episode_ids, dataset_dir, camera_names):
        super().__init__()
        self.episode_ids = episode_ids
        self.dataset_dir = dataset_dir
        self.camera_names = camera_names
        self.cache = {}

    def __len__(self):
        return len(self.episode_ids)

    def load_episode(self, episode_id):
        if episode_id not in self.cache:
            path = os.path.join(self.dataset_dir, f"episode_{episode_id}.hdf5")
            with h5py.File(path, "r") as root:
                images = {name: root[f"/observations/images/{name}"][()] for name in self.camera_names}
                self.cache[episode_id] = (images, root["/observations/qpos"][()], root["/action"][()])
        return self.cache[episode_id]

    def __getitem__(self, index):
        images, qpos, action = self.load_episode(self.episode_ids[index])
        start = np.random.choice(len(action))
        image = np.stack([images[name][start] for name in self.camera_names])
        return torch.from_numpy(image).float() / 255.0, torch.from_numpy(qpos[start]).float(), torch.from_numpy(action[start])


def load_data(dataset_dir, num_episodes, camera_names, batch_size, num_workers):
    ids = np.random.permutation(num_episodes)
    cut = int(0.5 * num_episodes)
    options = dict(batch_size=batch_size, shuffle=True, num_workers=num_workers, prefetch_factor=4, persistent_workers=True)
    train = DataLoader(EpisodicDataset(ids[:cut], dataset_dir, camera_names), **options)
    val = DataLoader(EpisodicDataset(ids[cut:], dataset_dir, camera_names), **options)
    return train, val
""",
    "imitate_episodes.py": """\
import argparse

import torch

from constants import SIM_TASK_CONFIGS
from episodes import load_data


def main(args):
    task = SIM_TASK_CONFIGS[args["task_name"]]
    train_loader, val_loader = load_data(
        task["dataset_dir"], task["num_episodes"], task["camera_names"], args["batch_size"], args["num_workers"]
    )
    policy = torch.nn.Linear(14, 14)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=args["lr"])
    for epoch in range(args["num_epochs"]):
        for image, qpos, action in train_loader:
            loss = (policy(qpos) - action).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--task_name", type=str, default="transfer_cube")
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--num_epochs", type=int, default=2)
    parser.add_argument("--num_workers", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-4)
    main(vars(parser.parse_args()))
""",
    "train.sh": """\
#!/bin/bash
#SBATCH --mem=12M
python imitate_episodes.py --batch_size 2 --num_workers 4
""",
}


def project(files: dict[str, str], folder: str, lengths: list[int]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for at, length in enumerate(lengths):
        with h5py.File(f"{folder}/episode_{at}.hdf5", "w") as file:
            file["action"] = np.zeros((length, 14), "float32")
            file["observations/qpos"] = np.zeros((length, 14), "float32")
            images = np.zeros((length, 120, 160, 3), "uint8")
            file.create_dataset("observations/images/top", data=images, compression="gzip")


def found(*job: str) -> dict[tuple[str, str], str]:
    told = crashcart.check(command=job) if len(job) > 1 else crashcart.check(list(job))
    return {(one.level, one.cause): one.signs[0].says for one in told.findings}


def patched(*job: str) -> None:
    for _ in range(3):
        told = crashcart.check(command=job) if len(job) > 1 else crashcart.check(list(job))
        write(repairs(told.findings, SAFETIES))


def started(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], check=False, capture_output=True, text=True, timeout=120)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_no_episode_has_a_whole_chunk() -> None:
    """It dies of an empty data set; `check` says so before, and with its patch the program runs."""
    project(CHUNKS, "data/episodes", [40, 50, 30, 45])
    assert started("main.py").returncode != 0
    told = found("python", "main.py")
    assert "all 4 episodes are shorter" in told["will", "data/empty-or-short"]
    patched("python", "main.py")
    assert "action_chunk_size: 30   # steps" in Path("configs/base.yaml").read_text()
    ended = started("main.py")
    assert ended.returncode == 0, ended.stderr
    assert not [cause for level, cause in found("python", "main.py") if level != "note"]


def test_some_episodes_are_lost_without_a_word() -> None:
    project(CHUNKS, "data/episodes", [100, 100, 30, 45])
    told = found("python", "main.py")["can", "data/empty-or-short"]
    assert told.startswith("2 of 4 episodes are shorter")
    assert "the others give 74 samples" in told


def test_episodes_that_are_long_enough_or_padded_are_no_finding() -> None:
    project(CHUNKS, "data/episodes", [100, 64])
    assert not [cause for level, cause in found("python", "main.py") if level != "note"]
    padded = CHUNKS["data/hdf5_vla_dataset.py"].replace("range(max(0, n - self.CHUNK_SIZE + 1))", "range(n)")
    project({"data/hdf5_vla_dataset.py": padded}, "data/episodes", [20, 30])
    assert not [cause for level, cause in found("python", "main.py") if level != "note"]


def test_two_loaders_are_counted_in_the_code() -> None:
    project(CHUNKS, "data/episodes", [100, 64])
    told = found("accelerate", "launch", "--num_processes=8", "main.py", "--dataloader_num_workers=8")
    assert "128 worker processes" in told["note", "host-memory/oom-kill"]


def test_a_cache_in_every_worker_and_batches_ahead() -> None:
    """More than the job asks for: said with the sum, and with the patch nothing is claimed and the program runs."""
    project(CACHE, "data/transfer_cube", [40] * 6)
    told = found("train.sh")
    assert "keeps every sample it has read" in told["can", "host-memory/leak"]
    assert ("can", "host-memory/oom-kill") in told
    patched("train.sh")
    assert not [cause for level, cause in found("train.sh") if level != "note"]
    ended = started("imitate_episodes.py", "--batch_size", "2", "--num_workers", "1")
    assert ended.returncode == 0, ended.stderr


def test_only_the_task_that_is_chosen_counts_and_its_episodes_are_all_there() -> None:
    """Another task of the table is short of episodes and has a damaged one; that is none of this job's business."""
    tasks = CACHE["constants.py"].replace(
        "}\n", '    "pour": {"dataset_dir": DATA_DIR + "/pour", "num_episodes": 50, "camera_names": ["top"]},\n}\n'
    )
    project({**CACHE, "constants.py": tasks}, "data/transfer_cube", [40] * 6)
    project({}, "data/pour", [40] * 2)
    Path("data/pour/episode_1.hdf5").write_bytes(b"")
    words = ("python", "imitate_episodes.py", "--batch_size", "2", "--task_name")
    assert not [cause for level, cause in found(*words, "transfer_cube") if level != "note"]
    other = found(*words, "pour")
    assert "0 bytes" in other["can", "data/corrupt-or-missing"] or "50 episodes" in other["can", "data/corrupt-or-missing"]


def test_the_same_job_with_room_enough_is_no_finding() -> None:
    project({**CACHE, "train.sh": CACHE["train.sh"].replace("12M", "8G")}, "data/transfer_cube", [40] * 6)
    assert not [cause for level, cause in found("train.sh") if level != "note"]


HELD = {
    "data.py": """\
import glob

import h5py
import torch


class EpisodicDataset(torch.utils.data.Dataset):
    def __init__(self, dataset_dir, camera="top"):
        self.paths = sorted(glob.glob(f"{dataset_dir}/*.hdf5"))
        self.camera = camera
        self.episodes = []
        for path in self.paths:
            # everything at once: the disk is slow
            with h5py.File(path, "r") as root:
                images = root[f"/observations/images/{self.camera}"][()]
                self.episodes.append((images, root["/observations/qpos"][()], root["/action"][()]))
        print(len(self.episodes), "episodes")

    def __len__(self):
        return len(self.episodes)

    def __getitem__(self, index):
        images, qpos, action = self.episodes[index]
        start = int(torch.randint(len(action), (1,)))
        return torch.from_numpy(images[start]), torch.from_numpy(qpos[start]), torch.from_numpy(action[start])
""",
    "train.py": """\
import argparse

import torch
from torch.utils.data import DataLoader

from data import EpisodicDataset

parser = argparse.ArgumentParser()
parser.add_argument("--dataset_dir", default="episodes")
parser.add_argument("--batch_size", type=int, default=2)
args = parser.parse_args()
policy = torch.nn.Linear(14, 14)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for image, qpos, action in DataLoader(EpisodicDataset(args.dataset_dir), batch_size=args.batch_size, shuffle=True):
    loss = (policy(qpos) - action).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "train.sh": "#!/bin/bash\n#SBATCH --mem=4M\npython train.py\n",
}


def test_all_episodes_in_memory_are_more_than_the_job_may_use() -> None:
    project(HELD, "episodes", [40] * 6)
    told = found("train.sh")["will", "host-memory/oom-kill"]
    assert "reads all of its data into memory" in told
