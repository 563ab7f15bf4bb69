"""A flag that the program does not know is told with the one that was meant, as far as the program has printed or recorded its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import crashcart

if TYPE_CHECKING:
    from pathlib import Path

ARGPARSE = (
    "usage: main.py [-h] [--data DATA] [--epochs N] [--lr LR]\nmain.py: error: unrecognized arguments: --epochz=2 --zzz\n"
)
TYRO = "│ Unrecognized options: --total-timestepz, 3000 │\n│ Arguments similar:    │\n│     --total-timesteps INT   │\n"


@pytest.mark.parametrize(
    ("log", "words"),
    [(ARGPARSE, "Use --epochs instead of --epochz"), (TYRO, "Use --total-timesteps instead of --total-timestepz")],
)
def test_the_flag_that_was_meant_is_the_first_fix(tmp_path: Path, log: str, words: str) -> None:
    (tmp_path / "train.log").write_text(log, encoding="utf-8")
    finding = crashcart.why([str(tmp_path / "train.log")]).findings[0]
    assert finding.cause == "config/missing-or-wrong"
    assert finding.fixes[0].title == words


def test_a_module_that_is_not_there_is_named_in_the_fix(tmp_path: Path) -> None:
    text = 'Traceback (most recent call last):\n  File "dqn.py", line 16, in <module>\n    import cleanrl_utils.buffers\n'
    (tmp_path / "train.log").write_text(f"{text}ModuleNotFoundError: No module named 'cleanrl_utils'\n", encoding="utf-8")
    finding = crashcart.why([str(tmp_path / "train.log")]).findings[0]
    assert finding.cause == "code/version"
    assert finding.fixes[0].title == "Make the module cleanrl_utils importable"
