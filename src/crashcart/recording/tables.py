"""The columns of a sample. What could not be read is NaN, never 0; sizes are bytes, times seconds.

A recording says at the head of each of its files which columns it has, so that columns can be added here.
"""

from __future__ import annotations

__all__ = ["CGROUP", "GPU", "HOST", "PROCESS", "STATES", "TABLES"]

HOST = (
    "memory_total", "memory_available", "swap_used", "shm_used", "shm_free", "cpu_busy", "load", "oom_kills",
    "pressure_memory", "pressure_io", "disk_free", "disk_total", "inodes_free", "quota_left",
)  # fmt: skip
CGROUP = (
    "current", "limit", "high", "anon", "file", "shmem", "oom", "oom_kill", "pressure", "pids", "pids_limit", "peak",
)  # fmt: skip
# ``state`` is the letter of /proc as a number (ord), ``wait`` the index of the wait channel's name in the recording's list of
# names, ``cpu`` user plus system since the start of the process.
PROCESS = (
    "pid", "rss", "pss", "shared", "files", "threads", "cpu", "state", "wait", "read", "written", "major_faults",
)  # fmt: skip
# ``ours`` is what the job's own processes hold; ``throttle`` the bit set of NVML.
GPU = (
    "index", "used", "total", "busy", "memory_busy", "temperature", "power", "power_limit", "clock", "clock_limit", "throttle",
    "ecc_uncorrected", "ours", "others",
)  # fmt: skip
TABLES = {"host": HOST, "cgroup": CGROUP, "process": PROCESS, "gpu": GPU}
STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a device",
    "Z": "ended, not collected",
    "T": "stopped",
    "t": "traced",
}
