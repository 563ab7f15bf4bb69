"""The end of a program with one tracker or several: all are asked for their last call at once, and one limit holds for all.

One after the other, each with a limit of its own, two trackers that hang would cost twice what was allowed.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from crashcart.train.tracking.channel import Channel

__all__ = ["at_work", "first_at_exit", "leave_together", "tell_missing"]

_log = logging.getLogger("crashcart.train")
_channels: weakref.WeakSet[Channel] = weakref.WeakSet()
_began: dict[int, float] = {}


def at_work(channel: Channel) -> None:
    """It has something to end with the program."""
    _channels.add(channel)


def first_at_exit(hook: Callable[[], None]) -> None:
    """Have it called before the hooks that the tracker has registered meanwhile, which may wait for a server."""
    if threading.main_thread().is_alive():  # else the hooks are being called already
        atexit.unregister(hook)
        atexit.register(hook)


def leave_together() -> float:
    """Ask every channel of this process for its last call, the first time; when that was."""
    mine = os.getpid()
    if mine not in _began:
        _began[mine] = time.monotonic()
        for channel in list(_channels):
            if channel.pid == mine:
                channel.ask_last()
    return _began[mine]


def tell_missing(channel: Channel) -> None:
    """What did not arrive, and how to send it later."""
    counts, kind = channel.counts, channel.kind
    missing = counts["rows"] - counts["lost"] - channel.sender.delivered
    if counts["lost"]:
        _log.warning("%d rows of %s are lost: the disk of the local copy did not answer", counts["lost"], kind)
    if channel.copy.failed:
        _log.warning("%d rows of %s are missing in the local copy: they could not be written", channel.copy.failed, kind)
    if missing > 0:
        _log.warning(
            "%d of %d rows did not reach %s (%d failed); send them later: python -m crashcart.train.tracking.sync %s",
            *(missing, counts["rows"], kind, counts["failed"], channel.copy.folder),
        )
