"""Numbers of which only the bounds are known, and the sizes that libraries refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crashcart.readers.interpreter import follow
from crashcart.readers.interpreter.intervals import bounds_of
from crashcart.readers.interpreter.launch import Launch
from crashcart.readers.interpreter.modules import Modules

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.readers.interpreter.interpreter import Interpreter

HEAD = "import math, random\nimport numpy as np\nimport torch\nfrom torch.utils.data import DataLoader\n"


def _follow(folder: Path, text: str) -> Interpreter:
    (folder / "train.py").write_text(HEAD + text, encoding="utf-8")
    interpreter = follow(Modules(str(folder / "train.py"), [str(folder)]), Launch(arguments=[], ranks=1))
    assert interpreter is not None
    return interpreter


@pytest.mark.parametrize(
    ("expression", "bounds"),
    [
        ("random.randint(2, 24)", (2, 24)),
        ("np.random.randint(2, 24)", (2, 23)),
        ("int(torch.randint(8, 13, (1,)))", (8, 12)),
        ("16 // random.randint(2, 24)", (0, 8)),
        ("int(16 / np.random.choice(np.arange(2, 9)))", (2, 8)),
        ("max(1, 16 // random.randint(2, 24))", (1, 8)),
        ("math.floor(5 / random.randint(8, 9))", (0, 0)),
        ("4 // random.randint(0, 3)", None),
    ],
)
def test_bounds_are_worked_out(tmp_path: Path, expression: str, bounds: tuple[int, int] | None) -> None:
    interpreter = _follow(tmp_path, f"print({expression})\n")
    assert bounds_of(interpreter.trace.named("print")[0].arguments[0]) == bounds


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ("DataLoader([1], batch_size=4 // 8)\n", True),
        ("DataLoader([1], batch_size=16 // random.randint(8, 32))\n", False),
        ("DataLoader([1], batch_size=max(1, 4 // 8))\n", None),
        ("size = 16 // random.randint(8, 32)\nif size < 1:\n    size = 1\nDataLoader([1], batch_size=size)\n", None),
        ("size = 16 // random.randint(8, 32)\nif not size:\n    raise SystemExit\nDataLoader([1], batch_size=size)\n", None),
        ("DataLoader([1], batch_size=len(input()))\n", None),
        ("for start in range(0, 10, 2 // 4):\n    pass\n", True),
    ],
)
def test_a_size_of_zero_is_refused(tmp_path: Path, text: str, certain: bool | None) -> None:  # noqa: FBT001 - expected
    failures = _follow(tmp_path, text).trace.failures
    assert [failure.region.is_certain() for failure in failures] == ([] if certain is None else [certain])
