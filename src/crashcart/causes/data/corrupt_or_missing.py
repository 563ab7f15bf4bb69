"""A sample or file of the dataset cannot be read: it is damaged, truncated or missing.

What happens: a loader worker opens the one bad file among a million and raises; the whole run ends with it, at a random
step, and again at another one after a restart with another shuffle.

Why: a copy or download that was interrupted, a disk error, an index that names files which were moved, a path built for
another system, a zero-byte file. OpenCV does not raise: it returns None, and the next line dies of ``'NoneType' object has
no attribute 'shape'``.

How it shows: ``cannot identify image file``, ``image file is truncated``, ``Bad CRC-32``, ``moov atom not found``, ``Parquet
magic bytes not found``, ``No such file or directory`` with a loader or ``__getitem__`` on the stack.

What to do: read every file once before training, on the machine that trains, and list the bad ones; restore them rather than
skip them silently, and count what is skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, strong, weak
from crashcart.causes.data._where import LOADER, WEIGHTS
from crashcart.log import evidence
from crashcart.model import Edit, Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Raised

title = "A file of the dataset is damaged or missing"
alike = ("config/missing-or-wrong", "data/download")
UNREADABLE = (
    "cannot identify image file", "image file is truncated", "broken data stream when reading image", "broken png file",
    "unrecognized data stream contents", "error opening '", "file contains data in an unknown format",
    "format not recognised", "moov atom not found", "cannot find video stream", "invalid data found when processing input",
    "bad crc-32 for file", "file is not a zip file", "not a gzipped file", "compressed file ended before the end-of-stream",
    "while decompressing data", "_lzma.lzmaerror", "tarfile.readerror", "parquet magic bytes not found", "inflate() failed",
    "wrong fletcher32 checksum", "truncated file: eof", "file signature not found", "nonmatchingchecksumerror",
    "nonmatchingsplitssizeserror", "error tokenizing data", "json parse error", "no data left in file", "badzipfile",
    "caught filenotfounderror in dataloader worker", "caught unidentifiedimageerror", "image not found", "not a jpeg file",
    "caught oserror in dataloader worker", "error reading /", "truncated record at", "corrupted record at",
    "error decoding", "failed to decode", "expected buffer of size", "!ssize.empty()", "!_src.empty()", "_img.empty()",
    "mmap length is greater than file size", "unpack requires a buffer of", "unpack_from requires a buffer",
    "unpack requires a string argument", "unpack requires a bytes object",
    "not enough values in file", "unexpected end of file", "unexpected end of data", "unexpected end of stream",
    "unexpected eof", "bad magic number in file", "invalid png", "invalid jpeg", "not a png file", "not a webp file",
    "corrupted image", "corrupt image", "corrupted file", "image is corrupt", "file is corrupt", "file is truncated",
    "could not open video", "cannot open video", "error opening input file", "could not read image", "can't read image",
    "failed to read image", "failed to load image", "failed to open image", "unable to read image", "can't open/read file",
    "eof: reading array data", "reading magic string, expected", "failed to read all data for array",
    "eof: reading array header",
    "arrowinvalid: not an arrow file", "ran out of buffer", "expected magic number", "invalid utf-8 in",
    "image does not exist", "pickled data when allow_pickle=false",
    "decompressionbomberror", "lz4.frame", "incorrect data check", "invalid stored block", "libsndfileerror",
    "unable to open image", "not enough image data", "failed to interpret file", "premature end of jpeg",
    "corrupt jpeg data: premature", "can't open input file", "cannot open input file",
)  # fmt: skip
DATA_FILE = (
    r"\.(?:jpe?g|png|bmp|tiff?|webp|gif|npy|npz|wav|flac|mp3|ogg|m4a|mp4|avi|mkv|webm|xml|txt|csv|tsv|jsonl?|parquet|arrow|"
    r"feather|h5|hdf5|"
    r"lmdb|mdb|tfrecords?|tar|zip|gz|nii|dcm|mat|pkl|pickle|ply|pcd|las|bin|idx|obj|off|exr|hdr|raw|mha|nrrd|edf|rec|lst|"
    r"zarr|zst)['\"]?\)?\s*$"
)
SHOWN = 5
READERS = (
    r"read_parquet|read_csv|Image\.py|imread|VideoReader|decord|soundfile|torchaudio|librosa|np\.load|"
    r"numpy/lib/npyio|h5py|nibabel|SimpleITK|read_table"
)
DECODERS = (
    r"/PIL/|/imageio/|/cv2/|/skimage/|/soundfile|/torchaudio/|/librosa/|/audioread/|/decord/|/av/|/nibabel/|/pydicom/|"
    r"/pyarrow/|/pandas/io/|/scipy/io/|/rasterio/|/tifffile|/trimesh/|/plyfile|/laspy|/netCDF4|/zarr/|/webdataset/|"
    r"/tarfile\.py|"
    r"/zipfile|/gzip\.py|/lzma\.py|/json/decoder\.py|/wave\.py|numpy/lib/(?:npyio|format|_npyio_impl|_format_impl)\.py"
)
BROKEN = frozenset({
    "EOFError", "UnpicklingError", "BadZipFile", "ReadError", "UnicodeDecodeError", "JSONDecodeError", "ParserError",
    "ParseError", "ArrowInvalid", "error", "SyntaxError", "LZMAError", "BadGzipFile", "zlib.error", "LibsndfileError",
    "DecompressionBombError", "UnidentifiedImageError", "InvalidDicomError", "ImageFileError", "DecodeError",
})  # fmt: skip

phrases = (
    strong(
        *UNREADABLE,
        says="a file is not in the format it should be",
        unless=r"PytorchStream|safetensor|syntax error|Python extension|ignoring|skipp|mmco|Trying audioread|extraneous bytes|libpng warning|"
               r"PySoundFile failed|"
        r"\.ckpt\b|\.pth?\b|\.safetensors|pytorch_model",
    ),
    weak("libpng error", "corrupt jpeg data", "ignoring corrupt image", "skipping corrupt", "error with error reading",
         "imread_",
         says="a decoder reports an error in a file", fatal=False),
    weak("no such file or directory", says="a file does not exist", pattern=DATA_FILE),
)  # fmt: skip
stacks = (
    Stack(
        r"/PIL/|/cv2/|/imageio/|/tifffile/|/soundfile\.py|/librosa/|torchaudio/.{0,200}:(?:load|_load)|/decord/|/av/|"
        r"torchvision/io/|numpy/lib/(?:npyio|format)\.py|/pyarrow/|webdataset/|zarr/|nibabel/|:(?:default_loader|"
        r"pil_loader|load_image|load_audio|load_video|read_image|imread)$",
        "the traceback ends where a sample is read",
    ),
    Stack(r"^(?!.*/(?:h5py|lmdb)/).*:__getitem__$|_utils/fetch\.py:fetch", "the traceback ends where a sample is fetched"),
)


def in_log(case: Case) -> Iterator[Sign]:
    """Missing and unreadable files by who asked for them: a loader, or somebody who loads weights."""
    for raised in case.log.uncaught(cut=True):
        where = raised.stack()
        by_loader = raised.worker or compiled(LOADER).search(where) is not None
        if compiled(WEIGHTS).search(where) and not raised.worker:
            if any(words in raised.message.lower() for words in UNREADABLE):
                yield Sign(
                    "against", "weights were being loaded, not samples", (evidence(raised.line),), order=raised.line.order
                )
            continue
        told = _told(case, raised, where, by_loader=by_loader)
        if told:
            yield Sign("strong", told, (evidence(raised.line),), order=raised.line.order)


def _told(case: Case, raised: Raised, where: str, *, by_loader: bool) -> str | None:
    first = raised.message.split("\n", 1)[0]
    if raised.kind in {"AttributeError", "TypeError"}:
        return _none_image(case, raised, where, by_loader=by_loader)
    absent = "No such file or directory" in first or "does not exist" in first
    if raised.kind == "FileNotFoundError" and (absent or "Errno 2" in first):
        if compiled(r"\.incomplete|\.lock\b|tmp-checkpoint|\.cache/huggingface").search(first):
            return None
        if compiled(r"os\.remove|unlink|rmtree|os\.rename|os\.replace|shutil\.move").search(raised.stack(2)):
            return None  # something was cleared away twice; nobody read it
        if by_loader or (
            compiled(DATA_FILE).search(first)
            and not compiled(r"checkpoint|weights|model|config|save").search(first + where[-300:])
        ):
            return "a file of the dataset does not exist"
    if raised.kind in BROKEN and compiled(DECODERS).search(raised.stack(2)):
        return f"{raised.kind} inside the decoder of a data file"
    if (
        raised.kind == "ValueError"
        and "cannot reshape array of size" in first
        and compiled(r"npyio|numpy/lib/_?format").search(where)
    ):
        return "an array file has less data than its header says"
    if by_loader and raised.kind in BROKEN:
        return f"{raised.kind} while a sample was read"
    if raised.stack_only and compiled(READERS).search(raised.stack(2)) and by_loader and not compiled("h5py").search(where):
        return "the stack ends where a data file is read"
    return None


def _none_image(case: Case, raised: Raised, where: str, *, by_loader: bool) -> str | None:
    """OpenCV does not raise for a file it cannot read: it returns None."""
    nothing = r"'NoneType' object (?:has no attribute '(?:shape|astype|size|copy|ndim)'|is not subscriptable)"
    if not compiled(nothing).search(raised.message):
        return None
    near = case.log.around(raised.line, before=40)
    if any(words in line.lowered for line in near for words in ("libpng error", "imread_", "corrupt jpeg")):
        return "a decoder reported an error, and then the image was None"
    if by_loader and ("imread" in where or "'shape'" in raised.message):
        return "an image could not be read: the reader returned None"
    return None


def in_data(case: Case) -> Iterator[Sign]:
    """Files that cannot be read or hold nothing, of the data that the job names."""
    seen = [(fact, fact.value["why"]) for fact in case.all("data.unreadable")]
    seen += [(fact, "it is empty (0 bytes)") for fact in case.all("data.stand_in") if fact.value["kind"] == "empty"]
    guarded = bool(case.all("code.reading_guarded"))
    for fact, why in seen[:SHOWN]:
        value = fact.value
        others = (
            f" (the same for {value['count']} of the {value['of']:,} files that were checked)" if value["of"] > 1 else ""
        )
        says = f"{value['file']} cannot be read: {why}{others}"
        if guarded:
            yield Sign(
                "weak", f"{says}; the program handles errors in a sample", (fact.evidence, value["named"]), fatal=False
            )
        elif value["direct"]:
            yield Sign("decisive", says, (fact.evidence, value["named"]))
        else:
            yield Sign("strong", f"{says}: the run will fail when it reaches this file", (fact.evidence, value["named"]))


def in_config(case: Case) -> Iterator[Sign]:
    """Before the start: more numbered episodes than lie there."""
    promising = [fact for fact in case.all("data.held") if fact.value["promised"]]
    for fact in case.all("data.held"):
        there = fact.value["kinds"].get("hdf5", 0)
        for numbered in case.all("code.numbered_files"):
            promised = numbered.value["count"]
            if 0 < there < promised and fact.value["complete"] and fact.value["promised"] in {None, promised}:
                says = f"{promised} episodes are read by number, but {fact.value['path']} has {there}: the run fails at the first missing one"
                sure = numbered.value["count_is_sure"] and promising == [fact]
                yield Sign("decisive" if sure else "strong", says, (fact.value["named"], numbered.evidence, fact.evidence))


def fix(case: Case) -> Iterator[Fix]:
    """The count of episodes that there are, where they are numbered without a gap; else words."""
    for fact in case.all("data.held"):
        there, place = fact.value["kinds"].get("hdf5", 0), fact.value["promised_place"]
        if place is not None and 0 < there < fact.value["promised"] and fact.value["in_a_row"] and fact.value["complete"]:
            why = "the existing ones are numbered from 0 without gaps; not needed if you copy the missing episodes here"
            yield Fix(f"Use only the {there} episodes that exist", "changes-training", why, edits=(Edit(place, str(there)),))
    yield from by_hand


by_hand = (
    Fix(
        "Find and restore the bad files",
        "by-hand",
        "read every sample once without a model: `for i in range(len(dataset)): dataset[i]` in a try, and list those that "
        "raise; copy those files again; "
        "if you skip them, count and report how many",
    ),
)
experiment = Experiment(
    title="Read the whole dataset once with num_workers=0 and no model, and list the samples that raise",
    start_from="the beginning",
    stop_after="every sample was read",
    confirms="the same file raises every time; after it is restored the loop passes",
    refutes="every sample can be read in one process: then the problem is in workers, file handles or the network",
)
