"""Evaluation that runs out of memory goes on in smaller parts, with the result of the whole."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from crashcart.train import safe_eval_batch

pytestmark = pytest.mark.processes

PROGRAMS = Path(__file__).parent / "programs"


def program(name: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, PROGRAMS / name, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_memory_really_runs_out() -> None:
    """Halving inside the except block keeps what failed alive and dies at a single sample; ours needs one smaller try."""
    usual, ours, single = (program("short_of_memory.py", mode) for mode in ("usual", "ours", "single"))
    said = [process.communicate(timeout=90)[0] for process in (usual, ours, single)]
    assert usual.returncode == 1
    assert "can't allocate memory" in said[0]
    assert ours.returncode == 0, said[1]
    assert "calls [28, 14, 14, 14, 14]" in said[1]  # the second batch begins where the first ended
    assert said[1].count("out of memory with 28 samples, going on with 14 at a time") == 1
    assert single.returncode == 1
    assert "out of memory with 3 samples, going on with 1" in said[2]
    assert said[2].rstrip().splitlines()[-1].startswith("RuntimeError: ")


def test_ranks_go_on_together(tmp_path: Path) -> None:
    started = [program("ranks_short_of_memory.py", str(rank), str(tmp_path / "store")) for rank in (0, 1)]
    said = [process.communicate(timeout=90)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    assert "RuntimeError rank 1 failed in this evaluation" in said[0]
    assert "out of memory above (on rank 1, with " in said[0]  # its own measurements lie on a straight line
    assert "KeyError 'labels'" in said[1]


class Small:
    """A function with room for so many samples."""

    def __init__(self, room: int, result: Any) -> None:
        self.room, self.result, self.calls = room, result, []  # type: ignore[var-annotated]

    def __call__(self, batch: Any) -> Any:
        size = batch if isinstance(batch, int) else len(batch["x"])
        self.calls.append(size)
        if size > self.room:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return self.result(batch)


def test_every_size_once_in_order_and_remembered() -> None:
    small = Small(3, lambda batch: batch["x"] * 2)
    ours = safe_eval_batch(small)
    batch = {"x": torch.arange(10), "name": list("abcdefghij")}
    assert ours(batch).tolist() == list(range(0, 20, 2))
    assert small.calls == [10, 5, 2, 2, 2, 2, 2]
    assert ours.size == 2
    small.calls.clear()
    assert ours({"x": torch.arange(3)}).tolist() == [0, 2, 4]
    assert small.calls == [2, 1]
    ours.size = None
    small.room = 100
    small.calls.clear()
    ours(batch)
    assert small.calls == [10]


@pytest.mark.parametrize(
    ("result", "check"),
    [
        (lambda b: {"logits": b["x"], "pair": (b["x"], None)}, lambda r: r["pair"][0].tolist() == list(range(7))),
        (lambda b: [str(i) for i in b["x"].tolist()], lambda r: r == list("0123456")),
        (lambda b: b["x"].numpy(), lambda r: r.tolist() == list(range(7))),
        (lambda b: [{"boxes": torch.ones(int(i), 4)} for i in b["x"]], lambda r: len(r) == 7 and len(r[6]["boxes"]) == 6),
        (lambda _: None, lambda r: r is None),
    ],
)
def test_results_of_any_nesting_are_put_together(result: Any, check: Any) -> None:
    assert check(safe_eval_batch(Small(2, result))({"x": torch.arange(7)}))


def test_numbers_are_means_or_sums_as_said() -> None:
    batch = {"x": torch.arange(7.0)}
    mean = safe_eval_batch(Small(2, lambda b: {"loss": b["x"].mean(), "also": float(b["x"].mean())}), numbers="mean")(batch)
    assert [float(mean["loss"]), mean["also"]] == pytest.approx([3.0, 3.0])
    assert safe_eval_batch(Small(2, lambda b: int(b["x"].sum())), numbers="sum")(batch) == 21


def test_what_cannot_be_joined_is_told_while_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    small = Small(100, lambda b: b["x"].mean())
    ours = safe_eval_batch(small)
    with caplog.at_level(logging.WARNING, "crashcart.train"):
        assert float(ours({"x": torch.arange(4.0)})) == 1.5
        ours({"x": torch.arange(4.0)})
    assert caplog.text.count("a single number for the whole batch: say numbers='mean'") == 1
    small.room = 2
    with pytest.raises(TypeError, match="say numbers='mean'"):
        ours({"x": torch.arange(4.0)})
    own = safe_eval_batch(Small(2, lambda b: b["x"].mean()), join=lambda parts: [float(part) for part in parts])
    assert own({"x": torch.arange(4.0)}) == [0.5, 2.5]


def test_sampling_takes_a_number() -> None:
    sample = safe_eval_batch(Small(30, lambda count: torch.zeros(count, 3)))
    assert sample(64).shape == (64, 3)
    assert sample.size == 16


def test_as_a_decorator_with_other_arguments_and_without_gradients() -> None:
    model = nn.Linear(2, 2)

    @safe_eval_batch(largest=2)  # type: ignore[untyped-decorator]
    def evaluate(batch: torch.Tensor, scale: float, *, shift: float = 0.0) -> torch.Tensor:
        """What it does."""
        assert not torch.is_grad_enabled()
        return model(batch) * scale + shift  # type: ignore[no-any-return]

    result = evaluate(torch.ones(5, 2), 2.0, shift=1.0)
    assert not result.requires_grad
    torch.testing.assert_close(result, model(torch.ones(5, 2)).detach() * 2 + 1)
    assert evaluate.__doc__ == "What it does."
    assert safe_eval_batch(model)(torch.ones(5, 2)).shape == (5, 2)


@pytest.mark.parametrize("error", [RuntimeError("shape mismatch"), ValueError("x"), KeyboardInterrupt()])
def test_other_errors_pass_untouched(error: BaseException) -> None:
    calls = []

    def breaks(_batch: Any) -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)) as caught:
        safe_eval_batch(breaks)(torch.ones(4))
    assert caught.value is error
    assert caught.traceback[-1].name == "breaks"
    assert calls == [1]


def test_nothing_of_the_failed_try_is_held_when_the_next_begins() -> None:
    held: list[weakref.ref[torch.Tensor]] = []

    def evaluate(batch: torch.Tensor) -> torch.Tensor:
        gc.disable()
        assert all(each() is None for each in held)
        activations = torch.ones(len(batch), 10)
        held.append(weakref.ref(activations))
        if len(batch) > 2:
            raise RuntimeError("CUDA out of memory.") from ValueError("inner")
        return batch

    assert len(safe_eval_batch(evaluate)(torch.arange(8))) == 8
    gc.enable()


def test_batches_that_cannot_be_split_still_run(caplog: pytest.LogCaptureFixture) -> None:
    ours = safe_eval_batch(lambda batch: batch)
    assert ours("text") == "text"
    assert "could not be split if memory ran out" in caplog.text
    assert ours(torch.ones(0, 3)).shape == (0, 3)
    batch = {"x": np.ones(3), "size": [1, 2]}
    assert len(safe_eval_batch(lambda b: b["x"] * len(b["size"]), largest=2, shared="size")(batch)) == 3


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match="'mean' or 'sum'"):
        safe_eval_batch(print, numbers="max")
    with pytest.raises(TypeError, match="takes no batch_size"):
        safe_eval_batch(print, batch_size=3)
    with pytest.raises(ValueError, match="at least 1"):
        safe_eval_batch(print, largest=0)
