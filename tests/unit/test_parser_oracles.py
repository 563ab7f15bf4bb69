"""Parsers and config systems that jobs use, against the real ones: every value is equal or unknown, every refusal is seen.

`python tests/unit/test_parser_oracles.py [SEED]` prints the figures of each library.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path

import pytest
from parser_oracle import PROGRAMS, Score, score

_FILES = sorted(PROGRAMS.glob("*.md"))
# What a file of programs imports beside the package of its own name; without it the file is skipped.
_PACKAGES = {
    "python_configs": ("yacs", "mmengine", "gin"),
    "transformers": ("transformers", "trl"),
    "draccus": ("draccus", "pyrallis"),
    "absl": ("absl", "ml_collections"),
    "typer": ("typer", "typer_config"),
    "lightning": ("lightning", "jsonargparse", "typeshed_client"),
}
_MOST_UNKNOWN = 0.02


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_values_and_refusals_are_those_of_the_real_parser(path: Path, tmp_path: Path) -> None:
    missing = [name for name in _PACKAGES.get(path.stem, (path.stem,)) if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    result = score(path, tmp_path)
    print(f"{path.stem}: {result}")  # noqa: T201 - the figures are the point of the test
    worse = [problem for problem in result.problems if not problem.startswith("unknown")]
    assert not worse, "\n".join(worse[:10])
    assert result.equal > 20
    assert result.unknown <= _MOST_UNKNOWN * result.equal, "\n".join(result.problems[:10])


def _main(seed: int) -> None:
    total = Score()
    for path in _FILES:
        with tempfile.TemporaryDirectory() as folder:
            result = score(path, Path(folder), seed)
        sys.stdout.write(f"{path.stem}: {result}\n")
        for name in ("equal", "unknown", "wrong", "refused", "missed", "false_alarms"):
            setattr(total, name, getattr(total, name) + getattr(result, name))
    sys.stdout.write(f"all: {total}\n")


if __name__ == "__main__":
    _main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
