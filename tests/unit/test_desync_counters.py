"""Counters of ranks in, a desync out: or none, where they differ by design, or nobody waits."""

from __future__ import annotations

from typing import Any

import pytest

from crashcart.case import Case
from crashcart.causes.distributed._counters import counters_differ
from crashcart.flight import Event, Flight, Process

LOST = "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:56998"
PACKAGES = "/env/lib/python3.11/site-packages/torch/"
IN_BACKWARD = ("/home/me/train.py:15 <module>", PACKAGES + "autograd/graph.py:979 _engine_run_backward")
IN_FORWARD = ("/home/me/train.py:11 <module>", PACKAGES + "nn/modules/module.py:1750 _call_impl", PACKAGES + "nn/parallel/distributed.py:1640 forward")  # fmt: skip


def case_of(*ranks: dict[str, Any]) -> Case:
    """A job of which each rank has counters (``backwards``, ``steps``) and an end: frames of a lost connection, or a code."""
    flight = Flight(ending={"code": 1, "time": 50.0})
    for rank, told in enumerate(ranks):
        page = {
            "world_size": float(len(ranks)),
            "steps": told["steps"],
            "backwards": told["backwards"],
            "train_batches": 30.0,
        }
        page["subgroups"] = told.get("subgroups", 0.0)
        flight.processes[100 + rank] = Process(
            100 + rank, "rank", rank, born=1.0, ended=40.0 + rank, page=page, reached=True
        )
        if "frames" in told:
            details = {"type": "RuntimeError", "message": LOST, "thread": "MainThread", "frames": list(told["frames"])}
            flight.events.append(Event(40.0 + rank, "exception", details, 100 + rank, rank))
            told["code"] = 1
        else:
            flight.events.append(Event(39.0, "exit", {}, 100 + rank, rank))
        how = {"signal": told["signal"]} if "signal" in told else {"code": told["code"]}
        flight.events.append(Event(40.0 + rank, "gone", {"pid": 100 + rank, **how}))
    return Case(flight=flight)


def rank(backwards: float, *, steps: float = 29.0, **more: Any) -> dict[str, Any]:
    return {"backwards": backwards, "steps": steps, **more}


def test_a_rank_that_ended_with_fewer_passes_left_the_others_waiting() -> None:
    sign = counters_differ(case_of(rank(30, frames=IN_BACKWARD), rank(29, code=0)))
    assert sign is not None
    assert sign.strength == "decisive"
    assert "rank 1 made 29 backward passes and ended; rank 0 waited after 30 backward passes at train.py:15" in sign.says
    assert [item.rank for item in sign.evidence] == [1, 0]


def test_ranks_that_the_launcher_ended_before_they_noticed_do_not_hide_it() -> None:
    ended = rank(30, signal="SIGTERM")
    assert counters_differ(case_of(rank(30, frames=IN_BACKWARD), rank(29, code=0), ended)) is not None
    assert counters_differ(case_of(rank(30, frames=IN_BACKWARD), rank(29, signal="SIGTERM"))) is None


@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param([rank(30, frames=IN_BACKWARD), rank(30, frames=IN_BACKWARD)], id="a cut network"),
        pytest.param([rank(30, frames=IN_BACKWARD), rank(29, frames=IN_FORWARD)], id="on its way to the same pass"),
        pytest.param(
            [rank(30, frames=IN_BACKWARD, subgroups=1.0), rank(29, code=0, subgroups=1.0)], id="groups of their own"
        ),
        pytest.param([rank(30, frames=IN_BACKWARD), rank(12, code=137)], id="one was killed"),
        pytest.param([rank(30, code=0), rank(29, code=0)], id="all ended well"),
        pytest.param([rank(30, frames=IN_BACKWARD)], id="a single rank"),
    ],
)
def test_what_differs_by_design_or_for_another_reason_is_no_desync(ranks: list[dict[str, Any]]) -> None:
    assert counters_differ(case_of(*ranks)) is None
