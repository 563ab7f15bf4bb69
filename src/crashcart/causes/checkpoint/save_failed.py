"""Writing a checkpoint failed and ended the run.

What happens: training runs well until a save; the save raises, and all work since the last checkpoint is lost.

Why: the folder does not exist or may not be written; several ranks rename or delete the same folder; a stale temporary
folder is in the way; safetensors refuses tensors that share memory or are not contiguous; something in the state cannot be
pickled or written as JSON; the state-dict gathering fails; a file system that is full is ``host-memory/disk-full``.

How it shows: the exception has ``torch.save``, ``save_pretrained``, ``save_checkpoint`` or a state-dict gather on its stack:
``Parent directory ... does not exist``, ``Some tensors share memory``, ``tmp-checkpoint-49' -> 'checkpoint-49'``, ``Can't
pickle local object``. A recording knows that the process was writing a checkpoint when it raised.

What to do: save once right after the start, so that this fails in the first minute; create the folder on rank 0 before a
barrier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, against, compiled, decisive, strong, weak
from crashcart.causes._joined import edits_of
from crashcart.causes.checkpoint._where import SAVING
from crashcart.causes.host_memory._saves import failed_save
from crashcart.deaths import before, first, order
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign
from crashcart.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "Saving a checkpoint failed"
piece = "save_atomic"
breadth = 1  # a full disk is named first where both fit
alike = ("host-memory/disk-full", "checkpoint/corrupt")
ELSE = (
    r"out of memory|No space left|quota|Errno 28|code: 28|MemoryError|cannot allocate memory|NCCL|collective|watchdog|"
    r"timed? ?out|unexpected keyword|Errno 122"
)
NO_ROOM = r"No space left|quota exceeded|Errno 28|code: 28|Errno 122|StorageFull"
BARE = frozenset({"OSError", "IOError", "PermissionError", "BlockingIOError", "TimeoutError", "FileNotFoundError"})
KINDS = frozenset({
    "FileNotFoundError", "FileExistsError", "PermissionError", "OSError", "IOError", "NotADirectoryError",
    "IsADirectoryError", "RuntimeError", "TypeError", "AttributeError", "PicklingError", "ValueError", "SafetensorError",
    "KeyError", "NotImplementedError", "UnicodeEncodeError", "AssertionError", "CheckpointException", "BlockingIOError",
    "Error",
})  # fmt: skip

phrases = (
    strong(
        "input/output error", "stale file handle", "transport endpoint is not connected", "read-only file system",
        "remote i/o error",
        says="the output file system reported an error",
        pattern=r"OSError|IOError|Errno (?:5|30|107|116|121)\b|cannot create|cannot write",
        unless=r"\bread\b|\.(?:jpg|jpeg|png|h5|hdf5|npy|npz|tar|parquet|arrow|wav|flac|mp4|lmdb|tfrecord)\b",
    ),
    decisive(
        "some tensors share memory", "trying to be saved contained shared tensors",
        "trying to save a non contiguous tensor", "trying to save a sparse tensor", "' -> 'checkpoint-", "checkpoint-tmp",
        "parent directory ", "is not json serializable", "error while serializing", "generation config instance is invalid",
        "tmp-checkpoint",
        says="a checkpoint could not be written",
        pattern=r"share memory|shared tensors|non contiguous|sparse tensor|(?:Errno|Error).{0,200}(?:tmp-checkpoint|"
                r"checkpoint-tmp|-> '[^']{0,200}checkpoint)|"
        r"Parent directory .{0,200} does not exist|while serializing|generation config instance is invalid",
        unless=r"code: 28|StorageFull|No space left|Removed shared tensor",
    ),
    strong("pytorchstreamwriter failed writing", "unexpected pos ", "inline_container.cc", "cannot be opened.",
           says="torch could not write the archive of a checkpoint",
           pattern=r"StreamWriter failed|unexpected pos \d{1,20} vs|File .{0,200} cannot be opened",
           unless=r"StreamReader|No space left"),
    strong("failed to save checkpoint", "error saving checkpoint", "could not save checkpoint", "failed to save the model",
           "error while saving",
           "saving checkpoint failed", "failed to write checkpoint", says="the program reports that saving failed"),
    against("no space left on device", "disk quota exceeded", "errno 28]", "storagefull", says="the disk is full"),
    weak("can't pickle local object", "cannot pickle '", "read-only file system", "file name too long",
         "permission denied: '",
         says="something could not be written"),
)  # fmt: skip
stacks = (
    Stack(
        r"torch/serialization\.py:(?:save|_save|_legacy_save)|safetensors/torch\.py:(?:save_file|save_model)|"
        r":_?save_(?:checkpoint|pretrained|state|model|ckpt|weights)$|distributed/checkpoint/.{0,200}:(?:save|"
        r"_save_state_dict)|:write_record$",
        "the traceback ends where a checkpoint is written",
    ),
)


def in_log(case: Case) -> Iterator[Sign]:
    """An exception whose frames are those of a save, and that is no lack of memory or disk."""
    for raised in case.log.uncaught(cut=True):
        if raised.kind not in KINDS or raised.worker or compiled(ELSE).search(raised.message):
            continue
        if not raised.frames and raised.phase == "save" and raised.kind in BARE:
            says = f"{raised.kind} right after a save was announced"
            yield Sign("strong", says, (evidence(raised.line),), order=raised.line.order)
            return
        inner = raised.stack(5)
        if compiled(SAVING).search(inner) and not compiled(
            r"torch\.load\(|serialization\.py _?(?:legacy_)?load|from_pretrained"
        ).search(inner):
            says = f"{raised.kind} while a checkpoint was saved"
            yield Sign("strong", says, (evidence(raised.line),), order=raised.line.order)
            return


def in_checkpoints(case: Case) -> Iterator[Sign]:
    """A newest checkpoint that is cut: the run ended while it was written."""
    if case.checkpoints and case.checkpoints[0].verdict == "broken":
        newest = case.checkpoints[0]
        why = newest.reasons[0] if newest.reasons else "it is broken"
        seen = Evidence("checkpoint", why, str(newest.path))
        yield Sign("weak", "the newest checkpoint is incomplete: the run may have ended while it was written", (seen,))


def in_recorder(case: Case) -> Iterator[Sign]:
    """The first exception came up while a checkpoint was written."""
    leader = first(case)
    for death in (leader, *before(case)):
        if death is None or death.raised is None or death.raised.details.get("phase") != "checkpoint":
            continue
        if death.says(Pattern(ELSE)) and not death.says(Pattern(NO_ROOM)):
            continue
        failed = failed_save(case, death)
        full = death.says(Pattern(NO_ROOM)) or (failed is not None and failed.full)
        says = f"{death.how} while writing a checkpoint" + (
            f" to {failed.path}{failed.not_whole}" if failed is not None else ""
        )
        seen = (death.evidence, *((failed.event.evidence,) if failed is not None else ()))
        # A full disk is the cause, and this what came of it.
        yield Sign("strong" if full else "decisive", says, seen, death is leader and not full, order(case))


def in_machine(case: Case) -> Iterator[Sign]:
    """Before the start: an output folder in which a few bytes could not be written."""
    for fact in case.all("disk.refused"):
        if fact.value["refused"] not in {"No space left on device", "Disk quota exceeded"}:
            says = f"{fact.value['path']} is not writable: {fact.value['refused']}"
            yield Sign("decisive", says, (fact.evidence, fact.value["named"]))


def in_code(case: Case) -> Iterator[Sign]:
    """A save into a folder that nothing makes."""
    for fact in case.all("code.folder_not_made"):
        if case.before and not fact.value["is_save"]:
            continue
        what = "the checkpoint" if fact.value["is_save"] else "a file"
        says = f"{what} goes into {fact.value['folder']}, which the program does not create: "
        yield Sign("strong", f"{says}the first save fails if the folder does not exist", (fact.evidence,))


def fix(case: Case) -> Iterator[Fix]:
    """Make the folder; then the general remedies."""
    edits = edits_of([fact for fact in case.all("code.folder_not_made") if fact.value["is_save"] or not case.before])
    if edits:
        yield Fix("Create the folder before saving", "exact", "this does nothing if the folder already exists", edits=edits)
    yield from fixes


fixes = (
    Fix(
        "Fix the save, and test it at the start of the run",
        "by-hand",
        "create the folder on rank 0 before a barrier; let one rank rename and rotate; remove stale temporary folders; for "
        "tied weights "
        "use safe_serialization=False or save_model(); call .contiguous() before saving; keep lambdas, locks and files out of "
        "what is pickled; save once at step 1",
    ),
)
experiment = Experiment(
    title="Save right after the start, at step 1, into the same folder with the same number of ranks",
    start_from="the newest complete checkpoint",
    stop_after="two saves, the second over the first with rotation",
    confirms="the save fails the same way at once; with the fix both saves work and the file loads",
    refutes="both saves work: then something that differs at the later step (disk, another job, state) is the cause",
)
