"""Calls that fetch something over the network or write a file that is built once and read ever after."""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING, Literal

from crashcart.readers.code.source import keyword, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.source import Source

__all__ = ["How", "fetches", "hub_name", "is_cached", "is_long"]

How = Literal["hub", "write", "build"]
HUB = ("load_dataset", "snapshot_download", "hf_hub_download", "from_pretrained", "load_dataset_builder", "torch.hub.load")
WRITES = (
    "urlretrieve", "wget.download", "gdown.download", "gdown.download_folder", "torch.hub.download_url_to_file", "download_url",
    "download_and_extract_archive", "extract_archive", "shutil.unpack_archive", "extractall", "download_file_from_google_drive",
    "kagglehub.dataset_download",
)  # fmt: skip
DUMPS = ("pickle.dump", "numpy.save", "numpy.savez", "numpy.savez_compressed", "torch.save", "json.dump", "joblib.dump", "np.save", "to_parquet",
         "save_to_disk", "to_pickle", "to_csv", "h5py.File")  # fmt: skip
EXISTS = frozenset({"exists", "isfile", "is_file", "isdir", "is_dir"})
TOOLS = re.compile(r"\b(?:wget|curl|gsutil|aws s3|git clone|huggingface-cli download|hf download|unzip|tar -?x)\b")
LONG = re.compile(
    r"download|fetch|tokeni[sz]e|preprocess|pre_process|prepare_?data|prepare_dataset|build_(?:index|cache|dataset|vocab|meta)"
    r"|(?:index|scan|cache|convert|encode|extract)_?(?:dataset|data|files|latents|features|episodes)|load_dataset|extractall|unpack_archive"
    r"|create_(?:index|cache)|compute_stat|calc_stat|urlretrieve"
)


def fetches(source: Source) -> Iterator[tuple[ast.Call | ast.If, How]]:
    """What is fetched or built in a file, and how."""
    for call in source.calls(*HUB):
        yield call, "hub"
    for call in source.calls(*WRITES):
        yield call, "write"
    for call in source.nodes(ast.Call):
        told = keyword(call, "download")
        if isinstance(told, ast.Constant) and told.value is True and _is_vision(source.called(call.func)):
            yield call, "write"
    for call in source.calls(
        "os.system", "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output"
    ):
        if call.args and TOOLS.search(_words(call.args[0])):
            yield call, "write"
    for branch in source.nodes(ast.If):
        if _built_once(branch, source):
            yield branch, "build"


def _is_vision(name: str) -> bool:
    return (
        name.startswith(("torchvision.", "torchaudio.", "torchtext.", "medmnist.", "torch_geometric."))
        or "datasets." in name
    )


def _words(node: ast.expr) -> str:
    texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return " ".join(texts)


def _built_once(branch: ast.If, source: Source) -> bool:
    """``if not os.path.exists(path): ... write(path)``: built by who comes first, and read half written by who comes second."""
    path = _missing(branch.test)
    if not path:
        return False
    for call in (one for part in branch.body for one in ast.walk(part) if isinstance(one, ast.Call)):
        name = source.called(call.func)
        given = [ast.unparse(one) for one in [*call.args, *(word.value for word in call.keywords)]]
        opened = name in {"open", "io.open", "gzip.open"} and len(call.args) > 1 and _words(call.args[1])[:1] in {"w", "a"}
        if (opened or name in DUMPS or name.endswith(tuple(f".{one}" for one in DUMPS))) and (
            path in given or f"str({path})" in given
        ):
            return not (name.endswith("h5py.File") and "'r'" in given)
    return False


def _missing(test: ast.expr) -> str:
    """What a test finds missing: ``not os.path.exists(path)``, ``not path.exists()``."""
    if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, ast.Call)):
        return ""
    call = test.operand
    if name_of(call.func).split(".")[-1] not in EXISTS or not isinstance(call.func, ast.Attribute):
        return ""
    return ast.unparse(call.args[0]) if call.args else ast.unparse(call.func.value)


def hub_name(call: ast.Call) -> str:
    """The name on a hub that a call gives in words; empty where it is computed, or a path of this machine."""
    first = call.args[0] if call.args else next(
        (one.value for one in call.keywords if one.arg in {"path", "repo_id", "pretrained_model_name_or_path"}), None
    )  # fmt: skip
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return ""
    name = first.value
    builders = {
        "json",
        "csv",
        "parquet",
        "text",
        "imagefolder",
        "audiofolder",
        "webdataset",
        "arrow",
        "pandas",
        "xml",
        "sql",
    }
    return "" if name.startswith((".", "/", "~")) or os.path.exists(name) or name in builders else name


def is_cached(name: str) -> bool:
    """Whether the hub's cache on this machine holds something under that name."""
    home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface")
    plain = name.replace("/", "--")
    tries = [
        os.path.join(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub"), f"{kind}s--{plain}")
        for kind in ("dataset", "model")
    ]
    tries.append(
        os.path.join(os.environ.get("HF_DATASETS_CACHE") or os.path.join(home, "datasets"), name.replace("/", "___"))
    )
    return any(os.path.isdir(one) for one in tries)


def is_long(call: ast.Call, source: Source) -> bool:
    """Whether a call is called like work of minutes to hours: a download, a scan, a tokenization."""
    name = name_of(call.func).split(".")[-1]
    if name == "map":
        return any(one.arg in {"batched", "num_proc", "remove_columns"} for one in call.keywords)
    return (
        bool(LONG.search(name.lower()))
        or (name in {"system", "run", "check_call"} and bool(TOOLS.search(_words(call.args[0]))) if call.args else False)
        or source.called(call.func) in WRITES
    )
