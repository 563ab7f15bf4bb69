"""Device memory, Xids and shared memory in a recording: one verdict each, from numbers that the processes and the driver gave."""

from __future__ import annotations

from typing import Any

import pytest

from crashcart.case import Case
from crashcart.causes.host_memory._recorded import climb
from crashcart.engine import examine
from crashcart.flight import Event, Flight, Process
from crashcart.inside.layout import FIELDS, PHASES
from crashcart.recording.tables import GPU, HOST

GIB = 1 << 30
NAN = float("nan")
PID, CARD, END = 100, 80 * GIB, 100.0


def page(steps: int, allocated: float, phase: str = "train", elements: int = 1000) -> list[float]:
    known: dict[str, float] = {
        "pid": PID, "steps": steps, "allocated": allocated, "phase": PHASES.index(phase), "largest_elements": elements, "rank": 0,
    }  # fmt: skip
    return [known.get(name, NAN) for name in FIELDS]


def card(ours: float, others: float) -> list[float]:
    known = {"index": 0.0, "used": ours + others, "total": float(CARD), "ours": ours, "others": others}
    return [known.get(name, NAN) for name in GPU]


def flight(oom: dict[str, Any], *, others: float = 0.0, grows: float = 0.0, code: int = 1) -> Flight:
    """One rank that trains for 100 seconds and then runs out of device memory."""
    told = {
        "device": 0, "tried": 2 * GIB, "total": CARD, "free": GIB, "phase": "train", "step": 200, "allocated": 76 * GIB,
        "reserved": 77 * GIB, "batch_elements": 1000, "largest_elements": 1000, **oom,
    }  # fmt: skip
    error = {
        "type": "torch.OutOfMemoryError",
        "message": "CUDA out of memory.",
        "phase": told["phase"],
        "thread": "MainThread",
    }
    samples = [
        (float(second), {"page": [page(2 * second, 40 * GIB + grows * second)], "gpu": [card(77.0 * GIB, others)]})
        for second in range(1, 100)
    ]
    return Flight(
        ending={"code": code},
        events=[
            Event(END, "oom", told, PID, 0),
            Event(END + 0.1, "exception", error, PID, 0),
            Event(END + 0.5, "gone", {"pid": PID, "code": 1}),
        ],
        processes={PID: Process(PID, "rank", 0, born=0.0, page={"steps": 200.0}, reached=True)},
        columns={"page": list(FIELDS), "gpu": list(GPU), "host": list(HOST)},
        samples=samples,
    )


@pytest.mark.parametrize(
    ("oom", "more", "cause", "says"),
    [
        ({"phase": "evaluate"}, {}, "gpu-memory/eval-or-sample", "during evaluation with 76.0 GiB allocated"),
        ({"phase": "sample"}, {}, "gpu-memory/eval-or-sample", "during sampling"),
        ({"phase": "checkpoint"}, {}, "gpu-memory/checkpoint", "while the process wrote a checkpoint"),
        ({"phase": "load"}, {}, "gpu-memory/checkpoint", "while the process loaded a checkpoint"),
        ({"phase": "sample"}, {"others": 78.0 * GIB}, "gpu-memory/other-process", "other processes hold 78.0 GiB on GPU 0"),
        ({"allocated": 50 * GIB}, {}, "gpu-memory/fragmentation", "27.0 GiB were reserved by PyTorch but unused"),
        ({}, {"grows": GIB / 3}, "gpu-memory/leak", "allocated memory rose from"),
        ({"batch_elements": 9000}, {}, "gpu-memory/outlier-batch", "9000 elements; the largest before it had 1000"),
        ({}, {}, "gpu-memory/train-step", "during training with 76.0 GiB allocated, and it asked for 2.0 GiB more"),
    ],
)
def test_phase_holder_pool_growth_and_batch_decide(oom: dict[str, Any], more: dict[str, Any], cause: str, says: str) -> None:
    diagnosis = examine(Case(flight=flight(oom, **more)))
    assert diagnosis.findings[0].cause == cause
    assert diagnosis.findings[0].level == "did"
    assert says in diagnosis.findings[0].signs[0].says


def test_an_allocation_that_failed_and_was_got_over_is_no_death() -> None:
    recorded = flight({}, code=0)
    recorded.events = [event for event in recorded.events if event.kind == "oom"]
    assert examine(Case(flight=recorded)).findings == ()


@pytest.mark.parametrize(
    ("number", "strength", "role"), [(79, "decisive", "cause"), (31, "weak", None), (74, None, None), (63, None, None)]
)
def test_xids_that_the_driver_reported(number: int, strength: str | None, role: str | None) -> None:
    recorded = Flight(ending={"code": 1}, events=[Event(END, "xid", {"card": 2, "number": number})])
    found = [one for one in examine(Case(flight=recorded)).findings if one.cause == "hardware/gpu-fault"]
    assert [one.strength for one in found] == ([strength] if strength else [])
    if role:
        assert found[0].role == role
        assert f"Xid {number} on GPU 2" in found[0].signs[0].says


def bus_error(free: float) -> Flight:
    host = {"shm_used": float(GIB), "shm_free": free}
    row = [host.get(name, NAN) for name in HOST]
    return Flight(
        ending={"code": 1},
        events=[Event(END, "gone", {"pid": PID + 1, "signal": "SIGBUS"})],
        processes={
            PID: Process(PID, "rank", 3, born=0.0),
            PID + 1: Process(PID + 1, "loader worker", 3, born=1.0),
        },
        columns={"host": list(HOST)},
        samples=[(END - 1, {"host": [row]})],
    )


def test_a_bus_error_with_full_shared_memory() -> None:
    first = examine(Case(flight=bus_error(free=0.0))).findings[0]
    assert first.cause == "host-memory/shm"
    assert "1.0 GiB of /dev/shm were used and 0 MiB were free" in first.signs[0].says


def test_a_bus_error_with_room_in_shared_memory_is_something_else() -> None:
    assert "host-memory/shm" not in {one.cause for one in examine(Case(flight=bus_error(free=8.0 * GIB))).findings}


@pytest.mark.parametrize(
    ("values", "rises"),
    [
        ([100 + 10 * second for second in range(60)], True),
        ([100 + 10 * second + 300 * (second % 3 == 0) for second in range(60)], True),  # peaks of each step
        ([100.0] * 60, False),
        ([100 + 500 * min(1, second / 10) for second in range(60)], False),  # a start that levels off
        ([100 + 300 * (second % 7 == 0) for second in range(60)], False),
        ([100, 200, 300], False),  # too short to tell
    ],
)
def test_a_climb_is_told_from_a_plateau(values: list[float], *, rises: bool) -> None:
    assert (climb([(float(place), value) for place, value in enumerate(values)]) is not None) == rises
