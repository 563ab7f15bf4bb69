"""A process of its own that opens data files, so that a hostile or damaged one can cost no more than an answer.

Libraries of C die of damaged files (LMDB by a bus error), a zip bomb fills memory, a file server does not answer: here it has
a limit on memory, and whoever started it stops waiting. It reads lines ``[kind, path]`` and answers each with one line of JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys

__all__ = ["main", "opened"]

READERS = {"hdf5", "array", "arrays", "parquet", "image", "lines", "lmdb"}
MODULES = {"array": "arrays", "lmdb": "lmdb_store", "lines": "text_lines"}
_MEMORY = 8 << 30


def opened(kind: str, path: str) -> dict[str, object]:
    """What one file holds, or why it cannot be read; ``lacks`` names a library that is not installed."""
    if kind not in READERS:
        return {"path": path, "kind": kind}
    reader = importlib.import_module(f"crashcart.readers.data.{MODULES.get(kind, kind)}")
    try:
        found: dict[str, object] = reader.look(path)
    except ImportError as problem:
        return {"path": path, "kind": kind, "lacks": problem.name or str(problem)}
    except MemoryError:
        return {"path": path, "kind": kind, "not_looked": "it needs more memory than a look may take"}
    except PermissionError as problem:
        return {"path": path, "kind": kind, "not_looked": str(problem)}
    except Exception as problem:  # noqa: BLE001 - every library has errors of its own for a damaged file
        return {"path": path, "kind": kind, "problem": f"{type(problem).__name__}: {problem}".split("\n", 1)[0][:300]}
    return {"path": path, "kind": kind, **found}


def main() -> None:
    """Answer line by line until nobody asks."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        kind, path = json.loads(line)
        sys.stdout.write(json.dumps(opened(kind, path)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
