"""The file is not the data but a placeholder: a Git LFS pointer or an HTML page.

What happens: weights or samples are 130 bytes long, or begin with ``<!DOCTYPE html>``, and the program that opens them
complains of a broken format.

Why: a repository was cloned without Git LFS, so that each large file is a text of three lines (``version
https://git-lfs...``); a download link answered with a log-in, quota or virus-scan page; a tool saved a 404.

How it shows: the first byte tells: ``invalid load key, 'v'`` is the word "version" of a pointer, ``'<'`` an HTML page; the
pointer's own lines in a dump. ``HeaderTooLarge``, ``Parquet magic bytes not found`` and ``file signature not found`` fit,
and fit a damaged file too.

What to do: ``head -c 200 FILE``; ``git lfs pull``, or download again with the right tool and compare size and hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import decisive, strong, weak
from crashcart.deaths import first, order
from crashcart.model import Experiment, Fix, Sign
from crashcart.places import frames_of_first, is_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "The file is a placeholder (Git LFS pointer or HTML page), not the data"
alike = ("data/corrupt-or-missing", "checkpoint/corrupt")
# What readers raise for a file that is not of their format.
UNREADABLE = frozenset({
    "UnpicklingError", "UnidentifiedImageError", "JSONDecodeError", "ValueError", "OSError", "BadZipFile", "RuntimeError", "EOFError",
    "ParserError", "SafetensorError", "ArrowInvalid", "UnicodeDecodeError", "LibsndfileError", "HeaderTooLarge", "SafetensorsError",
})  # fmt: skip

phrases = (
    decisive("version https://git-lfs", "git-lfs.github.com/spec", "oid sha256:", says="the text of a Git LFS pointer"),
    decisive(
        "invalid load key, '",
        says="the file begins like a Git LFS pointer (v) or a web page (<), not like a pickle",
        pattern=r"invalid load key, '(?:v|<|\\n|\\x0a|\\r|\\x0d|N|E|G|R|A|\{|n|h|-|#)'",
    ),
    decisive("unsupported operand", says="the unpickler read the first letter of a pointer (118 is v) or of a web page (60 "
        "is <)",
             pattern=r"(?:WeightsUnpickler error: |^)Unsupported operand (?:118|60)\b"),
    decisive(
        "<!doctype html", "cannot retrieve the public link of the file", "permission denied: https://drive.google",
        "google drive - quota exceeded", "too many users have viewed or downloaded this file",
        says="a web page was downloaded instead of the file", unless=r"API (?:request|response)|response body|rest_utils|mlflow|wandb|HTTPError",
    ),
    decisive("b'version '", "b'<html", "b'<!do", "b'<!doc", "b'vers", says="the first bytes are those of a pointer or a "
        "web page"),
    strong("could not parse modelproto", "lm::formatloadexception", says="a model file that is not a model, "
        "usually a Git LFS pointer",
           pattern=r"ModelProto|FormatLoad"),
    weak(
        "headertoolarge", "header too large", "parquet magic bytes not found", "file signature not found",
        "file is not a zip file", "not a gzip file", "not a gzipped file", "expecting value: line 1 column 1",
        "allow_pickle=false", "not a jpeg file", "invalid header or archive is corrupted", "cannot identify image file",
        says="the file does not start like its format, as with a Git LFS pointer or a web page",
        unless=r"skipp|ignor",
    ),
)  # fmt: skip

SHOWN = 5
WORDS = {"pointer": "a Git LFS pointer, not the data", "page": "a web page, not the data"}


def in_recorder(case: Case) -> Iterator[Sign]:
    """A file could not be read at the line that reads from a folder in which such a file lies."""
    leader = first(case)
    event = leader.raised if leader is not None else None
    if leader is None or event is None or str(event.details.get("type", "")).rpartition(".")[2] not in UNREADABLE:
        return
    spots = frames_of_first(case)
    for fact in case.all("data.stand_in"):
        if fact.value["kind"] in WORDS and is_at(fact.value["named"], spots):
            says = f"{leader.how} where {fact.value['file']} is read, which is {WORDS[fact.value['kind']]}"
            yield Sign("decisive", says, (leader.evidence, fact.evidence), order=order(case))
            return


def in_data(case: Case) -> Iterator[Sign]:
    """Pointers and pages among the files that the job names."""
    found = [fact for fact in case.all("data.stand_in") if fact.value["kind"] in WORDS]
    for fact in found[:SHOWN]:
        value = fact.value
        others = f", as are {value['count']} of {value['of']:,} files there" if value["count"] > 1 else ""
        sure = value["direct"] or value["count"] == value["of"]
        told = f"{value['file']} is {WORDS[value['kind']]}{others}"
        told = told if sure else f"{told}: the run will fail when it reaches this file"
        guarded = bool(case.all("code.reading_guarded"))
        yield Sign("weak" if guarded else "decisive" if sure else "strong", told, (fact.evidence, value["named"]))


fixes = (
    Fix(
        "Download the real file",
        "by-hand",
        "`head -c 200 FILE` shows what it is; `git lfs install && git lfs pull` for a pointer, `huggingface-cli download` "
        "or `gdown --fuzzy` for a "
        "page; compare the size with the one the pointer names; then delete the cached copy",
    ),
)
experiment = Experiment(
    title="Look at the first 200 bytes and the size of the file that the traceback names",
    start_from="the file on the machine that trains",
    stop_after="the bytes are shown",
    confirms="they are text (version https://git-lfs, <html) and the size is below a few kilobytes",
    refutes="they are binary with the format's own signature: then the file is damaged or has another version",
)
