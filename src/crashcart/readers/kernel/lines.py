"""What one message of the kernel or of a driver says: its kind, and who and what it names.

Every rule is a piece of text that the line must contain, and a pattern whose named groups become the details. Messages
as kernels print them::

    NVRM: Xid (PCI:0000:01:00): 109, pid=8639, name=python, Ch 00000028, errorString CTX SWITCH TIMEOUT, Info 0x2c014
    NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.
    nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
    python[12345]: segfault at 7f3c ip 00007f3c0a1b sp 00007ffd error 4 in libtorch_cpu.so[7f3c08000000+d5c4000]
    traps: python3[2233] trap invalid opcode ip:7f1a sp:7ffe error:0 in libfoo.so[7f1a00000000+1000]
    INFO: task python:2767319 blocked for more than 120 seconds.
    nfs: server filer3 not responding, still trying
    EXT4-fs (nvme0n1p2): Remounting filesystem read-only
    blk_update_request: I/O error, dev nvme0n1, sector 123456 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 0
    EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x3fa8f2 ...)
    Memory failure: 0x3fa8f2: Sending SIGBUS to python:12345 due to hardware memory corruption
    watchdog: BUG: soft lockup - CPU#58 stuck for 23s! [python:302]

Kills for lack of memory take many lines and stand in ``kernel_oom``. Floppy and CD drives report I/O errors on every
other machine and are left out.
"""

from __future__ import annotations

import re
from typing import Any

from crashcart.numbers import to_int
from crashcart.readers.kernel.xid import meaning, whose_fault
from crashcart.record import record

__all__ = ["LITERALS", "recognise"]

_NUMBERS = frozenset({"pid", "code", "waited_seconds", "cpu", "sector", "count"})


@record(frozen=True)
class _Rule:
    kind: str
    literal: str
    pattern: re.Pattern[str]
    also: tuple[tuple[str, Any], ...] = ()


def _rule(kind: str, literal: str, pattern: str, **also: object) -> _Rule:
    return _Rule(kind, literal, re.compile(pattern), tuple(also.items()))


_NAME = r"(?P<process>[^\[\]]{1,64})"
_IN = r"(?:.{0,80}? in (?P<module>[^\[\s]{1,200}))?"

