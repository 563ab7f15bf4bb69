"""A kill for lack of memory, told by the kernel in many lines, put together as one event for each victim.

Since Linux 4.19 a report ends in two lines (shortened), and tells the limit of a control group before them::

    python invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
    memory: usage 209715200kB, limit 209715200kB, failcnt 20725
    [  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
    [   2343]  1000  2343  7940883  3485063  3482011     3052         0 28766208        0             0 python
    oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/slurm/uid_1000/job_77,
        task_memcg=/slurm/uid_1000/job_77/step_0,task=python,pid=2343,uid=1000
    Memory cgroup out of memory: Killed process 2343 (python) total-vm:31763532kB, anon-rss:13928044kB,
        file-rss:12208kB, shmem-rss:0kB, UID:1000 pgtables:28092kB oom_score_adj:0

Before that, and in RHEL 7, the victim named first may be spared and its child killed::

    Out of memory: Kill process 18694 (perl) score 246 or sacrifice child
    Killed process 18694 (perl) total-vm:1972392kB, anon-rss:1953348kB, file-rss:0kB

The report is rate-limited, the line of the kill is not, so any of the lines may be missing. Two daemons of user space
kill for the same reason and write to the same journal: systemd-oomd and earlyoom.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_int, whole_product

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LITERALS", "OomReport", "by_daemon"]

LITERALS = ("oom-kill", "Killed process", "Kill process", "memory: usage ", "killed as a result of limit of")
DAEMONS = ("systemd-oomd", "earlyoom")
TABLE = "total_vm"

_PAGE = 4096
_CONSTRAINTS = {"NONE": "global", "MEMCG": "memcg", "CPUSET": "cpuset", "MEMORY_POLICY": "memory-policy"}
_INVOKED = re.compile(r"^(?P<invoker>.{1,64}) invoked oom-killer:")
_SUMMARY = re.compile(r"oom-kill:constraint=CONSTRAINT_(\w+)")
_TASK = re.compile(r"\btask=(?P<process>.{1,64}?),pid=(?P<pid>\d+)(?:,uid=(?P<uid>\d+))?")
_SCOPE = r"(?P<scope>Out of memory|Memory cgroup out of memory)[^:]{0,40}:"
_KILLED = re.compile(
    rf"(?:{_SCOPE} )?\bKilled process (?P<pid>\d+)"
    r"(?:, UID (?P<uid>\d+),)?(?: \((?P<process>.{0,64}?)\)(?=[ ,.]|$))?"
)
_CHOSEN = re.compile(_SCOPE + r" Kill process (?P<pid>\d+) \((?P<process>.{0,64}?)\) score")
_LIMIT = re.compile(r"^memory: usage (\d+)kB, limit (\d+)kB, failcnt (\d+)")
_LIMIT_OF = re.compile(r"Task in (?P<memcg>\S+) killed as a result of limit of (?P<limit_memcg>\S+)")
_ROW = re.compile(r"^\[\s*\d+\]((?:\s{1,20}-?\d{1,20}){6,10})\s+(\S.*)$")
_SIZES = re.compile(r"(total-vm|anon-rss|file-rss|shmem-rss):(\d+)kB")
_OWNER = re.compile(r"UID:(\d+)")
_OOMD = re.compile(r"^Killed (?P<memcg>/\S+) due to (?P<says>.{0,200})")
_EARLYOOM = re.compile(r"sending SIG(?:TERM|KILL) to process (?P<pid>\d+) uid (?P<uid>\d+) \"(?P<process>[^\"]+)\"")


class OomReport:
    """What has been read of one report so far."""

    def __init__(self) -> None:
        self.details: dict[str, Any] = {}
        self.weight = 0
        self.killed = False
        self._in_table = False
        self._by_name: dict[str, list[int]] = {}

    def takes(self, message: str) -> int:
        """How much the line tells: 0 when it is not part of a report, more for the lines worth quoting."""
        self._in_table = self._in_table or TABLE in message
        if self._in_table:
            self._row(message)
        if not any(literal in message for literal in LITERALS):
            return 0
        for pattern, weight in ((_INVOKED, 1), (_CHOSEN, 3), (_LIMIT_OF, 1)):
            match = pattern.search(message)
            if match:
                self._note(match)
                return weight
        return self._summary(message) or self._limit(message) or self._kill(message)

    def begins_anew(self, message: str) -> bool:
        """Whether the line belongs to the next report, or names another victim of this one."""
        if not self.details:
            return False
        if _INVOKED.search(message):
            return True
        match = _KILLED.search(message) or _CHOSEN.search(message) or _TASK.search(message)
        return self.killed and match is not None and to_int(match["pid"]) != self.details.get("pid")

    def heir(self, message: str) -> OomReport:
        """Begin a fresh report; further victims of the same kill keep the control group and its limit."""
        fresh = OomReport()
        if not _INVOKED.search(message) and not _SUMMARY.search(message):
            kept = ("memcg", "limit_memcg", "limit_bytes", "usage_bytes", "constraint", "invoker")
            fresh.details = {key: self.details[key] for key in kept if key in self.details}
        return fresh

    def finished(self) -> dict[str, Any]:
        """Give the details, with the largest groups of processes in the table that the kernel printed."""
        ranked = sorted(self._by_name.items(), key=lambda item: -item[1][1])[:5]
        if ranked:
            self.details["tasks"] = sum(count for count, _ in self._by_name.values())
            self.details["largest"] = [(name, count, pages * _PAGE) for name, (count, pages) in ranked]
        if not self.killed and "pid" not in self.details:
            self.details["victim"] = "not in the log"
        return self.details

    def _note(self, match: re.Match[str]) -> None:
        for name, value in match.groupdict().items():
            read = to_int(value) if name in {"pid", "uid"} else value
            if read is not None and name != "scope":
                self.details[name] = read
        scope = match.groupdict().get("scope")
        if scope:
            self.details.setdefault("constraint", "memcg" if scope.startswith("Memory cgroup") else "global")

    def _summary(self, message: str) -> int:
        match = _SUMMARY.search(message)
        if not match:
            return 0
        self.details["constraint"] = _CONSTRAINTS.get(match[1], match[1].lower())
        for key, name in (("task_memcg", "memcg"), ("oom_memcg", "limit_memcg")):
            found = re.search(rf"\b{key}=([^,]+)", message)
            if found:
                self.details[name] = found[1]
        task = _TASK.search(message)
        if task:
            self._note(task)
        return 2

    def _limit(self, message: str) -> int:
        match = _LIMIT.search(message)
        if not match:
            return 0
        self.details |= _sizes([("usage", match[1]), ("limit", match[2])])
        return 1

    def _kill(self, message: str) -> int:
        match = _KILLED.search(message)
        if not match:
            return 0
        self._note(match)
        sizes = _sizes(_SIZES.findall(message))
        owner = _OWNER.search(message)
        uid = to_int(owner[1]) if owner else None
        if uid is not None:
            self.details["uid"] = uid
        resident = [value for name, value in sizes.items() if "rss" in name]
        self.details |= sizes | ({"rss_bytes": sum(resident)} if resident else {})
        self.killed = True
        return 4

    def _row(self, message: str) -> None:
        match = _ROW.match(message)
        if match and (match[2] in self._by_name or len(self._by_name) < 200):  # noqa: PLR2004 - a bound, not a meaning
            group = self._by_name.setdefault(match[2], [0, 0])
            group[0] += 1
            group[1] += to_int(match[1].split()[3], 0)


def _sizes(kilobytes: Iterable[tuple[str, str]]) -> dict[str, int]:
    read = ((name.replace("-", "_"), whole_product(value, 1024)) for name, value in kilobytes)
    return {f"{name}_bytes": size for name, size in read if size is not None}


def by_daemon(sender: str, message: str) -> dict[str, Any] | None:
    """Read a kill by systemd-oomd or earlyoom, None for their other lines."""
    match = _OOMD.search(message) if sender == "systemd-oomd" else _EARLYOOM.search(message)
    if not match:
        return None
    found = {name: to_int(value) if name in {"pid", "uid"} else value for name, value in match.groupdict().items()}
    return {**{name: value for name, value in found.items() if value is not None}, "constraint": sender}
