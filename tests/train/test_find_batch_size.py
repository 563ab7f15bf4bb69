"""The batch size is measured, confirmed, agreed on by all ranks, and leaves nothing behind."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from crashcart.train import find_batch_size

pytestmark = pytest.mark.processes

PROGRAMS = Path(__file__).parent / "programs"


class Job:
    """A step that takes so much memory, and a meter that reads it; memory runs out above `room`."""

    def __init__(self, memory: Any, room: float = 1e9) -> None:
        self.memory, self.room, self.sizes = memory, room, []  # type: ignore[var-annotated]

    def step(self, samples: int) -> None:
        self.sizes.append(samples)
        if self.memory(samples) > self.room:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    def measure(self, work: Any) -> float:
        work()
        return float(self.memory(self.sizes[-1]))

    def find(self, **options: Any) -> Any:
        return find_batch_size(self.step, **{"measure": self.measure, "limit": 1000.0, "margin": 0.0, **options})


def test_two_probes_a_line_and_one_step() -> None:
    job = Job(lambda n: 100 + 9 * n)
    found = job.find()
    assert found == 100
    assert job.memory(found) <= 1000 < job.memory(found + 1)
    assert job.sizes[:3] == [1, 1, 2]
    assert job.sizes[-1] == 100
    assert len(job.sizes) <= 7
    assert "9" in found.report()
    assert found.line.each == pytest.approx(9)
    assert pickle.loads(pickle.dumps(found)) == 100  # noqa: S301 - our own


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"multiple_of": 8}, 96),
        ({"highest": 50}, 50),
        ({"highest": 50, "multiple_of": 16}, 48),
        ({"lowest": 60}, 100),
        ({"margin": 0.1}, 88),
        ({"lowest": 3, "highest": 3}, 3),
        ({"highest": 1}, 1),
    ],
)
def test_limits(options: dict[str, Any], answer: int) -> None:
    job = Job(lambda n: 100 + 9 * n)
    assert job.find(**options) == answer
    assert max(job.sizes) <= options.get("highest", 128)
    assert all(size % options.get("multiple_of", 1) == 0 for size in job.sizes)


def test_a_peak_that_is_first_the_optimizers() -> None:
    """Small batches disappear under the optimizer's own step: a line through those would promise far too much."""
    job = Job(lambda n: max(300, 100 + 9 * n))
    assert job.find() == 100
    assert max(map(job.memory, job.sizes)) <= 1100


def test_out_of_memory_in_a_probe_is_knowledge() -> None:
    job = Job(lambda n: 100 + 9 * n, room=700)  # less than was said to be there
    found = job.find(limit=1000.0)
    assert 40 <= found <= 66
    assert Job(lambda n: 400 * n, room=500).find(limit=500.0) == 1


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        (lambda n: 100 + n * n, "straight line"),
        (lambda n: 100 + 10 * min(n, 30), "did not grow|straight line"),
        (lambda _: 100, "does step_fn use its argument"),
        (lambda n: 2000 * n, "a step of 1 samples does not fit"),
    ],
)
def test_never_a_guess(memory: Any, told: str) -> None:
    with pytest.raises(RuntimeError, match=told):
        Job(memory, room=1500).find()


def test_a_first_size_within_the_margin_is_told() -> None:
    with pytest.warns(UserWarning, match="less than the margin is left"):
        assert Job(lambda n: 980 * n, room=1000).find(margin=0.1) == 1


def test_other_errors_and_wrong_settings() -> None:
    with pytest.raises(ZeroDivisionError):
        find_batch_size(lambda n: n / 0, measure=lambda work: float(bool(work())), limit=1)
    for wrong in ({"lowest": 9, "highest": 8}, {"multiple_of": 16, "highest": 8}, {"margin": 1.0}, {"limit": None}):
        with pytest.raises(ValueError, match=r"lies between|margin is|needs limit="):
            Job(lambda n: n).find(**wrong)
    with pytest.raises(TypeError, match="restore= takes"):
        Job(lambda n: n).find(restore=[3])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes before Python 3.11")
