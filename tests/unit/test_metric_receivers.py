"""A wait in an object of the program that also gets its metrics: a tracker of its own."""

from __future__ import annotations

import pytest
from history import START, History

from crashcart.flight import Frame, StackDump, Stood
from crashcart.places import Spot
from crashcart.readers.code.source import Source
from crashcart.readers.metric_receivers import sends_metrics, waits_in_tracker

TRAIN = """
class Run:
    def loop(self):
        for step in range(100):
            METRICS
            self.feed.pull()
        self.hub.figure("curve", draw())
"""


def _found(metrics: str, line: int) -> list[str]:
    history = History(alive=True)
    history.process(5, 1, "rank", "python train.py", born=1, rank=0, steps=20)
    flight = history.case().flight
    assert flight is not None
    frames = (Frame("/job/hub/net.py", 9, "ask"), Frame("/job/train.py", line, "loop"))
    flight.stacks = [StackDump(START + 60, "hang", (Stood(5, "rank", 0, frames, ""),))]
    source = Source("train.py", TRAIN.replace("METRICS", metrics))
    return [str(fact.value) for fact in waits_in_tracker(flight, [source])]


@pytest.mark.parametrize(
    "metrics",
    [
        "self.hub.row(step=step, loss=loss.item())",
        'self.hub.put({"train/loss": loss})',
        'self.hub.put("row", data={"acc": acc})',
    ],
)
def test_what_gets_the_metrics_is_a_tracker(metrics: str) -> None:
    assert _found(metrics, 7) == ["hub"]


@pytest.mark.parametrize(
    ("metrics", "line"),
    [
        ("self.hub.row(step=step, loss=loss.item())", 6),
        ("self.hub.row(step=step)", 7),
        ("print(loss)", 7),
        ("self.log(loss=loss)", 7),
    ],
)
def test_other_waits_are_none(metrics: str, line: int) -> None:
    assert _found(metrics, line) == []


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ('post({"epoch": 1, "loss": loss})', ["post"]),
        ("self.api.rows.add(reward=total)", ["self.api.rows.add"]),
        ("fetch(url, epoch=1)", []),
        ("print(loss=loss)", []),
    ],
)
def test_the_call_that_sends_metrics_when_it_fails(call: str, names: list[str]) -> None:
    source = Source("train.py", f"def go(self):\n    {call}\n")
    assert [fact.value for fact in sends_metrics([Spot("/job/train.py", 2, "go")], [source])] == names
