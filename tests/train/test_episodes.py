"""Which chunk of which episode, without a list that every worker copies and without losing an episode."""

from __future__ import annotations

import importlib.util
import os
import pickle
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from crashcart.train import chunk_index

PROGRAM = Path(__file__).parent / "programs" / "index_growth.py"
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "episodes.py"


def growth(kind: str, start: str) -> list[int]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), kind, start]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=True)
    return [int(word) for word in done.stdout.split()]


def test_the_usual_list_grows_in_each_worker_and_the_index_does_not() -> None:
    """Twenty epochs, each over some samples of 400,000: tuples are copied page by page as they are looked at."""
    usual, ours = growth("usual", "fork"), growth("ours", "fork")
    assert usual[-1] - usual[0] > 10_000_000
    assert ours[-1] - ours[0] < 2_000_000


def test_it_is_the_usual_list_where_every_episode_is_long_enough() -> None:
    draw = random.Random(0)
    for _ in range(200):
        chunk, stride = draw.randint(1, 9), draw.randint(1, 5)
        lengths = [draw.randint(chunk, 30) for _ in range(draw.randint(1, 8))]
        usual = [(n, start, chunk) for n, length in enumerate(lengths) for start in range(0, length - chunk + 1, stride)]
        index = chunk_index(lengths, chunk, stride=stride)
        assert list(index) == usual
        assert len(index) == len(usual)
        assert index[-1] == usual[-1]
        assert index[1:7:2] == usual[1:7:2]


def test_short_episodes_are_padded_and_none_is_lost() -> None:
    usual = [(n, start) for n, length in enumerate([5, 2, 9]) for start in range(max(0, length - 4 + 1))]
    assert {episode for episode, _ in usual} == {0, 2}  # the second is gone without a word
    index = chunk_index([5, 2, 9], 4)
    assert [tuple(one) for one in index] == [(0, 0, 4), (0, 1, 4), (1, 0, 2), *[(2, start, 4) for start in range(6)]]


def test_tails_begin_at_every_step() -> None:
    assert [tuple(one) for one in chunk_index([3, 1], 2, tails=True)] == [(0, 0, 2), (0, 1, 2), (0, 2, 1), (1, 0, 1)]
    assert [tuple(one) for one in chunk_index([7], 3, stride=3, tails=True)] == [(0, 0, 3), (0, 3, 3), (0, 6, 1)]


def test_what_is_left_out_is_told_once() -> None:
    with pytest.warns(
        UserWarning, match=r"2 of 3 episodes have fewer than 4 steps \(number 0, 2\): they give no sample"
    ) as told:
        index = chunk_index([3, 8, 1], 4, short="drop")
    assert len(told) == 1
    assert {one.episode for one in index} == {1}
    with pytest.raises(ValueError, match=r"2 of 3 episodes have fewer than 4 steps \(number 0, 2\); take a shorter chunk"):
        chunk_index([3, 8, 1], 4, short="error")
    with pytest.warns(UserWarning, match=r"1 of 2 episodes have fewer than 1 steps"):
        assert len(chunk_index([0, 3], 2)) == 2
    with pytest.warns(UserWarning, match=r"20 of 21 episodes .*0, 1, 2, 3, 4, \.\.\."):
        chunk_index([1] * 20 + [5], 2, short="drop")


def test_no_sample_at_all_is_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for lengths in ([], [0, 0], [3, 2]):
            with pytest.raises(ValueError, match="There is no sample"):
                chunk_index(lengths, 4, short="drop")


@pytest.mark.parametrize(
    ("lengths", "chunk", "more"),
    [([3], 0, {}), ([3], 2, {"stride": 0}), ([-1], 2, {}), ([2.5], 2, {}), (["3"], 2, {}), ([3], 2, {"short": "skip"})],
)
def test_wrong_numbers_are_refused(lengths: Any, chunk: int, more: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        chunk_index(lengths, chunk, **more)


def test_indices_are_those_of_a_list() -> None:
    index = chunk_index(torch.tensor([4, 4]), 2)
    assert index[torch.tensor(3)] == index[3] == (1, 0, 2)  # type: ignore[call-overload]
    for number in (6, -7):
        with pytest.raises(IndexError):
            index[number]
    assert repr(index) == "ChunkIndex(6 chunks of 2 from 2 episodes)"


def test_it_pickles_into_shared_memory() -> None:
    """A spawned worker maps the same pages; what it maps may be pickled on."""
    index = chunk_index(range(3, 40), 3)
    once = pickle.loads(pickle.dumps(index))  # noqa: S301 - our own bytes
    assert list(pickle.loads(pickle.dumps(once))) == list(once) == list(index)  # noqa: S301 - our own bytes
    assert index._shared is not None


def test_memory_does_not_depend_on_the_samples() -> None:
    assert len(chunk_index([10**12, 5], 4)) == 10**12 + -3 + 2


@pytest.mark.filterwarnings("ignore:This DataLoader will create 8")
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_the_documented_data_set(tmp_path: Path, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty lines over the two pieces: every step of every episode begins a chunk, and the mask says what is padding."""
    h5py = pytest.importorskip("h5py")
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    specification = importlib.util.spec_from_file_location("episodes", EXAMPLE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "episodes", module)
    specification.loader.exec_module(module)
    lengths, paths = [5, 2, 12], []
    for number, length in enumerate(lengths):
        paths.append(str(tmp_path / f"episode_{number}.hdf5"))
        with h5py.File(paths[-1], "w") as file:
            steps = (torch.arange(length) + 100 * number).numpy()
            file["action"] = (steps[:, None] + [0.0, 0.5]).astype("f4")
            file["observations/qpos"] = steps[:, None].astype("f4")
            file["observations/images/top"] = steps[:, None, None, None].repeat(3, axis=3).astype("u1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    workers = 8 if start == "fork" else 2
    loader = DataLoader(
        module.Episodes(paths, chunk=4), batch_size=2, num_workers=workers, multiprocessing_context=start, timeout=100
    )
    seen = []
    for batch in loader:
        for qpos, image, action, is_pad in zip(batch["qpos"], batch["image"], batch["action"], batch["is_pad"], strict=True):
            first = int(qpos[0])
            seen.append(first)
            valid = min(4, lengths[first // 100] - first % 100)
            assert is_pad.tolist() == [False] * valid + [True] * (4 - valid)
            assert action[:valid, 0].tolist() == [first + step for step in range(valid)]
            assert not action[valid:].any()
            assert int(image.max()) == first % 256
    assert seen == [100 * number + step for number, length in enumerate(lengths) for step in range(length)]


def test_the_page_shows_the_example_as_it_is() -> None:
    page = (EXAMPLE.parent.parent / "docs" / "train.md").read_text(encoding="utf-8")
    example = EXAMPLE.read_text(encoding="utf-8")
    assert example[example.index("class Episodes") :] in page
