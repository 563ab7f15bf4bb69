"""Batches are split without an empty chunk and without a lost sample, and the weighted mean is the mean."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from crashcart.train import chunks

pytestmark = pytest.mark.processes

PROGRAMS = Path(__file__).parent / "programs"
Pair = namedtuple("Pair", ["image", "label"])  # noqa: PYI024 - as older code writes it


def usual(batch: dict[str, torch.Tensor], n: int) -> list[dict[str, torch.Tensor]]:
    """As in VGGT's trainer, with the assertion that is commented out there."""
    size = len(batch["x"]) // n
    return [{key: value[i * size : (i + 1) * size] for key, value in batch.items()} for i in range(n)]


@pytest.mark.parametrize(("samples", "n"), [(1, 2), (3, 4), (5, 2), (7, 4), (8, 4), (1, 1), (64, 7)])
def test_every_sample_once_and_no_empty_chunk(samples: int, n: int) -> None:
    batch = {"x": torch.arange(samples), "name": [str(i) for i in range(samples)]}
    parts = chunks(batch, n)
    assert torch.cat([part["x"] for part, _ in parts]).tolist() == list(range(samples))
    assert [name for part, _ in parts for name in part["name"]] == batch["name"]
    assert len(parts) == min(n, samples)
    assert parts.sizes == [len(part["x"]) for part, _ in parts]
    assert max(parts.sizes) - min(parts.sizes) <= 1
    assert sum(weight for _, weight in parts) == pytest.approx(1, abs=1e-12)


def test_the_usual_slices_lose_samples_and_give_nan() -> None:
    empty = [part["x"].numel() for part in usual({"x": torch.ones(3)}, 4)]
    assert empty == [0, 0, 0, 0]
    assert torch.ones(3)[:0].mean().isnan()
    assert sum(len(part["x"]) for part in usual({"x": torch.ones(7)}, 4)) == 4


@pytest.mark.parametrize("n", [2, 3, 4, 7, 100])
def test_accumulation_gives_the_gradients_of_one_big_batch(n: int) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(7, 5, dtype=torch.float64), torch.randn(7, 1, dtype=torch.float64)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).double()

    def gradients(parts: Any) -> list[torch.Tensor]:
        model.zero_grad()
        for part, weight in parts:
            (nn.functional.mse_loss(model(part["x"]), part["y"]) * weight).backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    whole = gradients([({"x": x, "y": y}, 1.0)])
    torch.testing.assert_close(gradients(chunks({"x": x, "y": y}, n)), whole, rtol=1e-12, atol=1e-12)
    split = list(zip(x.tensor_split(n), y.tensor_split(n), strict=True))
    means = gradients([({"x": a, "y": b}, 1 / n) for a, b in split])  # the usual 1/n
    assert n == 7 or not torch.allclose(means[0], whole[0], rtol=1e-6)


def test_views_and_not_copies() -> None:
    batch: dict[str, Any] = {"x": torch.zeros(5, 3), "a": np.zeros((5, 2)), "w": torch.zeros(5, 3, requires_grad=True)}
    parts = list(chunks(batch, 2))
    parts[1].batch["x"].fill_(1)
    parts[1].batch["a"][:] = 1
    assert batch["x"].sum() == 6
    assert batch["a"].sum() == 4
    parts[0].batch["w"].sum().backward()
    assert batch["w"].grad.sum() == 9
    assert chunks(batch, 1)[0].batch is batch


@dataclass(frozen=True)
class Sample:
    x: torch.Tensor
    meta: dict[str, Any]
    count: int = field(init=False, default=3)


def test_every_kind_of_nesting_keeps_its_kind() -> None:
    x = torch.arange(5)
    batch = OrderedDict(
        pair=Pair(x, list("abcde")),
        plain=(x, [x, x + 1]),
        record=Sample(x, {"ids": tuple(range(5)), "none": None}),
        text="whole",
        flag=True,
        rate=torch.tensor(0.5),
        number=np.float32(2),
        where=torch.device("cpu"),
        position=torch.zeros(1, 9),
        range=range(5),
        nothing=[],
    )
    first, second = (part for part, _ in chunks(batch, 2))
    assert type(first) is OrderedDict
    assert type(first["pair"]) is Pair
    assert first["pair"].label == ["a", "b", "c"]
    assert second["plain"][1][1].tolist() == [4, 5]
    assert type(first["plain"]) is tuple
    assert first["record"].x.tolist() == [0, 1, 2]
    assert first["record"].count == 3
    assert second["record"].meta == {"ids": (3, 4), "none": None}
    assert second["range"] == range(3, 5)
    for shared in ("text", "flag", "rate", "number", "where", "position", "nothing"):
        assert second[shared] is batch[shared]
    assert batch["record"].x.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("bare", [torch.arange(5), np.arange(5), list("abcde"), (torch.arange(5), torch.arange(5))])
