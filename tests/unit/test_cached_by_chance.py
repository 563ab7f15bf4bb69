"""A cache without a bound whose keys are drawn keeps every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crashcart.readers.plan import Asked, plans

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import functools
import random

import numpy as np
import torch

rng = np.random.default_rng(0)
image = np.zeros((512, 512), np.float32)


@functools.lru_cache(maxsize=LIMIT)
def tile(y):
    return np.ascontiguousarray(image[y : y + 96])


model = torch.nn.Linear(96, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000):
    optimizer.zero_grad()
    model(torch.from_numpy(tile(KEY))).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("limit", "key", "grows"),
    [
        ("None", "int(rng.integers(400))", True),
        ("None", "random.randrange(400)", True),
        ("None", "random.Random(1).randint(0, 400)", True),
        ("64", "random.randrange(400)", False),
        ("None", "0", False),
    ],
)
def test_what_chance_asks_for_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, key: str, *, grows: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM.replace("LIMIT", limit).replace("KEY", key))
    kept = plans(Asked(["python", "train.py"]))[0].case.all("code.grows")
    assert [(fact.value["holder"], fact.evidence.where) for fact in kept] == (
        [("the cache of tile", "train.py:12")] if grows else []
    )
    assert all(edit.text == "functools.lru_cache(maxsize=4)" for fact in kept for edit in fact.value["edits"])
