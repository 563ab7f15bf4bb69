"""What comes from outside has one way in: ``regular_files``, ``decompression`` and ``documents``."""

from __future__ import annotations

import ast
from pathlib import Path

import crashcart

TOP = Path(crashcart.__file__).parent
# Code that runs in the job or beside it, on folders that it has just made itself, and the library that users import.
ELSEWHERE = ("inside", "run", "train")
OPENING = {
    "open", "os.open", "io.open", "os.walk", "os.listdir", "os.fwalk", "glob.glob", "gzip.open", "gzip.GzipFile", "bz2.open", "lzma.open",
    "json.load", "json.loads", "yaml.safe_load", "yaml.load", "yaml.compose", "yaml.compose_all", "yaml.parse", "ast.parse",
    "tomllib.load", "tomllib.loads", "tarfile.open", "zipfile.ZipFile", "pickle.load", "pickle.loads", "numpy.load", "np.load",
}  # fmt: skip
# Each with its reason.
ALLOWED = {
    "regular_files.py": {"open", "os.open"},
    "documents.py": {"json.loads", "yaml.compose_all", "yaml.parse", "yaml.safe_load", "ast.parse", "tomllib.loads"},
    # Files of the kernel that we name ourselves.
    "readers/machine/reading.py": {"open"}, "readers/machine/nvml.py": {"open"}, "readers/machine/limits.py": {"os.listdir"},
    "readers/machine/network.py": {"os.listdir"}, "readers/kernel/boots.py": {"open"}, "readers/standing.py": {"open"},
    "readers/data/child.py": {"open", "json.loads"}, "verbs/run.py": {"open"}, "recording/meeting.py": {"open", "os.listdir"},
    "live/job.py": {"os.listdir"}, "deadline.py": {"open"},
    # Files of our own package.
    "cause.py": {"os.listdir"}, "readers/rules/__init__.py": {"os.listdir"}, "readers/remedies/__init__.py": {"os.listdir"}, "readers/kernel/xid.py": {"open"},
    # Folders of packages of the interpreter.
    "readers/machine/interpreter.py": {"glob.glob"},
    # Written, not read; the recording is the writer's own.
    "verbs/why.py": {"open"}, "report/pages.py": {"open"}, "recording/folder.py": {"open"}, "recording/files.py": {"open", "os.open"},
    "recording/writer.py": {"open", "os.open"}, "recording/print_times.py": {"os.open"}, "cli.py": {"open", "os.open"}, "errors.py": {"open"},
    # Answers of processes that we have started; git's own archive, as it comes.
    "readers/data/looking.py": {"json.loads"}, "readers/machine/active.py": {"json.loads"}, "readers/revision.py": {"tarfile.open"},
    # In the process of its own that has a limit on memory.
    "readers/data/arrays.py": {"zipfile.ZipFile", "np.load"},
    # A line of at most 8 kB; a part of a text that `documents` has read.
    "readers/kernel/clock.py": {"json.loads"}, "readers/job/config.py": {"json.loads"},
    # Parts of code that is in memory.
    "readers/rules/_hoisted.py": {"ast.parse"},
}  # fmt: skip


def test_nothing_else_opens_or_parses() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(TOP.rglob("*.py")):
        name = str(path.relative_to(TOP))
        if name.split("/", maxsplit=1)[0] in ELSEWHERE:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and (called := ast.unparse(node.func)) in OPENING:
                found.setdefault(name, set()).add(called)
    assert found == ALLOWED