def test_a_batch_needs_no_dict(bare: Any) -> None:
    assert chunks(bare, 2).sizes == [3, 2]


def test_mappings_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_outputs import BaseModelOutput

    for kind in (transformers.BatchEncoding, transformers.BatchFeature):
        first = chunks(kind({"input_ids": torch.arange(10).view(5, 2)}), 2)[0].batch
        assert type(first) is kind
        assert first["input_ids"].tolist() == [[0, 1], [2, 3], [4, 5]]
        assert first.input_ids.shape == (3, 2)
    hidden: Any = (torch.ones(3, 1), torch.zeros(3, 1))
    output = BaseModelOutput(last_hidden_state=torch.ones(3, 2), hidden_states=hidden)
    last = chunks(output, 2)[1].batch
    assert last.last_hidden_state.shape == (1, 2)
    assert last.hidden_states[1].shape == (1, 1)


@pytest.mark.parametrize("boxes", [(1, 2, 3), (3, 3, 3), (1, 1, 1)])
@pytest.mark.parametrize("kind", [list, tuple])
def test_detection_batches_are_lists_of_samples(boxes: tuple[int, ...], kind: type) -> None:
    """Three pictures of three channels with three boxes each: the lengths alone would also allow to split the channels."""
    images = kind(torch.full((3, 4, 5 + i), i) for i in range(3))
    targets = kind({"boxes": torch.zeros(count, 4), "labels": torch.zeros(count)} for count in boxes)
    for batch in ((images, targets), [images, targets]):
        first, second = (part for part, _ in chunks(batch, 2))
        assert [picture.shape[0] for picture in first[0]] == [3, 3]
        assert (len(second[0]), len(second[1])) == (1, 1)
        assert int(second[0][0].max()) == 2


@pytest.mark.parametrize("samples", [2, 3])
def test_pairs_of_views_stay_pairs(samples: int) -> None:
    """Two views of two samples, as default_collate nests them."""
    batch = [[torch.zeros(samples, 4), torch.ones(samples, 4)], torch.arange(samples)]
    assert [[view.shape for view in part[0]] for part, _ in chunks(batch, samples)] == [[(1, 4), (1, 4)]] * samples


def test_lists_of_tokens_are_samples() -> None:
    part = chunks({"input_ids": [[1, 2], [3, 4]], "label": [0, 1]}, 2)[1].batch
    assert part == {"input_ids": [[3, 4]], "label": [1]}
    uncollated = [{"input_ids": [1, 2, 3]}, {"input_ids": [4, 5, 6]}]
    assert chunks(uncollated, 2)[0].batch == uncollated[:1]


@pytest.mark.parametrize("one", [torch.zeros, lambda n: {"x": torch.zeros(n)}, lambda n: [0] * n])
def test_a_sample_as_long_as_the_list_does_not_make_it_fields(one: Any) -> None:
    batch = [one(5 + number) for number in range(8)]  # the fourth sample has eight steps, by chance
    assert [sample for part, _ in chunks(batch, 4) for sample in part] == batch
    assert [len(part) for part, _ in chunks(batch, 4)] == [2, 2, 2, 2]


