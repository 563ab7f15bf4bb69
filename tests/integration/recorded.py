"""Runs a small real program under `crashcart run` and asks why; for tests of what is said about recorded runs."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

from crashcart.errors import DEBUG
from crashcart.report.terminal import text
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.model import Diagnosis

CRASHCART = [sys.executable, "-m", "crashcart", "run", "--quiet"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
PATIENCE = 200.0


def ran(folder: Path, program: str, *before: str, name: str = "train.py", **more: str) -> Diagnosis:
    """What is said of a program that has run to its end; `before` stands before it on the command line."""
    (folder / name).write_text(textwrap.dedent(program))
    return recorded(folder, *(before or (sys.executable,)), name, **more)


def recorded(folder: Path, *command: str, **more: str) -> Diagnosis:
    """What is said of a command that has run to its end."""
    plain = {
        variable: value
        for variable, value in os.environ.items()
        if not variable.startswith("CRASHCART_") or variable == DEBUG
    }
    runs = folder / "runs"
    subprocess.run(
        [*CRASHCART, "--", *command],
        cwd=folder,
        env={**plain, "OMP_NUM_THREADS": "1", "CRASHCART_RUNS": str(runs), **more},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    (run,) = [path for path in runs.iterdir() if path.is_dir()]
    return why(str(run))


def blamed(diagnosis: Diagnosis) -> list[str]:
    """The causes that are said to be ones."""
    return [one.cause for one in diagnosis.findings if one.role == "cause"]


def shown(diagnosis: Diagnosis) -> str:
    """What a person reads, in one line: the pieces of a wrapped line are one sentence again."""
    return " ".join(text(diagnosis).split())