def test_a_step_that_takes_no_single_sample_is_told_where_to_begin() -> None:
    model = torch.nn.BatchNorm1d(4)
    with pytest.raises(ValueError, match="more than 1 value per channel") as caught:
        find_batch_size(lambda samples: model(torch.ones(samples, 4)))
    assert getattr(caught.value, "__notes__", None) == [
        "find_batch_size began with a step of 1 sample; where it takes more, say lowest=2"
    ]


def test_one_thing_to_restore_needs_no_list() -> None:
    model = nn.Linear(2, 2)
    before = model.weight.detach().clone()

    def step(_samples: int) -> None:
        with torch.no_grad():
            model.weight.zero_()

    find_batch_size(step, highest=2, limit=1e12, measure=lambda work: float(work() is None), restore=model)
    assert torch.equal(model.weight, before)


def test_everything_is_as_it_was() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    parameters = list(model.parameters())
    randoms: Any = (random.getstate()[1], torch.get_rng_state(), np.random.get_state()[1])  # type: ignore[index]  # noqa: NPY002 - the state jobs use
    sizes: list[int] = []

    def step(samples: int) -> None:
        sizes.append(samples)
        model.train()
        model(torch.randn(samples + 1, 4)).sum().backward()
        optimizer.step()
        schedule.step()
        random.random()
        np.random.rand()  # noqa: NPY002
        if samples > 5:
            model.eval()

    model[2].eval()
    for error in (None, KeyboardInterrupt):

        def measure(work: Any, error: Any = error) -> float:
            work()
            if error and len(sizes) > 2:
                raise error
            return 10.0 + sizes[-1]

        sizes.clear()
        try:
            assert find_batch_size(step, measure=measure, limit=100.0, restore=[model, optimizer, schedule]) == 80
        except KeyboardInterrupt:
            assert error is KeyboardInterrupt
        torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
        assert all(one is other for one, other in zip(model.parameters(), parameters, strict=True))
        assert all(parameter.grad is None for parameter in parameters)
        assert not optimizer.state
        assert optimizer.param_groups[0]["lr"] == 1e-3
        assert [model[0].training, model[2].training] == [True, False]
        assert random.getstate()[1] == randoms[0]
        assert torch.equal(torch.get_rng_state(), randoms[1])
        assert (np.random.get_state()[1] == randoms[2]).all()  # type: ignore[index]  # noqa: NPY002


def test_the_memory_of_a_real_process_under_a_limit() -> None:
    """8 MiB a sample, 1015 MiB left, a margin of a tenth of all: about 110 samples, and the process lives."""
    command: list[str | Path] = [sys.executable, PROGRAMS / "short_of_memory.py", "find"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert 90 <= int(done.stdout.split()[0]) <= 122, done.stdout
    assert "8.0" in done.stdout


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu_beside_what_others_hold() -> None:
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(samples: int) -> None:
        model(torch.randn(samples, 2048, device="cuda")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    limit = 4 << 30
    found = find_batch_size(step, restore=[model, optimizer], limit=limit, lowest=64, multiple_of=64)
    assert torch.cuda.memory_allocated() <= before[0]  # less where a test before left garbage
    assert torch.cuda.memory_reserved() <= before[1] + (32 << 20)
    torch.cuda.reset_peak_memory_stats()
    step(int(found))
    assert 0.75 * limit < torch.cuda.max_memory_allocated() < limit
    print(found.report())  # noqa: T201 - read by whoever runs this


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu_up_to_its_end() -> None:
    """Half a GiB a sample against all that is free; the largest batch really runs."""

    def step(samples: int) -> None:
        torch.ones(samples, 512 << 20, dtype=torch.uint8, device="cuda").add_(1)

    found = find_batch_size(step)
    free, _ = torch.cuda.mem_get_info()
    assert 0.8 * free < int(found) * (512 << 20) < free
