"""The ranks took different paths: they no longer call the same collectives in the same order.

What happens: one rank waits in a collective that another never enters, or enters with another size. Nothing is printed
until the process group's time-out, mostly 10 or 30 minutes later; or gradients of different steps mix without a word.

Why: uneven numbers of batches; a batch that one rank skips alone (NaN, empty target, out of memory); a branch on a value
that differs between ranks (a metric that was reduced to rank 0 only); a block under ``if rank == 0`` that contains a
collective (saving sharded weights, ``evaluate``, ``barrier``); experts or modules that only some ranks use.

How it shows: watchdogs of different ranks name another operation, size or number; a fingerprint mismatch under
``TORCH_DISTRIBUTED_DEBUG=DETAIL``; rank 0 waits alone right after the end of training or at a save; in a recording, stacks of
ranks in different collectives, or ranks that made different numbers of backward passes and steps. The sentence "most
likely caused by incorrect usages of collectives" is printed on every time-out and proves nothing.

What to do: let all ranks decide together (all-reduce the flag before you branch), call collective functions on every
rank, ``drop_last`` or ``Join`` for uneven data. A longer time-out only hides it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong, weak
from crashcart.causes._joined import edits_of, launched_with, ranks, sharded, single, spread_weights
from crashcart.causes.distributed._counters import counters_differ
from crashcart.causes.distributed._entered import different, entered
from crashcart.causes.distributed._watchdog import signs
from crashcart.causes.hang._recorded import stall
from crashcart.deaths import first, followers, order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_int
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.flight import Process
    from crashcart.log import Line
    from crashcart.model import Fact, Strength

title = "The ranks are out of sync: they took different paths and wait for each other"
piece = "StepGuard"
alike = ("distributed/slow-rank", "distributed/network")
phrases = (
    decisive(
        "size_or_syntax_mismatch", "collective_type_mismatch", "collective_state_mismatch", "error type: undecided",
        says="the flight recorder shows ranks in different collectives", any_level=True,
    ),
    decisive(
        "mismatch between collectives on ranks", "is running inconsistent collective", "mismatched collective detected",
        "collective mismatch error", "forward order differs across ranks", "op.preamble.length <= op.nbytes",
        "nccl warn message truncated", "cannot apply desired operation due to shape mismatches",
        says="the library reports ranks in different collectives", any_level=True,
    ),
    decisive(
        "mismatched allreduce", "mismatched allgather", "mismatched broadcast", "mismatched mpi operations",
        "mismatched data types", "mismatched reducescatter", "mismatched alltoall", "mismatched collective operations",
        says="Horovod reports ranks with different operations or shapes",
    ),
    decisive(
        "gradients are inconsistent between workers", says="the gradient norms of the ranks differ",
    ),
    weak("reduced, gathered or broadcasted by subset of ranks", "stalled ranks:", "[missing ranks:",
         says="some ranks have not submitted a tensor that the others wait for", fatal=False),
    strong(
        "ddp expects same model across all ranks", "to match sizes of the same param in process 0",
        says="the ranks built different models",
    ),
    strong(
        "across ranks", "between ranks", "across all ranks",
        pattern=r"(?:error|exception).{0,80}(?:mismatch|inconsisten|differ|disagree).{0,60}(?:across|"
        r"between) (?:all )?ranks",
        says="the ranks disagree",
    ),
    weak("watchdog caught collective operation timeout", "timed out in blocking wait", says="a collective timed out"),
    weak("invalidate trace cache", says="the order of modules changed between steps", fatal=False),
    weak("all gather sequence out of order", "collectivefingerprint(", says="the order of collectives may differ",
         fatal=False),
)  # fmt: skip
FINGERPRINT = r"\[Rank (\d{1,20})\].{0,200}SequenceNumber=(\d{1,20}), OpType=(\w{1,60})"
OPERATION = r"\[(?P<rank>\d{1,6})\] NCCL INFO (?P<operation>\w{1,40}): opCount (?P<number>[0-9a-fA-F]{1,16}) .{0,200}\[nranks=(?P<size>\d{1,6})\]"
BAR = r"(?<!\d)(\d{1,20})/(\d{1,20}) ?\["
AT_END = 40
stacks = (
    Stack(
        r"distributed_c10d\.py:(?:all_reduce|all_gather\w*|broadcast\w*|reduce_scatter\w*|barrier|gather|scatter|all_to_all\w*|recv|send)$|c10d_logger\.py:wrapper",
        "the traceback ends in a collective",
    ),
)


def in_log(case: Case) -> Iterator[Sign]:
    """Watchdogs, fingerprints and progress bars of several ranks, laid side by side."""
    yield from signs(case, "desync")
    yield from _fingerprints(case)
    yield from _counted_operations(case)
    yield from _uneven(case)


def _fingerprints(case: Case) -> Iterator[Sign]:
    """The last fingerprint of each rank: more than one collective apart is no coincidence."""
    last: dict[str, tuple[int, Line]] = {}
    for line in case.log.lines:
        if "fingerprint(" in line.lowered and (match := compiled(FINGERPRINT).search(line.text)):
            last[match[1]] = to_int(match[2], 0), line
    if last and max(last.values(), key=_number)[0] - min(last.values(), key=_number)[0] > 1:
        ahead, behind = max(last.values(), key=_number), min(last.values(), key=_number)
        says = f"one rank is at collective {ahead[0]}, another at {behind[0]}"
        yield Sign("strong", says, (evidence(ahead[1]), evidence(behind[1])), order=behind[1].order)


def _counted_operations(case: Case) -> Iterator[Sign]:
    """NCCL's own trace: under the same number two ranks of a communicator call different operations, or other sizes of one."""
    seen: dict[tuple[str, str], tuple[str, str, Line]] = {}
    for line in case.log.index.saying(("opcount",)):
        match = compiled(OPERATION).search(line.text)
        if match is None:
            continue
        rank, operation, number, size = match["rank"], match["operation"], match["number"], match["size"]
        other = seen.setdefault((number, size), (rank, operation, line))
        if other[0] != rank and other[1] != operation:
            says = f"at operation {number} rank {other[0]} calls {other[1]}, and rank {rank} calls {operation}"
            yield Sign("decisive", says, (evidence(other[2]), evidence(line)), order=other[2].order)
            return


