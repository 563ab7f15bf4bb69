"""What `check` advises can be done: flags that the program takes, and the switch that carries out its patch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import crashcart
from crashcart.report.foreseen import what_next

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LOOP = """
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="fp16")
{more}
args = parser.parse_args()
model = torch.nn.Linear(2, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for step, x in enumerate(torch.ones(8, 2)):
    scaler.scale(model(x).sum()).backward()
    scaler.unscale_(opt)
    if (step + 1) % 2 == 0:
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
"""


def _offered(text: str) -> set[str]:
    with open("train.py", "w", encoding="utf-8") as file:
        file.write(text)
    found = crashcart.check(command=["python", "train.py", "--precision", "fp16"]).findings
    return {flag for finding in found for fix in finding.fixes for flag in fix.arguments}


def test_a_flag_that_the_program_refuses_is_not_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser without ``--bf16`` would end the job at once."""
    monkeypatch.chdir(tmp_path)
    assert "--bf16" not in _offered(LOOP.format(more=""))


def test_a_flag_that_the_program_takes_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same parser with the flag."""
    monkeypatch.chdir(tmp_path)
    assert "--bf16" in _offered(LOOP.format(more='parser.add_argument("--bf16", type=bool)'))


def test_a_patch_that_changes_the_training_is_reached_by_its_own_switch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--fix`` would do nothing there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("max_img_per_gpu: 6\nimages_per_sequence: 8\n", encoding="utf-8")
    (tmp_path / "train.py").write_text(
        "import torch, yaml\n"
        "cfg = yaml.safe_load(open('config.yaml'))\n"
        "batch_size = cfg['max_img_per_gpu'] // cfg['images_per_sequence']\n"
        "for x in torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=batch_size):\n"
        "    torch.nn.Linear(2, 2)(x).sum().backward()\n",
        encoding="utf-8",
    )
    told = what_next(crashcart.check(command=["python", "train.py"]))
    assert "--fix-all" in told
