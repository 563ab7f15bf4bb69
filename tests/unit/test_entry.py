"""Which program a config belongs to, and where a launch's program lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cli import main
from crashcart.model import Evidence, Fact
from crashcart.readers.entry import nearest, python_path

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_config_that_nobody_named_belongs_to_the_program_beside_it() -> None:
    entries = ["a/train.py", "b/train.py", "b/tools/fit.py", "train.py"]
    assert nearest("b/conf/x.yaml", entries) == ["b/train.py", "b/tools/fit.py"]
    assert nearest("conf/x.yaml", entries) == entries  # as near to one as to the other
    assert nearest("x.yaml", []) == []


def test_the_python_path_of_a_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib" / "src").mkdir(parents=True)
    told = Fact("environment.PYTHONPATH", "$PWD/lib:src:$PYTHONPATH:gone", Evidence("command", "", ""), "environment")
    assert python_path([told], ["lib"]) == ["lib", "lib/src"]


def test_a_named_program_is_checked_itself_beside_another_that_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text("import torch\nfor loss in []:\n    loss.backward()\n")
    (tmp_path / "config.yaml").write_text("lr: 1e-4\n")
    (tmp_path / "program.py").write_text(
        "import torch, yaml\nsettings = yaml.safe_load(open('config.yaml'))\n"
        "adam = torch.optim.AdamW([torch.zeros(1)], lr=settings['lr'])\nfor _ in range(3):\n    adam.step()\n"
    )
    assert main(["check", "program.py"]) == 1
    assert "reads lr as the text '1e-4'" in capsys.readouterr().out
