"""Two real ranks over gloo: what one of them finds, both do; and the mean is that of one big batch."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

PROGRAM = Path(__file__).parent / "programs" / "guarded_ranks.py"
ROUNDING = 2e-7
Scenes = list[dict[str, dict[str, Any]]]


def launch(scenes: str, folder: Path, seconds: int) -> tuple[Scenes, list[int], list[str]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), scenes, str(folder / "meet")],
            env={**environment, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=seconds) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    told = [dict(json.loads(line) for line in out.splitlines() if line.startswith("[")) for out, _ in said]
    return told, [rank.returncode for rank in ranks], [err for _, err in said]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Scenes:
    told, codes, errors = launch("all", tmp_path_factory.mktemp("ranks"), 120)
    assert codes == [0, 0], errors
    return told


def both(scenes: Scenes, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return scenes[0][name], scenes[1][name]


def test_the_usual_skip_of_one_rank_alone_ends_in_a_time_out(tmp_path: Path) -> None:
    told, codes, errors = launch("usual", tmp_path, 60)
    assert codes != [0, 0]
    assert not any("usual" in one for one in told)
    assert any("Timed out" in error or "closed by peer" in error.lower() for error in errors), errors


def test_a_nan_on_one_rank_is_skipped_by_both(scenes: Scenes) -> None:
    first, second = both(scenes, "nan_on_one")
    assert first["weights"] == second["weights"]
    assert all(map(math.isfinite, first["weights"]))
    assert (first["skipped"], second["skipped"], first["stepped"]) == (1, 1, 5)
    assert (first["kept"], second["kept"]) == ([], [[4, 5]])


def test_an_infinite_loss_that_poisons_no_gradient_is_skipped_by_both(scenes: Scenes) -> None:
    first, second = both(scenes, "inf_loss_with_good_gradients")
    assert first["weights"] == second["weights"]
    assert (first["skipped"], second["skipped"]) == (1, 1)


def test_accumulation_is_one_big_batch_with_one_small_sum_a_window(scenes: Scenes) -> None:
    for told in both(scenes, "accumulation"):
        assert told["apart"] < ROUNDING
        assert (told["all_reduces"], told["partial"]) == (3, 1)


def test_ddp_averages_once_a_window(scenes: Scenes) -> None:
    for told in both(scenes, "sums_saved"):
        assert told["calls"] == 3
        assert told["apart"] < ROUNDING


def test_a_loop_of_ones_own_is_finished_with_what_ddp_held_back(scenes: Scenes) -> None:
    for told in both(scenes, "own_loop"):
        assert told["apart"] < ROUNDING
        assert (told["finished"], told["again"]) == (True, False)


def test_a_static_graph_averages_its_first_backward(scenes: Scenes) -> None:
    for told in both(scenes, "static_graph"):
        assert "expect_autograd_hooks_" in told["usual"]
        assert told["apart"] < ROUNDING


@pytest.mark.parametrize("name", ["weighted", "no_lengths"])
def test_unequal_micro_batches_and_windows_are_one_big_batch(scenes: Scenes, name: str) -> None:
    assert max(told["apart"] for told in both(scenes, name)) < ROUNDING


def test_weights_on_one_rank_only_are_refused_on_both(scenes: Scenes) -> None:
    for told in both(scenes, "weighted_here_only"):
        assert [said.partition(":")[0] for said in told["said"]] == 2 * [
            "weight was given for some ranks and not for the others"
        ]


def test_a_rank_with_more_batches_does_not_wait_for_ever(scenes: Scenes) -> None:
    first, second = both(scenes, "unequal_lengths")
    assert first == second
    assert first["windows"] == 3


def test_scalers_of_all_ranks_fall_together(scenes: Scenes) -> None:
    first, second = both(scenes, "scaler_alone_on_each")
    assert first == second
    assert first["seen"] == [[True, 8.0], [False, 4.0], [True, 4.0], [True, 4.0]]


def test_hopeless_is_said_by_both_at_the_same_step(scenes: Scenes) -> None:
    first, second = both(scenes, "hopeless")
    assert (first["step"], second["step"]) == (4, 4)
    assert (first["safe"], second["safe"]) == (False, False)
    assert "all of the last 5 steps were skipped" in first["said"]


def test_lost_weights_go_back_on_both(scenes: Scenes) -> None:
    first, second = both(scenes, "lost_weights_go_back")
    assert first == second
    assert first["rolled_back"] == 1
    assert all(map(math.isfinite, first["weights"]))


def test_the_free_function_tells_both(scenes: Scenes) -> None:
    first, second = both(scenes, "own_cycle")
    assert first == {"good": True, "bad": False, "alone": True}
    assert second == {"good": True, "bad": False, "alone": False}


def test_a_sharded_model_accumulates_clips_and_skips_alike(scenes: Scenes) -> None:
    for told in both(scenes, "sharded"):
        assert told["apart, no_sync None"] < ROUNDING
        assert told["apart, no_sync True"] < ROUNDING
        assert (told["skipped"], told["finite"]) == (1, True)
        assert told["fused"] == [4, 1, True]
