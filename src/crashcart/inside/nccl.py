"""NCCL's own flight recorder, switched on where the user has not set it: its dumps name the rank that did not come."""

from __future__ import annotations

import os
from typing import Any

from . import layout

# Each setting by its old and its new name; torch warns about an old name that has become a new one.
SETTINGS = (
    ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE", "2000"),
    ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE", ""),
    ("TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT", "1"),
)
RENAMED = (2, 10)


def install(torch: Any) -> None:
    """Set what is not set, under the name that this version of torch knows."""
    place = os.environ.get(layout.NCCL)
    if not place:
        return
    version = tuple(int(part) for part in str(torch.__version__).split("+")[0].split(".")[:2] if part.isdigit())
    for old, new, value in SETTINGS:
        if old not in os.environ and new not in os.environ:
            os.environ[new if version >= RENAMED else old] = value or place
