"""What is noticed while a job runs: each thing once, as an event in the record and a line for the user.

Hangs are looked for in ``stalls``, everything that follows from numbers alone in ``alarms``; the stacks are written here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Any

from crashcart.errors import our_errors
from crashcart.run.alarms import Alarms
from crashcart.run.outside.roles import LOADER, RANK
from crashcart.run.stacks import Stack, take
from crashcart.run.stalls import Stalls

if TYPE_CHECKING:
    from crashcart.run.hangs import Odd
    from crashcart.run.supervisor import Supervisor

__all__ = ["Watchers"]

_MOST_STACKS = 40  # folders of stacks in one run; older ones make room


class Watchers:
    """The state of all that is watched in one job."""

    def __init__(self, job: Supervisor) -> None:
        self.job = job
        self.alarms = Alarms(job)
        self.stalls = Stalls(job)
        self.stacks: list[Stack] = []
        self._taken = 0
        self._folders: list[str] = []
        self._unwatched: set[str] = set()

    @property
    def hung(self) -> Odd | None:
        """Who keeps the job from going on, while it hangs."""
        return self.stalls.hung

    def look(self, tables: dict[str, list[list[float]]], events: list[dict[str, Any]]) -> None:
        """Judge what was just seen."""
        with our_errors("hangs", self._say_once):
            self.stalls.look(tables.get("process", []), events, tables.get("gpu", []))
        with our_errors("alarms", self._say_once):
            self.alarms.look(tables, events)

    def _say_once(self, what: str, why: str, how: str) -> None:
        """One line for the user about an error of ours; the job and its recording go on."""
        if what not in self._unwatched:
            self._unwatched.add(what)
            self.job.say(f"not watched: {what} ({why}; {how})")

    def take_stacks(self, reason: str) -> list[Stack]:
        """Stacks of everybody, written into the run folder."""
        pages = [page for page in self.job.pages.pages.values() if os.path.exists(f"/proc/{page.pid}")]
        reached = {page.pid for page in pages if page.whole("signal") is not None}
        names = self.stalls.names()
        others = [(pid, role) for pid, (role, _) in names.items() if pid not in reached and role in {RANK, LOADER}]
        self.stacks = take(pages, others, names)
        self._write(reason)
        return self.stacks

    def _write(self, reason: str) -> None:
        self._taken += 1
        if self.job.folder is None:
            return
        name = f"{self._taken:03d}-{reason.replace(' ', '-')}"
        folder = os.path.join(self.job.folder, "stacks", name)
        with contextlib.suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            for stack in self.stacks:
                path = os.path.join(folder, f"{stack.role.replace(' ', '-')}-{stack.pid}.txt")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"# pid {stack.pid}, {stack.role}, by {stack.how}\n{stack.text}\n")
        self.job.writer.event("stacks", reason=reason, folder=f"stacks/{name}", processes=len(self.stacks))
        self._folders.append(folder)
        if len(self._folders) > _MOST_STACKS:
            shutil.rmtree(self._folders.pop(0), ignore_errors=True)
