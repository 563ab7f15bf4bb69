"""Histories of progress in, suspicions, limits and the odd one out."""

from __future__ import annotations

import pytest

from crashcart.flight import Frame
from crashcart.run.hangs import Progress, odd_one_out, same_places, waits_for_others
from crashcart.run.movement import Movement
from crashcart.run.stacks import Stack

TORCH = "/env/lib/python3.11/site-packages/torch/"
BACKWARD = Frame(TORCH + "autograd/graph.py", 979, "_engine_run_backward")
REDUCE = Frame(TORCH + "distributed/distributed_c10d.py", 3252, "all_reduce")
SHARDED = Frame(TORCH + "distributed/fsdp/_fully_shard/_fsdp_state.py", 60, "fsdp_hook_wrapper")
POLL = Frame("/usr/lib/python3.11/selectors.py", 415, "select")


def own(line: int = 7, name: str = "decode") -> Frame:
    return Frame("/home/me/train.py", line, name)


def stack(rank: int, *frames: Frame, role: str = "rank") -> Stack:
    return Stack(100 + rank, rank, f"{role} {rank}", "", frames, "")


def trained(step_seconds: float, steps: int = 20) -> tuple[Progress, float]:
    progress, now = Progress(0.0), 0.0
    for number in range(1, steps + 1):
        now += step_seconds
        progress.update((number, 0), "train", now)
    return progress, now


@pytest.mark.parametrize("seconds", [0.1, 1.0, 5.0])
def test_suspicion_comes_within_ten_seconds_or_ten_steps(seconds: float) -> None:
    progress, now = trained(seconds)
    assert not progress.suspicious(now + 4)
    assert progress.suspicious(now + max(9.0, 9 * seconds))


def test_many_steps_between_two_looks_are_not_one_long_step() -> None:
    progress = Progress(0.0)
    for second in range(20):
        progress.update((10 * second, 0), "train", float(second))
    assert progress.step == pytest.approx(0.1)


def test_a_first_checkpoint_and_a_first_evaluation_have_time() -> None:
    progress, now = trained(5.0)
    for phase, steps in (("checkpoint", 20), ("evaluate", 50)):
        progress.update(progress.counted, phase, now)
        assert progress.limit(moves=False) > steps * 5.0
        assert progress.limit(moves=True) >= 20 * 60


def test_what_a_phase_has_needed_before_it_may_need_again() -> None:
    progress, now = trained(0.1)
    progress.update(progress.counted, "evaluate", now)
    progress.update((*progress.counted[:1], 1), "evaluate", now + 400)
    assert progress.limit(moves=False) >= 3 * 400
    assert not progress.suspicious(now + 400 + 450)


def test_a_start_is_judged_only_where_nothing_moves_or_a_tracker_holds_it() -> None:
    progress = Progress(0.0)
    assert progress.limit(moves=True) == float("inf")
    assert progress.limit(moves=False) == 600
    progress.update((), "tracker", 1.0)
    assert progress.limit(moves=False) == 60


@pytest.mark.parametrize(
    ("stacks", "rank"),
    [
        ([stack(0, BACKWARD, own()), stack(1, own())], 1),
        ([stack(0, own()), stack(1, REDUCE, own())], 0),
        ([stack(0, BACKWARD), stack(1, own(3), SHARDED, own(1))], 1),  # its module is sharded; it is in no collective
        ([stack(0, REDUCE), stack(1, REDUCE), stack(2, BACKWARD)], 2),
        ([stack(0, REDUCE, own()), stack(1, REDUCE, own(8, "save"))], None),
        ([stack(0, BACKWARD), stack(1, POLL, own()), stack(1, own(), role="other")], 1),  # a rank's child is no rank
    ],
)
def test_the_rank_that_is_not_where_the_others_wait_is_the_odd_one(stacks: list[Stack], rank: int | None) -> None:
    odd = odd_one_out(stacks, {})
    assert (odd.rank if odd else None) == rank


def test_where_stacks_do_not_tell_it_counts_tell() -> None:
    stacks = [stack(0, own(9)), stack(1, own(7))]
    behind = odd_one_out(stacks, {100: (10, 11), 101: (10, 10)})
    idle = odd_one_out(stacks, {}, idle=[100])
    assert behind is not None
    assert behind.rank == 1
    assert idle is not None
    assert idle.rank == 0


def test_ranks_that_all_stand_at_one_place_of_their_own_are_told_together() -> None:
    odd = odd_one_out([stack(0, own()), stack(1, own())], {})
    assert odd is not None
    assert (odd.rank, odd.where) == (None, "/home/me/train.py:7 in decode")


def test_a_write_of_a_distributed_checkpoint_is_work_and_no_wait() -> None:
    assert not waits_for_others(stack(0, Frame(TORCH + "distributed/checkpoint/filesystem.py", 5, "write_data")))
    assert waits_for_others(stack(0, POLL, REDUCE))


def test_turning_inside_an_event_loop_is_standing_still() -> None:
    asleep = Frame("/usr/lib/python3.11/threading.py", 327, "wait")
    assert same_places([stack(0, POLL, own())], [stack(0, asleep, own())])
    assert not same_places([stack(0, own())], [stack(0, own(7, "encode"))])
    assert not same_places([], [stack(0, own())])


def test_who_moved_only_at_first_stands_still_now() -> None:
    movement = Movement()
    row = [1.0, *[float("nan")] * 11]
    for second in range(60):
        row[6] = min(second, 10) * 0.5
        movement.note([row.copy()], float(second))
    assert not movement.moves([1], since=5.0, now=60.0)
    assert movement.moves([1], since=5.0, now=12.0)
