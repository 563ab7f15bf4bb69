"""A project can name its own spellings, silence causes and leave folders out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.names import canonical, learn
from crashcart.readers.own_settings import own_settings
from crashcart.readers.plan import Asked, plans

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib comes with Python 3.11")
PROGRAM = "import torch\nimport yaml\ncfg = yaml.safe_load(open('cfg.yaml'))\nopt = torch.optim.SGD([], lr=cfg['lr'])\n"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    learn({})


def project(folder: Path, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    monkeypatch.chdir(folder)
    (folder / "pyproject.toml").write_text(f"[project]\nname = 'x'\n{table}")
    (folder / "train.py").write_text(PROGRAM)
    (folder / "cfg.yaml").write_text("lr: 1e-4\nmy_bs: 4\n")


def test_its_own_word_for_a_setting_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(
        tmp_path, monkeypatch, '[tool.crashcart.names]\nmy_bs = "train.batch_size"\n"optim.peak" = "train.learning_rate"\n'
    )
    plan = plans(Asked(["python", "train.py"]))[0]
    assert plan.case.facts["train.batch_size"].value == 4
    assert canonical("optim.peak") == "train.learning_rate"
    assert canonical("model.peak") is None


def test_a_silenced_cause_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, monkeypatch, "")
    assert [one.cause for one in crashcart.check(command=["python", "train.py"]).findings] == ["config/type"]
    project(tmp_path, monkeypatch, '[tool.crashcart]\nignore = ["config/type"]\n')
    assert not crashcart.check(command=["python", "train.py"]).findings


def test_a_folder_that_is_excluded_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, monkeypatch, '[tool.crashcart]\nexclude = ["old"]\n')
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "run.sh").write_text("python train.py --lr \\ # note\n  --x 1\n")
    (tmp_path / "run.sh").write_text("python train.py\n")
    assert {plan.name for plan in plans(Asked((), ["."]))} == {"run.sh"}


def test_what_is_not_understood_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.crashcart]\nignored = []\n[tool.crashcart.names]\na = "train.batchsize"\n'
    )
    told = [gap.why for gap in own_settings(str(tmp_path)).not_looked]
    assert told == [
        "[tool.crashcart] knows no 'ignored': did you mean 'ignore'?",
        "crashcart has no setting 'train.batchsize': did you mean 'train.batch_size'?",
    ]


def test_a_broken_file_costs_a_sentence_only(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.crashcart]\nignore = [\n")
    assert "cannot be read as TOML" in own_settings(str(tmp_path)).not_looked[0].why


def test_a_silenced_cause_that_is_none_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, monkeypatch, '[tool.crashcart]\nignore = ["config/tipe", "config", "data/*"]\n')
    told = [gap.why for gap in own_settings(str(tmp_path)).not_looked]
    assert told == ["ignore of [tool.crashcart]: there is no cause 'config/tipe': did you mean 'config/type'?"]
    project(tmp_path, monkeypatch, '[tool.crashcart]\nignore = "config/type"\n')
    assert "must be a list" in own_settings(str(tmp_path)).not_looked[0].why


def test_a_remark_that_silences_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, monkeypatch, "")
    (tmp_path / "cfg.yaml").write_text("lr: 1e-4  # crashcart: ignore[config/tipe] known\nx: 1  # crashcart: ignore\n")
    diagnosis = crashcart.check(command=["python", "train.py"])
    assert [one.cause for one in diagnosis.findings] == ["config/type"]
    told = {gap.what: gap.why for gap in diagnosis.not_looked}
    assert "did you mean 'config/type'?" in told["cfg.yaml:1"]
    assert "it needs a cause" in told["cfg.yaml:2"]