def test_other_dimensions() -> None:
    time_first = {"x": torch.zeros(9, 4, 2), "labels": torch.arange(4)}
    assert [part["x"].shape[1] for part, _ in chunks(time_first, 3, dim={"x": 1})] == [2, 1, 1]
    assert chunks(torch.zeros(9, 4), 2, dim=-1)[0].batch.shape == (9, 2)
    with pytest.raises(ValueError, match=r"labels of shape \(4,\) has no dimension 1"):
        chunks(time_first, 3, dim=1)


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ({"x": torch.ones(8), "y": torch.ones(7)}, "x has 8, y has 7"),
        ({"x": torch.ones(8, 2), "size": [224, 224]}, "size has 2"),
        ({"images": [torch.ones(3, 2)] * 4}, "read as 3 or 4 samples"),
        ({"a": 1, "b": None}, "no tensor, array or list"),
        ("text", "no tensor, array or list"),
        (torch.tensor(3.0), "no tensor, array or list"),
    ],
)
def test_what_is_ambiguous_is_refused_by_name(batch: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        chunks(batch, 2)


def test_size_shared_and_per_sample_settle_it() -> None:
    batch = {"x": torch.ones(2, 2), "size": [224, 448], "images": [torch.ones(3, 2)] * 3}
    assert chunks(batch, 2, size=2, shared=["size"])[0].batch["size"] == [224, 448]
    assert chunks(batch, 2, size=2)[1].batch["images"] == batch["images"]
    pictures = {"images": [torch.ones(3, 2)] * 3, "name": ["a", "b", "c"]}
    assert chunks(pictures, 3, per_sample="images")[0].batch["images"][0].shape == (3, 2)
    with pytest.raises(ValueError, match="nothing in the batch has length 5"):
        chunks(batch, 2, size=5)
    with pytest.raises(ValueError, match="has no 'sizes'; it has x, size"):
        chunks(batch, 2, shared=["sizes"])


class Instances:
    def __init__(self) -> None:
        self.boxes = torch.ones(4, 4)


@pytest.mark.parametrize(
    "ragged",
    [
        pack_sequence([torch.ones(3), torch.ones(2)]),
        torch.nested.nested_tensor([torch.ones(3), torch.ones(2)]),
        torch.eye(4).to_sparse(),
        {1, 2, 3, 4},
        Instances(),
    ],
    ids=["packed", "nested", "sparse", "set", "object"],
)
def test_what_has_no_samples_side_by_side_is_refused(ragged: Any) -> None:
    with pytest.raises(TypeError, match=r"field is a .*shared="):
        chunks({"x": torch.ones(4), "field": ragged}, 2)
    assert chunks({"x": torch.ones(4), "field": ragged}, 2, shared=["field"])[0].batch["field"] is ragged
    with pytest.raises(TypeError):
        chunks(ragged, 2)


def test_empty_batches_and_bad_counts() -> None:
    assert list(chunks({"x": torch.ones(0, 3)}, 4)) == []
    assert list(chunks([], 4)) == []
    assert chunks(torch.ones(4), np.int64(2)).sizes == [2, 2]
    for bad in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            chunks(torch.ones(4), bad)
    with pytest.raises(TypeError):
        chunks(torch.ones(4), 2.0)  # type: ignore[arg-type]


def test_chunks_can_be_counted_indexed_and_pickled() -> None:
    parts = chunks({"x": torch.arange(7)}, 3)
    assert [len(parts), parts.samples, repr(parts)] == [3, 7, "<3 chunks of 7 samples: [3, 2, 2]>"]
    assert parts[-1].batch["x"].tolist() == [5, 6]
    assert [part.weight for part in parts[1:]] == [2 / 7, 2 / 7]
    assert pickle.loads(pickle.dumps(parts))[0].batch["x"].tolist() == [0, 1, 2]  # noqa: S301 - our own


def ranks(tmp_path: Path, mode: str) -> list[tuple[int, str]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, PROGRAMS / "unequal_ranks.py", str(rank), tmp_path / "store", mode],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in (0, 1)
    ]
    return [(process.wait(90), process.communicate()[0]) for process in started]


def test_ranks_with_unequal_batches_enter_collectives_equally_often(tmp_path: Path) -> None:
    """Five backwards here and two there pair with nobody; two each give the mean over all seven samples."""
    for mode in ("usual", "ours"):
        (tmp_path / mode).mkdir()
    assert any(code != 0 for code, _ in ranks(tmp_path / "usual", "usual"))
    ours = ranks(tmp_path / "ours", "ours")
    assert [code for code, _ in ours] == [0, 0], ours
    assert ["chunks of [3, 2]" in ours[0][1], "chunks of [1, 1]" in ours[1][1]] == [True, True], ours


def test_a_batch_that_cannot_be_split_raises_on_every_rank(tmp_path: Path) -> None:
    (first, said), (second, also) = ranks(tmp_path, "broken")
    assert (first, second) == (3, 3)
    assert "rank 1 could not split its batch" in said
    assert "x has 2, y has 3" in also


def test_a_single_number_of_any_kind_goes_whole_into_each_part() -> None:
    singles = {
        "zero": np.array(3),
        "scalar": np.float32(2),
        "tensor": torch.tensor(1.0),
        "date": np.datetime64("2026-01-01"),
    }
    parts = [part for part, _ in chunks({"x": torch.arange(4), **singles}, 2)]
    assert [part["x"].tolist() for part in parts] == [[0, 1], [2, 3]]
    assert all(part[name] is singles[name] for part in parts for name in singles)
