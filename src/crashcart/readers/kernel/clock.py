"""Where the time and the message stand in one line of a kernel log, for every way in which such logs are kept.

The same event, as the usual tools print it::

    [12345.678901] NVRM: Xid ...                                   dmesg: seconds since boot
    [12345.678901][ T1042] NVRM: Xid ...                           the same with CONFIG_PRINTK_CALLER
    [Sun Nov 15 07:12:03 2026] NVRM: Xid ...                       dmesg -T: local time
    2026-11-15T07:12:03,678901+08:00 NVRM: Xid ...                 dmesg --time-format iso
    Nov 15 07:12:03 node1 kernel: [12345.678901] NVRM: Xid ...     syslog: local time without a year
    2026-11-15T07:12:03+0800 node1 kernel: NVRM: Xid ...           journalctl -o short-iso, rsyslog
    Sun 2026-11-15 07:12:03 CST node1 kernel: NVRM: Xid ...        journalctl -o short-full
    {"__REALTIME_TIMESTAMP":"1794726723678901","_BOOT_ID":"3a8f...","_TRANSPORT":"kernel","MESSAGE":"NVRM: Xid ..."}
    4,2211,12345678901,-;NVRM: Xid ...                             /dev/kmsg

Local time is kept as if it were UTC, and marked; what it is worth is decided in ``kernel_place``. dmesg and glibc write
month names in the user's language, so a few are known.
"""

from __future__ import annotations

import json
import re
from typing import Any

from crashcart.numbers import to_float, to_int, to_unix_seconds
from crashcart.record import record

__all__ = ["Stamped", "read_line"]

YEAR_UNKNOWN = 2000  # a leap year, so that February 29th can be held

_SPELLINGS = (
    *("jan ene gen", "feb fév fev", "mar mär mrz", "apr avr abr", "may mai mag maj", "jun jui giu"),
    *("jul juil lug", "aug aoû ago", "sep set", "oct okt ott out", "nov", "dec dez déc dic"),
)
_MONTHS = {name: number for number, names in enumerate(_SPELLINGS, start=1) for name in names.split()}
_SINCE_BOOT = re.compile(r"\[\s{0,12}(\d{1,10}\.\d{1,9})(?:\s+<\s*\d+\.\d+>)?\]\s?")
_CALLER = re.compile(r"\[\s{0,6}[TC]\d+\]\s?")
_CTIME = re.compile(r"\[\S{1,9}\s+(\S{2,9})\s+(\d{1,2})\s+(\d\d):(\d\d):(\d\d)\s+(\d{4})\]\s?")
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
    r"(?:\s?(Z\b|UTC\b|[+-]\d\d:?\d\d)|\s[A-Z]{3,5}(?=\s\S+\s[\w.-]+(?:\[\d+\])?:))?\s?"
)
_SYSLOG = re.compile(r"([^\W\d]{2,9}\.?|\d{1,2}月)\s+(\d{1,2})\s+(\d\d):(\d\d):(\d\d)(?:\.\d+)?\s")
_UNIX = re.compile(r"(\d{9,11}\.\d{1,6})\s")
_KMSG = re.compile(r"(\d{1,5}),\d+,(\d+),[^;]{0,40};")
_SENDER = re.compile(r"([^\s:]{1,255}) (?:\w+\.\w+ )?([\w.@/-]{1,64})(?:\[\d+\])?: ?")
_LEVEL = re.compile(r"<\d{1,3}>|\w+\s*:\w+\s*: (?=\[)|kernel: ")
_LATEST_MICRO = 10**18  # the year 33658: no clock shows more
_WEEKDAY = re.compile(r"\S{2,9} (?=\d{4}-\d\d-\d\d )")


@record(frozen=True)
class Stamped:
    """One line: its message, and as much of its time and sender as it tells.

    ``unix`` and ``since_boot`` are seconds; ``local`` is the wall clock of an unknown time zone, counted as UTC;
    ``yearless`` marks a local time that stands in the year 2000 for want of a better one.
    """

    message: str
    text: str = ""
    unix: float | None = None
    local: float | None = None
    yearless: bool = False
    since_boot: float | None = None
    host: str = ""
    sender: str = "kernel"
    boot_id: str = ""


def read_line(line: str) -> Stamped:
    """Split one line into time, sender and message; what cannot be read is all message."""
    if line.startswith("{"):
        return _from_json(line)
    kmsg = _KMSG.match(line)
    if kmsg:
        sender = "kernel" if to_int(kmsg[1], 0) < 8 else "user"  # noqa: PLR2004 - facility 0 is the kernel's own
        return Stamped(line[kmsg.end() :], kmsg[2], since_boot=_from_micro(kmsg[2]), sender=sender)
    level = _LEVEL.match(line)
    return _from_text(line[level.end() :] if level else line)


