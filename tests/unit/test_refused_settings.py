"""An exception that speaks of the very setting with which its line works, and those that do not."""

from __future__ import annotations

import pytest
from history import History

from crashcart.engine import examine
from crashcart.model import Evidence, Fact
from crashcart.places import SETTINGS_AT_PLACE


def _first(kind: str, message: str, frame: str, name: str, value: object) -> str:
    history = History(code=1)
    history.process(5, 1, "rank", "python train.py", born=1, rank=0, steps=30)
    history.raised(5, 20, kind, message)
    history.flight.events[-1].details["frames"] = ["/job/train.py:9 main", frame]
    history.gone(5, 21, code=1)
    case = history.case()
    place = Evidence("config", f"{name}: {value}", "cfg.yaml:7")
    setting = Fact(f"config.{name}", value, place, "file", name)
    case.seen[SETTINGS_AT_PLACE] = [Fact(SETTINGS_AT_PLACE, [setting], place, "code")]
    return examine(case).findings[0].cause


OWN, LIBRARY = "/job/train.py:4 build", "/usr/lib/python3.11/site-packages/lib/core.py:4 build"


@pytest.mark.parametrize(
    ("kind", "message", "frame", "name", "value"),
    [
        ("KeyError", "'cosin'", OWN, "schedule", "cosin"),
        ("AttributeError", "module 'torch.optim' has no attribute 'adamW'", OWN, "optimizer", "adamW"),
        ("TypeError", "Phase.__init__() got an unexpected keyword argument 'drop_out'", OWN, "phase.drop_out", 0.2),
        ("NotImplementedError", "cosin", OWN, "schedule", "cosin"),
        ("ValueError", "unknown schedule 'cosin', choose from: cosine, linear", OWN, "schedule", "cosin"),
    ],
)
def test_a_name_that_the_program_does_not_have(kind: str, message: str, frame: str, name: str, value: object) -> None:
    assert _first(kind, message, frame, name, value) == "config/missing-or-wrong"


@pytest.mark.parametrize(
    ("kind", "message", "frame", "name", "value"),
    [
        ("KeyError", "'cosin'", OWN, "schedule", "cosine"),
        ("ValueError", "not enough values to unpack (expected 2, got 1)", OWN, "mode", "values_2"),
        ("ValueError", "the mean of the batch is wrong", LIBRARY, "reduction", "mean"),
        ("TypeError", "f() got an unexpected keyword argument 'mask'", OWN, "phase.drop_out", 0.2),
        ("KeyError", "3", OWN, "classes", "3"),
        ("ValueError", "the train split has no samples", OWN, "split", "train"),
    ],
)
def test_an_exception_about_something_else(kind: str, message: str, frame: str, name: str, value: object) -> None:
    assert _first(kind, message, frame, name, value) != "config/missing-or-wrong"
