"""2,000 mutated and random files, folders that cannot be entered, loops and pipes: a sentence and an exit code, never a traceback."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from crashcart.cli import main

CASES = Path(__file__).parents[1] / "cases"
SEEDS = range(20)
FILES_PER_SEED = 100


def incidents() -> list[bytes]:
    texts = []
    for path in sorted(CASES.rglob("*.md")):
        texts += [part.split("```")[0].encode() for part in path.read_text(encoding="utf-8").split("```log")[1:]]
    return texts


def mutated(data: bytes, chance: random.Random) -> bytes:
    kind = chance.randrange(9)
    place = chance.randrange(len(data) + 1)
    if kind == 0:
        return data[:place]
    if kind == 1:
        return data[:place] + chance.randbytes(chance.randrange(200)) + data[place:]
    if kind == 2:
        return bytes(byte ^ (chance.random() < 0.05) * chance.randrange(256) for byte in data)
    if kind == 3:
        return data.replace(b"\n", chance.choice([b"\r", b"\0", b"", b"\r\n", b"\x1b[2K\r"]))
    if kind == 4:
        return chance.choice(
            [data.decode("utf-8", "replace").encode("utf-16"), data.decode("utf-8", "replace").encode("utf-32"), data * 50]
        )
    if kind == 5:
        packed = gzip.compress(data)
        return packed[: chance.randrange(len(packed))]
    if kind == 6:
        return chance.randbytes(chance.randrange(4096))
    if kind == 7:
        lines = data.split(b"\n")
        chance.shuffle(lines)
        return b"\n".join(lines)
    return data.replace(b"1", b"9" * chance.randrange(1, 400)).replace(b"(", b"((((" * chance.randrange(1, 60))


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_and_random_files_get_an_answer(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    originals = incidents()
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "log"
    for _ in range(FILES_PER_SEED):
        path.write_bytes(mutated(chance.choice(originals), chance))
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = main(["why", "--json", "log"])
        assert code == 0
        assert json.loads(output.getvalue())["schema"] == 1


@pytest.mark.parametrize("seed", range(5))
def test_any_bytes_as_context_get_an_answer(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    originals = incidents()
    (tmp_path / "log").write_bytes(chance.choice(originals))
    for name in ("train.yaml", "dmesg.txt"):
        (tmp_path / name).write_bytes(mutated(chance.choice(originals), chance))
    command = (
        mutated(b"torchrun --nproc-per-node 2 train.py --lr 1e-4 'x", chance).decode("utf-8", "replace").replace("\0", "")
    )
    arguments = ["why", str(tmp_path / "log"), "--kernel-log", str(tmp_path / "dmesg.txt"), "--command", command]
    done = subprocess.run(
        [sys.executable, "-m", "crashcart", *arguments, "--config", str(tmp_path / "train.yaml")],
        capture_output=True, text=True, timeout=60, check=False, errors="replace",
    )  # fmt: skip
    assert done.returncode in {0, 2}
    assert "Traceback" not in done.stderr


def call(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "crashcart", "why", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_a_folder_that_loops_ends(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "a" / "train.log").write_text("RuntimeError: CUDA out of memory.\n")
    done = call("--json", str(tmp_path))
    assert json.loads(done.stdout)["findings"][0]["cause"] == "gpu-memory/train-step"


def test_a_pipe_that_nobody_writes_to_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    done = call(str(tmp_path / "fifo"))
    assert (done.returncode, "not a file" in done.stderr, "Traceback" in done.stderr) == (2, True, False)


def test_a_folder_with_a_pipe_in_it_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.log")
    assert call(str(tmp_path)).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_folder_without_permission_is_a_sentence(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "train.log").write_text("x\n")
    closed.chmod(0)
    tmp_path.chmod(0o755)
    script = f"import os, sys; os.setuid(65534); from crashcart.cli import main; sys.exit(main(['why', {str(closed / 'train.log')!r}]))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    if "crashcart" in done.stderr and "No module" in done.stderr:
        pytest.skip("the package itself is not readable for another user here")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_an_empty_folder_and_an_empty_file_get_an_answer(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.log").write_bytes(b"")
    assert call(str(tmp_path / "empty")).returncode == 0
    assert call(str(tmp_path / "empty.log")).returncode == 0


def test_markup_and_escapes_are_harmless(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J<script>alert(1)</script><img src=x onerror=alert(1)>"
    (tmp_path / "train.log").write_text(
        f'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nValueError: {evil}\n'
    )
    done = call(str(tmp_path / "train.log"), "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert "\x1b" not in done.stdout
    assert "<script" not in page.replace("&lt;script", "")
    assert "<img" not in page
    assert "http://" not in page.replace("http-equiv", "")
    assert "src=" not in page.replace("src=x onerror", "")


def test_a_name_with_escapes_is_harmless(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m.log").write_text("ValueError: x\n")
    assert "\x1b" not in call(str(tmp_path / "a\x1b[31m.log")).stdout
