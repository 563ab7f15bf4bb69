"""The memory group's row, on small folders that look like /proc and /sys/fs/cgroup of one kind of machine each."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from crashcart.recording.tables import CGROUP
from crashcart.run.outside.cgroup import Cgroup

if TYPE_CHECKING:
    from pathlib import Path

V2_MOUNT = "30 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
PIDS_MOUNT = "36 31 0:33 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
V1_STAT = "cache 1\nrss 2\nhierarchical_memory_limit {limit}\ntotal_cache 300\ntotal_rss 400\ntotal_shmem 100\n"


def machine(root: Path, groups: str, mounts: str, files: dict[str, str]) -> Path:
    texts = {"proc/7/cgroup": groups, "proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + mounts, **files}
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def row(root: Path) -> dict[str, float]:
    values = Cgroup(7, root=str(root)).row(0.0)
    assert len(values) == len(CGROUP)
    return dict(zip(CGROUP, values, strict=True))


def v2(folder: str, current: int, limit: str, **more: str) -> dict[str, str]:
    named = {name.replace("_", "."): text for name, text in more.items()}
    return {
        f"sys/fs/cgroup/{folder}/{name}": text
        for name, text in {"memory.current": f"{current}\n", "memory.max": f"{limit}\n", **named}.items()
    }


def test_the_tightest_limit_above_the_job_counts_and_its_own_use(tmp_path: Path) -> None:
    files = {
        **v2("slurm/job_1/step_0", 60, "max", memory_events="low 0\nhigh 0\nmax 9\noom 0\noom_kill 1\n"),
        **v2(
            "slurm/job_1", 90, "100", memory_stat="anon 50\nfile 30\nkernel 3\nshmem 20\n", memory_high="95\n", memory_peak="99\n",
            memory_events="low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\n", memory_pressure="some avg10=12.50 avg60=0.00 avg300=0.00 total=9\n",
        ),
        **v2("slurm", 500, "1000"),
        "sys/fs/cgroup/slurm/job_1/step_0/pids.current": "12\n",
        "sys/fs/cgroup/slurm/job_1/step_0/pids.max": "64\n",
    }  # fmt: skip
    found = row(machine(tmp_path, "0::/slurm/job_1/step_0\n", V2_MOUNT, files))
    assert found == {
        "current": 90, "limit": 100, "high": 95, "anon": 50, "file": 30, "shmem": 20, "oom": 2, "oom_kill": 1, "pressure": 0.125,
        "pids": 12, "pids_limit": 64, "peak": 99,
    }  # fmt: skip


def test_of_two_equal_limits_the_outer_one_is_reached_first(tmp_path: Path) -> None:
    files = {**v2("job/step", 60, "100"), **v2("job", 80, "100")}
    assert row(machine(tmp_path, "0::/job/step\n", V2_MOUNT, files))["current"] == 80


def test_no_limit_is_infinite_and_the_use_is_the_jobs_own(tmp_path: Path) -> None:
    files = {**v2("job/step", 60, "max", memory_high="max\n"), **v2("job", 80, "max", memory_high="max\n")}
    found = row(machine(tmp_path, "0::/job/step\n", V2_MOUNT, files))
    assert (found["current"], found["limit"], found["high"]) == (60, math.inf, math.inf)
    assert math.isnan(found["peak"])
    assert math.isnan(found["shmem"])


def test_a_container_whose_mount_is_its_own_group(tmp_path: Path) -> None:
    mount = V2_MOUNT.replace("0:27 / ", "0:27 /docker/ab ")
    files = {"sys/fs/cgroup/memory.current": "5\n", "sys/fs/cgroup/memory.max": "8\n"}
    found = row(machine(tmp_path, "0::/docker/ab\n", mount, files))
    assert (found["current"], found["limit"]) == (5, 8)


def test_a_group_outside_the_namespace_is_seen_from_its_top(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/memory.current": "5\n", "sys/fs/cgroup/memory.max": "8\n"}
    assert row(machine(tmp_path, "0::/../../other\n", V2_MOUNT, files))["current"] == 5


def v1(folder: str, current: int, limit: int) -> dict[str, str]:
    return {
        f"sys/fs/cgroup/memory/{folder}/memory.{name}": text
        for name, text in {
            "usage_in_bytes": f"{current}\n",
            "limit_in_bytes": f"{limit}\n",
            "max_usage_in_bytes": "77\n",
            "stat": V1_STAT.format(limit=9223372036854771712),
            "oom_control": f"oom_kill_disable 0\nunder_oom 0\noom_kill {current}\n",
        }.items()
    }


def test_version_1_with_a_limit_above(tmp_path: Path) -> None:
    files = {**v1("job/step", 3, 9223372036854771712), **v1("job", 50, 60), "sys/fs/cgroup/pids/a/pids.current": "4\n"}
    root = machine(tmp_path, "8:pids:/a\n4:memory:/job/step\n0::/\n", V1_MOUNT + PIDS_MOUNT + V2_MOUNT, files)
    found = row(root)
    known = {name: value for name, value in found.items() if not math.isnan(value)}
    assert known == {
        "current": 50,
        "limit": 60,
        "anon": 400,
        "file": 300,
        "shmem": 100,
        "oom_kill": 3,
        "pids": 4,
        "peak": 77,
    }
    assert Cgroup(7, root=str(root)).version == 1


def test_version_1_knows_limits_of_folders_that_are_not_mounted_here(tmp_path: Path) -> None:
    files = v1("job", 50, 9223372036854771712)
    files["sys/fs/cgroup/memory/job/memory.stat"] = V1_STAT.format(limit=64)
    assert row(machine(tmp_path, "4:memory:/job\n", V1_MOUNT, files))["limit"] == 64


def test_a_limit_that_is_changed_is_seen(tmp_path: Path) -> None:
    group = Cgroup(7, root=str(machine(tmp_path, "0::/job\n", V2_MOUNT, v2("job", 60, "100"))))
    assert group.row(0.0)[1] == 100
    (tmp_path / "sys/fs/cgroup/job/memory.max").write_text("200\n")
    assert group.row(20.0)[1] == 200
    group.close()


def test_no_groups_at_all(tmp_path: Path) -> None:
    for name, mounts in (("none", ""), ("empty", V2_MOUNT)):
        root = machine(tmp_path / name, "0::/\n", mounts, {})
        assert all(math.isnan(value) for value in row(root).values())
    nowhere = Cgroup(7, root=str(tmp_path / "nowhere"))
    assert nowhere.version == 0
    assert all(math.isnan(value) for value in nowhere.row(0.0))


def test_this_machine_can_be_read() -> None:
    group = Cgroup(os.getpid())
    assert len(group.row(0.0)) == len(CGROUP)
    group.close()
