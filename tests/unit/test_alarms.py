"""Trends and alarms on series as jobs give them: a leak is seen, a plateau, a saw and a transient are not."""

from __future__ import annotations

import math
import random

import pytest

from crashcart.recording.tables import CGROUP, HOST
from crashcart.run.alarms.files import Disk
from crashcart.run.alarms.memory import HostMemory
from crashcart.run.alarms.trend import Series

GIB = 1 << 30
MINUTES = 10


def series(value: object, seed: int = 1) -> Series:
    chance = random.Random(seed)
    found = Series()
    for second in range(MINUTES * 60):
        found.add(float(second), value(second) + chance.gauss(0, 0.02))  # type: ignore[operator]
    return found


@pytest.mark.parametrize("seed", range(8))
def test_a_leak_is_told_with_its_rate(seed: int) -> None:
    rise = series(lambda second: 8 + 0.002 * second, seed).rise()
    assert rise is not None
    assert rise.slope == pytest.approx(0.002, rel=0.1)
    assert rise.seconds_to(16.0) == pytest.approx((16 - rise.now) / 0.002, rel=0.1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "shape",
    [
        lambda second: 8.0,  # noqa: ARG005 - flat
        lambda second: 8 + 4 * min(1.0, second / 120),
        lambda second: 8 + (second % 60) / 60,
        lambda second: 8 + (3 if 200 < second < 260 else 0),
        lambda second: 8 + 2 * (1 - math.exp(-second / 60)),
    ],
    ids=["flat", "plateau after two minutes", "saw of each epoch", "transient", "warm-up"],
)
def test_what_is_no_leak_is_not_told(shape: object, seed: int) -> None:
    assert series(shape, seed).rise() is None


def row(names: tuple[str, ...], **values: float) -> list[float]:
    return [values.get(name, math.nan) for name in names]


def test_memory_that_heads_for_the_limit_of_the_group_has_a_time_of_death() -> None:
    watch = HostMemory()
    for second in range(MINUTES * 60):
        tables = {
            "host": [row(HOST, memory_total=64 * GIB, memory_available=50 * GIB)],
            "cgroup": [row(CGROUP, limit=16 * GIB, anon=(9 + second / 120) * GIB, shmem=0.5 * GIB, oom_kill=0)],
        }
        watch.note(float(second), tables, [], [])
    ((kind, sentence),) = watch.judge(MINUTES * 60.0)
    assert kind == "host-memory"
    assert "0.50 GB a minute" in sentence
    assert "about 3 min" in sentence


def test_a_disk_without_room_for_two_checkpoints_is_told() -> None:
    watch = Disk()
    tables = {"host": [row(HOST, disk_free=5 * GIB, inodes_free=1e6)]}
    watch.note(0.0, tables, [], [{"kind": "checkpoint", "bytes": 2 * GIB}])
    assert list(watch.judge(0.0)) == []
    watch.note(1.0, {"host": [row(HOST, disk_free=3 * GIB, inodes_free=1e6)]}, [], [])
    ((_, sentence),) = watch.judge(1.0)
    assert "1.5 more checkpoints" in sentence
