"""Plain histories of processes in, stages and the first death out: who started whom, who trained, how each ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from history import START, History

from crashcart.deaths import finished, first, hung, swallowed, terminated_first, timed_out_by
from crashcart.ending import ending_of, stage_reports
from crashcart.flight import Event
from crashcart.stages import exit_of

if TYPE_CHECKING:
    from crashcart.case import Case


def told(case: Case) -> list[tuple[str, str, int, str, bool]]:
    return [
        (one.program, one.role, one.ranks, one.ending.state, one.decided) for one in stage_reports(case, ending_of(case))
    ]


def test_a_rank_that_gave_up_waiting_is_first_and_a_preparation_is_no_rank() -> None:
    history = History(code=1)
    history.process(10, 1, "rank", "python prepare.py", born=0, rank=0)  # as old recordings have it
    history.gone(10, 5, code=0)
    history.ranks(20, 6, first_pid=21)
    history.raised(
        22, 40, "RuntimeError", "gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation"
    )
    history.gone(22, 40.5, code=1)
    history.gone(21, 40.7, signal="SIGTERM")
    history.gone(20, 41, code=1)
    case = history.case()
    leader = first(case)
    assert leader is not None
    assert leader.process.name == "rank 1"
    assert terminated_first(case) is None
    assert [(one.program, one.role, one.ranks) for one in case.flight.stages] == [  # type: ignore[union-attr]
        ("prepare.py", "preparation", 0),
        ("train.py", "training", 2),
    ]


def test_a_guard_ends_as_what_it_guards() -> None:
    history = History(code=137)
    history.process(10, 1, "program", "python guard.py 600 python train.py", born=0, rank=0)
    history.process(11, 10, "other", "python train.py", born=1, rank=0, steps=17)
    history.gone(11, 30, signal="SIGKILL")
    history.gone(10, 30.1, code=137)
    case = history.case()
    leader = first(case)
    assert leader is not None
    assert (leader.process.pid, leader.process.name, leader.signal) == (11, "rank 0", "SIGKILL")
    assert case.flight is not None
    assert case.flight.processes[10].role == "wrapper"
    (stage,) = case.flight.stages
    assert (stage.program, stage.role, exit_of(case.flight, stage)) == ("train.py", "training", (None, "SIGKILL"))


def test_a_guard_is_known_by_its_command_line_before_the_first_step() -> None:
    history = History(code=1)
    history.process(10, 1, "program", "python guard.py 600 python train.py --lr 1", born=0, rank=0)
    history.process(11, 10, "other", "/usr/bin/python3 train.py --lr 1", born=1)
    history.raised(11, 3, "KeyError", "'lr'")
    history.gone(11, 3.5, code=1)
    history.gone(10, 3.6, code=1)
    leader = first(history.case())
    assert leader is not None
    assert leader.process.name == "train.py"


@pytest.mark.parametrize("code", [0, 1])
def test_a_script_that_ends_with_0_after_its_ranks_failed_has_not_finished(code: int) -> None:
    history = History(code=code)
    history.ranks(20, 0, first_pid=21)
    history.raised(21, 30, "ValueError", "no")
    history.gone(21, 30.5, code=1)
    history.gone(22, 31, signal="SIGTERM")
    history.gone(20, 32, code=1)
    history.process(30, 1, "program", "python evaluate.py", born=33, rank=0)
    history.gone(30, 40, code=0)
    case = history.case()
    assert not finished(case)
    assert told(case)[0][:3] == ("train.py", "training", 2)
    assert [one[-1] for one in told(case)] == [True, False]
    leader = first(case)
    assert leader is not None
    assert leader.process.rank == 0


def test_a_preparation_that_the_script_got_over_is_not_the_outcome() -> None:
    history = History(code=0)
    history.process(10, 1, "program", "python prepare.py", born=0, rank=0)
    history.raised(10, 2, "FileNotFoundError", "no data")
    history.gone(10, 2.1, code=1)
    history.ranks(20, 3, first_pid=21)
    for pid in (21, 22, 20):
        history.gone(pid, 50, code=0)
    case = history.case()
    assert finished(case)
    assert [(one[0], one[3], one[4]) for one in told(case)] == [
        ("prepare.py", "crashed", False),
        ("train.py", "unknown", True),
    ]
    hidden = swallowed(case)
    assert hidden is not None
    assert hidden.process.name == "prepare.py"


def test_a_preparation_that_ended_the_script_is_the_outcome() -> None:
    history = History(code=1)
    history.process(10, 1, "program", "python prepare.py", born=0, rank=0)
    history.raised(10, 2, "FileNotFoundError", "no data")
    history.gone(10, 2.1, code=1)
    leader = first(history.case())
    assert leader is not None
    assert leader.process.name == "prepare.py"


def seeds(*ends: int, arguments: str = "--seed {}") -> Case:
    """One training after the other, each with its exit code."""
    history = History(code=ends[-1])
    for number, code in enumerate(ends):
        pid, begin = 10 + number, 20.0 * number
        history.process(pid, 1, "rank", f"python train.py {arguments.format(number)}", born=begin, rank=0, steps=30)
        if code:
            history.raised(pid, begin + 9, "ValueError", "no")
        history.gone(pid, begin + 10, code=code)
    return history.case()


def test_each_pass_of_a_loop_is_a_stage_and_the_one_that_failed_decides() -> None:
    assert [one[-1] for one in told(seeds(0, 1, 0))] == [False, True, False]
    assert [one[-1] for one in told(seeds(0, 0, 0))] == [False, False, True]
    leader = first(seeds(0, 1, 0))
    assert leader is not None
    assert leader.process.pid == 11


def test_a_command_that_was_started_again_and_came_to_its_end_has_finished() -> None:
    assert finished(seeds(1, 1, 0, arguments="--lr 1"))
    again = seeds(1, 1, arguments="--lr 1")
    leader = first(again)
    assert leader is not None
    assert leader.process.pid == 11  # what ended the last attempt


def test_a_rank_that_leaves_early_with_0_is_first() -> None:
    history = History(code=1)
    history.ranks(20, 0, first_pid=21)
    history.gone(22, 30, code=0)
    history.raised(21, 30.4, "RuntimeError", "gloo/transport/tcp/pair.cc:553] Connection closed by peer")
    history.gone(21, 31, code=1)
    history.gone(20, 32, code=1)
    leader = first(history.case())
    assert leader is not None
    assert (leader.process.rank, leader.left) == (1, True)


def test_a_rank_that_somebody_terminated_is_told_from_those_that_the_launcher_ended() -> None:
    history = History(code=1)
    history.ranks(20, 0, first_pid=21)
    history.raised(21, 29.9, "RuntimeError", "gloo/transport/tcp/pair.cc:537] Read error: Connection reset by peer")
    history.gone(22, 30, signal="SIGTERM")
    history.gone(21, 30.2, signal="SIGTERM")
    history.gone(20, 32, code=1)
    ended = terminated_first(history.case())
    assert ended is not None
    assert ended.process.rank == 1


def test_a_server_in_the_background_decides_nothing() -> None:
    history = History(code=0)
    history.process(10, 1, "program", "python -m my.thing", born=0, rank=0)
    history.ranks(20, 2, first_pid=21)
    for pid in (21, 22, 20):
        history.gone(pid, 50, code=0)
    history.gone(10, 51, signal="SIGTERM")
    case = history.case()
    assert finished(case)
    assert told(case)[0][:4] == ("my.thing", "service", 0, "stopped")


def test_the_timeout_command_is_no_scheduler() -> None:
    history = History(code=124)
    history.process(10, 1, "wrapper", "timeout 30 python train.py", born=0)
    history.process(11, 10, "rank", "python train.py", born=0, rank=0, steps=9)
    history.gone(11, 30, signal="SIGTERM")
    history.gone(10, 30.1, code=124)
    case = history.case()
    assert timed_out_by(case) is not None
    assert [one[0] for one in told(case)] == ["train.py"]


def test_a_driver_that_starts_several_programs_is_looked_through() -> None:
    history = History(code=1)
    history.process(5, 1, "wrapper", "python sweep.py", born=0)
    for number, code in enumerate((0, 1)):
        pid = 10 + number
        history.process(pid, 5, "rank", f"python train.py --lr {number}", born=10.0 * number, rank=0, steps=5)
        history.gone(pid, 10.0 * number + 9, code=code)
    history.raised(5, 20, "subprocess.CalledProcessError")
    history.gone(5, 20.5, code=1)
    case = history.case()
    assert [(one[0], one[-1]) for one in told(case)] == [("train.py", False), ("train.py", True)]


def test_a_hang_of_another_stage_is_not_this_ones() -> None:
    history = History(code=1)
    history.process(10, 1, "program", "python prepare.py", born=0, rank=0)
    history.flight.events.append(Event(START + 8, "hang", {"pid": 10, "rank": 0}))
    history.gone(10, 10, code=0)
    history.ranks(20, 12, first_pid=21)
    history.raised(21, 30, "ValueError", "no")
    for pid in (21, 22, 20):
        history.gone(pid, 31, code=1)
    case = history.case()
    assert not hung(case)
    leader = first(case)
    assert leader is not None
    assert leader.process.rank == 0


def test_ranks_that_nobody_of_the_job_started_together_are_one_stage_if_they_are_of_one_group() -> None:
    """As srun's tasks are: each is the child of a daemon that is none of the job's."""
    history = History(code=1)
    for rank in (0, 1):
        history.process(10 + rank, 900 + rank, "rank", "python train.py", born=1.0 + rank / 10, rank=rank, steps=9)
        history.flight.processes[10 + rank].page["world_size"] = 2.0
    history.gone(11, 20, signal="SIGKILL")
    history.raised(10, 20.1, "RuntimeError", "gloo/transport/tcp/pair.cc:553] Connection closed by peer")
    history.gone(10, 21, code=1)
    case = history.case()
    assert [one[:3] for one in told(case)] == [("train.py", "training", 2)]
    leader = first(case)
    assert leader is not None
    assert leader.process.rank == 1


def test_forks_and_helpers_of_a_program_are_no_stages() -> None:
    history = History(code=0)
    history.process(10, 1, "rank", "python train.py", born=0, rank=0, steps=9)
    history.process(11, 10, "loader worker", "python train.py", born=1, rank=0, copy=True)
    history.process(12, 10, "other", "python -c from multiprocessing.resource_tracker import main;main(5)", born=1, rank=0)
    history.process(13, 10, "tracker", "wandb-core --port 1", born=1, rank=0)
    history.process(14, 1, "other", "tee log", born=0)
    for pid in (11, 12, 13, 14, 10):
        history.gone(pid, 60, code=0)
    assert [one[0] for one in told(history.case())] == ["train.py"]


def test_a_run_that_goes_on_is_about_the_stage_that_trains() -> None:
    history = History(alive=True)
    history.process(10, 1, "program", "python server.py", born=0, rank=0)
    history.ranks(20, 2, first_pid=21)
    case = history.case()
    assert case.flight is not None
    assert case.flight.stage is not None
    assert case.flight.stage.program == "train.py"


def test_of_a_rank_and_its_workers_that_were_killed_at_once_the_rank_counts() -> None:
    history = History(code=137)
    history.process(5, 1, "rank", "python train.py", born=1, rank=0, steps=20)
    history.process(6, 5, "loader worker", "python train.py", born=2, rank=0)
    history.gone(6, 40, signal="SIGKILL")
    history.gone(5, 40.4, signal="SIGKILL")
    leader = first(history.case())
    assert leader is not None
    assert leader.process.role == "rank"
