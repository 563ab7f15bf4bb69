"""What a process had printed and never written when it ended, added to the log.

`inside/printed.py` keeps the last words of each Python process in a ring. A process that ran its exit handlers has written
everything. Of one that was killed, what is in the ring and not in the log is added to it, below a line that says so.
"""

from __future__ import annotations

import contextlib
import glob
import os

from crashcart.inside.layout import PRINTED

__all__ = ["add_unwritten", "missing_from", "read_ring"]

_TAIL_BYTES = 1 << 20  # of the log, in which the last words are looked for
_EVENT_BYTES = 200
_EXIT = b'"kind": "exit"'


def add_unwritten(live: str, process: str, logs: str, rank: int | None = None) -> None:
    """Add the last words of a process that has ended (``PID-START``) to the joint log, and to that of its rank."""
    text = read_ring(os.path.join(live, process + ".printed"))
    if not text or _has_exited(os.path.join(live, process + ".events")):
        return
    own = glob.glob(os.path.join(glob.escape(logs), f"rank{rank}.log")) + glob.glob(
        os.path.join(glob.escape(logs), f"rank{rank}-attempt*.log")
    )
    head = f"[crashcart: printed by process {process.partition('-')[0]}, but not yet written when it ended]\n".encode()
    for path in [os.path.join(logs, "output.log"), *sorted(own, key=os.path.getmtime)[-1:]]:
        with contextlib.suppress(OSError), open(path, "r+b") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
            tail = log.read()
            missing = missing_from(tail, text)
            if missing:
                log.write((b"" if not tail or tail.endswith(b"\n") else b"\n") + head + missing)


def read_ring(path: str) -> bytes:
    """The last bytes that a process printed, in order."""
    try:
        with open(path, "rb") as file:
            count = int.from_bytes(file.read(8), "little")
            ring = file.read(PRINTED)
    except OSError:
        return b""
    if count <= len(ring):
        return ring[:count]
    at = count % PRINTED
    return ring[at:] + ring[:at]


def missing_from(log: bytes, text: bytes) -> bytes:
    """The last lines of a text, from behind the last one that is in the log."""
    written = {line.strip() for line in log.split(b"\n")}
    missing: list[bytes] = []
    for line in reversed(text.split(b"\n")):
        if line.strip() and line.strip() in written:
            break
        missing.append(line)
    else:
        missing = missing[: -1 if len(text) >= PRINTED else None]  # the ring begins in the middle of a line
    lines = b"\n".join(reversed(missing)).strip(b"\n")
    return lines + b"\n" if lines.strip() else b""


def _has_exited(events: str) -> bool:
    try:
        with open(events, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _EVENT_BYTES))
            return _EXIT in file.read()
    except OSError:
        return False