def _number(item: tuple[int, Line]) -> int:
    return item[0]


def _uneven(case: Case) -> Iterator[Sign]:
    """Bars of the ranks that stand at the same step of different totals, where the log ends."""
    bars = [
        (to_int(match[1], 0), to_int(match[2], 0), line)
        for line in case.log.lines[-AT_END:]
        if (match := compiled(BAR).search(line.text)) and to_int(match[2], 0) > AT_END
    ]
    if len(bars) < 3 or case.log.raised or case.log.finished or bars[-1][2].order != case.log.lines[-1].order:
        return
    near = [bar for bar in bars if bar[0] > 0.98 * bar[1] and abs(bar[0] - bars[-1][0]) <= 1]
    totals = {total for _, total, _ in near}
    if len(totals) > 2 and max(totals) - min(totals) < 0.01 * max(totals):  # three ranks at least
        says = f"the ranks have between {min(totals)} and {max(totals)} batches, and stopped at the end of the shortest"
        yield Sign("strong", says, tuple(evidence(line) for _, _, line in near[:3]), order=near[0][2].order)


def in_code(case: Case) -> Iterator[Sign]:
    """A batch that one rank can leave out while the others make its backward pass; a wait for all that only the first one makes."""
    count = ranks(case)
    for fact in _skips(case):
        says = "a rank whose own loss is not finite skips a backward pass in which the others wait for it"
        if count is None:
            yield Sign("weak", f"{says}, if there is more than one rank", (fact.evidence,), fatal=False)
        else:
            yield Sign("strong", f"{says}: the {count} ranks do not decide together", (fact.evidence,))
    for fact in _hidden(case):
        says = f"a rank whose step fails continues with the next batch while the other {(count or 2) - 1} wait in this one"
        yield Sign("strong", says, (fact.evidence,))
    for fact in _left_out(case):
        says = "here each rank decides by itself, from its own batch, whether to skip it: the others then wait in the backward pass"
        yield Sign("strong", says, (fact.evidence,))
    for fact in case.all("code.loop_left_alone"):
        says = "each rank decides by itself whether to leave the loop here, and one of them has left it"
        yield Sign("strong", says, (fact.evidence,))
    yield from _lone_waits(case)


def _left_out(case: Case) -> list[Fact]:
    """Batches that a rank leaves out by what they hold; before a run nobody knows that the ranks' batches differ in that."""
    return case.all("code.batch_left_out") if not case.before and ranks(case) != 1 else []


def _with_steps(process: Process) -> str:
    steps = process.page.get("steps", 0.0)
    return f"{process.name} (after {steps:.0f} optimizer steps)" if steps else process.name


def _hidden(case: Case) -> list[Fact]:
    """Handlers that hide the error of one rank's step; only where the launch says that there are several."""
    several = (ranks(case) or 1) > 1
    return [fact for fact in case.all("code.step_error_hidden") if several and fact.value["distributed"]]


def _skips(case: Case) -> list[Fact]:
    """The backward passes that a rank leaves out by itself, where the job has several ranks or may have."""
    count = ranks(case)
    return [
        fact
        for fact in case.all("code.nonfinite_skip")
        if fact.value["before_backward"]
        and not fact.value["together"]
        and (count is None or count > 1)
        and fact.value["distributed"]
    ]


