"""A project that somebody else wrote, with files that would like to be run: none of it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MARK = "open('executed', 'a').write(__name__)\n"
NAMES = ("numpy", "json", "types", "random", "re", "enum", "token", "logging", "copy", "collections", "h5py", "crashcart")


def crashcart(folder: Path, *words: str, seconds: float = 30) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.prefix) / "bin" / "crashcart"), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False)


@pytest.mark.parametrize("words", [("check", "train.sh"), ("check", "."), ("doctor", "train.sh")])
def test_no_module_of_the_project_is_imported(tmp_path: Path, words: tuple[str, ...]) -> None:
    import numpy as np

    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "x.npy", np.zeros(4))
    (tmp_path / "train.sh").write_text("python train.py --data data/x.npy\n", encoding="utf-8")
    (tmp_path / "train.py").write_text("import numpy as np\nprint(np.load('data/x.npy'))\n", encoding="utf-8")
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(MARK, encoding="utf-8")
    answer = crashcart(tmp_path, *words)
    assert not (tmp_path / "executed").exists()
    assert "cannot be read" not in answer.stdout


def test_git_fetches_nothing_from_a_remote_that_the_repository_names(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "config.yaml").write_text("learning_rate: 0.1\n", encoding="utf-8")
    for words in (["init", "-q", "-b", "main", "."], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    with (tmp_path / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write(
            "[core]\n\trepositoryformatversion = 1\n\tfsmonitor = touch executed\n[extensions]\n\tpartialClone = x\n"
            '[remote "x"]\n\turl = ext::sh -c touch% executed\n\tpromisor = true\n[protocol "ext"]\n\tallow = always\n'
        )
    for path in (tmp_path / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.unlink()
    answer = crashcart(tmp_path, "check", "config.yaml", "--against", "main")
    assert answer.returncode == 2
    assert answer.stderr.startswith("crashcart: main is neither")
    assert not [*tmp_path.rglob("executed")]


def test_a_repository_whose_head_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("learning_rate: 0.1\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    (tmp_path / ".git" / "HEAD").unlink()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    answer = crashcart(tmp_path, "check", "config.yaml", "--against", "main")
    assert answer.returncode == 2
    assert "git could not be run" in answer.stderr


@pytest.mark.parametrize("path", ["", "pipe", "folder"])
def test_a_page_is_only_written_into_a_file(tmp_path: Path, path: str) -> None:
    (tmp_path / "train.log").write_text("step 1 loss 2\n", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    answer = crashcart(tmp_path, "why", "train.log", "--html", path)
    assert answer.returncode == 2
    assert answer.stderr.startswith("crashcart: --html needs the name of a file")


def test_a_full_device_for_the_sentence_does_not_change_the_exit_code(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [str(Path(sys.prefix) / "bin" / "crashcart"), "why", "nothing-here"]
        assert subprocess.run(command, cwd=tmp_path, stderr=full, timeout=30, check=False).returncode == 2


def test_a_python_config_with_old_line_ends_is_read(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1 loss 2\n", encoding="utf-8")
    (tmp_path / "config.py").write_bytes(b"lr = 1\rbatch_size = 2\r")
    answer = crashcart(tmp_path, "why", "train.log", "--config", "config.py", "--json")
    assert not [item for item in json.loads(answer.stdout)["not_looked"] if "internal error" in item["why"]]


def test_the_cause_in_a_planted_answer_is_taken_only_if_it_is_one(tmp_path: Path) -> None:
    ran = crashcart(tmp_path, "run", "--quiet", "--", "sh", "-c", "exit 3")
    assert ran.returncode == 3
    answer = next((tmp_path / "crashcart_runs").glob("2*/findings.json"))
    for cause in ("", "x y", "a/b/c\x1b[31m"):
        answer.write_text(json.dumps({"findings": [{"cause": cause, "role": "cause"}]}), encoding="utf-8")
        assert json.loads(crashcart(tmp_path, "runs", "--json").stdout)["runs"][0]["cause"] is None
