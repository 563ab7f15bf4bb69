"""Calls that fetch something over the network, unpack or write a file, and what lets one process in at a time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from crashcart.readers.interpreter.values import Constant, Container, PerRank, Result, Value, constant_of

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

__all__ = ["LOCKS", "RENAMES", "asked_on_hub", "fetch_of", "prepares_data", "same_path", "written_path"]

Fetch = Literal["hub", "write"]
_HUB = {
    "datasets.load_dataset", "datasets.load_dataset_builder", "huggingface_hub.snapshot_download", "huggingface_hub.hf_hub_download",
    "torch.hub.load",
}  # fmt: skip
_DOWNLOADS = {
    "urllib.request.urlretrieve", "wget.download", "gdown.download", "gdown.download_folder", "torch.hub.download_url_to_file",
    "torchvision.datasets.utils.download_url", "torchvision.datasets.utils.download_and_extract_archive",
    "torchvision.datasets.utils.extract_archive", "torchvision.datasets.utils.download_file_from_google_drive",
    "shutil.unpack_archive", "kagglehub.dataset_download", "tarfile.open.extractall", "tarfile.TarFile.extractall",
    "tarfile.TarFile.open.extractall", "zipfile.ZipFile.extractall",
}  # fmt: skip
_WITH_DOWNLOAD = ("torchvision.", "torchaudio.", "torchtext.", "medmnist.", "torch_geometric.")
_RUNS = {"os.system", "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output"}
# A copy to or from a store is a download only where the store comes first.
_TOOLS = re.compile(
    r"\b(?:wget|curl|git clone|huggingface-cli download|hf download|unzip|tar -?x)\b"
    r"|\b(?:aws s3|gsutil)(?: -\S{1,60}){0,4} (?:cp|sync|rsync)(?: -\S{1,60}){0,4} ['\"]?(?:s3|gs)://"
)
LOCKS = {
    "accelerate.Accelerator.main_process_first", "accelerate.Accelerator.local_main_process_first",
    "accelerate.PartialState.main_process_first", "accelerate.PartialState.local_main_process_first",
    "transformers.TrainingArguments.main_process_first", "lightning.Fabric.rank_zero_first", "lightning.fabric.Fabric.rank_zero_first",
    "filelock.FileLock", "filelock.SoftFileLock", "filelock.UnixFileLock", "portalocker.Lock", "fasteners.InterProcessLock",
    "fcntl.flock", "fcntl.lockf", "filelock.FileLock.acquire", "datasets.utils.filelock.FileLock",
}  # fmt: skip
RENAMES = {"os.rename", "os.replace", "shutil.move", "pathlib.Path.rename", "pathlib.Path.replace"}
_OPENS = {"open", "io.open", "gzip.open", "codecs.open", "pathlib.Path.open"}
# Where the path stands among the arguments of what writes a file by itself.
_WRITERS = {
    "numpy.save": (0, "file"), "numpy.savez": (0, "file"), "numpy.savez_compressed": (0, "file"), "torch.save": (1, "f"),
    "joblib.dump": (1, "filename"), "h5py.File": (0, "name"), "safetensors.torch.save_file": (1, "filename"),
}  # fmt: skip
_WRITES_ITSELF = {"pathlib.Path.write_text", "pathlib.Path.write_bytes"}
_WRITING_METHODS = {"to_parquet", "save_to_disk", "to_pickle", "to_csv"}
_SETTING_NAMES = ("path", "repo_id", "pretrained_model_name_or_path")
_BUILDERS = {"json", "csv", "parquet", "text", "imagefolder", "audiofolder", "webdataset", "arrow", "pandas", "xml", "sql"}


def fetch_of(interpreter: Interpreter, call: Call) -> Fetch | None:
    """How a call fetches: from a hub with a cache and a lock of its own, or into files as they come."""
    if call.function is not None:
        return None
    if call.name in _HUB or (call.method == "from_pretrained" and call.name.startswith(("transformers.", "diffusers."))):
        is_quiet = any(constant_of(call.argument(None, name)) is True for name in ("local_files_only", "streaming"))
        return "hub" if not is_quiet else None
    if call.name in _DOWNLOADS:
        return "write"
    if call.name.startswith(_WITH_DOWNLOAD) and constant_of(call.argument(None, "download")) is True:
        return "write"
    return "write" if call.name in _RUNS and _TOOLS.search(_words(interpreter, call.argument(0))) else None


def prepares_data(interpreter: Interpreter, call: Call) -> bool:
    """Whether a call takes minutes to hours: a download, an archive, a pass over a data set of the hub."""
    if call.name.startswith("datasets.") and call.method in {"map", "filter"}:
        return True
    how = fetch_of(interpreter, call)
    return how == "write" or (how == "hub" and call.name.startswith(("datasets.", "huggingface_hub.snapshot")))


def _words(interpreter: Interpreter, value: Value | None) -> str:
    """What is known of a command."""
    if isinstance(value, Container):
        return " ".join(_words(interpreter, item) or "?" for item in interpreter.items(value))
    if isinstance(value, Result) and value.name == "text":
        return "".join(_words(interpreter, part) or "?" for part in value.data or ())
    plain = constant_of(value)
    return plain if isinstance(plain, str) else ""


def asked_on_hub(call: Call) -> Value | None:
    """What a call names on a hub."""
    return (call.argument(0) if call.arguments else None) or next(
        (call.keywords[name] for name in _SETTING_NAMES if name in call.keywords), None
    )


def is_builder(name: str) -> bool:
    """Whether a name of ``load_dataset`` is a kind of files."""
    return name in _BUILDERS


def written_path(call: Call) -> Value | None:
    """The path of the file that a call writes; None where it writes none."""
    if call.function is not None:
        return None
    if call.name in _OPENS:
        mode = constant_of(call.argument(0 if call.name == "pathlib.Path.open" else 1, "mode"))
        writes = isinstance(mode, str) and mode[:1] in {"w", "a", "x"}
        return (call.receiver if call.receiver is not None else call.argument(0, "file")) if writes else None
    if call.name == "h5py.File" and constant_of(call.argument(1, "mode", Constant("r"))) in {"r", None}:
        return None
    if call.name in _WRITERS:
        return call.argument(*_WRITERS[call.name])
    if call.name in _WRITES_ITSELF:
        return call.receiver
    return call.argument(0, "path") if call.method in _WRITING_METHODS else None


def same_path(first: object, second: object) -> bool:
    """Whether two values are the same path, as far as reading tells."""
    if first is second:
        return first is not None
    if isinstance(first, (Constant, Result)) and isinstance(second, (Constant, Result)):
        content, other_content = _content(first), _content(second)
        if isinstance(content, list) and isinstance(other_content, list):
            return len(content) == len(other_content) and all(map(same_path, content, other_content))
        return isinstance(content, str) and content == other_content
    return isinstance(first, Value) and isinstance(second, Value) and bool(first.origins) and first.origins == second.origins


def _content(value: Constant | Result) -> object:
    return value.value if isinstance(value, Constant) else value.data


def is_own(value: object, depth: int = 4) -> bool:
    """Whether a name differs between processes: made of the process id, the rank, a random or a temporary name."""
    if isinstance(value, PerRank):
        return True
    if isinstance(value, Result) and depth:
        if value.name.startswith(("tempfile.", "uuid.")):
            return True
        parts = value.data if isinstance(value.data, list) else []
        return any(is_own(part, depth - 1) for part in parts)
    return not isinstance(value, Constant) and isinstance(value, Value) and not isinstance(value, Result)