def _lone_waits(case: Case) -> Iterator[Sign]:
    """A call that waits for all ranks, which only one side of them makes."""
    for fact in case.all("code.lone_wait"):
        strength = _lone(case, fact)
        if strength is None:
            continue
        seen, count = fact.value, ranks(case)
        inner = f", in which {seen['waits_in']}() waits for all ranks," if seen["through"] else ""
        first = seen["side"] == "first"
        who = "only rank 0 calls" if first else "every rank except rank 0 calls"
        missing = "the other ranks, which never call it" if first else "rank 0, which never calls it"
        says = f"{who} {seen['call']}(){inner} and waits there for {missing}"
        if strength == "weak":
            says = f"{who} {seen['call']}(): correct as long as no weights are sharded (FSDP, ZeRO 3)"
        elif count is not None:
            says += f": {count} ranks"
        else:
            says += ", if it is started with more than one rank"
        also = (seen["through"],) if seen["through"] else ()
        yield Sign(strength, says, (fact.evidence, *also, *launched_with(case)), fatal=strength != "weak")


def _lone(case: Case, fact: Fact) -> Strength | None:
    """How sure it is that this wait is never answered."""
    if single(case):
        return None
    kind = fact.value["waits"]
    spread = True if kind == "always" else sharded(case) if kind == "sharded" else spread_weights(case)
    if not spread:
        return "weak" if spread is None else None
    return "decisive" if fact.value["sure"] and (ranks(case) or 0) > 1 else "strong"


def in_recorder(case: Case) -> Iterator[Sign]:
    """Ranks whose counters differ, that wait in different collectives, or one that ends while the others still wait."""
    uneven = counters_differ(case)
    if uneven is not None:
        yield replace(uneven, order=order(case))
    found = stall(case)
    if found is not None and found.cause == "distributed/desync":
        yield Sign(found.strength, found.says, found.evidence, order=order(case))
    leader = first(case)
    if leader is not None and leader.left:
        lost = followers(case, leader)
        others = ", ".join(_with_steps(one.process) for one in lost[:3])
        says = f"{_with_steps(leader.process)} exited with code 0 while the others still needed it: {others}"
        yield Sign("decisive", says, (leader.evidence, *(one.evidence for one in lost[:2])), order=order(case))
    split = different(case)
    if split is not None:
        says = f"under the same number rank {split[0].rank} and rank {split[1].rank} made different calls"
        yield Sign("decisive", says, tuple(map(entered, split)), order=order(case))


def fix(case: Case) -> Iterator[Fix]:
    """Let the ranks decide and wait together, where the code allows; then the general remedies."""
    edits = edits_of(_skips(case), "edits_together")
    if edits:
        why = "the ranks all-reduce one number before the branch; nothing changes while every loss is finite"
        yield Fix("Make all ranks skip the batch, or none", "exact", why, edits=edits)
    edits = edits_of(_left_out(case))
    if edits:
        why = "the ranks all-reduce one number before the branch: if one rank skips its batch, all skip theirs"
        yield Fix("Make all ranks skip the batch, or none", "changes-training", why, edits=edits)
    edits = edits_of(_hidden(case), "edits")
    if edits:
        why = "the job then stops with the error and its location, instead of hanging until a timeout"
        yield Fix("Let an error in a step end the job", "changes-training", why, edits=edits)
    edits = edits_of(fact for fact in case.all("code.lone_wait") if _lone(case, fact) in {"decisive", "strong"})
    if edits:
        why = "every rank makes the call; the rest of the branch still runs on rank 0 only"
        yield Fix("Make every rank call it", "exact", why, edits=edits)
    yield from fixes[:1] if case.before else fixes  # before a run nobody has seen uneven batches


fixes = (
    Fix(
        "Make every rank make the same calls",
        "by-hand",
        "move collective calls (saving sharded weights, evaluate, barrier, all_gather) out of `if rank == 0`; "
        "all-reduce a flag "
        "before skipping a batch or stopping early, so that all ranks do it or none does",
    ),
    Fix(
        "Give every rank the same number of batches",
        "changes-training",
        "drop_last drops the remainder; DDP's `Join` context keeps it",
        settings={"loader.drop_last": True},
    ),
)
experiment = Experiment(
    title="Run to the failing step with TORCH_DISTRIBUTED_DEBUG=DETAIL, which compares each collective before it runs",
    change={"environment": {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}},
    confirms="a mismatch error names the two operations, or the flight recorder shows a rank outside of the collective",
    refutes="all ranks report the same operation and size at the timeout: then a rank is slow, or the network is broken",
)
