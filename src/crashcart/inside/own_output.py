"""A rank of a job with several gets a way out of its own, so that its lines are told from those of the others.

Only where its standard streams are still those that `crashcart run` gave the job: a file or a pipe that the user or the launcher
made stays. Nothing is replaced before the answer is there, and without an answer everything stays as it is.
"""

from __future__ import annotations

import os

from . import layout

_PATIENCE = 1.0  # seconds, where the keeper does not answer
_STREAMS = (1, 2)
_SIZE = 4  # bytes of a descriptor in a message


def ask(folder: str) -> None:
    """Ask for channels, and put them where the streams of the job were."""
    rank = _rank()
    mine = _ours(folder) if rank is not None else {}
    if rank is None or not mine:
        return
    streams = sorted(mine)
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
    says = "/".join(os.environ.get(name, "") for name in layout.RANK_NAMES)
    words = ",".join(streams), rank, restarts if restarts.isdigit() else "0", says
    received = _received(os.path.join(folder, layout.OUTPUT + ".socket"), " ".join(words).encode(), len(streams))
    try:
        if len(received) == len(streams):
            for handle, stream in zip(received, streams):
                for number in mine[stream]:
                    os.dup2(handle, number)
    finally:
        for handle in received:
            os.close(handle)


def _rank() -> str | None:
    """The rank as the launcher wrote it, where there are several."""
    environment = os.environ
    several = any(environment.get(name, "").isdigit() and int(environment[name]) > 1 for name in layout.SIZE_NAMES)
    return (
        next((environment[name] for name in layout.RANK_NAMES if environment.get(name, "").isdigit()), None)
        if several
        else None
    )


def _ours(folder: str) -> dict[str, list[int]]:
    """Which of our streams are the job's, by their number there."""
    try:
        handle = os.open(os.path.join(folder, layout.OUTPUT), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # nobody offers any
        return {}
    try:
        lines = os.read(handle, 4096).decode("ascii").splitlines()
    finally:
        os.close(handle)
    offered = dict(line.split() for line in lines)
    found: dict[str, list[int]] = {}
    for number in _STREAMS:
        try:
            about = os.fstat(number)
        except OSError:  # it is closed
            continue
        stream = offered.get("%d:%d" % (about.st_dev, about.st_ino))
        if stream is not None:
            found.setdefault(stream, []).append(number)
    return found


def _received(path: str, words: bytes, most: int) -> list[int]:
    import _socket  # the module above it costs a millisecond and more
    import sys

    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        line.settimeout(_PATIENCE)
        line.connect(path)
        line.sendall(words)
        _, extra, _, _ = line.recvmsg(16, _socket.CMSG_SPACE(most * _SIZE), _socket.MSG_CMSG_CLOEXEC)
    except OSError:  # nobody answers
        return []
    finally:
        line.close()
    data = b"".join(data for level, kind, data in extra if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS))
    return [int.from_bytes(data[at : at + _SIZE], sys.byteorder) for at in range(0, len(data) // _SIZE * _SIZE, _SIZE)]