_RULES = (
    _rule("sxid", "SXid", r"SXid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<code>\d{1,9}), (?P<says>(?!Severity|Data).{1,200})"),
    _rule(
        "xid",
        "NVRM: Xid",
        r"NVRM: Xid \((?:PCI:)?(?P<pci>[^)\s]{1,40})[^)]{0,80}\): (?P<code>\d{1,6})(?=,|\s|$)"
        r"(?:, pid='?(?:(?P<pid>\d+)|[^,]{0,20}))?(?:, name=(?P<process>[^,]{1,64}))?,?\s?(?P<says>.{0,300})",
    ),
    _rule(
        "xid",
        "fallen off the bus",
        r"(?:GPU (?:at )?(?:PCI:)?(?P<pci>[0-9a-fA-F:.]+[0-9a-fA-F]).{0,80})?(?P<says>fallen off the bus)",
        code=79,
    ),
    _rule("segfault", "segfault at", rf"^{_NAME}\[(?P<pid>\d+)\]:? segfault at (?P<address>\w+){_IN}", trap="segfault"),
    _rule("segfault", "traps: ", rf"traps: {_NAME}\[(?P<pid>\d+)\] (?:trap )?(?P<trap>[a-z0-9 ]{{2,40}}?) ip:{_IN}"),
    _rule(
        "segfault",
        "general protection",
        rf"^{_NAME}\[(?P<pid>\d+)\]:? (?P<trap>general protection)(?: fault)? ip:{_IN}",
    ),
    _rule(
        "hung-task",
        "blocked for more than",
        r"task (?P<process>.{1,64}):(?P<pid>\d+) blocked for more than (?P<waited_seconds>\d+) seconds",
    ),
    _rule("nfs", "not responding", r"nfs: server (?P<server>\S+) not responding(?:, (?P<says>[\w ]+))?", file_system="nfs"),
    _rule(
        "nfs",
        "Connection to ",
        r"Lustre: \S+: Connection to (?P<server>\S+) .{0,80}was (?P<says>lost)",
        file_system="lustre",
    ),
    _rule("read-only", "Remounting filesystem read-only", r"\((?P<device>[\w./-]+)\): Remounting filesystem read-only"),
    _rule("read-only", "forced readonly", r"\(device (?P<device>[\w./-]+)[^)]{0,40}\).{0,40}forced readonly"),
    _rule("read-only", "ilesystem has been shut down", r"XFS \((?P<device>[\w./-]+)\).{0,60}has been shut down"),
    _rule("read-only", "Shutting down filesystem", r"XFS \((?P<device>[\w./-]+)\).{0,80}Shutting down filesystem"),
    _rule(
        "disk-error",
        " error, dev",
        r"(?P<says>I/O|critical medium|critical target|critical space allocation|protection) error, "
        r"dev (?P<device>(?!fd\d|sr\d)[\w./-]+)(?:, sector (?P<sector>\d+))?",
    ),
    _rule("disk-error", "Buffer I/O error", r"(?P<says>Buffer I/O) error on dev(?:ice)? (?P<device>(?!fd\d|sr\d)[\w./-]+)"),
    _rule("disk-error", "EXT4-fs error", r"EXT4-fs error \(device (?P<device>[\w./-]+)\):? ?(?P<says>.{0,200})"),
    _rule("disk-error", " I/O error", r"XFS \((?P<device>[\w./-]+)\).{0,40}?(?P<says>metadata|log) I/O error"),
    _rule(
        "memory-error",
        "hardware memory corruption",
        r"(?:Killing|Sending SIGBUS to) (?P<process>.{1,64}?):(?P<pid>\d+) due to hardware memory corruption",
        corrected=False,
    ),
    _rule(
        "memory-error",
        "EDAC ",
        r"EDAC \S+: (?P<count>\d+) (?P<severity>CE|UE|Uncorrected|Corrected)\b (?P<says>.{0,200})",
    ),
    _rule("memory-error", "[Hardware Error]", r"\[Hardware Error\]: (?P<says>(?!\s*TSC|Run the above).{1,200})"),
    _rule(
        "soft-lockup",
        "soft lockup - CPU#",
        r"soft lockup - CPU#(?P<cpu>\d+) stuck for (?P<waited_seconds>\d+)s! \[(?P<process>.{1,64}):(?P<pid>\d+)\]",
    ),
)

LITERALS = tuple({rule.literal for rule in _RULES})


def recognise(message: str) -> tuple[str, dict[str, Any]] | None:
    """Kind and details of a message that matters, None for all others."""
    for rule in _RULES:
        if rule.literal in message:
            match = rule.pattern.search(message)
            details = _details(match) if match else None
            if details is not None:
                return rule.kind, _finished(rule.kind, details | dict(rule.also))
    return None


def _details(match: re.Match[str]) -> dict[str, Any] | None:
    """What the parts of a message say; None where a number is none that a kernel writes."""
    found = {name: value.strip() for name, value in match.groupdict().items() if value and "<unknown>" not in value}
    read = {name: to_int(value) if name in _NUMBERS else value for name, value in found.items()}
    return None if None in read.values() else read


def _finished(kind: str, details: dict[str, Any]) -> dict[str, Any]:
    if kind == "xid":
        details |= {"name": meaning(details["code"]).name, "fault": whose_fault(details["code"])}
    if kind == "memory-error" and "corrected" not in details:
        details["corrected"] = _corrected(details)
    return details


def _corrected(details: dict[str, Any]) -> bool | None:
    """Whether the hardware repaired the error itself; a machine check line by itself often does not say."""
    words = f"{details.get('severity', '')} {details.get('says', '')}".lower()
    if re.search(r"\bue\b|uncorrect|fatal|panic", words):
        return False
    return True if re.search(r"\bce\b|\bcorrected", words) else None
