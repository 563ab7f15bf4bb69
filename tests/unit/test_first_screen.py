"""The answer of `why` fits on one screen, whatever was found; `--long` has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

import crashcart
from crashcart.report.terminal import SCREEN, first_screen, text

LOGS = sorted((Path(__file__).parents[1] / "healthy").glob("*.log"))[::7]
OUT_OF_MEMORY = (
    "".join(f"step {step} loss: 0.{step}\n" for step in range(10, 40))
    + 'Traceback (most recent call last):\n  File "train.py", line 40, in <module>\n    evaluate(model)\n'
    + '  File "train.py", line 12, in evaluate\n    out = model(batch)\n'
    + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
    + "1.20 GiB is free. Of the allocated memory 70.01 GiB is allocated by PyTorch, and 5.27 GiB is reserved by PyTorch.\n"
    * 2
)


def shown(diagnosis: crashcart.Diagnosis) -> list[str]:
    return "\n".join(line for _, line in first_screen(diagnosis)).split("\n")


@pytest.mark.parametrize("log", LOGS, ids=[path.stem for path in LOGS])
def test_a_healthy_log_gets_a_short_answer(log: Path) -> None:
    assert len(shown(crashcart.why([str(log)]))) <= SCREEN


def test_the_first_abnormal_event_and_the_lines_that_change_are_on_the_screen(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(OUT_OF_MEMORY, encoding="utf-8")
    script = "python train.py \\\n    --batch_size=8 \\\n    --eval_batch_size=512 \\\n    --output_dir=out\n"
    (tmp_path / "train.sh").write_text(script, encoding="utf-8")
    diagnosis = crashcart.why([str(tmp_path / "train.log")], scripts=[str(tmp_path / "train.sh")])
    lines = shown(diagnosis)
    assert len(lines) <= SCREEN
    assert max(map(len, lines)) <= 80 + len(str(tmp_path))  # a path stays in one piece
    assert any(line.startswith("> The program raised OutOfMemoryError at train.py:12 in evaluate") for line in lines)
    assert "    -    --eval_batch_size=512 \\" in lines
    assert "    +    --eval_batch_size=128 \\" in lines
    assert lines[-1].endswith("kernel log.") or lines[-2].startswith("More with --long")
    assert "How to confirm" in text(diagnosis)
