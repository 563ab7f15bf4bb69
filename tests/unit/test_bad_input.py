"""What cannot be read costs a sentence, and the rest is still checked."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.errors import CommandError
from crashcart.model import HARMLESS
from crashcart.repair import repairs, write

if TYPE_CHECKING:
    from crashcart.model import Diagnosis

GOOD = "import torch\nimport yaml\ncfg = yaml.safe_load(open('cfg.yaml'))\nopt = torch.optim.SGD([], lr=cfg['lr'])\nopt.step()\n"
BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(GOOD)
    Path("cfg.yaml").write_text("lr: 1e-4\n")


def still_checked(diagnosis: Diagnosis) -> list[str]:
    """The sentences about what could not be read; the good part must have been found out."""
    assert [one.cause for one in diagnosis.findings if one.level == "will"] == ["config/type"]
    return [f"{gap.what}: {gap.why}" for gap in diagnosis.not_looked]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB.encode(), "more than 20000 values"),
        (b"a: &a\n  b: *a\n", "more than 20000 values|nested too deeply"),
        (bytes(range(256)) * 4, "not UTF-8 text"),
        (b"x: [" * 5000, "nested more than 100 levels"),
        (b"#" * 5_000_001, "larger than 5 MB"),
        (b"a: 1\n b: 2\n", "cannot be read as YAML: line 2"),
    ],
)
def test_a_bad_config_beside_a_good_one(text: bytes, says: str) -> None:
    Path("bad.yaml").write_bytes(text)
    Path("run.sh").write_text("python train.py --config cfg.yaml --config2 bad.yaml\n")
    diagnosis = crashcart.check(["run.sh"])
    assert "config/type" in [one.cause for one in diagnosis.findings if one.level == "will"]
    assert any(re.search(says, gap.why) for gap in diagnosis.not_looked)


def test_modules_that_cannot_be_parsed_are_named() -> None:
    Path("train.py").write_text("import broken, binary, strange\n" + GOOD)
    Path("broken.py").write_text("def f(:\n")
    Path("binary.py").write_bytes(b"torch \xff\xfe\x00")
    Path("strange.py").write_text("import torch\nx = " + "(" * 300 + ")" * 300)
    told = still_checked(crashcart.check(command=["python", "train.py"]))
    assert any("broken.py: line 1" in one for one in told)
    assert any("binary.py: is not UTF-8" in one for one in told)


@pytest.mark.parametrize(
    ("defaults", "says"), [("[a]", "lead back to itself"), ("[a, missing]", "Could not find 'missing'")]
)
def test_defaults_of_hydra_that_loop_or_lead_nowhere(defaults: str, says: str) -> None:
    Path("conf").mkdir()
    Path("conf/a.yaml").write_text("defaults: [b]\nlr: 1\n")
    Path("conf/b.yaml").write_text(f"defaults: {defaults}\nseed: 1\n")
    Path("h.py").write_text(
        "import hydra\nimport torch\n@hydra.main(config_path='conf', config_name='a')\ndef main(cfg):\n    torch.ones(cfg.lr)\nmain()\n"
    )
    first = crashcart.check(command=["python", "h.py"]).findings[0]
    assert first.cause == "config/missing-or-wrong"
    assert says in first.signs[0].says


def test_python_configs_that_loop_end() -> None:
    Path("a.py").write_text("_base_ = 'b.py'\n")
    Path("b.py").write_text("_base_ = 'a.py'\n")
    told = [gap.why for gap in crashcart.check(command=["python", "train.py", "a.py"]).not_looked]
    assert any("lead back to itself" in one for one in told)


def test_scripts_that_call_each_other_end() -> None:
    Path("a.sh").write_text("bash b.sh\n")
    Path("b.sh").write_text("bash a.sh\n")
    assert crashcart.check(["a.sh"]).findings == ()


def test_ten_thousand_files_are_no_burden() -> None:
    for number in range(100):
        Path(f"data/{number}").mkdir(parents=True)
        for inner in range(100):
            Path(f"data/{number}/{inner}.txt").touch()
    start = time.process_time()
    still_checked(crashcart.check(["."]))
    assert time.process_time() - start < 5


def test_more_files_than_a_project_has_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crashcart.readers.project.MOST_FILES", 50)
    Path("zzz").mkdir()
    for number in range(100):
        Path(f"zzz/{number}.txt").touch()
    assert any("more than 50 files" in one for one in still_checked(crashcart.check(["."])))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_a_folder_that_must_not_be_read_is_named() -> None:
    Path("locked").mkdir(mode=0)
    assert any("locked" in one for one in still_checked(crashcart.check(["."])))


def test_what_is_no_job_is_one_sentence() -> None:
    with pytest.raises(CommandError, match="no such file or folder"):
        crashcart.check(["missing.sh"])
    Path("empty").mkdir()
    with pytest.raises(CommandError, match="contains no launch script"):
        crashcart.check(["empty"])


@pytest.mark.parametrize("script", ["", "\x00\x01\x02", "if [ x\nthen (((", "python \\", "$($($($(", "cat <<EOF\npython x"])
def test_any_text_can_be_a_script(script: str) -> None:
    Path("odd.sh").write_text(script)
    assert crashcart.check(["odd.sh"]).verb == "check"


def test_pipes_and_devices_are_not_opened() -> None:
    Path("train.py").write_text("import pipe\nimport zero\nimport null\nopen('pipe.yaml')\n" + GOOD)
    os.mkfifo("pipe.py")
    os.mkfifo("pipe.yaml")
    Path("zero.py").symlink_to("/dev/zero")
    Path("null.py").write_bytes(b"import torch\n\x00")
    told = still_checked(crashcart.check(command=["python", "train.py"]))
    assert "pipe.py: it is a named pipe, not a file" in told
    assert "zero.py: it is a device, not a file" in told
    assert any(one.startswith("null.py: source code") for one in told)


def test_a_config_that_is_a_pipe_is_told() -> None:
    Path("cfg.yaml").unlink()
    os.mkfifo("cfg.yaml")
    diagnosis = crashcart.check(command=["python", "train.py"])
    assert [gap.why for gap in diagnosis.not_looked] == ["cfg.yaml is a named pipe, not a file."]


def test_references_that_loop_or_multiply_end() -> None:
    Path("conf").mkdir()
    tenfold = "".join(f'a{i}: "{f"${{a{i - 1}}}" * 10}"\n' for i in range(1, 30))
    Path("conf/a.yaml").write_text(
        f'a0: xxxxxxxxxx\n{tenfold}b: ${{c}}\nc: ${{b}}\nd: "${{d}}${{d}}"\nlr: ${{e.lr}}\ne:\n  lr: 1\n'
    )
    Path("h.py").write_text(
        "import hydra\nimport torch\n@hydra.main(config_path='conf', config_name='a')\ndef main(cfg):\n    torch.ones(cfg.lr)\nmain()\n"
    )
    start = time.process_time()
    assert crashcart.check(command=["python", "h.py"]).verb == "check"
    assert time.process_time() - start < 5


def test_a_module_is_read_by_its_coding_line_and_written_by_it() -> None:
    text = "# -*- coding: latin-1 -*-\n# Ã© façade\nimport argparse\nimport torch\np = argparse.ArgumentParser(description='é Ã©')\n"
    flag = "p.add_argument('--amp', type=bool, default=True)\n"
    Path("latin.py").write_bytes((text + flag).encode("latin-1"))
    diagnosis = crashcart.check(command=["python", "latin.py", "--amp", "False"])
    assert [one.cause for one in diagnosis.findings if one.level == "will"] == ["config/type"]
    assert diagnosis.not_looked == ()
    write(repairs(diagnosis.findings, HARMLESS))
    changed = Path("latin.py").read_bytes().decode("latin-1")
    assert changed.startswith(text)
    assert "type=lambda text:" in changed
    compile(Path("latin.py").read_bytes(), "latin.py", "exec")


def test_a_byte_order_mark_and_a_form_feed_do_not_shift_an_edit() -> None:
    text = "import argparse\n\x0c\nimport torch\np = argparse.ArgumentParser()\np.add_argument('--amp', type=bool)\n"
    Path("mark.py").write_bytes(b"\xef\xbb\xbf" + text.encode())
    diagnosis = crashcart.check(command=["python", "mark.py", "--amp", "False"])
    write(repairs(diagnosis.findings, HARMLESS))
    changed = Path("mark.py").read_bytes()
    assert changed.startswith(b"\xef\xbb\xbfimport argparse\n\x0c\nimport torch\n")
    assert b"'--amp', type=lambda text:" in changed


def test_a_coding_line_that_names_nothing() -> None:
    Path("odd.py").write_bytes(b"# coding: klingon-8\nimport torch\n")
    Path("train.py").write_text("import odd\n" + GOOD)
    diagnosis = crashcart.check(command=["python", "train.py"])
    assert "odd.py: unknown encoding: klingon-8" in [f"{gap.what}: {gap.why}" for gap in diagnosis.not_looked]


def test_a_module_that_is_a_link_to_itself() -> None:
    Path("train.py").write_text("import loop\n" + GOOD)
    Path("loop.py").symlink_to("loop.py")
    assert "loop.py: it is a link that leads in a circle" in still_checked(crashcart.check(command=["python", "train.py"]))


def test_a_folder_given_as_config() -> None:
    Path("configs").mkdir()
    Path("many.yaml").mkdir()
    for folder in ("configs", "many.yaml"):
        told = crashcart.check(command=["python", "train.py", "--config", folder]).not_looked
        assert [(gap.what, gap.why) for gap in told] == [
            (folder, "it is a folder and no config file: which file in it is read is not known")
        ]
