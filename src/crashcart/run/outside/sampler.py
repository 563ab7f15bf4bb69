"""One look a second at the machine, the job's memory group, its processes and its GPUs, as rows of numbers.

What cannot be read is NaN; a process that ends while it is read has no row. Rows are read by hand from descriptors that stay
open: a third of the CPU that psutil needs for fewer figures, a seventh where psutil has to find the children
(``benchmarks/sampler.py``).
"""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING

from crashcart.record import record
from crashcart.recording.tables import PROCESS
from crashcart.run.outside.cgroup import Cgroup
from crashcart.run.outside.disk import Disk
from crashcart.run.outside.host import Host
from crashcart.run.outside.process import FILES
from crashcart.run.outside.proportional import Proportional

if TYPE_CHECKING:
    from crashcart.run.outside.gpu import Cards, GpuEvent
    from crashcart.run.outside.process import Process
    from crashcart.run.outside.processes import Tree

__all__ = ["Sample", "Sampler"]

_STATM, _IO, _WCHAN = FILES.index("statm"), FILES.index("io"), FILES.index("wchan")
_NAN = math.nan
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE = float(os.sysconf("SC_PAGE_SIZE"))
_PSS = PROCESS.index("pss")
# A process whose stat has not changed has used no CPU and touched no memory: its row stands, for so many seconds at most.
_STILL = 5.0
_COUNT_EVERY = 4.5  # seconds between counts of open files; thrice that where each must be listed


@record
class Sample:
    """The rows of one second, in the order of the columns of ``crashcart.recording.tables``."""

    time: float
    monotonic: float
    host: list[float]
    cgroup: list[float]
    processes: list[list[float]]
    gpus: list[list[float]]


class Sampler:
    """Gives a ``Sample`` when asked; ``waits`` are the names of the wait channels seen so far."""

    def __init__(self, tree: Tree, output: str, *, cards: Cards | None = None, group: Cgroup | None = None) -> None:
        """``output`` is the folder whose disk is watched; ``group`` is that of the tree's first process where not given."""
        self.tree = tree
        self.waits: list[str] = []
        self.proportional = Proportional()
        self._cards = cards
        self._host = Host()
        self._disk = Disk(output)
        self._group = group or Cgroup(tree.root_pid)
        self._wait_index: dict[bytes, float] = {}
        self._by_size = _folder_size_counts()
        self._count_every = _COUNT_EVERY if self._by_size else 3 * _COUNT_EVERY

    def sample(self, *, fresh: bool = False) -> Sample:
        """Look now; ``fresh`` also at what is dear and usually looked at less often, as after a death."""
        now = time.monotonic()
        self.tree.look(now, fresh=fresh)
        processes = self.tree.processes
        if self._cards is not None:
            self._cards.begin(frozenset(processes), fresh=fresh)
        pss = self.proportional.take(processes.values(), now)
        rows = []
        for process in processes.values():
            row = self._row(process, now)
            if row is not None:
                row[_PSS] = pss.get((process.pid, process.start), _NAN) if pss else _NAN
                rows.append(row)
        ended = fresh or bool(self.tree.ended)  # perhaps killed for lack of memory: the counters now, not as of seconds ago
        host = [*self._host.row(now, fresh=ended), *self._disk.row(now, fresh=fresh)]
        group = self._group.row(now, fresh=ended)
        return Sample(time.time(), now, host, group, rows, [] if self._cards is None else self._cards.take())

    def driver_events(self) -> list[GpuEvent]:
        """Xids and memory errors that the driver reported since the last call."""
        return [] if self._cards is None else self._cards.events()

    def close(self) -> None:
        """Give descriptors and threads back; the tree and the cards are the caller's."""
        for part in (self.proportional, self._host, self._disk, self._group):
            part.close()

    def _row(self, process: Process, now: float) -> list[float] | None:
        if process.still and now - process.row_at < _STILL:
            return process.row.copy()
        row = self._read(process, now)
        if row is not None:
            process.row, process.row_at = row.copy(), now
        return row

    def _read(self, process: Process, now: float) -> list[float] | None:
        fields = process.fields
        state = fields[0]
        try:
            memory = process.read(_STATM).split(None, 3)
            resident, shared = int(memory[1]) * _PAGE, int(memory[2]) * _PAGE
        except (ProcessLookupError, FileNotFoundError):
            return None
        except (OSError, IndexError, ValueError):
            resident = shared = _NAN
        try:
            # rchar: 1 wchar: 2 syscr: 3 syscw: 4 read_bytes: 5 write_bytes: 6 ...
            words = process.read(_IO).split(None, 12)
            read, written = float(words[9]), float(words[11])
        except (OSError, IndexError, ValueError):
            read = written = _NAN
        return [
            float(process.pid),
            resident,
            _NAN,
            shared,
            self._files(process, now),
            float(fields[17]),
            (int(fields[11]) + int(fields[12])) * _TICK,
            float(state[0]),
            self._wait(process) if state in (b"S", b"D") else _NAN,
            read,
            written,
            float(fields[9]),
        ]

    def _files(self, process: Process, now: float) -> float:
        if now - process.files_at >= self._count_every:
            process.files_at = now
            try:
                process.files = float(process.count_files(by_size=self._by_size))
            except OSError:
                process.files = _NAN
        return process.files

    def _wait(self, process: Process) -> float:
        try:
            name = process.read(_WCHAN)
        except OSError:
            return _NAN
        index = self._wait_index.get(name)
        if index is None:
            if name in (b"", b"0"):  # running by now, or the kernel does not tell
                return _NAN
            index = self._wait_index[name] = float(len(self.waits))
            self.waits.append(name.decode("ascii", "replace"))
        return index


def _folder_size_counts() -> bool:
    """Whether the size of /proc/PID/fd is the number of open files, as it is since Linux 6.2."""
    try:
        return os.stat("/proc/self/fd").st_size > 0
    except OSError:
        return False
