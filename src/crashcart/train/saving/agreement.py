"""What ranks tell each other without a collective: by the store that the process group was made with.

A collective waits for everybody, dies at the time-out of the group, and needs a GPU under NCCL. The store only holds words.
Where there is no process group there is one rank, and nothing to tell.
"""

from __future__ import annotations

import hashlib
import sys
import time
from typing import Any

__all__ = ["Word", "rank", "world"]

_PAUSE_SECONDS = 0.05


def _group() -> Any:  # noqa: ANN401 - torch.distributed, or None
    distributed = sys.modules.get("torch.distributed")
    return distributed if distributed is not None and distributed.is_available() and distributed.is_initialized() else None


def rank() -> int:
    """The number of this process in its group; 0 where there is none."""
    group = _group()
    return int(group.get_rank()) if group else 0


def world() -> int:
    """How many processes there are."""
    group = _group()
    return int(group.get_world_size()) if group else 1


class Word:
    """One thing that ranks settle, each time anew: a rank's third call meets the third calls of the others."""

    def __init__(self, about: str) -> None:
        from torch.distributed import distributed_c10d

        self._store = distributed_c10d._get_default_store()  # noqa: SLF001 - the only way to it
        name = f"crashcart/{hashlib.sha256(about.encode()).hexdigest()[:16]}"
        self._name = f"{name}/{self._store.add(f'{name}/calls of {rank()}', 1)}"

    def say(self, what: str, value: str) -> None:
        """Put down a word for the others."""
        self._store.set(f"{self._name}/{what}", value)

    def hear(self, what: str, seconds: float) -> str | None:
        """The word of another, as soon as it is there; None after so many seconds."""
        key = f"{self._name}/{what}"
        end = time.monotonic() + seconds
        while not self._store.check([key]):
            if time.monotonic() > end:
                return None
            time.sleep(_PAUSE_SECONDS)
        return str(self._store.get(key).decode())
