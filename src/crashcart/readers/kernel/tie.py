"""Which events of a kernel log belong to a recorded run: the recording knows its processes, its control group and its cards.

A kernel log tells of the whole machine. A kill for lack of memory or a fault of a card counts only where it names something of the
run: one of its processes, its control group, a card that it used; and only in the time of the run. In a container the job's numbers
of processes are not the kernel's: there a kill counts where a process of the job ended by SIGKILL at that moment, and its control
group, where both are known, is the job's. A group alone proves nothing: several jobs may share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.flight import Pid
from crashcart.numbers import to_int
from crashcart.record import record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.case import KernelEvent
    from crashcart.flight import Flight

__all__ = ["RecordedJob", "recorded_job", "tie"]

_EARLY, _LATE = 5.0, 60.0  # seconds: the kernel's clock drifts, and its log is read after the end
_AT_ONCE = 5.0
_NAMES_ITS_VICTIM = frozenset({"oom-kill", "xid", "segfault"})


@record(frozen=True)
class RecordedJob:
    """What ties an event to a run."""

    start: float | None
    end: float | None
    pids: frozenset[int]
    same_numbers: bool | None  # as the kernel's; None in recordings that do not say it
    group: str
    cards: frozenset[tuple[int, str, str]]
    killed: tuple[float, ...]


def recorded_job(flight: Flight, pids: frozenset[int], start: float | None, end: float | None) -> RecordedJob:
    """The same from a recording."""
    machine = flight.facts.get("machine")
    machine = machine if isinstance(machine, dict) else {}
    ends = (event for event in flight.of_kind("gone") if event.details.get("signal") == "SIGKILL")
    group = machine.get("group")
    return RecordedJob(
        start=start,
        end=end,
        pids=pids,
        same_numbers=machine["pids"] == "the machine's" if "pids" in machine else None,
        group=group if isinstance(group, str) and group.strip("/") else "",
        cards=_cards_in_use(flight),
        killed=tuple(event.time for event in ends),
    )


def own_pids(flight: Flight) -> frozenset[int]:
    """The job's processes as their machines number them."""
    return frozenset(pid.number if isinstance(pid, Pid) else pid for pid in flight.processes)


def tie(events: Iterable[KernelEvent], job: RecordedJob) -> tuple[KernelEvent, ...]:
    """The events, each with whether it is the run's."""
    return tuple(_tied(event, job) if event.kind in _NAMES_ITS_VICTIM else event for event in events)


def _tied(event: KernelEvent, job: RecordedJob) -> KernelEvent:
    ours, why = _verdict(event, job)
    return replace(event, ours=ours, why_ours=why)


def _verdict(event: KernelEvent, job: RecordedJob) -> tuple[bool | None, str]:
    pid, seconds = event.details.get("pid"), event.seconds
    if event.ours is False:
        return False, event.why_ours
    if seconds is not None and job.start is not None and seconds < job.start - _EARLY:
        return False, "it was before the run began"
    if seconds is not None and job.end is not None and seconds > job.end + _LATE:
        return False, "it was after the run ended"
    if job.same_numbers is not False and pid in job.pids:  # in the time of the run: numbers are given out again
        return True, event.why_ours or f"process {pid} is one of the job's"
    if event.kind == "xid" and job.cards:
        card = _bus(str(event.details.get("pci") or ""))
        named = "a card that the job used" if card in job.cards else "a card that the job did not use"
        return card in job.cards, f"it was on {named}"
    if pid is not None and job.same_numbers:
        return False, f"process {pid} is not one of the job's"
    if event.kind == "oom-kill" and seconds is not None and not any(abs(seconds - time) < _AT_ONCE for time in job.killed):
        return False, "no process of the job was killed by SIGKILL at that moment"
    group = str(event.details.get("memcg") or "")
    if event.kind == "oom-kill" and job.group and group and not group.startswith(job.group):
        return False, f"its cgroup {group} is not the job's"
    if event.kind == "oom-kill" and (seconds is not None or (job.group and group)):
        return (
            True,
            "a process of the job was killed by SIGKILL at that moment"
            if seconds is not None
            else "its cgroup is the job's",
        )
    return None, event.why_ours


def _cards_in_use(flight: Flight) -> frozenset[tuple[int, str, str]]:
    """The cards on which the job held memory."""
    told = flight.facts.get("cards")
    columns = flight.columns.get("gpu", [])
    if not isinstance(told, list) or not {"index", "ours"} <= set(columns):
        return frozenset()
    index, ours = columns.index("index"), columns.index("ours")
    used = {
        to_int(row[index]) for _, tables in flight.samples for row in tables.get("gpu", ()) if row[ours] > 0 <= row[index]
    }
    buses = (_bus(str(card.get("bus"))) for card in told if isinstance(card, dict) and to_int(card.get("index")) in used)
    return frozenset(bus for bus in buses if bus is not None)


def _bus(text: str) -> tuple[int, str, str] | None:
    """Domain, bus and device: ``00000000:01:00.0`` and ``0000:01:00`` are the same card."""
    parts = text.lower().split(".")[0].split(":")
    domain = to_int(parts[0], base=16)
    return (domain, parts[1], parts[2]) if domain is not None and len(parts) == 3 else None  # noqa: PLR2004 - domain, bus, device
