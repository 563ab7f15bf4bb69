"""Files of data: what opens a handle, what is read through it, and how much of that is held in memory.

A handle carries the tag ``handle:N``, where N is the number of the call that opened it, and so does everything that reads through it:
a table of HDF5, a transaction of LMDB. What was read carries ``bulk`` (it is as large as data are), and ``whole:N`` with the number of the
read where all of a table or file was taken and nothing was cut out of it since. A length, a shape or a mean carries neither.

    file = h5py.File(path)            handle:7
    table = file["images"]            handle:7, a table that the rule finds by its key
    table[3]                          bulk; a call ``h5py.read`` with the form ``step``
    table[()]                         bulk, whole:9; the form ``whole``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.numbers import to_int
from crashcart.readers.interpreter.libraries import attributes, elements, models
from crashcart.readers.interpreter.store import NONE
from crashcart.readers.interpreter.trace import Call
from crashcart.readers.interpreter.values import Constant, Container, Result, Unknown, Value, constant_of, origins_of

if TYPE_CHECKING:
    import ast

    from crashcart.readers.interpreter.interpreter import Interpreter

__all__ = [
    "ARRAYS",
    "LIBRARIES",
    "RAW_READERS",
    "READERS",
    "ask_handle",
    "handle_item",
    "handles_of",
    "opened_by",
    "read_whole_table",
    "table_key",
]

# What opens a handle that processes cannot share, and how people call what it opens.
LIBRARIES = {
    "h5py.File": "HDF5", "tables.open_file": "HDF5", "tables.File": "HDF5", "netCDF4.Dataset": "HDF5", "lmdb.open": "LMDB",
    "lmdb.Environment": "LMDB", "zipfile.ZipFile": "zip", "tarfile.open": "tar", "tarfile.TarFile": "tar", "sqlite3.connect": "SQLite",
}  # fmt: skip
# Calls that read a file to its end.
_READERS = (
    "numpy.load", "numpy.fromfile", "numpy.loadtxt", "numpy.genfromtxt", "pickle.load", "dill.load", "joblib.load", "cv2.imread",
    "imageio.imread", "imageio.v2.imread", "imageio.v3.imread", "skimage.io.imread", "matplotlib.pyplot.imread", "torchvision.io.read_image",
    "torchvision.io.read_video", "PIL.Image.open", "pandas.read_parquet", "pandas.read_csv", "pandas.read_json", "pandas.read_pickle",
    "pandas.read_feather", "pandas.read_hdf", "pyarrow.parquet.read_table", "soundfile.read", "torchaudio.load", "librosa.load",
    "safetensors.torch.load_file", "safetensors.numpy.load_file", "nibabel.load", "scipy.io.loadmat", "tifffile.imread",
    "scipy.io.wavfile.read", "torch.from_file",
)  # fmt: skip
# Of these, calls for which a file holds what they read byte by byte.
RAW_READERS = (
    "numpy.fromfile", "numpy.load", "pickle.load", "torch.load", "torch.from_file", "safetensors.torch.load_file", "safetensors.numpy.load_file",
)  # fmt: skip
READERS = (*_READERS, "torch.load", "h5py.read")
# Methods of a handle whose results read through it.
_DERIVING = frozenset(
    [
        "begin",
        "cursor",
        "open_db",
        "require_group",
        "create_group",
        "require_dataset",
        "create_dataset",
        "get_node",
        "open",
        "extractfile",
        "__enter__",
        "root",
    ]
)
_READING = frozenset(
    [
        "get",
        "read",
        "readline",
        "readlines",
        "fetchone",
        "fetchall",
        "fetchmany",
        "execute",
        "getvalue",
        "astype",
        "read_direct",
    ]
)
ARRAYS = frozenset(
    [
        "numpy.array",
        "numpy.asarray",
        "numpy.ascontiguousarray",
        "torch.tensor",
        "torch.as_tensor",
        "torch.from_numpy",
        "list",
        "bytes",
        "bytearray",
    ]
)


def handles_of(value: Value | None) -> frozenset[str]:
    """The tags of the handles that a value is, or reads through."""
    if value is None or not value.tags:
        return frozenset()
    return frozenset(tag for tag in value.tags if tag.startswith("handle:"))


def opened_by(value: Value | None) -> list[int]:
    """The numbers of the calls that opened the handles behind a value."""
    return [to_int(tag.partition(":")[2], 0) for tag in sorted(handles_of(value))]


@models(*LIBRARIES)
def open_handle(_interpreter: Interpreter, call: Call) -> Value:
    """A handle."""
    values = (*call.arguments, *call.keywords.values())
    return Result(call.name, call, frozenset({f"handle:{call.number}"}), origins_of(*values))


@models(*_READERS)
def read_file(_interpreter: Interpreter, call: Call) -> Value:
    """All that a file holds; a map of it into memory holds nothing."""
    values = (*call.arguments, *call.keywords.values())
    mapped = constant_of(call.argument(None, "mmap_mode")) is not None
    tags = {"data"} if mapped else {"data", "bulk", f"whole:{call.number}"}
    return Result(call.name, call, frozenset(tags), origins_of(*values))


@attributes(
    "PIL.Image.open.size", "PIL.Image.open.width", "PIL.Image.open.height", "PIL.Image.open.mode", "PIL.Image.open.info"
)
def of_picture(_interpreter: Interpreter, _owner: Value) -> Value:
    """What a picture says of itself holds none of its pixels."""
    return Unknown(frozenset({"data"}))


def ask_handle(interpreter: Interpreter, call: Call) -> Value | None:
    """A method of a handle, or of what reads through it; None for those that are not known."""
    receiver, method = call.receiver, call.method
    handles = handles_of(receiver)
    if method in {"items", "values", "keys"}:
        name, table = Unknown(frozenset({"loop"})), _table(receiver, "#", handles)
        pair = interpreter.container("tuple", [name, table])
        item = {"items": pair, "values": table, "keys": name}[method]
        return interpreter.container("list", [item], call.node, is_open=True)
    if method in _DERIVING:
        return Result(call.name, call, handles, data=receiver.data if isinstance(receiver, Result) else None)
    if method in _READING:
        return Result(call.name, call, frozenset({"data", "bulk"}))
    if method == "__call__" or method[:1] == "_":
        return None
    return NONE if method in {"close", "flush", "sync"} else Unknown()


@elements("h5py.File", "h5py.Table")
def names_in_file(_interpreter: Interpreter, _value: Result, _node: ast.AST) -> Value:
    """The names in a file or group."""
    return Unknown(frozenset({"loop"}))


def handle_item(interpreter: Interpreter, owner: Value, key: Value, node: ast.AST) -> Value:
    """``file["images"]`` is a table, ``table[3]`` is read."""
    name = _name_text(key)
    is_file = not (isinstance(owner, Result) and owner.name == "h5py.Table")
    if name is not None or (is_file and isinstance(key, Unknown)):
        interpreter.record(Call, node, "h5py.table", [key], {}, receiver=owner)
        return _table(owner, name or "#", handles_of(owner))
    if isinstance(key, Unknown) and isinstance(owner, Result):  # a row, or a table below a group: the file decides
        read = _read(interpreter, owner, key, node, "step")
        return Result("h5py.Part", read.call, read.tags, data=_table(owner, "#", handles_of(owner)))
    return _read(interpreter, owner, key, node, _form(interpreter, key))


@models("h5py.Part[]")
def part_item(interpreter: Interpreter, owner: Value, key: Value, node: ast.AST) -> Value:
    """``group[camera][3]``: what was taken for a row may be a table, of which a row is read."""
    table = owner.data if isinstance(owner, Result) else None
    return (
        _read(interpreter, table, key, node, _form(interpreter, key)) if isinstance(table, Result) else Unknown(owner.tags)
    )


def read_whole_table(interpreter: Interpreter, table: Value, node: ast.AST) -> Result:
    """``numpy.array(table)``."""
    return _read(interpreter, table, Constant(...), node, "whole")


def _read(interpreter: Interpreter, owner: Value, key: Value, node: ast.AST, form: str) -> Result:
    call: Call = interpreter.record(Call, node, "h5py.read", [key], {"form": Constant(form)}, receiver=owner)
    tags = {"data", "bulk", f"whole:{call.number}"} if form == "whole" else {"data", "bulk"}
    result = Result("h5py.read", call, frozenset(tags))
    call.result = result
    return result


def _table(owner: Value | None, name: str, handles: frozenset[str]) -> Result:
    above = table_key(owner)
    return Result("h5py.Table", None, handles, data=f"{above}/{name.strip('/')}" if above else name)


def table_key(value: Value | None) -> str:
    """The name of a table in its file; ``#`` stands for what is put in when it runs, and a file itself has none."""
    return value.data if isinstance(value, Result) and value.name == "h5py.Table" and isinstance(value.data, str) else ""


def _name_text(key: Value) -> str | None:
    plain = constant_of(key)
    if isinstance(plain, str):
        return plain
    if isinstance(key, Result) and key.name == "text":
        parts = [str(constant_of(part)) if isinstance(part, Constant) else "#" for part in key.data or ()]
        return "".join(parts) or "#"
    return None


def _form(interpreter: Interpreter, key: Value) -> str:
    plain = constant_of(key, 0)
    if isinstance(key, Container):
        items, complete = interpreter.listed(key)
        return "whole" if complete and not items else "slice"
    if isinstance(plain, slice):
        return "whole" if plain.start is None and plain.stop is None and plain.step is None else "slice"
    if plain is ...:
        return "whole"
    return "slice" if isinstance(key, Result) and key.name == "slice" else "step"
