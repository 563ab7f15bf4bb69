"""What must outlast a job and everybody who watched it: how it ended, and what its processes said about themselves.

A job often ends because its disk is full, and just then there is no room to write it down. So a file of no use is written at the
start, and removed at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time

from crashcart.recording.folder import read_json
from crashcart.run.pages import clean_event
from crashcart.run.status import decoded
from crashcart.run.unwritten import add_unwritten

__all__ = ["free_reserve", "make_reserve", "read_exit", "rescue", "write_exit"]

_RESERVE = "reserve"
_ROOM = 1 << 20
_SHARE = 8  # of the room that is left, where it is little


def make_reserve(folder: str) -> None:
    """Take the room that the end will need; of bytes that no file system can make smaller."""
    with contextlib.suppress(OSError):
        found = os.statvfs(folder)
        size = min(_ROOM, found.f_bavail * found.f_frsize // _SHARE)
        with open(os.path.join(folder, _RESERVE), "wb") as file:
            file.write(os.urandom(size))


def free_reserve(folder: str) -> None:
    """The end has come: whoever writes about it has room."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, _RESERVE))


def rescue(live: str, kept: str) -> None:
    """Keep what the job's processes said about themselves, and give the memory it lay in back."""
    with contextlib.suppress(OSError):
        if not live:
            return
        os.makedirs(kept, mode=0o700, exist_ok=True)
        logs = os.path.join(os.path.dirname(os.path.dirname(kept)), "logs")
        for name in os.listdir(live):
            if name.endswith(".printed"):
                add_unwritten(live, name.removesuffix(".printed"), logs)
            if name.endswith(".events"):
                with contextlib.suppress(OSError), open(os.path.join(live, name), "rb") as file:
                    lines = [event for line in file if (event := clean_event(line)) is not None]
                    with open(os.path.join(kept, name), "wb") as out:
                        out.write(b"".join(json.dumps(event).encode() + b"\n" for event in lines))
        shutil.rmtree(live, ignore_errors=True)


def write_exit(folder: str, status: int) -> None:
    """How the job ended, for everybody who comes later."""
    free_reserve(folder)
    code, name = decoded(status)
    told = {"code": code, "signal": name, "time": time.time()}
    with contextlib.suppress(OSError):
        path = os.path.join(folder, "exit.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(told, file)
        os.replace(path + ".new", path)


def read_exit(folder: str) -> int:
    """The wait status that was written there."""
    told = read_json(os.path.join(folder, "exit.json"))
    name = str(told.get("signal"))
    return int(signal.Signals[name]) if name in signal.Signals.__members__ else int(told.get("code") or 0) << 8
