"""What NVIDIA's Xid numbers mean, and whose fault each mostly is.

An Xid is a line that the driver writes into the kernel log::

    NVRM: Xid (PCI:0000:01:00): 31, pid=79749, name=python, Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS ...

Not every Xid is broken hardware: 13 and 31 are what an index out of range looks like from below. ``xid.csv`` holds
the codes 1 to 176 from NVIDIA's catalogue of 2025-10-29 and ``nverror.h`` (the names), with gpud's reading of them;
``fault`` names every party that NVIDIA's list allows for. Who is *mostly* at fault is decided here: the application
list is that of NVIDIA's own k8s-device-plugin (which keeps a GPU in service after these), less 109, where NVIDIA's
catalogue disagrees; the hardware list are memory, link and bus errors that no program can cause. Where the sources
disagree, the action says so.
"""

from __future__ import annotations

import csv
import os
from functools import lru_cache
from typing import Literal

from crashcart.numbers import to_int
from crashcart.record import record

__all__ = ["Party", "Xid", "meaning", "whose_fault"]

Party = Literal["application", "hardware", "driver", "either", "unknown"]

_APPLICATION = frozenset({13, 31, 43, 45, 68})
_HARDWARE = frozenset({48, 54, 57, 58, 63, 64, 74, 79, 92, 94, 95, 136, 140, *range(144, 151), 156, 157, 167})
_PHYSICAL = frozenset({"hardware", "bus", "thermal", "system-memory", "fb-corruption"})


@record(frozen=True)
class Xid:
    """One code: its name, who may be at fault (``application|driver|hardware``...), how far it reaches, what to do.

    ``severity`` is info, job (the job dies, the GPU is fine), gpu (reset it), node (reboot it), support, see-message,
    unused (not reported by Ampere and newer) or unknown.
    """

    code: int
    name: str
    fault: str
    severity: str
    action: str


def meaning(code: int) -> Xid:
    """Say what the code means; a code that is not in the table is said to be unknown."""
    unknown = Xid(code, f"Xid {code}", "unknown", "unknown", "look the code up in NVIDIA's Xid catalogue")
    return _table().get(code, unknown)


def whose_fault(code: int) -> Party:
    """Who is mostly at fault; ``either`` where the sources disagree or allow for more than one party."""
    if code in _APPLICATION:
        return "application"
    if code in _HARDWARE:
        return "hardware"
    cells = set(meaning(code).fault.split("|")) - {"unknown"}
    parties = {"hardware" if cell in _PHYSICAL else cell for cell in cells}
    if not parties:
        return "unknown"
    if len(parties) > 1:
        return "either"
    return "application" if "application" in parties else "hardware" if "hardware" in parties else "driver"


@lru_cache(maxsize=1)
def _table() -> dict[int, Xid]:
    path = os.path.splitext(__file__)[0] + ".csv"
    with open(path, encoding="utf-8", newline="") as file:
        rows = [Xid(to_int(row.pop("code"), 0), **row) for row in csv.DictReader(file)]
    return {row.code: row for row in rows}
