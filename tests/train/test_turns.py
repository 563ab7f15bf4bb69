"""One rank prepares and the others wait, in real processes: longer than any time-out, and never for one that is lost."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crashcart.train import FirstRankError
from crashcart.train.ranks import waiting
from crashcart.train.ranks.meeting import Meeting
from crashcart.train.ranks.noticeboard import StoreBoard

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes

PROGRAM = str(Path(__file__).parent / "programs" / "turns.py")
LIMIT = 90
NOT_PASSED_ON = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_PROCID",
    "SLURM_NTASKS",
)


def environment(**more: object) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    return {**plain, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in more.items()}}


def torchrun(scenario: str, ranks: int, *flags: str, **variables: object) -> tuple[int, str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *flags, PROGRAM]
    done = subprocess.run(
        [*command, scenario], env=environment(**variables), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    return done.returncode, done.stdout + done.stderr


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def by_hand(scenario: str, variables: list[dict[str, object]], **common: object) -> list[tuple[int, str]]:
    """Ranks that no launcher looks after: whoever is lost, nobody ends the others."""
    started = [
        subprocess.Popen(
            [sys.executable, PROGRAM, scenario],
            env=environment(**common, **own),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for own in variables
    ]
    try:
        return [(process.wait(LIMIT), process.stdout.read() if process.stdout else "") for process in started]
    finally:
        for process in started:
            process.kill()


def lines(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line.startswith("rank "))


def test_the_usual_barrier_dies_when_rank_0_prepares_longer_than_the_time_out() -> None:
    code, text = torchrun("usual", 2)
    assert code != 0
    assert "through the barrier" not in text


def test_ours_waits_longer_than_the_time_out_and_can_be_used_again(tmp_path: Path) -> None:
    code, text = torchrun("ours", 2, CACHE=tmp_path / "cache")
    assert code == 0, text
    for rank in range(2):
        seen = [line.partition(": ")[2] for line in text.splitlines() if line.startswith(f"rank {rank}:")]
        letters = ["a", "b"] if rank == 0 else ["b", "a"]
        built = "built" if rank == 0 else "read"
        own = ["no error" if rank == 0 else "its own error"]
        turns = ["turn 0", "turn 1", "turn 2"]
        assert seen == [f"reads prepared {rank == 0}", *turns, *letters, f"got {built} index", *own, "ranks 2"]


@pytest.fixture(scope="module")
def hears() -> tuple[list[str], list[str]]:
    """What two ranks without a launcher say of the troubles of rank 0."""
    ranks: list[dict[str, object]] = [{"RANK": rank} for rank in range(2)]
    ended = by_hand("told", ranks, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    assert [code for code, _text in ended] == [0, 0], ended
    return ended[0][1].splitlines(), ended[1][1].splitlines()


def test_a_call_that_keeps_the_interpreter_lock_is_no_death_and_the_others_say_whom_they_wait_for(
    hears: tuple[list[str], list[str]],
) -> None:
    assert "rank 0: goes on" in hears[0]
    assert "rank 1: goes on" in hears[1]
    words = [line for line in hears[1] if line.startswith("rank 1 has waited")]
    assert any("(pid " in line and "which prepares in rank_zero_first('turns.py:told')" in line for line in words)


def test_the_error_of_rank_0_reaches_every_rank(hears: tuple[list[str], list[str]]) -> None:
    assert "rank 0: ValueError no such file: train.h5" in hears[0]
    mine = [line for line in hears[1] if line.startswith("rank 1: FirstRankError Rank 0 failed")]
    assert len(mine) == 2
    assert "ValueError: no such file: train.h5" in mine[0]
    assert ", in raises" in mine[0]
    assert "SystemExit: 3" in mine[1]


def test_a_call_that_rank_0_never_makes_is_told_when_it_ends(hears: tuple[list[str], list[str]]) -> None:
    assert "rank 1: Rank 0 ended without coming to rank_zero_first('told.<locals>.<lambda>" in hears[1][-1]


def test_a_first_rank_that_is_killed_ends_the_waiting_of_its_machine_only() -> None:
    """Rank 2 sees the process itself, rank 3 plays another machine and hears that the signs of life stopped."""
    ranks: list[dict[str, object]] = [
        {"RANK": 0, "LOCAL_RANK": 0, "GROUP_RANK": 0},
        {"RANK": 1, "LOCAL_RANK": 0, "GROUP_RANK": 1},
        {"RANK": 2, "LOCAL_RANK": 1, "GROUP_RANK": 1},
        {"RANK": 3, "LOCAL_RANK": 2, "GROUP_RANK": 1, "HOST": "another"},
    ]
    common = {"WORLD_SIZE": 4, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    ended = by_hand("killed", ranks, SCOPE="node", VICTIM=1, SILENCE=5, **common)
    assert [code for code, _text in ended] == [0, -9, 1, 1], ended
    assert "FirstRankError: Rank 1 (pid " in ended[2][1]
    assert "was killed or crashed while it prepared" in ended[2][1]
    assert "has given no sign of life for" in ended[3][1]


def test_a_rank_0_that_is_killed_with_the_store_ends_the_waiting() -> None:
    ranks: list[dict[str, object]] = [{"RANK": rank, "LOCAL_RANK": rank} for rank in range(2)]
    ended = by_hand("killed", ranks, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port(), SCOPE="job", VICTIM=0)
    assert [code for code, _text in ended] == [-9, 1]
    assert "FirstRankError: Rank 0 (pid " in ended[1][1]
    assert "was killed or crashed while it prepared" in ended[1][1]
    assert float(ended[1][1].partition("waited ")[2].split()[0]) < 30


def test_a_rank_0_that_ends_without_any_call_is_told() -> None:
    """`if rank: load_once(...)`: torchrun lets the others run, and they would wait for ever."""
    code, text = torchrun("passes_by", 2)
    assert code != 0
    assert "FirstRankError: Rank 0 ended without coming to rank_zero_first('passes_by')" in text


@pytest.fixture
def two_agents() -> Iterator[list[subprocess.Popen[str]]]:
    port = free_port()
    flags = ["--nnodes=2", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={port}"]
    agents = [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *flags, f"--node-rank={node}", PROGRAM, "nodes"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in range(2)
    ]
    yield agents
    for agent in agents:
        agent.kill()


def test_one_rank_of_each_machine_prepares(two_agents: list[subprocess.Popen[str]]) -> None:
    texts = [agent.communicate(timeout=LIMIT)[0] for agent in two_agents]
    assert [agent.returncode for agent in two_agents] == [0, 0], texts
    said = [line.split() for text in texts for line in lines(text)]
    began = {(int(words[1][:-1]), words[3], words[4]): float(words[5]) for words in said if words[2] == "node"}
    assert set(began) == {(0, "0", "first"), (1, "0", "later"), (2, "1", "first"), (3, "1", "later")}
    for first, later in ((0, 1), (2, 3)):
        node = str(first // 2)
        assert began[later, node, "later"] - began[first, node, "first"] > 1.4
    assert sorted((words[1], words[3]) for words in said if words[2] == "job") == [
        ("0:", "first"),
        ("1:", "later"),
        ("2:", "later"),
        ("3:", "later"),
    ]


def test_notes_of_an_earlier_attempt_do_not_count(tmp_path: Path) -> None:
    code, text = torchrun("restarted", 2, "--max-restarts=1", CACHE=tmp_path / "cache")
    assert code == 0, text
    assert lines(text) == ["rank 0: attempt 1 prepared", "rank 1: attempt 1 prepared"]


def test_ranks_without_a_store_meet_in_a_folder_and_notes_of_the_job_before_do_not_count(tmp_path: Path) -> None:
    ranks: list[dict[str, object]] = [{"SLURM_PROCID": rank, "SLURM_NTASKS": 2} for rank in range(2)]
    for _job in range(2):
        ended = by_hand("shared", ranks, CACHE=tmp_path)
        assert [code for code, _text in ended] == [0, 0], ended
        first, later = (text.split() for _code, text in ended)
        assert (first[2], later[2], later[-2:]) == ("first", "later", ["no", "torch"])
        assert float(later[3]) >= float(first[3])


@pytest.mark.long
def test_where_no_launcher_told_the_local_ranks_the_first_to_come_prepares() -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, "unmarked"], env=environment(), capture_output=True, text=True, timeout=LIMIT, check=True
    )
    assert sorted(done.stdout.split()) == ["first", "first", "later", "later"], done.stdout


def test_one_process_has_nobody_to_wait_for_and_loads_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, "alone"], env=environment(), capture_output=True, text=True, timeout=LIMIT, check=True
    )
    assert done.stdout.splitlines() == ["rank 0: first", "rank 0: 7 no torch"]
    assert not done.stderr


class Pinned:
    """Notes in memory, and an old one of another machine among them."""

    outlives = True

    def __init__(self, **more: object) -> None:
        note = {"machine": "elsewhere 1", "space": "", "pid": 1, "start": 1, "rank": 0, "at": time.time() - 1e6, "boot": 1.0}
        self.notes = {"k/done": json.dumps({**note, **more}).encode()}

    def read(self, key: str) -> bytes | None:
        return self.notes.get(key)

    def write(self, key: str, note: bytes) -> None:
        self.notes[key] = note

    def count(self, key: str, more: int) -> int:
        raise NotImplementedError(key, more)

    def at_exit(self) -> None:
        pass


def test_an_old_note_of_another_machine_is_believed_when_no_newer_one_comes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting, "OLD_NOTE_SECONDS", 0.3)
    waiting.wait(Meeting(Pinned(), 1, 2, "job", 0, is_first=False), "k", "name", None, 300.0)
    assert "goes on after an old note of rank 0" in caplog.text


def test_an_old_error_of_another_machine_is_never_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "OLD_NOTE_SECONDS", 0.1)
    met = Meeting(Pinned(error="ValueError", text="old", trace=""), 1, 2, "job", 0, is_first=False)
    with pytest.raises(FirstRankError, match="waited 0 s, its limit, for rank 0, which has not come"):
        waiting.wait(met, "k", "name", 0.4, 300.0)


def test_a_store_of_an_older_torch_is_read_without_waiting() -> None:
    import torch.distributed as dist

    store = dist.HashStore()  # type: ignore[attr-defined]  # made in C++

    class Older:
        get, set, add, compare_set = store.get, store.set, store.add, store.compare_set

    board = StoreBoard(lambda _patience: Older(), "here", outlives=False)
    assert board.read("note") is None
    board.write("note", b"there")
    assert board.read("note") == b"there"
    assert [board.count("sum", more) for more in (0, 2, 1)] == [0, 2, 3]
