"""A process of its own that opens data files, so that a hostile or damaged one can cost no more than an answer.

Libraries of C die of damaged files (LMDB by a bus error), a zip bomb fills memory, a file server does not answer: here each look
has a limit on memory, and whoever started it stops waiting. It reads lines ``[kind, path]`` and answers each with one line of JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys

from crashcart.numbers import to_int
from crashcart.regular_files import is_regular

__all__ = ["main", "opened"]

READERS = {"hdf5", "array", "arrays", "parquet", "image", "lines", "lmdb"}
MODULES = {"array": "arrays", "lmdb": "lmdb_store", "lines": "text_lines"}
_MEMORY = 96 << 20  # for one look, beside what the libraries take themselves
_NO_MEMORY = "it needs more memory than a look may take"


def opened(kind: str, path: str) -> dict[str, object]:
    """What one file holds, or why it cannot be read; ``lacks`` names a library that is not installed."""
    if kind not in READERS:
        return {"path": path, "kind": kind}
    if not is_regular(os.path.join(path, "data.mdb") if kind == "lmdb" and os.path.isdir(path) else path):
        return {"path": path, "kind": kind, "not_looked": "it is not a file"}
    reader = importlib.import_module(f"crashcart.readers.data.{MODULES.get(kind, kind)}")
    try:
        importlib.import_module(reader.LIBRARY)
        _limit_memory()
        found: dict[str, object] = reader.look(path)
    except ImportError as problem:
        return {"path": path, "kind": kind, "lacks": problem.name or str(problem)}
    except MemoryError:
        return {"path": path, "kind": kind, "not_looked": _NO_MEMORY}
    except PermissionError as problem:
        return {"path": path, "kind": kind, "not_looked": str(problem)}
    except Exception as problem:  # noqa: BLE001 - every library has errors of its own for a damaged file
        if "alloc" in str(problem) or "out of memory" in str(problem).lower():
            return {"path": path, "kind": kind, "not_looked": _NO_MEMORY}
        return {"path": path, "kind": kind, "problem": f"{type(problem).__name__}: {problem}".split("\n", 1)[0][:300]}
    return {"path": path, "kind": kind, **found}


def _limit_memory() -> None:
    """Let this look have so much more than there is in use now; only the soft limit, so that the next one can be set anew."""
    with contextlib.suppress(ImportError, ValueError, OSError, IndexError):
        import resource

        with open("/proc/self/statm", "rb") as file:
            in_use = to_int(file.read(200).split()[5], 0) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (in_use + _MEMORY, hard))


def main() -> None:
    """Answer line by line until nobody asks."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        kind, path = json.loads(line)
        sys.stdout.write(json.dumps(opened(kind, path)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
