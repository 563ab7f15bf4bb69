"""One rank is consistently slower than the others, and all of them wait for it.

What happens: the job runs at the pace of its slowest rank.

Why: one card is hot or faulty, one node has a slow disk or a busy processor, work is not spread evenly (lengths,
pipeline stages), one rank does logging or saving for all.

How it shows: a detector names ranks; minimum and maximum over ranks lie apart; the same rank has the longest time of
its own again and again. In a synchronous job all step times are equal: the late rank is the one with the SHORTEST time
inside the collective, since it comes last and the others wait.

What to do: measure compute and waiting of each rank apart; swap the suspect's node; balance lengths; look at its
clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, weak
from crashcart.causes.slow._pace import grade, lines_with
from crashcart.causes.slow._recorded import cards, waits
from crashcart.deaths import order
from crashcart.flight import median
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_float, to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line

title = "One rank is consistently slower than the others"
alike = ("slow/data", "slow/throttled")
APART = 1.05
LONGER = 1.3
FAR = 3.0
FEWEST_RANKS = 3
LATE = 100
NOTICEABLE, WORTH, CLOCKED = 0.1, 0.02, 0.9  # share of time, seconds a batch, share of the others' clock
NAMED = (
    r"\b(?:input|compute|h2d|wait)[_ ]straggler|straggler detection warning|straggler\w{0,60} (?:detected|found|ranks?|"
    r"nodes?)|affected ranks: \[\d|slow(?:est)? (?:ranks?|nodes?)\b.{0,40}\d"
)
NO_NAME = (
    r"\.{4}|log_straggler|no stragglers?|not? (?:found|detected)|straggler_|detection (?:enabled|disabled|interval|is)|"
    r": \[\]|: none"
)
SPREAD = r"MnRtt/Rnk: ([\d.]+)ms/\d+ \| MxRtt/Rnk: ([\d.]+)ms/(\d+)"
RANK = r"\brank[ =:#]?(\d+)|(?:cuda|gpu|device)[ =:#]?(\d+)"
TIME = (
    r"(?<![\d.])([\d.]{1,24}) ?(?:s|sec|ms)/(?:step|it|iter|batch)\b|(?<![a-z_])(?:(?:step|iter|batch)[_ ]?)?time(?: cost)?\W{1,3}([\d.]{1,24})|"
    r"\b(?:compute|forward|backward|fwd|bwd|elapsed|duration|took|latency|step|iter\w{0,60})\W{1,3}([\d.]{1,24}) ?(?:ms|s|sec|seconds)\b"
)

phrases = (
    weak("straggler", "slowest ranks", "affected ranks", "worst performing", "mxrtt/rnk", "performance dropped",
         "elapsed time of nodes", "waiting for remainder of ranks", "slowest node", "time per rank", "time of each rank",
         says="the log compares ranks", unless=NO_NAME, fatal=False, any_level=True),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """Words of a detector, a spread between ranks, or one rank that is the slowest each time."""
    for line in lines_with(case, "straggler", "affected ranks", "slowest rank", "slow rank", "slowest node", "slow node"):
        if compiled(NAMED).search(line.text) and not compiled(NO_NAME).search(line.text):
            yield Sign(
                grade(case, "strong"),
                "a detector names ranks that are slower",
                (evidence(line),),
                fatal=False,
                order=line.order,
            )
            break
    for line in lines_with(case, "mxrtt/rnk"):
        match = compiled(SPREAD).search(line.text)
        fastest, slowest = (to_float(match[group], 0.0) for group in (1, 2)) if match else (0.0, 0.0)
        if match and slowest > APART * fastest > 0:
            says = f"rank {match[3]} needs {slowest / fastest:.2f} times as long as the fastest"
            yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)
            break
    for line in lines_with(case, "slowdown:"):
        match = compiled(r"slowdown: ([\d.]+)x").search(line.text)
        if match and to_float(match[1], 0.0) > LONGER:
            says = f"the slowest rank needs {match[1]} times as long as the fastest"
            yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)
            break
    yield from _side_by_side(case)
    yield from _not_ready(case)
    yield from _slowest(case)


def _side_by_side(case: Case) -> Iterator[Sign]:
    """Times of several nodes or ranks in one line: {0: 181.8, 1: 143.1, 2: 20.2, 3: 18.7}."""
    for line in lines_with(case, "time", "elapsed", "latency", "duration", "took"):
        if not compiled(r"\b(?:nodes?|ranks?|workers?|gpus?|devices?|hosts?)\b").search(line.text):
            continue
        pairs = compiled(
            r"(?:^|[\s{,\[(;|])(?:(?:node|rank|worker|gpu|device|host)[ _#-]?)?['\"]?(\d+)['\"]? ?[:=] ?(\d+\.\d+)"
        ).findall(line.text)
        times = sorted(to_float(time, 0.0) for _, time in pairs)
        if (
            len(times) >= FEWEST_RANKS
            and len({who for who, _ in pairs}) == len(pairs)
            and times[-1] > FAR * max(times[0], 1e-9)
        ):
            slow = max(pairs, key=lambda pair: to_float(pair[1], 0.0))
            says = f"number {slow[0]} takes {slow[1]}, the fastest {times[0]:g}"
            yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)
            return


def _not_ready(case: Case) -> Iterator[Sign]:
    """Horovod's report of ranks that come late, in the middle of a run."""
    for line in lines_with(case, "waiting for remainder of ranks"):
        steps = [metric.step for metric in case.log.metrics if metric.step is not None and metric.line.order <= line.order]
        saving = any("saving" in one.lowered for one in case.log.around(line, before=2))
        if max(steps, default=0) > LATE and not saving:
            says = "some ranks wait for others in the middle of a run"
            yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)
            return


