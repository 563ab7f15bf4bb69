"""What the reports of several ranks' watchdogs say when they are laid side by side.

A watchdog fires on the ranks that wait. Who is guilty follows from the comparison: the same sequence number with another
operation or size is a split; small waits while somebody saves or scans are a slow rank; everybody in the same first
collective is a wire. An error of another kind before the first report explains them all, and none of this is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crashcart.cause import compiled
from crashcart.log import evidence
from crashcart.model import Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Collective, Line
    from crashcart.model import Strength

SMALL = 64  # elements: a barrier, a flag, a metric; gradients and weights are larger
SHORT = 300  # seconds; the defaults are ten and thirty minutes
FIRST = 3  # the sequence numbers of start-up
LOOK_BACK = 60
SAID = 8
BUSY = (
    r"\bsav(?:e|ing)\b|checkpoint|consolidat|state.?dict|merg(?:e|ing)|tokeniz|\bmap(?:ping)?\b ?[(:]|scanning|preprocess|"
    r"download|evaluat|validat|\beval\b|\btest(?:ing)?\b|generat|collecting|caching|building|index|filter|compil|autotun|"
    r"sampling|inference|extract|gathering|computing|writing|export|upload|loading (?:data|checkpoint|shards)"
)
STEP = r"\bloss\b\W{0,4}\d|\bloss['\"]?\s?[:=]"
OWN = r"NCCL|ProcessGroup|Watchdog|TCPStore|c10d|gloo|collective|warn\(|Warning|closing signal|\belastic\b"
ECHO_KINDS = frozenset({"DistBackendError", "DistStoreError", "DistNetworkError", "ChildFailedError", "KeyboardInterrupt"})
STALL = "reduced, gathered or broadcasted by subset of ranks"
ANY_SIZE = r"ALLTOALL|SEND|RECV|COALESCED|SCATTER|UNKNOWN"


class Said(NamedTuple):
    """One cause's share of the comparison."""

    cause: str
    strength: Strength
    says: str
    lines: tuple[Line, ...]


def signs(case: Case, cause: str) -> Iterator[Sign]:
    """What the comparison says about one cause of this family."""
    reports = waits(case)
    if not reports:
        yield from _stalled(case, cause)
        return
    explained = _other_failure(case, reports[0].line)
    for said in _compared(case, reports):
        if said.cause == cause:
            strength: Strength = "weak" if explained else said.strength
            items = tuple(evidence(line) for line in said.lines[:3])
            yield Sign(strength, said.says, items, order=said.lines[0].order)


def _stalled(case: Case, cause: str) -> Iterator[Sign]:
    """Horovod has no time-out of its own: it complains each minute, also when a rank is merely busy."""
    stalls = [line for line in case.log.lines if STALL in line.lowered]
    if not stalls or any(metric.line.order > stalls[-1].order and metric.step is not None for metric in case.log.metrics):
        return
    busy, _ = _before(case, stalls[0])
    blamed = "desync" if busy is None and len(stalls) > 1 else "slow-rank"
    says = "some ranks never submitted a tensor that the others wait for"
    sure = cause == blamed and (busy is not None or len(stalls) > 1)
    yield Sign("strong" if sure else "weak", says, (evidence(stalls[0]),), order=stalls[0].order)


def waits(case: Case) -> list[Collective]:
    """One report for each rank and operation; where no operation is told, the ranks' positions alone."""
    told: dict[tuple[int | None, int | None, str], Collective] = {}
    for collective in case.log.collectives:
        if collective.timeout_seconds is not None or collective.last_enqueued is not None:
            told.setdefault((collective.rank, collective.sequence, collective.operation), collective)
    named = [one for one in told.values() if one.operation]
    return named or list(told.values())


def _other_failure(case: Case, first: Line) -> bool:
    """Whether something else went wrong before the first report, or in another rank's own log."""
    log = case.log
    earlier = [line for line in _failures(case) if line.order < first.order or line.log != first.log]
    return bool(earlier) or any(
        death.line.order < first.order and (death.signal or death.exit_code) and death.signal != "SIGTERM"
        for death in log.deaths
    )


def _failures(case: Case) -> Iterator[Line]:
    for raised in case.log.raised:
        counts = raised.kind and not raised.survivable and raised.kind not in ECHO_KINDS
        if counts and not compiled(OWN).search(raised.message.split("\n")[0]):
            yield raised.line
    for memory in case.log.memory:
        if not memory.survived:
            yield memory.line


def _compared(case: Case, reports: list[Collective]) -> Iterator[Said]:
    lines = tuple(report.line for report in reports)
    split = _split(reports)
    if split:
        a, b = split
        says = f"at number {a.sequence} rank {a.rank} waits in {_name(a)} and rank {b.rank} in {_name(b)}"
        yield Said("desync", "decisive", says, (a.line, b.line))
        return
    sequences = {report.sequence for report in reports if report.sequence is not None}
    if len(sequences) > 1 and _one_group(reports):
        numbers = ", ".join(map(str, sorted(sequences)[:4]))
        yield Said("desync", "strong", f"ranks wait in different collectives (numbers {numbers})", lines)
        yield Said("slow-rank", "weak", "a collective timed out", lines)
        return
    yield from _same(case, reports, lines)


