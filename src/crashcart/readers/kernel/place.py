"""Whether an event of the kernel belongs to a run: its time, its process and its owner against those of the run.

A kernel log tells of the whole machine, over weeks, in a clock of its own. An OOM kill of another user, of last night's
job or of an earlier boot explains nothing, and blaming it costs a person a day. So an event is ours only when something
ties it to the run, and not ours only when something speaks against it; between them the answer is None, in words.

Time zones: a local time is used with a given offset, with the one that the log gives away, or, when the process id of
an event is one of the job's, with the one half-hourly offset that puts that event at the end of the run. Process ids
are reused and differ inside containers, so a foreign id alone proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import MAXYEAR, MINYEAR
from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_count, to_datetime, to_float, to_int
from crashcart.record import record, replace

if TYPE_CHECKING:
    from datetime import datetime

    from crashcart.case import KernelEvent

__all__ = ["place", "seconds_of", "with_year"]

BEFORE_SECONDS = 120.0
AFTER_SECONDS = 600.0
CLOSE_SECONDS = 120.0

_EAST, _WEST = 14 * 3600, -12 * 3600
_HALF_HOUR = 1800
_MEMCG_USER = re.compile(r"/(?:user-|uid_)(\d+)\b")
_MEMCG_JOB = re.compile(r"/job_(\d+)\b")


@record(frozen=True)
class _Run:
    start: float | None
    end: float | None
    pids: Mapping[int, bool]
    uid: int | None
    job: str | None


def place(  # noqa: PLR0913 - what is known of the run, by keyword, all of it optional
    events: Iterable[KernelEvent],
    *,
    run_start: float | None = None,
    run_end: float | None = None,
    pids: Mapping[int, bool] | Collection[int] = (),
    user: int | str | None = None,
    boot_time: float | None = None,
    utc_offset: float | None = None,
    job: str | None = None,
) -> tuple[KernelEvent, ...]:
    """Set ``seconds``, ``ours`` and ``why_ours`` of every event; all times are Unix seconds.

    ``pids`` are the job's, or a mapping that also says which are known not to be; ``user`` is a uid or a name;
    ``boot_time`` is that of the last boot in the log; ``utc_offset`` is in seconds east; ``job`` is a Slurm job id.
    """
    known = dict(pids) if isinstance(pids, Mapping) else dict.fromkeys(pids, True)
    run = _Run(run_start, run_end, known, _uid(user), job)
    listed = [_dated(event, run, boot_time, utc_offset) for event in events]
    if utc_offset is None:
        offset = _zone_by_pid(listed, run)
        listed = [_dated(event, run, boot_time, offset) for event in listed] if offset is not None else listed
    boots = {_boot(event) for event in listed if _is_ours_by_pid(event, run) and not _outside(event, run)}
    return tuple(_judged(event, run, boots) for event in listed)


def seconds_of(clock: Mapping[str, Any], near: float | None = None, utc_offset: float | None = None) -> float | None:
    """Unix time of a clock reading, None where something is missing; ``near`` finds the year of a syslog line."""
    unix, since_boot, boot_time = (to_float(clock.get(name)) for name in ("unix", "since_boot", "boot_time"))
    if unix is not None:
        return unix
    if since_boot is not None and boot_time is not None:
        return boot_time + since_boot
    offset = utc_offset if utc_offset is not None else clock.get("utc_offset")
    local = _local(clock, near)
    return None if local is None or offset is None else local - offset


def with_year(local: float, near: float) -> float:
    """Move a time that stands in an arbitrary year into the year that brings it nearest to ``near``."""
    moment, now = to_datetime(local), to_datetime(near)
    if moment is None or now is None or not MINYEAR < now.year < MAXYEAR:
        return local
    candidates = [_in_year(moment, candidate) for candidate in (now.year - 1, now.year, now.year + 1)]
    return min(candidates, key=lambda candidate: abs(candidate - near))


def _in_year(moment: datetime, year: int) -> float:
    try:
        return moment.replace(year=year).timestamp()
    except ValueError:  # February 29th
        return moment.replace(year=year, day=28).timestamp() + 86400


def _local(clock: Mapping[str, Any], near: float | None) -> float | None:
    local = clock.get("local")
    if local is None or not clock.get("yearless"):
        return local
    near = near if near is not None else clock.get("written")
    return None if near is None else with_year(local, near)


def _dated(event: KernelEvent, run: _Run, boot_time: float | None, utc_offset: float | None) -> KernelEvent:
    clock = event.details.get("clock", {})
    if boot_time is not None and clock.get("last_boot"):
        clock = {**clock, "boot_time": boot_time}
    seconds = seconds_of(clock, _near(run), utc_offset)
    return replace(event, seconds=seconds if seconds is not None else event.seconds)


def _near(run: _Run) -> float | None:
    return run.end if run.end is not None else run.start


def _zone_by_pid(events: list[KernelEvent], run: _Run) -> float | None:
    """Find the one half-hourly time zone that puts an event of a process of the job at the end of the run, or inside it."""
    for event in events:
        local = _local(event.details.get("clock", {}), _near(run))
        if event.seconds is not None or local is None or not _is_ours_by_pid(event, run):
            continue
        offsets = [float(offset) for offset in range(_WEST, _EAST + 1, _HALF_HOUR)]
        end = run.end if run.end is not None else float("inf")
        at_end = [offset for offset in offsets if abs(local - offset - end) < _HALF_HOUR / 2]
        inside = [offset for offset in offsets if run.start is not None and not _far(local - offset, run)]
        for fitting in (at_end, inside):
            if len(fitting) == 1:
                return fitting[0]
    return None


def _judged(event: KernelEvent, run: _Run, boots: set[int]) -> KernelEvent:
    ours, why = _verdict(event, run, boots)
    return replace(event, ours=ours, why_ours=why)


def _verdict(event: KernelEvent, run: _Run, boots: set[int]) -> tuple[bool | None, str]:
    against = _outside(event, run)
    if against:
        return False, against
    pid = event.details.get("pid")
    if pid is not None and run.pids.get(pid):
        uid = _owner(event, str(event.details.get("memcg") or ""))
        if uid is not None and run.uid is not None and uid != run.uid:
            return None, f"process {pid} is one of the job's, but user {uid} is not the run's: another container?"
        when = "within the run" if event.seconds is not None else "its time is unknown"
        return True, f"process {pid} is one of the job's, {when}"
    if pid is not None and run.pids.get(pid) is False:
        return False, f"process {pid} is known not to be one of the job's"
    if boots and event.seconds is None and _boot(event) not in boots:
        return False, "it was in another boot of the machine than the job's own processes"
    return _by_owner(event, run)


def _by_owner(event: KernelEvent, run: _Run) -> tuple[bool | None, str]:
    memcg = str(event.details.get("memcg") or event.details.get("limit_memcg") or "")
    job, uid = _MEMCG_JOB.search(memcg), _owner(event, memcg)
    if job and run.job is not None:
        same = job[1] == run.job.partition(".")[0]
        other = "" if same else f", the run is job {run.job}"
        return same, f"its control group is that of Slurm job {job[1]}{other}"
    if uid is not None and run.uid is not None and uid != run.uid:
        return False, f"it hit a process of user {uid}; the run belongs to user {run.uid}"
    if event.seconds is None:
        return None, "its time is unknown and nothing links it to the job"
    if run.start is None and run.end is None:
        return None, "it is not known when the run began and ended"
    if uid is not None and uid == run.uid and run.end is not None and abs(event.seconds - run.end) <= CLOSE_SECONDS:
        return True, f"a process of the same user, {_apart(event.seconds - run.end)} the end of the run"
    return None, "during the run, but nothing links it to the job's processes"


def _owner(event: KernelEvent, memcg: str) -> int | None:
    uid = event.details.get("uid")
    group = _MEMCG_USER.search(memcg)
    return uid if uid is not None else to_int(group[1]) if group else None


def _outside(event: KernelEvent, run: _Run) -> str:
    """Why the event cannot have been in the run, by its time alone; empty when it can."""
    clock = event.details.get("clock", {})
    if event.seconds is not None:
        return _far(event.seconds, run)
    before = clock.get("before")
    if before is not None and run.start is not None and before < run.start - BEFORE_SECONDS:
        return "it was in an earlier boot of the machine, before the run began"
    local = _local(clock, _near(run))
    if local is not None and run.start is not None and local - _WEST < run.start - BEFORE_SECONDS:
        return "it was before the run began, whatever the time zone"
    if local is not None and run.end is not None and local - _EAST > run.end + AFTER_SECONDS:
        return "it was after the run ended, whatever the time zone"
    return ""


def _far(seconds: float, run: _Run) -> str:
    if run.start is not None and seconds < run.start - BEFORE_SECONDS:
        return f"it was {_apart(seconds - run.start)} the beginning of the run"
    if run.end is not None and seconds > run.end + AFTER_SECONDS:
        return f"it was {_apart(seconds - run.end)} the end of the run"
    return ""


def _apart(seconds: float) -> str:
    size = abs(seconds)
    units = ((2 * 86400, 86400, "d"), (2 * 3600, 3600, "h"), (CLOSE_SECONDS, 60, "min"), (0, 1, "s"))
    unit, name = next((unit, name) for least, unit, name in units if size >= least)
    return f"{size / unit:.0f} {name} {'before' if seconds < 0 else 'after'}"


def _is_ours_by_pid(event: KernelEvent, run: _Run) -> bool:
    return bool(run.pids.get(event.details.get("pid", -1)))


def _boot(event: KernelEvent) -> int:
    return to_int(event.details.get("clock", {}).get("boot"), 0)


def _uid(user: int | str | None) -> int | None:
    if user is None or isinstance(user, int):
        return user
    if (number := to_count(user)) is not None:
        return number
    import pwd

    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None
