"""What the kernel has told since the machine started, as far as this user may read it; and its clock.

``dmesg`` is for root alone on most machines (``kernel.dmesg_restrict``) and empty in many containers. The counter of kills for
lack of memory is for everybody.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_int
from crashcart.readers.machine.reading import Reading, number_in, text_of, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import KernelEvent

__all__ = ["look", "xids"]

GROUP = "kernel"
_PATIENCE = 5.0
_ASKED = (["dmesg", "--time-format", "iso"], ["journalctl", "--dmesg", "--boot", "--no-pager", "--quiet", "-o", "short-iso"])
_HOW = "ask an administrator for `dmesg -T | grep -i xid`, or for `sysctl kernel.dmesg_restrict=0`"
_WORDS = {
    "oom-kill": "killed for memory", "xid": "Xid", "sxid": "SXid", "segfault": "crashed programs", "hung-task": "hung tasks",
    "soft-lockup": "stuck processors", "nfs": "lost file servers", "read-only": "disks turned read-only",
    "disk-error": "disk errors", "memory-error": "memory errors",
}  # fmt: skip
_UNSYNCHRONISED = 5  # TIME_ERROR
_SIZE_OF_TIMEX = 512  # more than any architecture's


def look(root: str = "") -> Iterator[Reading]:
    """Every line about the kernel's own words."""
    events, where, why = _events()
    if events is None:
        yield unknown((GROUP, "kernel_log", "kernel log"), f"not readable: {why}", where, _HOW)
    else:
        counts: dict[str, int] = {}
        for event in events:
            counts[event.kind] = counts.get(event.kind, 0) + 1
        told = ", ".join(f"{count} {_WORDS.get(kind, kind)}" for kind, count in sorted(counts.items()))
        yield Reading(GROUP, "kernel_log", "kernel log", told or "nothing that affects training", where, {"counts": counts})
        yield from xids(events)
    kills = number_in(text_of(f"{root}/proc/vmstat"), "oom_kill ")
    if kills is not None:
        says = f"{kills} on the whole machine since it started"
        yield Reading(GROUP, "kills", "kills for memory", says, f"{root}/proc/vmstat", {"count": kills})
    yield _clock()


def xids(events: tuple[KernelEvent, ...]) -> Iterator[Reading]:
    """One line for each code on each card: what it means, whose fault, when last, what to do."""
    from crashcart.readers.kernel.xid import meaning

    last: dict[tuple[Any, Any], list[KernelEvent]] = {}
    for event in events:
        if event.kind == "xid":
            last.setdefault((event.details.get("code"), event.details.get("pci")), []).append(event)
    for (code, pci), group in last.items():
        event = group[-1]
        age = None if event.seconds is None else max(0.0, time.time() - event.seconds)
        known = meaning(to_int(code, 0))
        fault = event.details.get("fault", "unknown")
        says = f"{known.name}, {len(group)} times, last {_ago(age)}; whose fault: {fault}; {known.action}"
        value = {"code": code, "pci": pci, "fault": fault, "count": len(group), "age_seconds": age, "name": known.name}
        yield Reading(GROUP, "xid", f"Xid {code}", says, event.evidence.where, value | {"action": known.action})


def _ago(age: float | None) -> str:
    if age is None:
        return "at an unknown time"
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if age >= 2 * size:
            return f"{age / size:.0f} {unit} ago"
    return "just now"


def _events() -> tuple[tuple[KernelEvent, ...] | None, str, str]:
    from crashcart.readers.kernel import place, read_kernel

    why = ""
    for command in _ASKED:
        try:
            done = subprocess.run(  # noqa: S603 - words of ours
                command, capture_output=True, timeout=_PATIENCE, check=False, env={**os.environ, "LC_ALL": "C"}
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if done.returncode == 0 and done.stdout.strip():
            return place(read_kernel(done.stdout, name=command[0])), command[0], ""
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = why or (said[-1].removeprefix(f"{command[0]}: ") if said else f"{command[0]} gave nothing")
    return None, "dmesg", why or "there is no dmesg and no journalctl"


def _clock() -> Reading:
    """Whether somebody keeps the clock: logs of several machines are compared by it."""
    ask = getattr(ctypes.CDLL(None), "adjtimex", lambda _: -1)
    state = ask(ctypes.create_string_buffer(_SIZE_OF_TIMEX))
    label = (GROUP, "clock", "clock")
    how = "`timedatectl` or `chronyc tracking` show more; it matters if you compare logs of several nodes"
    if state < 0 or state == _UNSYNCHRONISED:
        return unknown(label, "the kernel reports no time synchronisation", "adjtimex", how)
    return Reading(*label, "synchronised by a time service", "adjtimex", {"synchronised": True})
