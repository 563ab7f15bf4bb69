"""Files and folders that the program reads on its way to the training, and that are not there.

    checkpoint = torch.load(args.init)                    --init weights/base.pt, and there is no weights/base.pt
    np.memmap(os.path.join("data", args.dataset, "train.bin"))             data/openwebtext is there, its train.bin is not
    h5py.File(os.path.join(DATA_DIR, f"episode_{i}.hdf5"))                 DATA_DIR = "<put your data dir here>"

Only what the program surely reads counts, with a path that is known, or whose folder is, and that nothing in the job makes,
downloads or looks for before. A name that stands for a path that somebody was to fill in is told as what it is.
"""

from __future__ import annotations

import contextlib
import os
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from crashcart.errors import CommandError
from crashcart.model import Fact
from crashcart.readers.interpreter.libraries.texts_and_paths import path_text
from crashcart.readers.interpreter.values import Constant, Container, Instance, Result, constant_of
from crashcart.readers.job.paths import NO_PATH, lies_elsewhere
from crashcart.readers.job.script_files import text_of
from crashcart.readers.rules.failed_arithmetic import may_be_caught
from crashcart.regular_files import names_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Evidence
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call, Region
    from crashcart.readers.interpreter.values import Value

# The argument that names what is read, and what that is.
READERS: dict[str, tuple[int, str, str]] = {
    "torch.load": (0, "f", "checkpoint"), "safetensors.torch.load_file": (0, "filename", "checkpoint"), "numpy.load": (0, "file", "data"),
    "pandas.read_csv": (0, "filepath_or_buffer", "data"), "pandas.read_parquet": (0, "path", "data"), "h5py.File": (0, "name", "data"),
    "numpy.memmap": (0, "filename", "data"), "torchvision.datasets.ImageFolder": (0, "root", "data"), "os.listdir": (0, "path", "data"),
    "numpy.fromfile": (0, "file", "data"), "numpy.loadtxt": (0, "fname", "data"), "omegaconf.OmegaConf.load": (0, "file_", "config"),
    "torchvision.datasets.CocoDetection": (1, "annFile", "data"), "pycocotools.coco.COCO": (0, "annotation_file", "data"),
    "dict.merge_from_file": (0, "cfg_filename", "config"), "open": (0, "file", "data"), "os.scandir": (0, "path", "data"), "datasets.load_from_disk": (0, "dataset_path", "data"),
    "transformers.AutoConfig.from_pretrained": (0, "pretrained_model_name_or_path", "config"),
}  # fmt: skip
# What may as well name something on a hub, unless it is a file by its ending.
_OF_HUBS = frozenset({"transformers.AutoConfig.from_pretrained"})
# What makes a text of a path, or keeps it, and does nothing on the disk.
_TEXT_ONLY = (  # calls that do nothing with a path but to look at the text, or to hand it to a function of the program
    "multiprocessing.", "torch.multiprocessing.", "threading.", "submitit.", "os.path.", "str.", "pathlib.", "os.fspath", "print", "logging.", "len", "format", "repr", "isinstance", "dict", "list", "tuple", "set", "functools.partial",
)  # fmt: skip
_CONFIGS = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".gin")
_LOOKS = ("os.path.exists", "os.path.isfile", "os.path.isdir")
_SHELLS = ("os.system", "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.Popen", "os.popen")
_CHANGES_FOLDER = ("os.chdir", "hydra.main")
_PLACEHOLDER = re.compile(
    r"<[^<>]{1,80}>|(?:^|/)path[-_/]to(?:$|[-_/])|(?:^|[/_-])your(?:$|[/_ -])|\bput .{1,60} here|(?:^|/)x{3,}(?:$|/)",
    re.IGNORECASE,
)
_ALIKE, _MOST_NAMES = 0.85, 500
_LONGEST_PATH, _MOST_SCRIPTS, _MOST_VALUES = 4096, 20, 50
_NO_FILE = re.compile(r"://|[*?\[\]{}$|\n]|^~|^(?:hf|s3|gs|hdfs|oss):", re.IGNORECASE)


def look(execution: Execution) -> Iterator[Fact]:
    """``path.missing``: what kind of input it is, its path, whether it is surely read, and what of it is here."""
    touched: set[str] = set()
    told: set[str] = set()
    moves = any(execution.trace.named(name) for name in _CHANGES_FOLDER)
    for call in execution.trace.calls:
        reader = READERS.get(call.name)
        if reader is None or _writes(call):
            touched.update(_touched(call, execution))
            continue
        position, keyword, kind = reader
        value = call.argument(position, keyword)
        path = _known_path(value) if value is not None else ""
        is_name = call.name in _OF_HUBS and not path.endswith(".json")
        if value is None or is_name or path in {"", "None", "none"} or path in told or _is_touched(path, touched):
            continue
        told.add(path)
        kind = "config" if path.endswith(_CONFIGS) else kind
        is_placeholder = bool(_PLACEHOLDER.search(path))
        if not is_placeholder and (NO_PATH.search(path) or (moves and not os.path.isabs(path))):
            continue
        is_sure = call.region.is_certain() and not may_be_caught(call.region) and _is_entered(call.region)
        if is_sure and not _NO_FILE.search(path) and not _is_here(path, execution):
            yield _fact(value, call, path, kind, execution, is_placeholder=is_placeholder)


def _known_path(value: Value) -> str:
    """A path that is known; of one whose last part is not, the folder."""
    whole = path_text(value)
    if whole is not None:
        return os.path.normpath(whole) if whole else ""
    start = _known_start(value)
    return os.path.normpath(start.rpartition("/")[0]) if "/" in start else ""