def _same(case: Case, reports: list[Collective], lines: tuple[Line, ...]) -> Iterator[Said]:
    """Who is missing where all reports name the same collective, and what was going on before."""
    one = reports[0]
    small = one.elements is not None and one.elements <= SMALL
    ranks = {report.rank for report in reports if report.rank is not None}
    finished = case.log.finished is not None and case.log.finished.order < one.line.order
    busy, skipped = _before(case, one.line)
    what = f"{_name(one)} of {len(ranks) or 1} rank(s) timed out"
    alone = ranks == {0}
    early = one.sequence is not None and one.sequence <= FIRST
    if alone and (finished or busy is None) and (finished or not small):
        yield Said("desync", "strong", f"{what}: rank 0 waits alone; the others never reached it", lines)
        yield Said("slow-rank", "weak", what, lines)
    elif busy is not None:
        strength: Strength = "decisive" if small else "strong"
        yield Said("slow-rank", strength, f"{what} while one rank was busy: {busy.text.strip()[:80]}", (one.line, busy))
        yield Said("desync", "weak", what, lines)
    elif skipped is not None:
        yield Said("desync", "strong", f"{what} after one rank skipped work that the others did", (skipped, one.line))
        yield Said("slow-rank", "weak", what, lines)
    elif early and ((0 in ranks and len(ranks) > 1) or (not small and one.operation)):
        yield Said("network", "strong", f"{what}: the ranks connected, but the first data never arrived", lines)
        yield Said("slow-rank", "weak", what, lines)
    elif one.timeout_seconds is not None and one.timeout_seconds < SHORT and not early:
        yield Said(
            "slow-rank",
            "strong",
            f"{what} after only {one.timeout_seconds:g} s: one slow rank is enough",
            lines,
        )
        yield Said("desync", "weak", what, lines)
    elif small or not one.operation:
        yield Said("slow-rank", "strong", f"{what}: a barrier or a flag; one rank is late", lines)
        yield Said("desync", "weak", what, lines)
    else:
        yield Said("desync", "strong", f"{what} in the middle of training: one rank does not take part", lines)
        yield Said("slow-rank", "weak", what, lines)
        yield Said("network", "weak", what, lines)


def _split(reports: list[Collective]) -> tuple[Collective, Collective] | None:
    """Two ranks that wait in different operations, or sizes, under the same number."""
    for index, a in enumerate(reports):
        for b in reports[index + 1 :]:
            if a.rank == b.rank or a.sequence is None or a.sequence != b.sequence or _group(a) != _group(b):
                continue
            free = compiled(ANY_SIZE).search(a.operation) or compiled(ANY_SIZE).search(b.operation)
            sizes = a.elements is not None and b.elements is not None and a.elements != b.elements
            if a.operation and b.operation and not free and (a.operation != b.operation or sizes):
                return a, b
    return None


def _one_group(reports: list[Collective]) -> bool:
    """Whether numbers can be compared: several ranks, one number each, and no other process group in sight."""
    ranks = [report.rank for report in reports]
    return len(set(ranks)) == len(ranks) > 1 and len({_group(report) for report in reports}) == 1


def _group(one: Collective) -> str:
    match = compiled(r"\[PG (?:ID )?(\S+)").search(one.line.text)
    return one.group or (match[1] if match else "")


def _name(one: Collective) -> str:
    size = f" of {one.elements} element(s)" if one.elements is not None else ""
    return (one.operation or "a collective") + size


def busy_before(case: Case, line: Line) -> Line | None:
    """The last work that was announced before a line, or on it, where a bar and the report share a line."""
    head = line.text.split("[rank", 1)[0]
    if compiled(BUSY).search(head) and not compiled(OWN).search(head):
        return line
    for other in reversed(case.log.around(line, before=LOOK_BACK)[:-1]):
        bar = other.text.split("[rank", 1)[0]
        if compiled(STEP).search(bar):
            return None
        if bar.strip() and compiled(BUSY).search(bar) and not compiled(OWN).search(bar):
            return other
    return None


def _before(case: Case, first: Line) -> tuple[Line | None, Line | None]:
    """The last work that was announced before the first report, and a step that was skipped."""
    said = 0
    skips = {line.order for line in case.log.skips}
    for line in reversed(case.log.around(first, before=LOOK_BACK)[:-1]):
        if line.order in skips:
            return None, line
        if compiled(OWN).search(line.text):
            continue
        if compiled(STEP).search(line.text):
            return None, None
        if compiled(BUSY).search(line.text):
            return line, None
        said += 1
        if said > SAID:
            break
    return None, None
