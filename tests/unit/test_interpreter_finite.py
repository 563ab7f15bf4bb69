"""A program followed under an assumption about its tests for NaN or Inf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter import follow
from crashcart.readers.interpreter.execution import Execution
from crashcart.readers.interpreter.launch import Launch
from crashcart.readers.interpreter.modules import Modules

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import math
import torch

def is_bad(value):
    return bool(torch.isnan(value).any() or torch.isinf(value).any())

def make_gradients(loss):
    if is_bad(loss) or loss != loss:
        return False
    if not all(math.isfinite(part.item()) for part in loss):
        return None
    loss.backward()
    return True

model = torch.nn.Linear(2, 2)
for batch in torch.randn(4, 2):
    if make_gradients(model(batch)):
        print("stepped")
    else:
        print("skipped")
"""


def _follow(folder: Path) -> Execution:
    (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    interpreter = follow(Modules(str(folder / "train.py"), [str(folder)]), Launch(arguments=[], ranks=1))
    assert interpreter is not None
    return Execution(interpreter)


def _printed(execution: Execution) -> list[object]:
    return [getattr(call.arguments[0], "value", None) for call in execution.trace.named("print")]


def test_both_ways_are_followed_where_nothing_is_assumed(tmp_path: Path) -> None:
    assert set(_printed(_follow(tmp_path))) == {"stepped", "skipped"}


def test_finite_values_take_one_way(tmp_path: Path) -> None:
    fine = _follow(tmp_path).follow_with_finite(lambda _: True)
    assert _printed(fine) == ["stepped"]
    assert len(fine.backwards) == 1


def test_each_bad_test_takes_the_other_way(tmp_path: Path) -> None:
    execution = _follow(tmp_path)
    tests = {call.node for call in execution.trace.methods("isnan", "isinf", "isfinite")}
    assert len(tests) == 4
    for place in tests:
        bad = execution.follow_with_finite(lambda node, place=place: node is not place)  # type: ignore[misc]
        assert _printed(bad) == ["skipped"]
        assert not bad.backwards
