"""Calls that fetch something over the network or write a file that is built once and read ever after."""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING, Literal

from crashcart.readers.code._callers import statement_of
from crashcart.readers.code._guards import ends
from crashcart.readers.code._renames import renamed
from crashcart.readers.code.source import FUNCTIONS, keyword, name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code.source import Source

__all__ = ["How", "asked_name", "block_after", "builds", "fetches", "hub_name", "is_cached", "is_long", "whole"]

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
# A copy to or from a store is a download only where the store comes first.
TOOLS = re.compile(
    r"\b(?:wget|curl|git clone|huggingface-cli download|hf download|unzip|tar -?x)\b"
    r"|\b(?:aws s3|gsutil)(?: -\S{1,60}){0,4} (?:cp|sync|rsync)(?: -\S{1,60}){0,4} ['\"]?(?:s3|gs)://"
)
LONG = re.compile(
    r"download|fetch|tokeni[sz]e|preprocess|pre_process|prepare_?data|prepare_dataset|build_(?:index|cache|dataset|vocab|meta)"
    r"|(?:index|scan|cache|convert|encode|extract)_?(?:dataset|data|files|latents|features|episodes)|load_dataset|extractall|unpack_archive"
    r"|create_(?:index|cache)|compute_stat|calc_stat|urlretrieve"
)


def fetches(callers: Callers, source: Source) -> Iterator[tuple[ast.Call | ast.If, How]]:
    """What is fetched or built in a file, and how."""
    offline = _goes_offline(source)
    for call in source.calls(*HUB):
        local = keyword(call, "local_files_only")
        if not offline and not (isinstance(local, ast.Constant) and local.value is True):
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
        if _built_once(callers, source, branch):
            yield branch, "build"


def _goes_offline(source: Source) -> bool:
    """``os.environ["HF_HUB_OFFLINE"] = "1"``: nothing is asked for any more."""
    return "_OFFLINE" in source.text and any(
        isinstance(one, ast.Subscript)
        and isinstance(one.slice, ast.Constant)
        and one.slice.value in {"HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"}
        and _words(node.value) in {"1", "true", "True"}
        for node in source.nodes(ast.Assign)
        for one in node.targets
    )


def _is_vision(name: str) -> bool:
    return (
        name.startswith(("torchvision.", "torchaudio.", "torchtext.", "medmnist.", "torch_geometric."))
        or "datasets." in name
    )


def _words(node: ast.expr) -> str:
    texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return " ".join(texts)


def _built_once(callers: Callers, source: Source, branch: ast.If) -> bool:
    """``if not os.path.exists(path): ... write(path)``: built by who comes first, and read half written by who comes second."""
    if path := _asked_for(branch.test, missing=True):
        return _writes(callers, source, branch.body, path)
    if path := _asked_for(branch.test, missing=False):
        rest = branch.orelse or (block_after(branch) if ends(branch.body) else [])
        return _writes(callers, source, rest, path)
    return False


def whole(node: ast.Call | ast.If) -> tuple[ast.stmt, ast.stmt]:
    """The first and last statement of what must be done by one process at a time: from the test whether it is there.

    Two processes that both saw nothing fetch one after the other, over each other's files; so the test belongs to it, and so
    does what comes after a test that leaves with what was there.
    """
    statement = node if isinstance(node, ast.If) else statement_of(node)
    at: ast.AST = statement
    while not isinstance(at, (*FUNCTIONS, ast.ClassDef, ast.Module)):
        if isinstance(at, ast.If) and _asked_for(at.test, missing=True):
            return at, at
        for one in _before(at) if isinstance(at, ast.stmt) else ():
            if isinstance(one, ast.If) and _asked_for(one.test, missing=False) and not one.orelse and ends(one.body):
                return one, block_after(one)[-1]
        at = parent(at) or node
    if isinstance(node, ast.If) and _asked_for(node.test, missing=False) and not node.orelse:
        return node, block_after(node)[-1]
    return statement, statement


def _before(node: ast.stmt) -> list[ast.stmt]:
    """The statements before one in its block, the nearest first."""
    for block in (getattr(parent(node), part, None) for part in ("body", "orelse", "finalbody")):
        if isinstance(block, list) and node in block:
            return block[: block.index(node)][::-1]
    return []


def block_after(branch: ast.If) -> list[ast.stmt]:
    """The statements that follow a branch in its block."""
    above = parent(branch)
    for part in ("body", "orelse", "finalbody"):
        block = getattr(above, part, None)
        if isinstance(block, list) and branch in block:
            return block[block.index(branch) + 1 :]
    return []


def _writes(callers: Callers, source: Source, body: list[ast.stmt], path: str) -> bool:
    """Whether statements write a file of that name, themselves or in a function that they hand it to.

    One that is renamed when whole is no such thing, where each process has a name of its own for it.
    """
    calls = [one for part in body for one in ast.walk(part) if isinstance(one, ast.Call)]
    names = [source.called(one.func) for one in calls]
    if (how := renamed(source, body)) == "own":
        return False
    if how == "shared":
        return any(_is_write(call, name) for call, name in zip(calls, names, strict=True))
    for call, name in zip(calls, names, strict=True):
        given = [ast.unparse(one) for one in [*call.args, *(word.value for word in call.keywords)]]
        if path not in given and f"str({path})" not in given and name != f"{path}.open":
            continue
        if _is_write(call, name):
            return True
        for at, function in callers.meant(source, call):
            inner = [(one, at.called(one.func)) for one in ast.walk(function) if isinstance(one, ast.Call)]
            if renamed(at, [function]) != "own" and any(_is_write(*one) for one in inner):
                return True
    return False


def _is_write(call: ast.Call, name: str) -> bool:
    if name in {"open", "io.open", "gzip.open"} or name.endswith(".open"):
        mode = keyword(call, "mode", 0 if name.endswith(".open") and name not in {"io.open", "gzip.open"} else 1)
        return mode is not None and _words(mode)[:1] in {"w", "a", "x"}
    if name.endswith("h5py.File"):
        return not any(_words(one) == "r" for one in [*call.args, *(word.value for word in call.keywords)])
    return name in DUMPS or name.endswith(tuple(f".{one}" for one in DUMPS))


def _asked_for(test: ast.expr, *, missing: bool) -> str:
    """The path whose existence a test asks for: ``not os.path.exists(path)``, ``path.exists()``."""
    if missing:
        if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            return ""
        test = test.operand
    if not isinstance(test, ast.Call) or not isinstance(test.func, ast.Attribute) or test.func.attr not in EXISTS:
        return ""
    return ast.unparse(test.args[0]) if test.args else ast.unparse(test.func.value)


def asked_name(call: ast.Call) -> ast.expr | None:
    """What a call gives as the name on a hub."""
    if call.args:
        return call.args[0]
    names = {"path", "repo_id", "pretrained_model_name_or_path"}
    return next((one.value for one in call.keywords if one.arg in names), None)


def hub_name(first: ast.expr | None) -> str:
    """The name on a hub that is given in words; empty where it is computed, or a path of this machine."""
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


def builds(function: ast.AST, source: Source) -> bool:
    """Whether a function makes a file unless it is there already: work that somebody wants to do only once."""
    calls = [one for one in ast.walk(function) if isinstance(one, ast.Call)]
    asks = any(isinstance(one.func, ast.Attribute) and one.func.attr in EXISTS for one in calls)
    return asks and any(_is_write(one, source.called(one.func)) for one in calls)


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
