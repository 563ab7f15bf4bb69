"""`crashcart why`: from whatever is left of a run to the cause."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from crashcart.deadline import note_memory
from crashcart.engine import examine
from crashcart.escapes import one_line, unfiltered
from crashcart.readers.gather import Given, gather
from crashcart.record import replace
from crashcart.redact import clean_all, forget_secrets, learn_secrets

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from crashcart.case import Case
    from crashcart.model import Diagnosis, Fix

__all__ = ["run", "why"]

_LARGE = 50 << 20
_SEARCH_SECONDS, _LEAST_CAUSES_SECONDS = 3.0, 0.8  # for a folder that was searched: reading and causes, and causes alone


def why(  # noqa: PLR0913 - the flags of the verb, by keyword
    paths: Sequence[str] | str = (),
    *,
    command: str | None = None,
    configs: Sequence[str] = (),
    scripts: Sequence[str] = (),
    exit_code: int | None = None,
    kernel_log: str | None = None,
    look_around: bool = True,
    pid: int | None = None,
    progress: Callable[[int], None] | None = None,
    looking: Callable[[float], None] | None = None,
) -> Diagnosis:
    """The diagnosis of the run that left these files: logs, folders, or nothing but its working folder.

    ``progress`` is told how many bytes were read, ``looking`` for how many seconds a running job was looked at.
    Secrets are taken out of everything that is returned.
    """
    diagnosis, case = _examined(
        [paths] if isinstance(paths, str) else list(paths),
        Given([], command, configs, scripts, exit_code, kernel_log, look_around),
        pid,
        progress,
        looking,
    )
    return clean_all(diagnosis, case.log.lines_to)


def _examined(
    listed: list[str],
    given: Given,
    pid: int | None,
    progress: Callable[[int], None] | None,
    looking: Callable[[float], None] | None,
) -> tuple[Diagnosis, Case]:
    """The diagnosis with the secrets that are in it, and the case."""
    note_memory()
    forget_secrets()
    if not listed and pid is None and not (given.command or given.configs or given.scripts):
        from crashcart.recording.folder import newest

        run_folder = newest()
        listed = [run_folder] if run_folder else []
    if pid is not None:
        from crashcart.live.look_at import look_at

        case = look_at(pid, looking)
    else:
        start = time.thread_time()
        case = gather(replace(given, paths=listed), progress)
        if case.flight is not None and case.flight.alive:
            from crashcart.live.stuck import note_standstill

            note_standstill(case.flight)
    learn_secrets(case.texts())
    subject = f"process {pid}" if pid is not None else " ".join(listed) or "."
    seconds = None
    if pid is None and case.flight is None and any(map(os.path.isdir, listed or ["."])):
        seconds = max(_LEAST_CAUSES_SECONDS, _SEARCH_SECONDS - (time.thread_time() - start))
    diagnosis = examine(case, subject=subject, resolve=_resolver(case, listed, given), seconds=seconds)
    if pid is not None and diagnosis.run is None:
        from crashcart.live.look_at import as_seen

        diagnosis = as_seen(diagnosis)
    alive = case.flight is not None and case.flight.alive
    return replace(diagnosis, happens_now=alive), case


def _own_folders(case: Case, listed: Sequence[str], given: Given) -> list[str]:
    """The folders whose files a fix may change: a recorded job's own only where the recording lies in it.

    A recording from somewhere else can name any folder; from there, start in the job's folder.
    """
    from crashcart.readers.project import own_folders
    from crashcart.regular_files import belongs_to_us

    ran_in = os.path.realpath(str(case.flight.facts.get("folder") or "/")) if case.flight is not None else "/"
    recorded = [os.path.realpath(path) for path in listed]
    lies_there = any(os.path.commonpath([path, ran_in]) == ran_in != "/" and belongs_to_us(path) for path in recorded)
    return own_folders([*listed, *given.configs, *given.scripts, *([ran_in] if lies_there or not listed else [])])


def _resolver(case: Case, listed: Sequence[str], given: Given) -> Callable[[Fix], Fix]:
    """Settings of a fix become edits and arguments where the job is known; else the fix stays in words."""
    folders: list[str] = []

    def resolved(fix: Fix) -> Fix:
        if not case.facts and not fix.edits:
            return fix
        from crashcart.patch import keep_inside, resolve

        if not folders:  # asked for only where there is something to change: the project's readers are dear to import
            folders.extend(_own_folders(case, listed, given))
        return keep_inside(resolve(fix, case.facts, case.program_flags) if case.facts else fix, folders)

    return resolved


def run(options: argparse.Namespace) -> int:
    """Print the diagnosis as text or JSON, and write the page where one was asked for."""
    looking = _Looking() if options.pid is not None else None
    with _Bar(options.paths, shown=not options.json) as bar:
        given = Given([], options.command, options.config, (), options.exit_code, options.kernel_log)
        uncleaned, case = _examined(list(options.paths), given, options.pid, bar.add if bar.shown else None, looking)
    diagnosis = clean_all(uncleaned, case.log.lines_to)
    if looking is not None:
        looking.end()
    if options.pid is None:
        _complete(options.paths, diagnosis)
    if options.html is not None:
        from crashcart.report.html import html

        _refuse_special(options.html)
        with open(options.html, "w", encoding="utf-8", errors="backslashreplace") as file:  # names may hold any byte
            file.write(html(diagnosis))
        sys.stderr.write(f"wrote {one_line(options.html)}\n")
    if options.json:
        from crashcart.report.data import json_text, plain

        sys.stdout.write(json_text(plain(diagnosis)))
    else:
        from crashcart.report.terminal import write

        write(diagnosis, long=options.long)
    if options.fix or options.fix_all:
        from crashcart.repair import show_and_write

        sys.stdout.flush()
        show_and_write(uncleaned.findings[:1], everything=options.fix_all)
    return 0


def _refuse_special(path: str) -> None:
    """A page is written into a file: to open a pipe would wait for somebody to read it."""
    from crashcart.errors import CommandError

    is_new_or_file = not os.path.exists(path) or os.path.isfile(path) or os.path.realpath(path) == os.devnull
    if not path or not is_new_or_file:
        raise CommandError(f"--html needs the name of a file to write; {path!r} is not one.")


def _complete(paths: Sequence[str], diagnosis: Diagnosis) -> None:
    """The findings of a run whose supervisor was killed before it could write them down, or that no supervisor saw whole."""
    if diagnosis.run is None or diagnosis.ending.state == "running":
        return
    from crashcart.recording.files import has_entry
    from crashcart.recording.folder import newest, nodes_of, write_json
    from crashcart.regular_files import belongs_to_us
    from crashcart.report.data import plain

    folder = paths[0] if paths else newest()
    if folder is None or not os.path.isdir(folder) or not belongs_to_us(folder):
        return
    if nodes_of(folder) or not has_entry(folder, "findings.json"):  # another node may have ended since
        write_json(os.path.join(folder, "findings.json"), plain(diagnosis))


class _Looking:
    """Says on standard error that a running job is looked at: a line, and on a terminal the seconds."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        sys.stderr.write("looking at the job for 3 to 16 seconds ..." + ("" if self._terminal else "\n"))
        sys.stderr.flush()

    def __call__(self, seconds: float) -> None:
        if self._terminal:
            unfiltered(sys.stderr).write(f"\rlooking at the job for 3 to 16 seconds ... {seconds:.0f} s ")
            sys.stderr.flush()

    def end(self) -> None:
        """Leave the line."""
        if self._terminal:
            sys.stderr.write("\n")


class _Bar:
    """A progress bar on a terminal, for input that takes a while."""

    def __init__(self, paths: Sequence[str], *, shown: bool) -> None:
        self.total = sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
        self.shown = shown and sys.stderr.isatty() and self.total > _LARGE

    def __enter__(self) -> _Bar:  # noqa: PYI034 - Self needs Python 3.11
        if self.shown:
            from rich.console import Console
            from rich.progress import Progress

            self._progress = Progress(console=Console(file=unfiltered(sys.stderr)), transient=True)
            self._task = self._progress.add_task("reading", total=self.total)
            self._progress.start()
        return self

    def add(self, count: int) -> None:
        """That many bytes more were read."""
        self._progress.advance(self._task, count)

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self._progress.stop()
