"""Where the processes of a job write about themselves: in memory, but not in memory that the job needs."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

from crashcart.recording import folder

if TYPE_CHECKING:
    from pathlib import Path


class Room(NamedTuple):
    f_bavail: int
    f_frsize: int = 4096


@pytest.mark.parametrize(("free", "in_memory"), [(64 << 20, False), (8 << 30, True)])
def test_scarce_shared_memory_is_left_to_the_job(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    in_memory: bool,  # noqa: FBT001
) -> None:
    if not os.path.isdir("/dev/shm"):
        pytest.skip("no shared memory here")
    monkeypatch.setattr(os, "statvfs", lambda _: Room(free // 4096))
    live = folder.live_folder(str(tmp_path))
    assert live is not None
    try:
        assert live.startswith("/dev/shm/") == in_memory
    finally:
        shutil.rmtree(live)
