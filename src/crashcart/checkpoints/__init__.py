"""Which checkpoints are whole, told without loading them.

Nothing here unpickles, imports or runs what a checkpoint holds, and nothing needs torch: files are read by their
structure and their checksums, with the standard library. A damaged input gives a verdict, never an exception.

    from crashcart import checkpoints

    checkpoints.inspect("out/checkpoint-2000")      # one file or folder
    checkpoints.find("out")                         # all below a folder, newest first
    checkpoints.newest_whole("out")                 # the one to go on from, or None

What cannot be seen: a changed byte in the data of safetensors or of the old torch format (they have no checksums), a
shard of another step of the same model, and a value that was wrong when it was saved.
"""

from __future__ import annotations

from crashcart.checkpoints.inspection import inspect
from crashcart.checkpoints.model import Checkpoint, Kind, Part, Verdict
from crashcart.checkpoints.search import find, newest_whole

__all__ = ["Checkpoint", "Kind", "Part", "Verdict", "find", "inspect", "newest_whole"]
