"""Sentences about a job that is looked at: how it moves, who waits for whom, and what else is known of each process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.flight import took
from crashcart.live.crawl import crawls
from crashcart.live.job import entry
from crashcart.model import Evidence
from crashcart.numbers import to_count
from crashcart.recording.tables import CGROUP, GPU, HOST, PROCESS, STATES
from crashcart.redact import clean
from crashcart.run.hangs import place_of
from crashcart.run.outside.ends import called
from crashcart.run.outside.roles import LOADER, RANK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.live.judge import Verdict
    from crashcart.live.looks import Watch
    from crashcart.live.pace import Pace

__all__ = ["IDLE", "missing", "moving", "notes", "waiting_words"]

_MOST = 4
_RANKS = 16
IDLE = frozenset({"poll", "select", "read"})  # how a loader's worker waits for its next order
_GB = 1 << 30
_NEAR = 0.9  # of a limit


def moving(watch: Watch, verdict: Verdict) -> str:
    """The first line about a job in which nothing stands still for long."""
    ranks = [pace for pace in verdict.paces if pace.process in watch.ranks] or list(verdict.paces)
    if verdict.prompt and len(ranks) == 1:
        return f"The program waits for keyboard input{_at(ranks[0])}."
    if not ranks:
        return "The job ended or changed while crashcart was looking at it."
    told = "; ".join(_does(one, watch) for one in sorted(ranks, key=lambda one: one.collective)[:_MOST])
    more = f"; and {len(ranks) - _MOST} more" if len(ranks) > _MOST else ""
    slow = "".join(f"; {crawl}" for crawl in list(crawls(watch))[:_MOST])
    return f"The job is making progress: {told}{more}{slow}."


def waiting_words(watch: Watch, verdict: Verdict) -> str:
    """Who waits for whom, where no more is known."""
    ranks = [pace for pace in verdict.paces if pace.process in watch.ranks] or list(verdict.paces)
    told = "; ".join(_stands(rank, watch) for rank in ranks[:_MOST])
    gone = missing(watch)
    lost = f"; rank {', '.join(map(str, gone[:_MOST]))} is not among these processes" if gone else ""
    return f"no progress for {took(verdict.seconds)}: {told}{lost}"


def missing(watch: Watch) -> list[int]:
    """Ranks of the job that are not here: on another machine, ended, or never started."""
    sizes = [size for one in watch.ranks if (size := _world(one.pid))]
    here = {one.rank for one in watch.ranks}
    return [rank for rank in range(min(max(sizes, default=0), 1 << 16)) if rank not in here]


def notes(watch: Watch, verdict: Verdict) -> Iterator[Evidence]:
    """What is known of each process, then of memory and cards."""
    ranks = [pace for pace in verdict.paces if pace.process.role != LOADER]
    workers = [pace for pace in verdict.paces if pace.process.role == LOADER]
    workers.sort(key=lambda one: (one.moves, one.last.wait.call.name in IDLE))  # who does not wait for an order comes first
    shown = [*ranks[:_RANKS], *workers[:_MOST]]
    for one in shown:
        yield Evidence("process", _described(one, watch), f"/proc/{one.process.pid}", one.process.rank)
    if len(shown) < len(verdict.paces):
        yield Evidence("process", f"and {len(verdict.paces) - len(shown)} more", "/proc")
    yield from _machine(watch)


def _does(one: Pace, watch: Watch) -> str:
    if one.collective:
        looks = [look.seen[one.process.pid] for look in watch.looks if one.process.pid in look.seen]
        count = sum(look.collective for look in looks)
        whom = "for the others " if len(watch.ranks) > 1 or missing(watch) else ""
        return f"{one.name} waits {whom}in a collective in {count} of {len(looks)} looks"
    name = _name(one)
    does = f"uses {one.share:.0%} of a core" if one.share >= 0.005 else "uses almost no CPU time"  # noqa: PLR2004 - 1 %
    return f"{name} {does}{_at(one)}"


def _stands(one: Pace, watch: Watch) -> str:
    if one.last.state in "Tt":
        return f"{one.name} is stopped"
    if one.collective:
        whom = [watch.tree.processes[pid] for pid in watch.ends.peers(one.process.pid) if pid in watch.tree.processes]
        names = ", ".join(sorted(called(peer) for peer in whom if peer.role == RANK)[:_MOST])
        return f"{one.name} waits in a collective{_at(one)}" + (f", connected with {names}" if names else "")
    return f"{_name(one)} {one.last.wait.words}{_at(one)}"


def _name(one: Pace) -> str:
    return "the process" if one.process.assumed and one.process.role == RANK else one.name


def _at(one: Pace) -> str:
    frame = place_of(one.last.stack)
    return f" at {frame.file.rsplit('/', 1)[-1]}:{frame.line} in {frame.function}" if frame is not None else ""


def _described(one: Pace, watch: Watch) -> str:
    last, process = one.last, one.process
    told = [f"{one.name}" + (f" of rank {process.rank}" if process.role == LOADER else f" ({process.pid})")]
    told[0] += f" {clean(process.command)[:100]}: {STATES.get(last.state, last.state)}"
    if one.moves:
        told.append(f"{one.share:.0%} of a core")
    else:
        told.append(f"{last.wait.words}{_at(one)}, for {took(one.seconds)}" if last.state not in "Tt" else took(one.seconds))
    rows = {row[0]: row for row in watch.looks[-1].tables["process"]}
    if process.pid in rows:
        told.append(f"{rows[process.pid][PROCESS.index('rss')] / _GB:.2f} GB resident")
    peers = sorted(called(watch.tree.processes[pid]) for pid in watch.ends.peers(process.pid) if pid in watch.tree.processes)
    ends = [*dict.fromkeys(peers), *watch.ends.abroad(process.pid)]
    if ends:
        told.append("connected with " + ", ".join(ends[:_MOST]))
    return "; ".join(told)


def _machine(watch: Watch) -> Iterator[Evidence]:
    tables = watch.looks[-1].tables
    host = dict(zip(HOST, tables["host"][0], strict=False)) if tables["host"] else {}
    group = dict(zip(CGROUP, tables["cgroup"][0], strict=False)) if tables["cgroup"] else {}
    total, free = host.get("memory_total", 0.0), host.get("memory_available", 0.0)
    if total and free == free:  # noqa: PLR0124 - NaN
        tight = " (nearly full)" if 1 - free / total > _NEAR else ""
        swap = f", {host['swap_used'] / _GB:.1f} GB swapped out" if host.get("swap_used", 0.0) > _GB / 10 else ""
        yield Evidence(
            "machine", f"host memory: {free / _GB:.1f} of {total / _GB:.1f} GB free{tight}{swap}", "/proc/meminfo"
        )
    used, limit = group.get("current", 0.0), group.get("limit", float("inf"))
    if used and limit < float("inf") and limit == limit and used / limit > _NEAR:  # noqa: PLR0124 - NaN
        yield Evidence("machine", f"the job's memory: {used / _GB:.1f} of {limit / _GB:.1f} GB allowed", "cgroup")
    pressed = [(name, host.get(f"pressure_{name}", 0.0)) for name in ("memory", "io")]
    for name, share in pressed:
        if share > 0.1:  # noqa: PLR2004 - a tenth of the time
            yield Evidence(
                "machine", f"tasks waited for {name} in {share:.0%} of the last ten seconds", f"/proc/pressure/{name}"
            )
    for row in tables["gpu"]:
        card = dict(zip(GPU, row, strict=False))
        told = f"GPU {card['index']:.0f}: {card['used'] / _GB:.1f} of {card['total'] / _GB:.1f} GB used, {card['busy']:.0f} % busy"
        others = f", {card['others'] / _GB:.1f} GB of it by other programs" if card["others"] > _GB / 2 else ""
        yield Evidence("machine", told + others, "NVML")


def _world(pid: int) -> int:
    text = (entry(pid, "WORLD_SIZE") or "").partition("=")[2]
    return to_count(text, 0)
