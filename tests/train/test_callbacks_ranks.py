"""Two real ranks over gloo in each framework: a NaN that one of them meets is skipped by both, at the same step."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

PROGRAM = Path(__file__).parent / "programs" / "two_framework_ranks.py"


def launch(framework: str, kind: str, folder: Path) -> tuple[list[dict[str, Any]], list[int], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), framework, kind, str(folder)],
            env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank), "ACCELERATE_USE_CPU": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=120) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    told = [json.loads(line[5:]) for out, _ in said for line in out.splitlines() if line.startswith("TOLD ")]
    return told, [rank.returncode for rank in ranks], "\n".join(error[-3000:] for _, error in said)


@pytest.mark.sample(1)
@pytest.mark.parametrize("framework", ["transformers", "lightning"])
def test_a_nan_of_one_rank_is_everybodys_without_the_callback_and_nobodys_with_it(framework: str, tmp_path: Path) -> None:
    told, codes, errors = launch(framework, "alone", tmp_path)
    assert codes == [0, 0], errors
    assert [one["finite"] for one in told] == [False, False]
    told, codes, errors = launch(framework, "guarded", tmp_path)
    assert codes == [0, 0], errors
    first, second = told
    assert first["weights"] == second["weights"]
    assert first["finite"]
    assert (first["stepped"], first["skipped"]) == (second["stepped"], second["skipped"]) == (5, 1)
    assert sorted(len(one["kept"]) for one in told) == [0, 1]  # Lightning shuffles: either may have it


def test_the_usual_skip_in_accelerate_ends_in_a_time_out_or_in_ranks_that_differ(tmp_path: Path) -> None:
    told, codes, errors = launch("accelerate", "usual", tmp_path)
    assert codes != [0, 0] or told[0]["weights"] != told[1]["weights"], errors


@pytest.mark.parametrize("kind", ["batches", "accumulate"])
def test_a_guard_for_an_accelerator_skips_on_both(kind: str, tmp_path: Path) -> None:
    told, codes, errors = launch("accelerate", kind, tmp_path)
    assert codes == [0, 0], errors
    first, second = told
    assert first["weights"] == second["weights"]
    assert first["finite"]
    assert (first["ranks"], first["micros"]) == (2, 22)
    for one in told:
        assert (one["stepped"], one["skipped"], one["partial"], one["scheduled"]) == (10, 2, 2, 20)
    assert [one["kept"] for one in told] == [[], [[14, 15], [14, 15]]]


def test_what_is_wrong_in_one_shard_is_known_to_all(tmp_path: Path) -> None:
    told, codes, errors = launch("sharded", "guarded", tmp_path)
    assert codes == [0, 0], errors
    for one in told:
        assert (one["made"], one["before"], one["finite"]) == ([True, False, True, True], None, True)
    assert [one["after"] for one in told] == [
        "weights that are not finite on another rank",
        "1 weights that are not finite: layers.0.weight",
    ]
