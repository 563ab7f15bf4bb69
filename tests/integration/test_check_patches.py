"""Jobs of the plans that are really started: they die as `check` said, and run to their end with its patch.

A section of a plan with a fence ``run`` holds a whole small program: its command fails before the patch. ``runs`` is the same
for a job whose death takes too long to wait for. After the patch `check` is silent about what it found.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import crashcart
from crashcart.repair import repairs, write

sys.path.insert(0, str(Path(__file__).parents[1]))
from started import started
from test_plans import EXPECTED, Section, sections

pytestmark = pytest.mark.processes

SAFETIES = frozenset({"exact", "same-recipe", "changes-training"})
STARTED = [section for section in sections() if section.of("run") or section.of("runs")]
pytest.importorskip("torch")


@pytest.mark.sample(3)
@pytest.mark.parametrize("section", STARTED, ids=lambda section: f"{section.file}: {section.title}")
def test_patched_job_runs(section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies, it is patched, it runs through, and nothing more is said about it."""
    monkeypatch.chdir(tmp_path)
    for library in ("h5py", "lmdb"):
        if any(f"import {library}\n" in body for _, body in section.of("file")):
            pytest.importorskip(library)
    for name, body in section.of("file"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(body, encoding="utf-8")
    if section.of("run"):
        assert _started(section.of("run")[0][1]).returncode != 0
    job = shlex.split(section.of("check")[0][1])

    def look() -> crashcart.model.Diagnosis:
        return crashcart.check(command=job[1:]) if job[0] == "--" else crashcart.check(job)

    for _ in range(2):  # of the patches for one cause, one is carried out at a time
        if found := repairs(look().findings, SAFETIES):
            write(found)
    ended = _started((section.of("run") or section.of("runs"))[0][1])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = [
        match["cause"] for _, body in section.of("expect") for match in EXPECTED.finditer(body) if match["level"] != "not"
    ]
    left = [one for one in look().findings if one.cause in said and one.level != "note"]
    assert not left, left


def _started(command: str) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command)
    start = {"python": [sys.executable], "torchrun": [sys.executable, "-m", "torch.distributed.run", "--standalone"]}
    line = [*start[words[0]], *words[1:]]
    return started(lambda: subprocess.run(line, check=False, capture_output=True, text=True, timeout=180))