def _from_text(line: str) -> Stamped:
    weekday = _WEEKDAY.match(line)
    rest = line[weekday.end() :] if weekday else line
    unix, local, yearless, end = _wall_clock(rest)
    text, rest = rest[:end].strip(), rest[end:]
    host, sender = "", "kernel"
    if end and not line.startswith("[") and "," not in text:  # dmesg names no sender, and writes a comma in ISO times
        host, sender, rest = _sender(rest)
    inner = _SINCE_BOOT.match(rest)
    since_boot = to_float(inner[1]) if inner else None
    if inner:
        text, rest = text or inner[0].strip(), rest[inner.end() :]
        if not end:
            host, sender, rest = _sender(rest, only_kernel=True)
    caller = _CALLER.match(rest)
    rest = rest[caller.end() :] if caller else rest
    return Stamped(rest, text, unix, local, yearless, since_boot, host, sender)


def _sender(rest: str, *, only_kernel: bool = False) -> tuple[str, str, str]:
    match = _SENDER.match(rest)
    if not match or (only_kernel and match[2] != "kernel"):
        return "", "kernel", rest
    return match[1], match[2], rest[match.end() :]


def _wall_clock(text: str) -> tuple[float | None, float | None, bool, int]:
    """Unix time, local time, whether the year is missing, and where the stamp ends."""
    match = _CTIME.match(text)
    if match:
        local = _seconds(match[6], match[1], *match.groups()[1:5])
        return None, local, False, match.end() if local is not None else 0
    match = _ISO.match(text)
    if match:
        seconds = _seconds(*match.groups()[:6], fraction=match[7])
        shift = _offset(match[8])
        if seconds is None or shift is None:
            return None, seconds, False, match.end() if seconds is not None else 0
        return seconds - shift, None, False, match.end()
    match = _SYSLOG.match(text)
    if match:
        local = _seconds(str(YEAR_UNKNOWN), *match.groups())
        return None, local, True, match.end() if local is not None else 0
    match = _UNIX.match(text)
    return (to_float(match[1]), None, False, match.end()) if match else (None, None, False, 0)


def _seconds(*parts: str, fraction: str | None = None) -> float | None:
    year, month, *rest = parts
    seconds = to_unix_seconds(year, _month(month), *rest)
    return None if seconds is None else seconds + to_float(f"0.{fraction or 0}", 0.0)


def _month(name: str) -> int | None:
    if name[0].isdigit():
        return to_int(name.rstrip("月"))
    lowered = name.lower().rstrip(".")
    return _MONTHS.get(lowered) or _MONTHS.get(lowered[:3])


def _offset(text: str | None) -> float | None:
    if text is None:
        return None
    if text in {"Z", "UTC"}:
        return 0.0
    size = to_float(text[1:3], 0.0) * 3600 + to_float(text[-2:], 0.0) * 60
    return -size if text[0] == "-" else size


def _from_json(line: str) -> Stamped:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return Stamped(line)
    if not isinstance(entry, dict):
        return Stamped(line)
    real, passed = _micro(entry, "__REALTIME_TIMESTAMP"), _micro(entry, "__MONOTONIC_TIMESTAMP")
    source = _micro(entry, "_SOURCE_MONOTONIC_TIMESTAMP")
    if real is not None and source is not None and passed is not None:
        real -= max(0.0, passed - source)  # journald stamps when it reads; the kernel had it earlier
    sender = str(entry.get("_TRANSPORT") or entry.get("SYSLOG_IDENTIFIER") or "kernel")
    if sender != "kernel":
        sender = str(entry.get("SYSLOG_IDENTIFIER") or sender)
    text = str(entry.get("__REALTIME_TIMESTAMP", ""))
    host, boot_id = str(entry.get("_HOSTNAME", "")), str(entry.get("_BOOT_ID", ""))
    since_boot = source if source is not None else passed
    return Stamped(_json_message(entry), text, real, since_boot=since_boot, host=host, sender=sender, boot_id=boot_id)


def _json_message(entry: dict[str, Any]) -> str:
    message = entry.get("MESSAGE")
    if isinstance(message, list):  # journald writes what is not UTF-8 as a list of bytes
        return bytes(byte for byte in message if isinstance(byte, int) and 0 <= byte < 256).decode("utf-8", "replace")  # noqa: PLR2004
    return message if isinstance(message, str) else ""


def _micro(entry: dict[str, Any], key: str) -> float | None:
    return _from_micro(entry.get(key))


def _from_micro(value: object) -> float | None:
    number = to_int(value)
    return number / 1e6 if number is not None and 0 <= number < _LATEST_MICRO else None
