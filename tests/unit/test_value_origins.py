"""Where the values were made with which a run died: small programs, and the lines that are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from test_remedies import raised, scene

from crashcart.case import Case
from crashcart.model import Fix
from crashcart.places import ORIGINS, Spot, at_the_scene
from crashcart.readers.value_origins import value_origins

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from crashcart.model import Fact

MODEL = """from torch import nn

class Ranker(nn.Module):
    def __init__(self, count, width=8):
        super().__init__()
        self.items = nn.Embedding(count, width)
        self.score = nn.Linear(width, 1)

    def forward(self, history):
        return self.score(self.items(history).mean(1))
"""
TRAIN = """from model import Ranker

def load():
    rows = read("clicks")
    return rows

def main():
    data = load()
    count = len(set(data[:9]))
    net = Ranker(count)
    for rows, target in batches(data):
        loss = criterion(net(rows), target)
"""
FRAMES = (("train.py", 12, "main"), ("model.py", 10, "Ranker.forward"))
COLUMNS = {Spot("train.py", 12, "main"): (12, 12, 25, 34), Spot("model.py", 10, "Ranker.forward"): (10, 10, 26, 45)}


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def origins(
    files: dict[str, str], *frames: tuple[str, int, str], columns: Mapping[Spot, tuple[int, ...]] | None = None
) -> Fact:
    error = raised("IndexError", "index out of range in self", *frames)
    (fact,) = value_origins(scene(files, raises=[error], columns=columns or {}, _looked_at=[]))
    return fact


def test_an_attribute_leads_to_its_class_and_from_there_to_who_made_the_object() -> None:
    fact = origins({"train.py": TRAIN, "model.py": MODEL}, *FRAMES, columns=COLUMNS)
    expression, _, made = fact.value
    assert expression == "self.items(history)"
    assert fact.evidence.where == "model.py:10"
    assert {(name, place.where) for name, place in made} >= {
        ("self.items", "model.py:6"),
        ("rows", "train.py:11"),
        ("count", "train.py:9"),
    }


def test_without_columns_the_whole_line_is_meant() -> None:
    expression, _, made = origins({"train.py": TRAIN, "model.py": MODEL}, *FRAMES).value
    assert expression == "self.score(self.items(history).mean(1))"
    assert ("self.score", "model.py:7") in [(name, place.where) for name, place in made]


def test_what_a_function_returns_is_followed() -> None:
    text = "def draw(n):\n    rows = read(n)\n    return stack(rows)\n\nbatch = draw(4)\nprint(batch[9])\n"
    made = origins({"t.py": text}, ("t.py", 6, "<module>")).value[2]
    assert [(name, place.where) for name, place in made] == [("batch", "t.py:5"), ("rows", "t.py:2")]


def test_a_program_that_calls_itself_comes_to_an_end() -> None:
    text = "def f(x):\n    y = f(x)\n    return y\n\nx = f(x)\nprint(x[1])\n"
    assert origins({"t.py": text}, ("t.py", 6, "<module>")).value[2]


def test_advice_begins_with_the_line_that_it_is_about() -> None:
    case = Case()
    case.seen[ORIGINS] = [origins({"train.py": TRAIN, "model.py": MODEL}, *FRAMES, columns=COLUMNS)]
    fix = at_the_scene(case, Fix("Make sizes agree", "by-hand", "count the rows"))
    assert fix.why.startswith(
        "it broke in `self.items(history)` at model.py:10; these come from: self.items at model.py:6, "
    )
    assert fix.why.endswith("; count the rows")
