"""Logging a value that the GPU has not computed yet: the caller does not wait for it, and it is what it was then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from crashcart.train import nonblocking

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


class Tracker:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def log(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


@pytest.mark.parametrize("side", [False, True], ids=["default stream", "side stream"])
def test_a_log_call_does_not_wait_for_the_gpu(tmp_path: Path, side: bool) -> None:  # noqa: FBT001 - a case of the test
    inner = Tracker()
    tracker = nonblocking(inner, tmp_path, exit_seconds=30)
    value, image = torch.ones((), device="cuda"), torch.zeros(100, device="cuda")
    tracker.log({"loss": value})
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream() if side else torch.cuda.current_stream()):  # type: ignore[no-untyped-call]
        torch.cuda._sleep(2_000_000_000)  # type: ignore[no-untyped-call]  # about a second
        value += 1
        image += 1
        begin = time.perf_counter()
        tracker.log({"loss": value, "image": image})
        took = time.perf_counter() - begin
        value.fill_(-1)
        image.fill_(-1)
    assert took < 0.1
    tracker.close()
    assert inner.rows[0] == {"loss": 1.0}
    assert inner.rows[1]["loss"] == 2.0
    assert inner.rows[1]["image"].tolist() == [1.0] * 100
    assert tracker.counts["failed"] == 0
