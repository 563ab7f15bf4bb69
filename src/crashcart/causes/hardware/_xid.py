"""Xid numbers in the lines of a log, for the causes of this family.

The reader of kernel logs has the whole table; here are only the codes that change the answer when someone pasted a
driver's line into a training log. Application codes: NVIDIA's k8s-device-plugin keeps a GPU in service after them.
Hardware codes: memory and bus errors that no program can cause. Link codes: NVLink and C2C in NVIDIA's Xid catalogue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.numbers import to_int
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line

APPLICATION = frozenset({13, 31, 43, 45, 68, 137})
HARDWARE = frozenset({48, 54, 64, 79, 94, 95, 110, 140, 143, 156, 157, 158, 167})
LINK = frozenset({74, 108, 121, 136, *range(144, 151), 155, 173})
NOTICES = frozenset({38, 44, 63, 92, 154, 176})  # told by the driver, and the work goes on
_LINE = r"\bXid\b(?:\s{0,20}\((?:PCI:)?(?P<pci>[^)\s]{0,40})(?:\s[^)]{0,60})?\))?\s{0,4}[:=#]?\s{0,4}(?P<code>\d{1,3})\b(?:.{0,5}pid=.?(?P<pid>\d{1,20}))?"


@record(frozen=True)
class Told:
    """One Xid as a line tells it."""

    line: Line
    code: int
    pci: str
    pid: str


def xids(case: Case) -> Iterator[Told]:
    """Every Xid that a line of the log names, in order."""
    for line in case.log.lines:
        if "xid" not in line.lowered:
            continue
        match = compiled(_LINE).search(line.text)
        if match:
            yield Told(line, to_int(match["code"], 0), match["pci"] or "", match["pid"] or "")
