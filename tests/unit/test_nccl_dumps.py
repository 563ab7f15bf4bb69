"""Dumps of NCCL's flight recorder, laid side by side: who made another call, who did not come. Nothing of them is executed."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

import crashcart
from crashcart.readers.nccl import read_dumps

if TYPE_CHECKING:
    from pathlib import Path


def entry(sequence: int, operation: str = "all_reduce", size: int = 1024, state: str = "completed") -> dict[str, Any]:
    """As torch 2.11 writes one."""
    return {
        "record_id": sequence, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": sequence, "p2p_seq_id": 0,
        "op_id": sequence, "profiling_name": f"nccl:{operation}", "time_created_ns": 1_794_747_145_045_259_212 + sequence,
        "input_sizes": [[size]], "input_dtypes": ["Float"], "state": state, "is_p2p": False, "timeout_ms": 600_000,
        "frames": [
            {"name": operation, "filename": "/env/site-packages/torch/distributed/distributed_c10d.py", "line": 2968},
            {"name": "train", "filename": "/app/train.py", "line": 40 + sequence},
        ],
    }  # fmt: skip


def run_folder(tmp_path: Path, ranks: list[list[dict[str, Any]]]) -> Path:
    (tmp_path / "nccl").mkdir(parents=True)
    (tmp_path / "run.json").write_text('{"command": "torchrun train.py", "state": "failed"}')
    (tmp_path / "exit.json").write_text('{"code": 1, "signal": null, "time": 1794747200.0}')
    for rank, entries in enumerate(ranks):
        (tmp_path / "nccl" / f"rank_{rank}").write_bytes(pickle.dumps({"version": "2.10", "entries": entries}, protocol=2))
    return tmp_path


def first(folder: Path) -> tuple[str, str]:
    finding = crashcart.why([str(folder)]).findings[0]
    return finding.cause, finding.signs[0].says


def test_different_calls_under_one_number_are_a_desync(tmp_path: Path) -> None:
    waits = entry(3, state="started")
    folder = run_folder(tmp_path, [[entry(1), entry(2), waits], [entry(1), entry(2), entry(3, "broadcast", 1, "started")]])
    assert first(folder) == ("distributed/desync", "under the same number rank 0 and rank 1 made different calls")


def test_the_rank_that_never_came_is_named(tmp_path: Path) -> None:
    waits = [entry(1), entry(2), entry(3, state="started")]
    cause, says = first(run_folder(tmp_path, [waits, waits, [entry(1), entry(2)], waits]))
    assert cause == "distributed/slow-rank"
    assert says.startswith("rank 2 never reached collective 3 (all_reduce)")


def test_ranks_that_agree_say_nothing(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, [[entry(1), entry(2)], [entry(1), entry(2)]])
    assert not any(one.cause.startswith("distributed/") for one in crashcart.why([str(folder)]).findings)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("/tmp/crashcart-was-here", "w")


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x02}q\x00", b"no pickle", pickle.dumps({"entries": [Evil()]}), pickle.dumps(Evil())]
)
def test_what_is_damaged_or_hostile_is_left_alone(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "rank_0").write_bytes(data)
    assert read_dumps(str(tmp_path)) == []
