"""Where one boot ends and the next begins in a kernel log, and at what Unix time each began.

A kernel counts seconds since its own start, so the count alone dates nothing. It writes dates into some lines, though::

    [    0.512345] audit: type=2000 audit(1726587822.612:1): state=initialized audit_enabled=0 res=1
    [    1.287570] rtc_cmos rtc_cmos: setting system clock to 2024-09-17T15:43:43 UTC (1726587823)
    [166492.496609] mce: [Hardware Error]: PROCESSOR 0:50654 TIME 1556280681 SOCKET 1 APIC 60 microcode 2000057

Date less count is the start of the boot. In a syslog the same line has the local time in front, which gives the time
zone. A new boot shows as the banner ``Linux version``, as a count that goes backwards, as another ``_BOOT_ID`` or as
journalctl's own ``-- Boot ... --``. ``/proc/stat`` of this machine is believed only for a log that names this machine
and was written after the machine started.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_float
from crashcart.readers.kernel.place import seconds_of, with_year
from crashcart.record import record, replace

if TYPE_CHECKING:
    from crashcart.case import KernelEvent
    from crashcart.readers.kernel.clock import Stamped

__all__ = ["MARKS", "Boots"]

MARKS = (
    *("Linux version ", "ommand line: ", "-- Boot ", "-- Reboot", " 0.000000]"),
    *("audit(", "setting system clock", " TIME "),
)

_DATES = re.compile(
    r"setting system clock to .{8,40}\((\d{9,11})\)|\baudit\((\d{9,11}\.\d{3}):\d+\)|PROCESSOR \S+ TIME (\d{9,11}) "
)
_BACKWARDS = 5.0
_QUARTER_HOUR = 900
_PLAUSIBLE = 1_000_000_000  # a clock that says less than 2001 has not been set


@record
class _Boot:
    boot_time: float | None = None
    latest: float | None = None
    boot_id: str = ""
    lines: int = 0
    here: bool = False


class Boots:
    """The boots of one log, as its lines come by."""

    def __init__(self) -> None:
        self._boots = [_Boot()]
        self._utc_offset: float | None = None

    def see(self, line: Stamped, text: str) -> bool:
        """Take note of one line; True when it is the first of another boot."""
        fresh = self._is_new(line, text)
        if fresh:
            self._boots.append(_Boot())
        boot = self._boots[-1]
        boot.lines += 1
        boot.boot_id = line.boot_id or boot.boot_id
        if line.since_boot is not None:
            boot.latest = max(boot.latest or 0.0, line.since_boot)
        self._learn(boot, line)
        return fresh

    def clock(self, line: Stamped) -> dict[str, Any]:
        """Give what is known of the time of a line, as plain data."""
        return {
            "unix": line.unix,
            "local": line.local,
            "yearless": line.yearless,
            "since_boot": line.since_boot,
            "boot": len(self._boots) - 1,
            "boot_time": self._boots[-1].boot_time,
        }

    def dated(self, events: list[KernelEvent], written: float | None) -> tuple[KernelEvent, ...]:
        """Give the events their time, as far as the log itself tells it; ``written`` is when the file last changed."""
        last = self._boots[-1]
        if last.boot_time is None and last.here and written is not None:
            last.boot_time = _started_here(written, last.latest)
        for event in events:
            self._complete(event.details["clock"], written)
        return tuple(replace(event, seconds=seconds_of(event.details["clock"])) for event in events)

    def _complete(self, clock: dict[str, Any], written: float | None) -> None:
        index = clock["boot"]
        if clock["boot_time"] is None:
            clock["boot_time"] = self._boots[index].boot_time
        later = [boot.boot_time for boot in self._boots[index + 1 :] if boot.boot_time is not None]
        clock["before"] = later[0] if later else None
        clock["last_boot"] = index == len(self._boots) - 1
        clock["utc_offset"] = self._utc_offset
        clock["written"] = written

    def _is_new(self, line: Stamped, text: str) -> bool:
        boot = self._boots[-1]
        if not boot.lines:
            return False
        if text.startswith(("-- Boot ", "-- Reboot")):
            return boot.lines > 1 or boot.latest is not None
        if line.boot_id and boot.boot_id:
            return line.boot_id != boot.boot_id
        if line.since_boot is not None and boot.latest is not None:
            return line.since_boot < boot.latest - _BACKWARDS
        return line.message.startswith("Linux version ") and (boot.lines > 1 or boot.latest is not None)

    def _learn(self, boot: _Boot, line: Stamped) -> None:
        if line.message.startswith(("Command line: ", "Kernel command line: ")) and _is_command_line(line.message):
            boot.here = True
        if line.host and line.host == os.uname().nodename:
            boot.here = True
        match = _DATES.search(line.message) if line.sender == "kernel" else None
        if not match:
            return
        date = to_float(match[1] or match[2] or match[3])
        if date is None or date < _PLAUSIBLE:
            return
        if line.since_boot is not None:
            boot.boot_time = date - line.since_boot
        if line.local is not None:
            self._learn_zone(with_year(line.local, date) if line.yearless else line.local, date)

    def _learn_zone(self, local: float, unix: float) -> None:
        offset = round((local - unix) / _QUARTER_HOUR, 0) * _QUARTER_HOUR
        if abs(local - unix - offset) <= _QUARTER_HOUR / 3:  # syslog stamps the lines of the start when it starts itself
            self._utc_offset = offset


def _is_command_line(message: str) -> bool:
    given = message.partition("ommand line: ")[2].strip()
    return "UUID=" in given and given == _first_line("/proc/cmdline")


def _started_here(written: float, latest: float | None) -> float | None:
    """When this machine started, if the log can be of this start: it was written after the events that it holds."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            started = next((to_float(line.split()[1]) for line in file if line.startswith("btime ")), None)
    except (OSError, UnicodeError, IndexError):
        return None
    return started if started is not None and written >= started + (latest or 0.0) - 60 else None


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline(16384).strip()
    except OSError:
        return ""
