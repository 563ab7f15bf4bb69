"""A checkpoint or a cached weight file is truncated or damaged.

What happens: loading fails before anything is compared: the archive has no directory, the header is invalid, or the file is
truncated.

Why: the run or the machine died while it wrote; a download was interrupted and the half file stayed in the cache; the disk
was full; two processes wrote the same file.

How it shows: ``PytorchStreamReader failed reading zip archive``, ``unexpected EOF, expected N more bytes``, ``Ran out of
input`` or ``pickle data was truncated`` under ``torch.load``, safetensors' ``MetadataIncompleteBuffer`` or
``HeaderTooLarge``, ``storage has wrong size``. The first byte decides for pickles: 'v' and '<' are no damage but a
placeholder.

What to do: compare size and hash with a good copy; delete the cached file and fetch it again; resume from the checkpoint
before. Write checkpoints to a temporary name and rename them when complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong, weak
from crashcart.causes._joined import edits_of, launched_with, ranks
from crashcart.causes.checkpoint._where import LOADING, no_pickle
from crashcart.deaths import first, order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.places import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line

title = "A checkpoint or weight file is damaged or truncated"
piece = "save_atomic"
alike = ("checkpoint/incompatible", "data/corrupt-or-missing")
DAMAGE = (
    r"Ran out of input|pickle data was truncated|unpickling stack underflow|invalid load key, '\\x|not a zip file|"
    r"unexpected EOF|"
    r"Unable to load weights|file signature not found|truncated|corrupt|BadZipFile|Invalid magic number|"
    r"could not find MARK|No such file.{0,200}\.metadata"
)
ANNOUNCED = 30

MOST_SAVES = 2

phrases = (
    decisive(
        "failed finding central directory", "invalid header or archive is corrupted", "pytorchstreamreader failed",
        "failed reading zip archive", "failed locating file data", "metadataincompletebuffer",
        "invalidheaderdeserialization", "invalidheaderlength", "headertoosmall",
        "incomplete metadata, file not fully covered", "header too small", "the file might be corrupted",
        "storage has wrong size", "invalid magic number; corrupt file", "unpickling stack underflow",
        "checkpoint is corrupt", "corrupted checkpoint", "tensorinvalidinfo", "invalid json in header",
        says="the weight file is truncated or damaged",
    ),
    strong("headertoolarge", "header too large", says="the header of the weight file is invalid"),
    strong("unable to load weights from pytorch checkpoint file", "unable to load weights from checkpoint file",
           says="the weight file cannot be read"),
    strong("invalid load key, '", says="the file does not start like a pickle", pattern=r"invalid load key, '\\x(?!0[ad])"),
    weak("ran out of input", "invalid hash value (expected", "pickle data was truncated", says="a pickle is truncated"),
)  # fmt: skip
stacks = (
    Stack(
        r"torch/serialization\.py:(?:load|_load|_legacy_load|persistent_load|load_tensor|_open_zipfile_reader)|"
        r"safetensors/torch\.py:load_file|modeling_utils\.py:load_state_dict|torch/hub\.py:load_state_dict_from_url",
        "the traceback ends where a checkpoint or weight file is read",
    ),
)


def in_log(case: Case) -> Iterator[Sign]:
    """Errors that any file can give, where the frames say that weights were being loaded."""
    for raised in case.log.uncaught(cut=True):
        where = raised.stack()
        text = f"{raised.kind}: {raised.message}"
        damaged = compiled(DAMAGE).search(text) or no_pickle(text)
        if compiled(LOADING).search(where) and damaged and not raised.worker:
            yield Sign(
                "decisive",
                "the weight file is truncated or invalid",
                (evidence(raised.line),),
                order=raised.line.order,
            )
        elif (
            raised.kind == "EOFError"
            and "Ran out of input" in raised.message
            and not raised.worker
            and (_of_weights(where) or _announced(case, raised.line))
        ):
            yield Sign("strong", "a pickled file is empty", (evidence(raised.line),), order=raised.line.order)


def _of_weights(where: str) -> bool:
    return not where or compiled(r"checkpoint|ckpt|weights|model|torch").search(where) is not None


def _announced(case: Case, line: Line) -> bool:
    """Whether the last words before the stack were about a checkpoint that is read."""
    return any(
        compiled(r"(?:resum|restor|load)\w{0,60}\b.{0,60}(?:checkpoint|ckpt|weights|model)").search(other.text)
        for other in case.log.around(line, before=ANNOUNCED)
    )


def in_checkpoints(case: Case) -> Iterator[Sign]:
    """Checkpoints that the reader of folders found to be not whole."""
    for checkpoint in case.checkpoints:
        if getattr(checkpoint, "whole", None) is False:
            item = getattr(checkpoint, "evidence", None)
            yield Sign("weak", "a checkpoint is incomplete", (item,) if item is not None else (), fatal=False)


def in_recorder(case: Case) -> Iterator[Sign]:
    """A file that the run had saved whole, and that is shorter now."""
    leader = first(case)
    folder = str(case.flight.facts.get("folder") or "") if case.flight is not None else ""
    for fact in case.all("data.cut_short") if leader is not None and leader.raised is not None else ():
        value = fact.value
        says = f"{shortened(value['path'], folder)} had {value['saved']:,.0f} bytes when it was saved and now has {value['now']:,}"
        yield Sign("strong", says, (fact.evidence, value["by"].evidence), order=order(case))


def in_code(case: Case) -> Iterator[Sign]:
    """A checkpoint that is written over the one that a resume would read; after a run, where the file was made that cannot be read."""
    leader = first(case) if not case.before and case.flight is not None else None
    for fact in case.all("code.saves")[:MOST_SAVES] if leader is not None and leader.phase == "load" else ():
        yield Sign("weak", "the program writes its checkpoints here", (fact.evidence, *fact.value), fatal=False)
    for fact in case.all("code.saved_in_place"):
        many = fact.value["everyone"] and (ranks(case) or 1) > 1
        says = f"{fact.value['name']} is written in place, "
        says += (
            "and a resume reads the same file: " if fact.value["read"] is not None else "over the only copy of the state: "
        )
        says += f"{ranks(case)} ranks write it at the same time, and " if many else ""
        says += "if the job is killed while it saves, both the new and the old checkpoint are lost"
        read = (fact.value["read"],) if fact.value["read"] is not None else ()
        items = (fact.evidence, *read, *(launched_with(case) if many else ()))
        yield Sign("strong", says, items)


def fix(case: Case) -> Iterator[Fix]:
    """Write beside the file and rename; then the general remedies."""
    written = case.all("code.saved_in_place")
    edits = edits_of(one for one in written if not one.value["handed"])
    handed = edits_of(one for one in written if one.value["handed"])
    if handed:
        why = "it writes to a temporary file, syncs and renames it, so a complete checkpoint exists at every moment"
        yield Fix("Save with crashcart.train.save_atomic", "exact", why, edits=(*edits, *handed))
    elif edits:
        why = "os.replace is atomic, so a complete checkpoint exists at every moment"
        yield Fix("Write the checkpoint to a temporary file, then rename it", "exact", why, edits=edits)
    yield from fixes


fixes = (
    Fix(
        "Use the last complete copy",
        "by-hand",
        "delete the damaged file (for a hub: from the cache; then download it again and compare size and hash); for your own "
        "run resume from the checkpoint "
        "before it; save to a temporary name and os.replace() it when complete",
    ),
)
experiment = Experiment(
    title="Open the file by itself with torch.load(..., map_location='cpu') or safetensors, and the previous checkpoint as "
    "a control",
    start_from="the file that the traceback names",
    stop_after="both files were opened",
    confirms="only this file fails, and its size differs from a good copy",
    refutes="it opens: then the program opens another file, or opens this one while it is still being written",
)