def _known_start(value: Value) -> str:
    """The text of a value up to the first part that is not known."""
    whole = path_text(value)
    if whole is not None:
        return whole
    if not isinstance(value, Result) or value.name not in {"text", "pathlib.Path"} or not isinstance(value.data, list):
        return ""
    between = "/" if value.name == "pathlib.Path" else ""
    start = ""
    for place, part in enumerate(value.data):
        piece = path_text(part)
        start += (between if place else "") + (piece if piece is not None else _known_start(part))
        if piece is None:
            break
    return start


def _writes(call: Call) -> bool:
    return call.name in {"open", "h5py.File", "numpy.memmap"} and bool(set("wax") & set(_mode(call)))


def _mode(call: Call) -> str:
    position = 2 if call.name == "numpy.memmap" else 1
    return str(constant_of(call.argument(position, "mode"), "r"))


def _touched(call: Call, execution: Execution) -> Iterator[str]:
    """The paths that a call may make, fetch or look for: it is given them, as words of a command too, and is no mere reader."""
    is_text = call.name.startswith(_TEXT_ONLY) and call.name not in _LOOKS and call.method not in {"exists", "mkdir"}
    if call.function is not None or is_text:
        return
    waiting = [*call.arguments, *call.keywords.values(), *([call.receiver] if call.receiver is not None else [])]
    if isinstance(call.result, Instance):  # of the program, whose code is followed
        waiting = [value for value in waiting if not value.origins]
    for value in waiting[:_MOST_VALUES]:
        if isinstance(value, Container) and value.kind in {"list", "tuple"}:
            words = [_known_path(word) for word in list(execution.interpreter.items(value))[:_MOST_VALUES]]
        else:
            words = (str(constant_of(value, "")).split() if call.name in _SHELLS else []) or [_known_path(value)]
        yield from (os.path.normpath(word) for word in words if word and len(word) < _LONGEST_PATH)


def _is_touched(path: str, touched: set[str]) -> bool:
    """Whether the path, or a folder above it, was made or looked for."""
    while path not in {"", "/", "."}:
        if path in touched:
            return True
        path = os.path.dirname(path)
    return False


def _is_entered(region: Region) -> bool:
    """Whether the loops around are surely run: what they go through is known, or is a loader."""
    return all(isinstance(loop.iterable, (Container, Result)) for loop in region.loops() if loop.iterable is not None)


def _is_here(path: str, execution: Execution) -> bool:
    return any(os.path.exists(os.path.join(folder, path)) for folder in [*execution.launch.folders, "."])


def _fact(value: Value, call: Call, path: str, kind: str, execution: Execution, *, is_placeholder: bool) -> Fact:
    elsewhere = lies_elsewhere(path)
    about = {
        "kind": kind,
        "path": path,
        "sure": is_placeholder or not elsewhere,
        "elsewhere": elsewhere and not is_placeholder,
        "placeholder": is_placeholder,
        "folder_here": _is_folder_here(value, path, execution),
        "near": _near_name(path, execution),
        "read_at": call.evidence,
        "maker": _maker(path, execution),
    }
    if not value.origins:
        written = _written_at(value, path)
        return Fact("path.missing", about, written or call.evidence, "code")
    setting = value.origins[0]
    span = setting.span if setting.value == path else None
    return Fact("path.missing", about, setting.evidence, setting.origin, setting.spelling, span)


def _written_at(value: Value, path: str) -> Evidence | None:
    """Where the code says the beginning of a path."""
    parts = [value, *(value.data if isinstance(value, Result) and isinstance(value.data, list) else [])]
    for part in parts:
        if (
            isinstance(part, Constant)
            and part.source is not None
            and part.node is not None
            and path.startswith(str(part.value))
        ):
            return part.source.evidence(part.node)
    return None


def _maker(path: str, execution: Execution) -> str:
    """A script beside a file that is not there, and that names it: it probably makes it."""
    name = os.path.basename(path)
    for folder in (os.path.join(each, os.path.dirname(path)) for each in [*execution.launch.folders, "."]):
        scripts = sorted(each for each in names_in(folder) if each.endswith((".py", ".sh")))
        for script in scripts[:_MOST_SCRIPTS]:
            with contextlib.suppress(CommandError, OSError):
                if name and os.path.dirname(path) and name in text_of(os.path.join(folder, script)):
                    return os.path.normpath(os.path.join(folder, script))
    return ""


def _near_name(path: str, execution: Execution) -> str:
    """A file or folder beside a path with almost its name: that one was meant."""
    name = os.path.basename(path)
    for folder in (os.path.join(each, os.path.dirname(path)) for each in [*execution.launch.folders, "."]):
        alike = [
            each
            for each in get_close_matches(name, sorted(names_in(folder))[:_MOST_NAMES], 1, _ALIKE)
            if len(each) < len(name) + 3
        ]
        if alike:
            return alike[0]
    return ""


def _is_folder_here(value: Value, path: str, execution: Execution) -> bool:
    """Whether a file belongs on this machine: its folder is here, and where a setting names it whole, another of its kind beside it."""
    above, suffix = os.path.dirname(path), os.path.splitext(path)[1]
    is_named = any(os.path.normpath(str(fact.value)) == path for fact in value.origins)
    for folder in (os.path.join(each, above) for each in [*execution.launch.folders, "."]):
        if above and os.path.isdir(folder) and not (is_named and suffix):
            return True
        if suffix and any(name.endswith(suffix) for name in names_in(folder)):
            return True
    return False
