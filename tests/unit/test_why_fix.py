"""`why --fix` shows the first patch that leaves the training as it is, and carries it out."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "eval_oom"


def asked(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "crashcart", "why", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)


def test_the_patch_of_the_first_answer_is_applied(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "job")
    done = asked(tmp_path / "job", "train.log", "--fix")
    assert "--fix applies the patch." in done.stdout
    assert "+    --sample_batch_size=1024 " in done.stderr
    assert "crashcart: wrote train.sh." in done.stderr
    assert "--sample_batch_size=1024 " in (tmp_path / "job" / "train.sh").read_text()


def test_without_the_flag_nothing_is_written(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "job")
    asked(tmp_path / "job", "train.log")
    assert (tmp_path / "job" / "train.sh").read_text() == (EXAMPLE / "train.sh").read_text()


def test_an_answer_without_a_patch_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1 loss 0.3\nKilled\n")
    assert "no patch can be applied automatically" in asked(tmp_path, "train.log", "--fix").stderr


def test_a_secret_beside_the_change_is_not_shown_and_not_lost(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "job")
    script = tmp_path / "job" / "train.sh"
    secret = "0123456789abcdef" * 2 + "01234567"
    script.write_text(script.read_text().replace("#!/bin/bash\n", f"#!/bin/bash\nexport WANDB_API_KEY={secret}\n"))
    done = asked(tmp_path / "job", "train.log", "--fix")
    assert secret not in done.stdout + done.stderr
    assert f"export WANDB_API_KEY={secret}\n" in script.read_text()
    assert "--sample_batch_size=1024 " in script.read_text()


def test_a_recording_from_elsewhere_changes_no_file_of_the_folder_that_it_names(tmp_path: Path) -> None:
    job, elsewhere = tmp_path / "job", tmp_path / "elsewhere"
    job.mkdir()
    elsewhere.mkdir()
    program = "for step in range(3):\n    print('step', step, flush=True)\nopen('out/notes.txt', 'w').write('done')\n"
    (job / "train.py").write_text(program)
    subprocess.run(
        [sys.executable, "-m", "crashcart", "run", "--", sys.executable, "train.py"],
        cwd=job,
        check=False,
        capture_output=True,
    )
    (run,) = (path for path in (job / "crashcart_runs").iterdir() if path.is_dir() and not path.is_symlink())
    shutil.copytree(run, elsewhere / "run")
    assert "no patch can be applied" in asked(elsewhere, "run", "--fix").stderr
    assert (job / "train.py").read_text() == program
    assert "wrote train.py" in asked(job, str(run), "--fix").stderr
    assert (job / "train.py").read_text() != program
