"""Workers or saves wait for a file system.

What happens: reading samples or writing checkpoints takes seconds to minutes while processor and accelerator are idle.

Why: many small files on a network file system, a mounted cloud drive, a cold cache, a disk shared with other jobs,
metadata servers under load, a checkpoint written by every rank at once.

How it shows: scanning or caching a data set at seconds for each file; ``Slow image access detected``; minutes between a
save and the next step; ``nfs: server not responding, still trying`` in the kernel log; workers in state D. Fast from
the second epoch on is the page cache at work, and healthy.

What to do: copy to local disk first, pack samples into large files (tar shards, LMDB, parquet), save less often or
asynchronously and to a local disk, one writer for each node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, weak
from crashcart.causes.slow._pace import grade, lines_with, seconds_between
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_float, to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "Reading or saving waits for the file system"
alike = ("slow/data",)
SLOW_FILE = 0.3
SLOW_SAVE = 120
SAVES = 4
WAITED = r"(?<![a-z_])data(?:[_ ]?(?:load(?:ing)?)?[_ ]?time)\W{1,3}([\d.]+)"
NO_DURATION = 1e6  # a point in time, not a length of time
SCAN = r"(?:scanning|caching|indexing|reading|copying|extracting|checking)\b.{0,200}?(?<![\d.])([\d.]{1,24}) ?s/(?:it|file|img|image)"
TOOK = (
    r"(?:sav|writ|checkpoint|ckpt|dump)[^.;]{0,80}?(?:took|takes|elapsed|in|time\w{0,9}|:)\W{0,3}([\d.]{1,24}) ?(?:s|sec|seconds)\b|"
    r"time_s/save_checkpoint\W{1,20}([\d.]{1,24})"
)
SAID = (
    "performance bottleneck on cpu or disk",
    "slow image access detected",
    "not responding, still trying",
    "slow file system",
    "filesystem is slow",
    "file system is slow",
    "slow disk detected",
    "slow i/o detected",
    "disk i/o is slow",
    "slow storage",
    "storage is slow",
    "reading from disk is slow",
    "slow data access",
    "slow nfs",
)

phrases = (
    weak(*SAID, says="a program or the kernel reports slow file access", fatal=False, any_level=True),
    weak("scanning", "caching images", "caching labels", says="files are scanned one by one", pattern=SCAN, fatal=False),
    weak("writing took", "time_s/save_checkpoint", "saved checkpoint", "saving took", "save took", says="the log has the time of a save",
         fatal=False, pattern=TOOK),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """Words of a program about slow files, slow scans, and saves that took minutes."""
    for line in lines_with(case, *SAID):
        if any(later.order > line.order for later in lines_with(case, "server") if later.lowered.endswith(" ok")):
            break
        yield Sign(grade(case, "strong"), "a program or the kernel reports slow file access",
                   (evidence(line),), fatal=False,
                   order=line.order)  # fmt: skip
        break
    for line in lines_with(case, "s/it", "s/file", "s/im"):
        match = compiled(SCAN).search(line.text)
        if match and to_float(match[1], 0.0) > SLOW_FILE:
            says = f"scanning takes {match[1]} s for each file"
            yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)
            break
    for line in lines_with(case, "took", "save", "saving", "writ"):
        match = compiled(TOOK).search(line.text)
        if match and SLOW_SAVE < to_float((match[1] or match[2]).rstrip("."), 0.0) < NO_DURATION:
            says = f"a save took {match[1] or match[2]} s"
            yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)
    yield from _gaps(case)
    yield from _stalled(case)
    yield from _cold(case)
    yield from _nothing_but_saves(case)


def _cold(case: Case) -> Iterator[Sign]:
    """Minutes of waiting in the first interval, and hardly any later: the first read of each file is the slow one."""
    waits = []
    for line in lines_with(case, "data"):
        told, step = compiled(WAITED).search(line.text), compiled(r"\[\s*(\d{1,9})\s*/\s*\d+\s*\]").search(line.text)
        if told:
            waits.append((line, to_float(told[1].rstrip("."), 0.0), to_int(step[1], 1) if step else 1))
    if len(waits) > 1:
        line, wait, steps = waits[0]
        if wait * steps > SLOW_SAVE and wait > 1 and max(later for _, later, _ in waits[1:]) < wait / 10:
            minutes = wait * steps / 60
            says = (
                f"{minutes:.0f} minutes of waiting in the first {steps} steps and hardly any later: a cold file system cache"
            )
            yield Sign(grade(case, "strong"), says, (evidence(line), evidence(waits[1][0])), fatal=False, order=line.order)


def _nothing_but_saves(case: Case) -> Iterator[Sign]:
    lines = case.log.lines[-SAVES:]
    if len(lines) == SAVES and all(
        compiled(r"\bsav(?:ing|ed)\b.{0,30}(?:checkpoint|model|state|weights)").search(line.text) for line in lines
    ):
        says = "one save follows another without a step in between"
        yield Sign("weak", says, (evidence(lines[0]), evidence(lines[-1])), order=lines[0].order)


def _stalled(case: Case) -> Iterator[Sign]:
    """A stall that is reported right after a save began."""
    for line in lines_with(case, "waiting for remainder of ranks", "stalled", "no progress for"):
        before = case.log.around(line, before=2)[:-1]
        if any(compiled(r"\bsaving (?:\w+ ){0,3}(?:checkpoint|model|state|weights)").search(one.text) for one in before):
            says = "ranks wait while one of them saves"
            yield Sign(
                grade(case, "strong"), says, (evidence(before[-1]), evidence(line)), fatal=False, order=before[-1].order
            )
            return


def _gaps(case: Case) -> Iterator[Sign]:
    """Minutes between a line and the next one that says that something was saved."""
    for line in lines_with(case, "saved ", "saving "):
        near = case.log.around(line, before=1, after=1)
        saved = compiled(r"\bsaved (?:\w+ ){0,3}(?:checkpoint|model|state|weights)").search(line.text) is not None
        saving = compiled(r"\bsaving (?:\w+ ){0,3}(?:checkpoint|model|state|weights)").search(line.text) is not None
        other = (near[0] if saved else near[-1]) if saved or saving else line
        passed = abs(seconds_between(other, line) or 0.0)
        if SLOW_SAVE * 2 < passed < 86400:
            says = f"{passed / 60:.0f} minutes pass around a save"
            pair = tuple(evidence(one) for one in sorted({other, line}, key=lambda one: one.order))
            yield Sign(grade(case, "strong"), says, pair, fatal=False, order=line.order)
            return


def in_machine(case: Case) -> Iterator[Sign]:
    """A network file system that did not answer, or a process that the kernel saw waiting for a disk."""
    for event in case.kernel:
        if event.kind in {"nfs", "hung-task"} and event.ours is not False:
            yield Sign(
                grade(case, "strong"),
                "the kernel reports processes waiting for the file system",
                (event.evidence,),
                fatal=False,
            )


fixes = (
    Fix(
        "Read large files from a local disk",
        "exact",
        "copy the dataset to local storage at the start of the job, or pack it into shards; save to local disk and copy "
        "afterwards",
    ),
)
experiment = Experiment(
    title="Time reading 1000 samples from this path and from a local copy, with a cold cache, and writing 10 GB to both",
    start_from="the beginning",
    stop_after="1000 samples and one write on each",
    confirms="the local copy is several times faster",
    refutes="both are as slow: then decoding is the cost (slow/data)",
)
