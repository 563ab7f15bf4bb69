"""Memory of the host: what there is, what we may use of it, how it is given out, and how often it was not enough.

In a container ``MemTotal`` is the machine's: the limit is the group's, and whoever goes above it is killed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crashcart.numbers import to_float
from crashcart.readers.machine.groups import folders_of, tightest
from crashcart.readers.machine.reading import Reading, amount, number_in, text_of, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["look"]

GROUP = "memory"
_OVERCOMMIT = {0: "heuristic", 1: "always granted", 2: "strict: limited to swap and a share of memory"}


def look(root: str = "") -> Iterator[Reading]:
    """Every line about memory."""
    info = text_of(f"{root}/proc/meminfo")
    yield _memory(info, f"{root}/proc/meminfo")
    yield from _group(root)
    yield _swap(info, f"{root}/proc/meminfo")
    yield from _shared(f"{root}/dev/shm")  # noqa: S108 - the mount, no file of ours
    yield from _rules(root)
    yield from _pressure(root)


def _memory(info: str | None, where: str) -> Reading:
    total, available = number_in(info, "MemTotal"), number_in(info, "MemAvailable")
    if total is None or available is None:
        return unknown((GROUP, "memory", "memory"), "not told", where)
    value = {"total": total * 1024, "available": available * 1024}
    return Reading(
        GROUP, "memory", "memory", f"{amount(value['available'])} available of {amount(value['total'])}", where, value
    )


def _group(root: str) -> Iterator[Reading]:
    folders = folders_of("memory", root)
    limit, file = tightest(folders, "memory.max", "memory.limit_in_bytes")
    if not folders:
        yield unknown((GROUP, "memory_limit", "memory limit"), "no cgroup could be read", "/proc/self/cgroup")
        return
    if limit is None:
        yield Reading(
            GROUP,
            "memory_limit",
            "memory limit",
            "none below the machine's memory",
            folders[0],
            {"limit": None, "used": None},
        )
    else:
        inner = os.path.dirname(file)
        used = number_in(text_of(f"{inner}/memory.current") or text_of(f"{inner}/memory.usage_in_bytes"))
        says = f"{amount(limit)}" + (f", {amount(used)} of it in use" if used is not None else "")
        yield Reading(GROUP, "memory_limit", "memory limit", says, file, {"limit": limit, "used": used})
    for name in ("memory.events", "memory.oom_control"):
        kills = number_in(text_of(f"{folders[0]}/{name}"), "oom_kill ")
        if kills is not None:
            says = f"{kills} in this cgroup so far"
            yield Reading(GROUP, "group_kills", "kills for memory", says, f"{folders[0]}/{name}", {"count": kills})
            return


def _swap(info: str | None, where: str) -> Reading:
    total, free = number_in(info, "SwapTotal"), number_in(info, "SwapFree")
    if total is None or free is None:
        return unknown((GROUP, "swap", "swap"), "not told", where)
    says = f"{amount(free * 1024)} free of {amount(total * 1024)}" if total else "none"
    return Reading(GROUP, "swap", "swap", says, where, {"total": total * 1024, "free": free * 1024})


def _shared(folder: str) -> Iterator[Reading]:
    try:
        found = os.statvfs(folder)
    except OSError as error:
        yield unknown((GROUP, "shm", "shared memory"), error.strerror or "not readable", folder)
        return
    value = {"total": found.f_blocks * found.f_frsize, "free": found.f_bavail * found.f_frsize}
    says = f"{amount(value['free'])} free of {amount(value['total'])}"
    yield Reading(GROUP, "shm", "shared memory", says, folder, value)


def _rules(root: str) -> Iterator[Reading]:
    place = f"{root}/proc/sys/vm/overcommit_memory"
    mode = number_in(text_of(place))
    if mode is not None:
        yield Reading(
            GROUP, "overcommit", "overcommit", f"{mode}, {_OVERCOMMIT.get(mode, 'unheard of')}", place, {"mode": mode}
        )
    place = f"{root}/sys/kernel/mm/transparent_hugepage/enabled"
    chosen = (text_of(place) or "").partition("[")[2].partition("]")[0]
    if chosen:
        yield Reading(GROUP, "huge_pages", "huge pages", chosen, place, {"mode": chosen})


def _pressure(root: str) -> Iterator[Reading]:
    place = f"{root}/proc/pressure/memory"
    words = (text_of(place) or "").split()
    share = next((to_float(word[6:], 0.0) / 100 for word in words if word.startswith("avg10=")), None)
    if share is None:
        yield unknown((GROUP, "pressure", "memory pressure"), "this kernel does not report it", place)
    else:
        says = f"tasks waited for memory in {share:.0%} of the last ten seconds"
        yield Reading(GROUP, "pressure", "memory pressure", says, place, {"share": share})
