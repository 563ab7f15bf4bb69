"""Whether a machine is fit for training, line by line: what causes say of a reading counts, else a rule of thumb stands here.

A job has its own needs, and ``check`` joins them with the machine. ``doctor`` may know no job, so these are the bounds below
which many jobs die: a container's 64 MiB of shared memory, 1024 open files, a disk that is full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crashcart.model import Fact, Finding

__all__ = ["State", "graded"]

# A rule gives the state and what to do; a cause also the reason, which is the answer where it is the worst of all.

State = Literal["ok", "warning", "bad", "unknown"]
Grade = tuple[State, str]

MIB, GIB = 1 << 20, 1 << 30
SMALL_SHM = 512 * MIB
FEW_FILES, FEW_TASKS = 1024, 1024
LITTLE_ROOM, NO_ROOM = 5 * GIB, 100 * MIB
FEW_INODES = 10_000
FULL, SCARCE, PRESSED = 0.9, 0.1, 0.1
PROHIBITED = 2
OK: Grade = ("ok", "")


def graded(fact: Fact, findings: Iterable[Finding]) -> tuple[State, str, str]:
    """How a reading stands, why where a cause says so, and what to do about it."""
    rule = RULES.get(fact.name.removeprefix("machine."))
    if rule is _test:
        return _without_reason(rule(fact.value))
    for finding in findings:
        for sign in finding.signs:
            if sign.strength != "against" and fact.evidence in sign.evidence:
                sure = finding.level == "will" or (finding.level == "can" and finding.cause.startswith("hardware/"))
                remedy = f"{finding.fixes[0].title} " if finding.fixes else ""
                return ("bad" if sure else "warning"), sign.says, f"{remedy}(crashcart explain {finding.cause})"
    return _without_reason(OK if rule is None else rule(fact.value))


def _without_reason(grade: Grade) -> tuple[State, str, str]:
    return grade[0], "", grade[1]


def _memory(value: dict[str, Any]) -> Grade:
    if value["available"] < SCARCE * value["total"]:
        return "warning", "other programs hold most of the memory: `ps aux --sort -rss | head`"
    return OK


def _memory_limit(value: dict[str, Any]) -> Grade:
    if value["limit"] and value["used"] and value["used"] > FULL * value["limit"]:
        return "warning", "the cgroup is nearly full; a process that exceeds its limit is killed"
    return OK


def _group_kills(value: dict[str, Any]) -> Grade:
    if value["count"]:
        return "warning", "processes were killed here because memory ran out; raise the limit, or use less memory"
    return OK


def _shm(value: dict[str, Any]) -> Grade:
    if value["total"] < SMALL_SHM:
        return (
            "warning",
            "loader workers pass batches through shared memory and die with a bus error when it is full: use --shm-size=8g or --ipc=host",
        )
    if value["free"] < SCARCE * value["total"]:
        return "warning", "nearly full; dead jobs leave files here, see `ls -la /dev/shm`"
    return OK


def _overcommit(value: dict[str, Any]) -> Grade:
    strict = 2
    if value["mode"] == strict:
        return (
            "warning",
            "forking a large process counts its memory twice and can be refused: use fewer workers, or overcommit mode 0",
        )
    return OK


def _pressure(value: dict[str, Any]) -> Grade:
    return ("warning", "the machine is short of memory right now") if value["share"] > PRESSED else OK


def _open_files(value: dict[str, Any]) -> Grade:
    if value["soft"] is not None and value["soft"] <= FEW_FILES:
        more = "unlimited" if value["hard"] is None else str(min(value["hard"], 1 << 16))
        raised = value["hard"] is None or value["hard"] > value["soft"]
        how = f"`ulimit -n {more}` before the launch" if raised else "an administrator can raise it in limits.conf"
        return "warning", f"too few for many workers, ranks and open data files: {how}"
    return OK


def _processes(value: dict[str, Any]) -> Grade:
    if value["soft"] is not None and value["soft"] < 4 * FEW_TASKS:
        return "warning", "ranks, workers and their threads all count towards it"
    return OK


def _locked(value: dict[str, Any]) -> Grade:
    if value["infiniband"] and value["soft"] is not None and value["soft"] < GIB:
        return "warning", "InfiniBand needs locked memory: `ulimit -l unlimited`"
    return OK


def _tasks(value: dict[str, Any]) -> Grade:
    if value["used"] is not None and value["limit"] - value["used"] < FEW_TASKS:
        return "warning", "ranks, workers and their threads all count towards it: raise --pids-limit"
    return OK


def _all_files(value: dict[str, Any]) -> Grade:
    return ("warning", "the whole machine is near its limit") if value["used"] > FULL * value["limit"] else OK


def _processors(value: dict[str, Any]) -> Grade:
    quota, threads = value["quota"], value["threads"]
    if quota is not None and threads is None and quota * 2 <= value["allowed"]:
        return (
            "warning",
            f"torch sees {value['allowed']} CPUs and starts as many threads: set OMP_NUM_THREADS={max(1, to_int(quota, 1))}",
        )
    return OK


def _threads(value: dict[str, Any]) -> Grade:
    if value["threads"] is not None and value["threads"] > value["allowed"]:
        return "warning", f"every rank starts more threads than the {value['allowed']} CPUs"
    return OK


def _load(value: dict[str, Any]) -> Grade:
    return ("warning", "other programs are using the CPUs now: see `top`") if value["load"] > 2 * value["present"] else OK


def _disk(value: dict[str, Any]) -> Grade:
    if value["free"] < NO_ROOM or value["inodes"] == 0:
        return "bad", "full: the first checkpoint, cache or log written here will fail"
    if value["free"] < LITTLE_ROOM or (value["inodes"] is not None and value["inodes"] < FEW_INODES):
        return "warning", "little space for checkpoints and caches"
    return OK


def _mode(value: dict[str, Any]) -> Grade:
    return ("bad", "compute mode forbids every program: `nvidia-smi -c DEFAULT`") if value["mode"] == PROHIBITED else OK


def _bus(value: dict[str, Any]) -> Grade:
    _, width, _, most = value["pcie"]
    if width and most and width < most:
        return "warning", "fewer PCIe lanes than the card and slot support: reseat the card, or check the slot's settings"
    return OK


def _test(value: dict[str, Any]) -> Grade:
    return ("bad", "a job here would fail the same way") if value["failed"] else OK


RULES: dict[str, Callable[[dict[str, Any]], Grade]] = {
    "memory": _memory, "memory_limit": _memory_limit, "group_kills": _group_kills, "shm": _shm, "overcommit": _overcommit,
    "pressure": _pressure, "open_files": _open_files, "processes": _processes, "locked_memory": _locked, "tasks": _tasks,
    "all_files": _all_files, "processors": _processors, "threads": _threads, "load": _load, "disk": _disk, "card_mode": _mode,
    "card_bus": _bus, "allocation_test": _test, "meeting_test": _test,
}  # fmt: skip
