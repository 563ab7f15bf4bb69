"""The disk, or the quota on it, is full.

What happens: a write fails: a checkpoint, a log, a cache, a download, a temporary file.

Why: checkpoints that are never deleted (with optimizer state about three times the weights each), caches in the home
folder, ``/tmp`` on a small partition, inodes used up (``df -i``), a quota for user or project that ``df`` does not
show.

How it shows: ``[Errno 28] No space left on device``, ``[Errno 122] Disk quota exceeded``; torch's zip writer only says
``PytorchStreamWriter failed writing file`` or ``unexpected pos``, safetensors ``StorageFull``. The checkpoint that was
being written is damaged: resume from the one before. A recording shows how much room the disk and the quota had.

What to do: ``df -h`` and ``df -i`` on the output folder, ``/tmp`` and the cache; ``quota -s``; keep only the last few
checkpoints; move ``HF_HOME``, ``TMPDIR`` and the output folder to a larger volume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes.host_memory._estimate import by_name, by_sizes, each
from crashcart.causes.host_memory._recorded import gib, last_of
from crashcart.causes.host_memory._saves import failed_save
from crashcart.causes.host_memory.shm import at_semaphore
from crashcart.deaths import first, order
from crashcart.flight import clock
from crashcart.log import evidence
from crashcart.model import Edit, Evidence, Experiment, Fix, Sign
from crashcart.numbers import to_int
from crashcart.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Fact, Strength

title = "The disk or quota is full"
# The same words about shared memory, semaphores and file watches are not about the disk.
_NOT_DISK = r"/dev/shm|</torch_|posix_fallocate|\bshm|semlock|inotify|joblib|file watch|shared memory|MDB_MAP_FULL"
_SPACE = (
    "no space left on device", "errno 28]", "errno = 28", "os error 28", "storagefull", "code: 28", "kein speicherplatz mehr",
    "设备上没有空间", "设备没有空间", "磁盘空间不足", "aucun espace disponible", "no queda espacio", "spazio esaurito",
    "não há espaço", "не осталось свободного места", "空き領域がありません", "남은 공간이 없음",
)  # fmt: skip
_RECORDED = Pattern(
    r"No space left|[Ee]rrno(?: = | )(?:28|122|27)\b|[Qq]uota exceeded|StreamWriter failed|unexpected pos|StorageFull|iostream error"
)
_FULL = 64 << 20  # bytes; less is full
_HOME = 5 << 30
_NO_ROOM = {"No space left on device", "Disk quota exceeded"}
_VOLATILE = {"tmpfs", "ramfs"}
phrases = (
    weak(*_SPACE, says="a write failed: no space left", unless=_NOT_DISK),
    decisive("disk quota exceeded", "errno 122]", "超出磁盘限额", "os error 122", "quota exceeded",
             says="the disk quota is used up",
             unless=r"rate|request|api|gpu|429|project quota|drive\.google|download|gdown|too many"),
    decisive("not enough space on the disk", "winerror 112", "database or disk is full", "not enough free disk space",
             "not enough disk space", "low on resource: ephemeral-storage", "ephemeral local storage usage exceeds",
             says="the disk is full", unless=r"^\s*#"),
    strong("pytorchstreamwriter failed writing",
           says="torch could not write a checkpoint, which usually means a full disk or quota"),
    strong("unexpected pos", says="torch's writer lost its position in the file, which usually means a full disk or quota",
           pattern=r"inline_container.{0,60}unexpected pos"),
    weak("cannot be opened", says="a file could not be opened for writing; a full disk or quota is one possible reason",
         pattern=r"RuntimeError: File \S+ cannot be opened"),
    strong("errno 27]", "errno = 27", "os error 27", says="a file cannot grow any further: a limit on the file size (ulimit -f), "
           "or a limit of the file system"),
    strong("requested and", says="numpy could not write all of its data", pattern=r"\d requested and \d{1,20} written"),
    strong("no usable temporary directory", says="no temporary folder is writable"),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """No space left, where the frames and the words do not speak of shared memory."""
    elsewhere = {one.line.order for one in case.log.raised if at_semaphore(one)}
    survived = {one.line.order for one in case.log.raised if one.survivable}
    shared = next((line.order for line in case.log.index.saying(("</torch_", "posix_fallocate"))), None)
    for line in case.log.index.saying(_SPACE):
        if compiled(_NOT_DISK).search(line.text):
            continue
        if line.order in elsewhere or compiled(r"\bWARN(?:ING)?\b|Warning:").search(f"{line.level} {line.text[:200]}"):
            continue
        if line.order in survived:
            if case.log.finished is None and not any(metric.line.order > line.order for metric in case.log.metrics):
                says = "a message reports no space left on the device, and no step followed"
                yield Sign("strong", says, (evidence(line),), order=line.order)
            continue
        strength: Strength = "decisive" if shared is None or line.order < shared else "weak"
        yield Sign(strength, "a write failed: no space left on the device", (evidence(line),), order=line.order)
        return


def in_recorder(case: Case) -> Iterator[Sign]:
    """A write that failed, beside the room that its file system, the disk of the working folder and the quota had."""
    leader = first(case)
    if leader is None or not leader.says(_RECORDED) or leader.says(Pattern(_NOT_DISK)):
        return
    at = clock(leader.time)
    if (limit := case.facts.get("limit.file_size")) is not None:
        says = f"the launch script limits every file to {gib(limit.value)} (ulimit -f), and a write failed"
        yield Sign("decisive", says, (leader.evidence, limit.evidence), order=order(case))
        return
    if (failed := failed_save(case, leader)) is not None and failed.full:
        says = f"the file system {failed.mount} had {failed.room} left when {leader.how} while writing {failed.path}"
        shown = (leader.evidence, failed.event.evidence)
        yield Sign("decisive", f"{says}{failed.not_whole}", shown, order=order(case))
        return
    for column, what in (("disk_free", "the disk of the working folder"), ("quota_left", "the quota")):
        free = last_of(case, "host", column, leader.time)
        if free is not None and free < _FULL:
            says = f"{gib(free)} were free on {what} when {leader.how}"
            seen = Evidence("recorder", says, f"recorder {at}", rank=leader.process.rank, time=at)
            yield Sign("decisive", says, (leader.evidence, seen), order=order(case))
            return
    if leader.says(Pattern(r"No space left|[Ee]rrno(?: = | )(?:28|122)\b|[Qq]uota exceeded|StorageFull")):
        yield Sign("decisive", f"{leader.process.name} had no space for its write", (leader.evidence,), order=order(case))


def in_machine(case: Case) -> Iterator[Sign]:
    """Before the start: the room of the output folder against the checkpoints that will be written there."""
    for fact in case.all("disk.room"):
        yield from _room(case, fact)
    for fact in case.all("disk.cache"):
        if fact.value["free"] < _HOME:
            says = f"downloads go to {fact.value['path']}, which has {gib(fact.value['free'])} free (HF_HOME can name another folder)"
            yield Sign("weak", says, (fact.evidence,), fatal=False)


def _room(case: Case, fact: Fact) -> Iterator[Sign]:
    value, places = fact.value, (fact.evidence, fact.value["named"])
    left = [
        (value["free"], "are free"),
        *([(value["quota"], "are left of the quota")] if value["quota"] is not None else []),
    ]
    free, what = min(left)
    if value["refused"] in _NO_ROOM:
        yield Sign("decisive", f"a test write to {value['path']} failed: {value['refused']}", places)
    elif value["inodes"] == 0:
        yield Sign("decisive", f"the file system of {value['path']} cannot hold another file (no free inodes)", places)
    elif value["checkpoint"] is not None:
        size, count = value["checkpoint"], _written(case, value["checkpoints"])
        one = f"{gib(free)} {what} for {value['path']}"
        if free < size:
            yield Sign(
                "strong",
                f"{one}, and the last checkpoint there has {gib(size)}: another one of that size does not fit",
                places,
            )
        elif count is not None and count * size > free:
            says = f"{one}, and {count} checkpoints of {gib(size)}, as large as the last one, need {gib(count * size)}"
            kept = [
                case.facts[name].evidence for name in ("save.keep", "save.period", "train.max_steps") if name in case.facts
            ]
            yield Sign("strong", says, (*places, *kept))
    elif free < _FULL:
        yield Sign("strong", f"{gib(free)} {what} for {value['path']}: a larger checkpoint does not fit", places)
    else:
        yield from _estimated(case, free, f"{gib(free)} {what} for {value['path']}", places)
    if value["kind"] in _VOLATILE:
        yield Sign(
            "weak",
            f"{value['path']} is in memory ({value['kind']}): checkpoints saved there are lost when the machine stops",
            places,
            fatal=False,
        )


def _estimated(case: Case, free: float, one: str, places: tuple[Evidence, ...]) -> Iterator[Sign]:
    """No checkpoint lies there yet: what one takes at the least, by the sizes of the model or by its name."""
    sizes, name = by_sizes(case), by_name(case)
    weight, held = each(case)
    if sizes is not None:
        size, count = sizes.weights * weight, _written(case, 0) or 1
        many = f"{count} checkpoints" if count > 1 else "a checkpoint"
        if count * size > free:
            says = f"{one}, and {many} of {gib(size)} or more would need {gib(count * size)} (an estimate: {sizes.words}"
            yield Sign("strong", f"{says}), if {held} are saved, even in 16 bits", (*places, *sizes.evidence))
    elif name is not None and name.weights * weight > free:
        says = f"{one}, and {name.words} may need {gib(name.weights * weight)} or more for {held} (an estimate)"
        yield Sign("weak", says, (*places, *name.evidence), fatal=False)


def _written(case: Case, there: int) -> int | None:
    """How many more checkpoints will lie there at once: as many as are kept and the one being written."""
    keep, period, steps = (case.number(name) for name in ("save.keep", "save.period", "train.max_steps"))
    planned = to_int(steps // period) if steps and period and period > 0 else None
    kept = to_int(keep, 0)
    if kept > 0:
        return max(1, min(kept + 1, planned or kept + 1) - there)
    return planned


def fix(case: Case) -> Iterator[Fix]:
    """Lift the limit that the launch script sets; else make room."""
    limit = case.facts.get("limit.file_size")
    if limit is not None and limit.span is not None:
        why = f"{limit.evidence.quote} stops every write beyond {gib(limit.value)}"
        yield Fix("Remove the file size limit", "exact", why, edits=(Edit(limit.span, "unlimited"),))
    yield from by_hand


by_hand = (
    Fix(
        "Free disk space, then resume from the last complete checkpoint",
        "by-hand",
        "delete the checkpoint that was being written: it is incomplete",
    ),
    Fix("Keep fewer checkpoints", "exact", "older ones are deleted as new ones are written", settings={"save.keep": 2}),
)
experiment = Experiment(
    title="Write a file as large as one checkpoint into the same folder, as the same user (dd or fallocate)",
    start_from="nothing: no training is needed",
    stop_after="the file is written",
    confirms="it fails with the same errno, and works after space is freed",
    refutes="it works: then check /tmp, the cache folders and write errors of the file system",
)