def _slowest(case: Case) -> Iterator[Sign]:
    rounds = _rounds(case)
    if not rounds:
        return
    worst = [max(one, key=lambda rank: one[rank][1]) for one in rounds]
    apart = [
        max(time for _, time in one.values()) / max(sorted(time for _, time in one.values())[len(one) // 2 - 1], 1e-9)
        for one in rounds
    ]
    steady = len(rounds) > 1 and len(set(worst)) == 1 and min(apart) > LONGER
    once = len(rounds) == 1 and apart[0] > FAR
    if steady or once:
        line = rounds[0][worst[0]][0]
        says = f"rank {worst[0]} is the slowest every time" if steady else "the times of the ranks differ a lot"
        yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)


def _rounds(case: Case) -> list[dict[int, tuple[Line, float]]]:
    """Times by rank, one round for each step: a rank that comes again begins the next round."""
    rounds: list[dict[int, tuple[Line, float]]] = []
    for line in case.log.lines:
        if line.rank is None and not any(word in line.lowered for word in ("rank", "cuda", "gpu", "device")):
            continue
        who, time = compiled(RANK).search(line.text), compiled(TIME).search(line.text)
        if time is None or (who is None and line.rank is None):
            continue
        rank = (
            line.rank if line.rank is not None else to_int(next(group for group in who.groups() if group), 0) if who else 0
        )
        if not rounds or rank in rounds[-1]:
            rounds.append({})
        rounds[-1][rank] = (line, to_float(next(group for group in time.groups() if group).rstrip("."), 0.0))
    most = max((len(one) for one in rounds), default=0)
    return [one for one in rounds if len(one) == most >= FEWEST_RANKS]


def in_recorder(case: Case) -> Iterator[Sign]:
    """A rank that waits for its data far longer than the others do, or a card whose clock is lower than the others'."""
    found = waits(case)
    if len(found) > 1 and found[0].share > NOTICEABLE and found[0].each > WORTH:
        usual = median(one.share for one in found[1:])
        if usual < found[0].share / 2:
            says = f"{found[0].process.name} spends {found[0].share:.0%} of its time waiting for data, the others {usual:.0%}: they wait for it"
            yield Sign(grade(case, "strong"), says, (found[0].evidence, found[1].evidence), fatal=False, order=order(case))
    working = [card for card in cards(case) if card.clock > 0]
    if len(working) > 1:
        slowest = min(working, key=lambda one: one.clock)
        usual = median(one.clock for one in working if one is not slowest)
        if slowest.clock < CLOCKED * usual:
            says = f"GPU {slowest.index} runs at {slowest.clock:.0f} MHz, the others at {usual:.0f}"
            yield Sign("weak", says, (slowest.evidence,), fatal=False, order=order(case))


fixes = (
    Fix(
        "Exclude the slow rank's node, or balance the work",
        "by-hand",
        "run the job without that node; if another rank is slow then, the work is uneven and the machine is fine",
    ),
)
experiment = Experiment(
    title="Run the same job with that node replaced, and measure each rank's compute time before the collective",
    stop_after="200 steps",
    confirms="with the other node the ranks are even and the step is faster",
    refutes="the same rank number is slow on the new node: then it is the work that this rank gets",
)
