"""A collective timed out because one rank was busy with long work.

What happens: all ranks but one wait in a barrier or a small reduction. The one that is missing works: it saves, tokenizes,
downloads, scans, evaluates, builds an extension. At the process group's time-out the waiting ranks end the job.

Why: long work on one rank between two collectives, and a time-out (10 minutes for NCCL since torch 2.2, 30 before) that is
shorter than it. A barrier after rank 0's long work does not help: it dies at the same time-out.

How it shows: watchdog reports of the waiting ranks with one element; the last line before, minus the time-out, is the other
rank's save, scan or download; ``store->get('0') got error: Timeout`` at the first barrier; gloo's ``Timed out waiting``. A
recording shows at which line the missing rank works.

What to do: do the long work before the process group starts, share it between ranks, save sharded or asynchronously; raise
the time-out for this group only (``init_process_group(timeout=...)``, ``ddp_timeout``). A time-out of many hours hides the
next real hang.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, strong, weak
from crashcart.causes._joined import edits_of, launched_with, ranks, single
from crashcart.causes.distributed._entered import entered, missing
from crashcart.causes.distributed._watchdog import busy_before, signs
from crashcart.causes.hang._recorded import stall
from crashcart.deaths import first, order
from crashcart.flight import clock, during
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign
from crashcart.places import of_event, own_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.flight import Flight, Process

title = "A collective timed out while the ranks waited for one busy rank"
piece = "load_once"
alike = ("distributed/desync", "hang/lock-or-io")
STORE = r"waitForInput.{0,200}timed out after \d+ ?ms|wait timeout after \d+ ?ms|(?:DistStore|Runtime)Error: (?:Socket Timeout|Timed out)"
phrases = (
    strong("traceback (most recent", says="one rank's work was interrupted at a usual timeout of the others (10 or 30 minutes)",
           pattern=r"(?:tokeniz|\bmap\b|filter|generating|processing|preprocess).{0,60}\[(?:30|10):\d\d<.{0,60}Traceback"),
    strong(
        "ncclUniqueId from [", "ncclUniqueId from",
        pattern=r"got error: .{0,200}(?:time.?out|wait)", unless=r"reset by peer|closed|broken pipe",
        says="the first collective waited for a rank that did not arrive in time",
    ),
    strong(
        "timed out waiting", pattern=r"gloo|unbound_buffer|for (?:recv|send) operation",
        says="gloo waited for a rank until the timeout",
    ),
    strong(
        "read timeout [", pattern=r"gloo.{0,200}Read timeout \[",
        says="gloo waited for a rank until the timeout",
    ),
    strong(
        "failed to pass monitoredbarrier", "timed out in monitoredbarrier", "waiting in monitoredbarrier",
        says="the monitored barrier names ranks that did not arrive",
    ),
    strong(
        "notify register times out", "notify wait timeout", "hccl operation timeout", "hccl operator timeout",
        says="the accelerator's collective library waited for another rank until the timeout",
    ),
    weak("watchdog caught collective operation timeout", "timed out in blocking wait", says="a collective timed out"),
    weak("timeout at nccl work", "detected by watchdog at work", says="a watchdog gave up on a collective"),
    weak("application timeout caused pair closure", says="another rank's timeout closed the connection"),
    weak("waitforinput", "wait timeout after", "timed out after", says="a process waited for the store until the timeout",
         pattern=STORE),
    weak("heartbeat monitor timed out", "watchdog got stuck for", says="the watchdog itself could not run", fatal=False),
)  # fmt: skip


WATCHED = 10.0  # seconds
MEGABYTE = 1_000_000
LITTLE = 200 * MEGABYTE
SHORTEST = 600
# Work that no amount of data on this disk says anything about.
ELSEWHERE = r"(?i)download|fetch|request|url|wget|pretrained|load_dataset|snapshot|hub|eval|valid|test|sampl|generat|infer|(?:^|[._])(?:train|save)\b|compile"
GUARD = r":(?:(?:local_)?main_process_first|(?:torch_)?distributed_zero_first|rank_zero_first|wait_for_main|zero_first)$"


def in_log(case: Case) -> Iterator[Sign]:
    """Watchdog reports, against what was announced before them."""
    yield from signs(case, "slow-rank")
    yield from _at_guard(case)
    for line in case.log.lines:
        if any(
            word in line.lowered for word in ("timed out after", "wait timeout", "diststoreerror", "socket timeout")
        ) and (compiled(STORE).search(line.text)):
            busy = busy_before(case, line)
            if busy is not None:
                says = f"a rank waited for the store while another was busy: {busy.text.strip()[:80]}"
                yield Sign("strong", says, (evidence(busy), evidence(line)), order=line.order)
            return


def _at_guard(case: Case) -> Iterator[Sign]:
    """A stack that ends in the barrier of a guard: the others wait there while one rank prepares alone."""
    for raised in case.log.raised:
        places = [f"{frame.file}:{frame.function}" for frame in raised.frames]
        guard = next((at for at, place in enumerate(places) if compiled(GUARD).search(place)), None)
        if guard is None or raised.survivable:
            continue
        waits = any(compiled(r":barrier$").search(place) for place in places[guard:])
        if not waits and not compiled(r"\bbarrier\(|wait_for_everyone\(").search(raised.frames[guard].code):
            continue
        if raised.stack_only or compiled(r"[Tt]imed? ?out|[Tt]ime-out").search(raised.message):
            says = "the others waited in a barrier while one rank prepared data"
            yield Sign("decisive", says, (evidence(raised.line),), order=raised.line.order)
            return


def in_code(case: Case) -> Iterator[Sign]:
    """Work of minutes to hours on the first rank, and a wait of the others that ends at a time-out of minutes."""
    if single(case) or not (_default_time(case) or _little_time(case)):
        return
    for fact in case.all("code.long_first"):
        says = (
            f"the other ranks wait while rank 0 runs {fact.value['work']}(), and time out if it takes longer than "
            f"{_limit(case)}"
        )
        known = ranks(case) is not None and (fact.value["named"] or _little_time(case) is not None)
        if (size := _soon_read(case, [fact.value["work"], *fact.value["inside"]])) is not None:
            known = False
            says += f"; the data that the job names (less than {size // MEGABYTE + 1} MB) take little time"
        given = [place for limit in case.all("code.group_limit") for place in (limit.evidence, *limit.value["settings"])]
        yield Sign(
            "strong" if known else "weak",
            says,
            (fact.evidence, fact.value["wait"], *given, *launched_with(case)),
            fatal=known,
        )


def _limit(case: Case) -> str:
    """How long the others wait."""
    given = _little_time(case)
    if given is not None:
        few = f"{given[0]:.0f} to {given[-1]:.0f}" if given[0] != given[-1] else f"{given[0]:.0f}"
        return f"the process group's timeout of {few} seconds"
    if case.all("code.hf_trainer"):
        return "the default timeout (30 minutes with this trainer)"
    return "the default timeout (10 minutes with NCCL, 30 with gloo)"


def _little_time(case: Case) -> list[float] | None:
    """The seconds that the job itself gives its process group, where none is more than the shortest default."""
    minutes = case.number("distributed.timeout_minutes")
    said = [case.number("distributed.timeout_seconds"), minutes * 60 if minutes else None]
    limits = [fact.value["seconds"] for fact in case.all("code.group_limit")]
    if None in limits:
        return None
    seconds = [number for number in (*said, *limits) if number is not None]
    return sorted(seconds) if seconds and max(seconds) <= SHORTEST else None


def _soon_read(case: Case, work: list[str]) -> int | None:
    """How much data the job names, where all of it is known and so little that preparing it is no matter of minutes."""
    held = case.all("data.held")
    size = sum(fact.value["bytes"] for fact in held)
    little = bool(held) and all(fact.value["complete"] for fact in held) and 0 < size < LITTLE
    return size if little and not any(compiled(ELSEWHERE).search(one) for one in work) else None


def _default_time(case: Case) -> bool:
    """Whether nobody gave the process group more time."""
    said = case.all("code.group_limit") or any(fact.value["open"] for fact in case.all("code.group_start"))
    return not said and not any(name.startswith("distributed.timeout") for name in case.facts)


def in_recorder(case: Case) -> Iterator[Sign]:
    """A rank that works, or sleeps, by itself while the others wait for it in a collective."""
    found = stall(case)
    if found is not None and found.cause == "distributed/slow-rank":
        yield Sign(found.strength, found.says, found.evidence, order=order(case))
    yield from _gave_up_on(case)
    absent = missing(case)
    if found is None and absent is not None:
        ranks, waited = absent
        who = ", ".join(map(str, ranks))
        says = f"rank {who} never reached collective {waited.sequence} ({waited.operation}), in which the others wait"
        yield Sign("strong", says, (entered(waited),), order=order(case))


def _gave_up_on(case: Case) -> Iterator[Sign]:
    """A rank that waited until its time-out while another one, which had come no further, was at other work."""
    leader, flight = first(case), case.flight
    if flight is None or leader is None or leader.raised is None or not leader.gave_up:
        return
    for other in flight.ranks:
        alive = other.pid != leader.process.pid and (other.ended is None or other.ended >= leader.time)
        if not alive or other.phase == "collective" or _is_ahead(other, leader.process):
            continue
        place = own_place(of_event(leader.raised))
        used = _processor_seconds(flight, other.pid, leader.time)
        busy = f", using the CPU for {used:.0f} of the last {WATCHED:.0f} s" if used is not None else ""
        says = (
            f"{leader.process.name} waited{f' at {place}' if place else ''} until the timeout while {other.name} was busy "
            f"({during(other.phase)}{busy})"
        )
        quote = f"{other.name}: phase '{other.phase}', {other.page.get('steps', 0.0):.0f} optimizer steps{busy}"
        seen = Evidence("recorder", quote, f"recorder {clock(leader.time)}", other.rank, clock(leader.time))
        yield Sign("decisive", says, (leader.evidence, seen), order=order(case))
        return


def _is_ahead(other: Process, waiting: Process) -> bool:
    return any(other.page.get(name, 0.0) > waiting.page.get(name, 0.0) for name in ("backwards", "steps"))


def _processor_seconds(flight: Flight, pid: int, until: float) -> float | None:
    """The processor time that a process used shortly before a moment."""
    used = [value for time, value in flight.series("process", "cpu", pid) if until - WATCHED <= time <= until + 1]
    return used[-1] - used[0] if len(used) > 1 else None


APART = Fix(
    "Do the long work while no other rank waits for it",
    "by-hand",
    "prepare data before the process group starts, or once per node; save sharded (torch.distributed.checkpoint) or in a "
    "thread; add a collective inside long loops that run on one rank",
)
LONGER = Fix(
    "Set a timeout that is long enough for this work",
    "exact",
    "use the longest known work of one rank and no more: a longer timeout hides hangs",
    settings={"distributed.timeout_seconds": "double"},
)


def fix(case: Case) -> Iterator[Fix]:
    """More time for the process group; where a recording shows the rank that the others wait for, that would only hide it."""
    waits = case.all("code.long_first") or not case.before  # after a death it is known that one rank took too long
    edits = edits_of(case.all("code.group_start")) if waits and _default_time(case) else ()
    if waits and _little_time(case) is not None:
        edits = edits_of(case.all("code.group_limit"))
    if edits:
        why = "two hours for rank 0's work; it is better to do it before the process group starts"
        yield Fix("Raise the process group's timeout for rank 0's work", "exact", why, edits=edits)
    yield APART
    if case.flight is None or stall(case) is None:
        yield LONGER


experiment = Experiment(
    title="Print the time around this work on every rank, once with the old and once with twice the timeout",
    confirms="with the longer timeout the busy rank arrives and the run continues; its work took longer than the old timeout",
    refutes="the other ranks still wait at the doubled timeout: then the rank never arrives (another path, a lock, a "
    "dead peer)",
)
ALONE = Experiment(
    title="Run the work of that line alone, without the process group, and time it",
    start_from="the newest complete checkpoint",
    stop_after="the end of that work, or twice the time the others waited",
    confirms="it takes as long alone: then the others should not wait for it in a collective",
    refutes="it is fast alone: then something else blocked the rank there (a lock, a file, the machine)",
)


def settle(case: Case) -> Experiment:
    """Where the place is known, that place is tried; else the time-out."""
    return ALONE if case.flight is not None and stall(case) is not None else experiment
