"""Everything that can be known about a run from the paths and the context that were given: the case.

Named files are logs. A folder is searched: logs where there are some, else what a run leaves without one (tracker files,
scheduler output, launch script, config, checkpoints). What was named in the call wins; what is found beside the log is used
only where it is clearly the run's own: a launch script that is alone in its folder, the config that the script names, a kernel
log. Everything that could not be read becomes a note in the case, not an error.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from crashcart.case import Case, ExitStatus
from crashcart.deadline import Allowance, TookTooLongError, guarded, limited
from crashcart.deaths import finished
from crashcart.errors import CommandError, our_errors
from crashcart.model import Evidence, Fact, NotLooked
from crashcart.readers.logs import read_logs
from crashcart.readers.logs.endings import decoded_exit
from crashcart.record import record, replace
from crashcart.regular_files import containing, is_regular, names_in, problem_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crashcart.case import KernelEvent
    from crashcart.checkpoints import Checkpoint
    from crashcart.readers.traces.survivors import Found
    from crashcart.recording.print_times import Printed

__all__ = ["Given", "gather"]

_SCRIPTS = (".sh", ".sbatch", ".slurm")
_CONFIGS = (".yaml", ".yml", ".json", ".toml")
_LOG_KINDS = ("elastic-log", "slurm-output", "log", "output", "wandb-output")
_MOST_LOGS = 2000
_BESIDE = 200
_ALL_PARTS_SECONDS, _PART_SECONDS, _FILE_SECONDS = 2.5, 1.5, 1.0
_SEARCH_SECONDS, _LEAST_LOG_SECONDS = 1.9, 1.0  # for finding logs in a folder and reading them
_SEARCHED_SECONDS, _LEAST_PARTS_SECONDS = 2.6, 0.7  # for all of a folder that is searched, and for what is not its logs
_CHECKPOINT_SEARCH_SECONDS = 0.4
_KERNEL_SNIFF_SECONDS = 0.2
_MOST_REFUSED = 20
_MOST_FILES = 20_000
_MOST_PROGRAMS = 12  # of a script
_LOWEST_STATUS, _HIGHEST_STATUS = -64, 255


@record(frozen=True)
class Given:
    """What the user gave."""

    paths: Sequence[str] = ()
    command: str | None = None
    configs: Sequence[str] = ()
    scripts: Sequence[str] = ()
    exit_code: int | None = None
    kernel_log: str | None = None
    look_around: bool = True


def gather(given: Given, progress: Callable[[int], None] | None = None) -> Case:
    """Read everything into a case."""
    return _Gathering(given, progress).case


class _Gathering:
    def __init__(self, given: Given, progress: Callable[[int], None] | None) -> None:
        self.given = given
        self.case = Case()
        self.allowance = Allowance(_ALL_PARTS_SECONDS, _PART_SECONDS)
        self.start = time.thread_time()
        self.step: int | None = None
        self.command = ""
        self.kernels: list[tuple[str, frozenset[int]]] = []  # of the recording, with the job's own processes
        self.printed: dict[str, Printed] = {}  # when its logs were printed
        paths = list(given.paths) or ["."]
        folders = [path for path in paths if path != "-" and os.path.isdir(path)]
        logs = [path for path in paths if path not in folders]
        scripts, configs = list(given.scripts), list(given.configs)
        kernel = given.kernel_log
        self.found: list[Found] = []
        self.recorded = recorded = [folder for folder in folders if _is_run(folder)]
        for folder in folders:
            logs += self._look_through(folder, scripts, configs) if folder not in recorded else []
        if recorded:
            with our_errors("the recording", self.case.could_not_look):
                logs += self._read_run(recorded, scripts)
        if given.look_around and not folders and logs:
            kernel = self._look_beside(logs, scripts, configs) or kernel if kernel is None else kernel
        kernel, logs = self._without_kernel_log(kernel, logs)
        with our_errors("the log", self.case.could_not_look):
            self._read_logs(logs, progress)
        if self._is_searched():
            left = self.start + _SEARCHED_SECONDS - time.thread_time()
            self.allowance.left = min(self.allowance.left, max(_LEAST_PARTS_SECONDS, left))
        self._part("notes of a kill", lambda: self._read_kill_notes(scripts))
        self._part("the job's command and config", lambda: self._read_job(scripts, configs))
        self._part("the job's own code", lambda: self._read_scene(scripts))
        self._part("recorded settings", self._read_settings)
        self._read_exit()
        self._part("kernel log", lambda: self._read_kernel(kernel))
        if not self.case.log.lines:
            self._part("tracker files", self._read_traces)
        self._part("checkpoints", lambda: self._read_checkpoints([one for one in folders if one not in recorded]))
        self._part("the schedule", self._describe)

    def _is_searched(self) -> bool:
        return bool(self.found) and not self.recorded

    def _part(self, what: str, task: Callable[[], None]) -> None:
        """Read one kind of input; where it fails or takes too long the others must not."""
        guarded(what, self.case.could_not_look, task, self.allowance, None)

    def _read_run(self, folders: list[str], scripts: list[str]) -> list[str]:
        """Folders that ``crashcart run`` made: recording, ending and logs."""
        from crashcart.readers.recorded import read_recorded

        found = read_recorded(self.case, folders)
        scripts += found.scripts
        if not scripts and not self.given.command:
            self.command = found.command
        self.kernels, self.printed = found.kernels, found.printed
        if self.case.flight is None or not self.given.look_around:
            return found.logs
        from crashcart.readers.own_reports import own_reports

        shown = {os.path.realpath(path) for path in (*found.logs, str(self.case.flight.facts.get("errors") or ""))}
        reports = [path for path in own_reports(self.case.flight) if os.path.realpath(path) not in shown]
        self.case.flight.facts["own_reports"] = reports
        return [*found.logs, *reports]

    def _look_through(self, folder: str, scripts: list[str], configs: list[str]) -> list[str]:
        from crashcart.readers.traces.survivors import survivors

        found = survivors(folder)
        self.found.append(found)
        self.case.not_looked += found.not_looked
        scripts += [one.path for one in found.of("launch-script")][:3] if not self.given.scripts else []
        logs = [one.path for one in reversed(found.of(*_LOG_KINDS))]
        if not logs:
            logs = [path for path in _files(folder) if path.endswith((".txt", ".gz", ".bz2", ".xz", ".zst"))]
        if not self.given.configs and not scripts:
            configs += [one.path for one in found.of("config") if not one.path.endswith(".json")][:1]
        return [path for path in logs if _size(path)][-_MOST_LOGS:]

    def _look_beside(self, logs: list[str], scripts: list[str], configs: list[str]) -> str | None:
        """The launch script and the kernel log in the folder of the log, where there is one of them."""
        folder = os.path.dirname(logs[0]) or "."
        if logs[0] == "-" or self.given.command or scripts:
            return None
        names = _files(folder)
        if len(names) > _BESIDE:
            return None
        own = [name for name in names if name.endswith(_SCRIPTS)]
        scripts += own if len(own) == 1 else []
        plain = [name for name in names if name.endswith((".yaml", ".yml"))]
        configs += plain if len(plain) == 1 and not configs else []
        kernels = [name for name in names if os.path.basename(name).startswith(("dmesg", "kern.log", "journal"))]
        return kernels[0] if len(kernels) == 1 and kernels[0] not in logs else None

    def _without_kernel_log(self, kernel: str | None, logs: list[str]) -> tuple[str | None, list[str]]:
        """A kernel log among the logs is one, whatever its name; where nothing else was given, it is read as it is."""
        if len(logs) < 2 or self.recorded:  # noqa: PLR2004 - one log is what the user asks about
            return kernel, logs
        from crashcart.readers.kernel import looks_like_kernel_log

        found = []
        until = time.thread_time() + _KERNEL_SNIFF_SECONDS
        for path in logs:
            if time.thread_time() > until:
                break
            if path != "-" and looks_like_kernel_log(path):
                found.append(path)
        if not found or len(found) == len(logs):
            return kernel, logs
        return kernel or found[0], [path for path in logs if path not in found]

    def _read_logs(self, logs: Sequence[str], progress: Callable[[int], None] | None) -> None:
        if not logs:
            return
        notes: list[str] = []
        named = bool(self.given.paths) and all(not os.path.isdir(path) for path in self.given.paths)
        refused: list[str] | None = None if named else []
        is_searched = self._is_searched()
        self.case.log = read_logs(
            logs,
            progress=progress,
            notes=notes,
            refused=refused,
            run_folders=self.recorded,
            printed=self.printed,
            seconds=max(_LEAST_LOG_SECONDS, self.start + _SEARCH_SECONDS - time.thread_time()) if is_searched else None,
        )
        self.case.not_looked += [NotLooked("a log", problem) for problem in (refused or ())[:_MOST_REFUSED]]
        self.case.not_looked += [NotLooked("the rest of a log", note) for note in notes]
        if self.case.flight is not None:
            from crashcart.readers.recorded import without_other_stages

            self.case.log = without_other_stages(self.case.log, self.case.flight)

    def _read_kill_notes(self, scripts: Sequence[str]) -> None:
        """What whoever killed a process of a recorded job wrote about it."""
        if self.case.flight is not None and self.given.look_around and not finished(self.case):
            from crashcart.readers.kill_notes import KILL_NOTE, guards_started, kill_notes

            self.case.seen[KILL_NOTE] = kill_notes(self.case)
            for fact in guards_started(self.case, scripts):
                self.case.seen.setdefault(fact.name, []).append(fact)

    def _read_scene(self, scripts: Sequence[str]) -> None:
        """What the code of a run shows that died, or stands still: the reason for what happened, and the line to change."""
        from crashcart.readers.scene import is_wanted, read_scene

        if self.given.look_around and is_wanted(self.case):
            self.case.facts.update(read_scene(self.case, scripts))

    def _read_settings(self) -> None:
        """What the running program said of its settings goes before what was read."""
        from crashcart.readers.recorded_settings import merge_recorded, program_flags, recorded_facts

        if self.case.flight is not None:
            self.case.facts = merge_recorded(self.case.facts, recorded_facts(self.case.flight))
            self.case.program_flags = program_flags(self.case.flight)

    def _read_job(self, scripts: Sequence[str], configs: list[str]) -> None:
        command = self.given.command or self.command
        if not scripts and not configs and not command:
            return
        from crashcart.readers.job.command import read_command
        from crashcart.readers.job.config import read_config

        facts: list[Fact] = []
        for script in scripts:
            facts += self._tried(self._read_program, script)
        if command:
            where = "--command" if self.given.command else "run.json"
            facts += self._tried(lambda _: read_command(command, where), where)
        named = [_beside(fact, scripts) for fact in facts if _is_config(fact)]
        for config in [*dict.fromkeys([*configs, *(path for path in named if path)])]:
            # Flags win over files, whatever the order in which they were read.
            facts = [*self._tried(read_config, config), *facts]
        self.case.facts.update({fact.name: fact for fact in facts})

    def _read_program(self, script: str) -> list[Fact]:
        """The command of a script; of a recorded run that of the program that decided how it ended."""
        from crashcart.readers.job.command import read_script

        stage = self.case.flight.stage if self.case.flight is not None else None
        otherwise = facts = read_script(script)
        others: set[str] = set()
        for _ in range(_MOST_PROGRAMS if stage is not None else 0):
            started = next((str(fact.value) for fact in facts if fact.name == "launch.script"), None)
            if started is None or started in others:
                break
            if stage is not None and stage.program in {started, os.path.basename(started)}:
                return facts
            others.add(started)
            facts = read_script(script, skip=others)
        return otherwise

    def _tried(self, read: Callable[[str], list[Fact]], path: str) -> list[Fact]:
        try:
            return limited(lambda: read(path), _FILE_SECONDS)
        except (CommandError, OSError) as problem:
            if not isinstance(problem, TookTooLongError) and path in self.given.configs:
                raise CommandError(str(problem) if isinstance(problem, CommandError) else f"{path}: {problem}") from None
            self.case.not_looked.append(NotLooked(os.path.basename(path), str(problem)))
            return []

    def _read_exit(self) -> None:
        status = self.given.exit_code
        if status is None:
            return
        if not _LOWEST_STATUS <= status <= _HIGHEST_STATUS:
            raise CommandError(f"--exit-code {status} is not an exit status: use 0 to 255, or -9 for a signal.")
        code, signal = decoded_exit(status)
        quote = f"exit status {status}" + (f", that is {signal}" if signal else "")
        self.case.exit = ExitStatus(code, signal, Evidence("exit", quote, "--exit-code"))

    def _read_kernel(self, path: str | None) -> None:
        flight = self.case.flight
        recorded = self.kernels if path is None else []
        if path is None and not recorded:
            self.case.not_looked.append(
                NotLooked("kernel log", "not given", "`dmesg -T > dmesg.txt`, then add `--kernel-log dmesg.txt`")
            )
            return
        from crashcart.readers.kernel import place, read_kernel
        from crashcart.readers.kernel.tie import own_pids, recorded_job, tie
        from crashcart.readers.logs.clock import pids_of, times_of

        start, end = times_of(self.case.log.lines)
        pids = pids_of(self.case.log.lines)
        if flight is not None:
            start, end = flight.facts.get("started", start), flight.facts.get("ended", end)
            pids = frozenset()  # those of the log are no better known than those of the recording
        own = own_pids(flight) if flight is not None else frozenset()
        notes: list[str] = []
        for kept, known in recorded or [(path or "", own)]:
            try:
                below = containing(kept, self.recorded) if path is None else None
                events = read_kernel(kept, no_links_below=below, notes=notes)
            except OSError as problem:
                if path is not None and path == self.given.kernel_log:
                    raise CommandError(f"{problem_with(kept, problem)}.") from None
                self.case.not_looked.append(NotLooked("kernel log", f"{problem_with(kept, problem)}."))
                continue
            placed = place(events, run_start=start, run_end=end, pids={*pids, *known})
            self.case.kernel += tie(placed, recorded_job(flight, known, start, end)) if flight is not None else placed
        self.case.kernel = _own_kills_only(self.case.kernel)
        self.case.not_looked += [NotLooked("the rest of the kernel log", note) for note in notes]

    def _read_traces(self) -> None:
        """What trackers and trainers still know when there is no log."""
        from crashcart.readers.traces import traces

        for found in self.found:
            step, notes, gaps = traces(found)
            self.step = step if step is not None else self.step
            self.case.notes += notes
            self.case.not_looked += gaps

    def _read_checkpoints(self, folders: list[str]) -> None:
        output = self.case.facts.get("output.path")
        places = [str(output.value)] if output and os.path.isdir(str(output.value)) else folders
        if not places:
            return
        from crashcart import checkpoints

        found: list[Checkpoint] = []
        for place in places:
            late: list[str] = []
            found += checkpoints.find(place, limit=20, seconds=_CHECKPOINT_SEARCH_SECONDS, left_out=late)
            self.case.not_looked += [NotLooked(f"checkpoints in {place}", why, "name a smaller folder") for why in late]
        self.case.checkpoints = tuple(found)

    def _describe(self) -> None:
        if not (self.case.log.lines or self.case.facts or self.case.checkpoints or self.case.notes or self.case.kernel):
            self.case.not_looked.append(NotLooked("any log", "the input is empty", "name a log, or the folder of the run"))
        step = self.case.log.progress.step if self.case.log.progress.step is not None else self.step
        self.case.step = step
        if not self.case.facts and not self.case.checkpoints:
            return
        from crashcart.readers.traces import describe

        self.case.step, notes = describe(self.case, step)
        self.case.notes += notes


def _own_kills_only(events: tuple[KernelEvent, ...]) -> tuple[KernelEvent, ...]:
    """Where a kill is known to be the job's, those of which nothing is known are not."""
    if not any(event.kind == "oom-kill" and event.ours for event in events):
        return events
    why = "another kill is known to be the job's"
    return tuple(
        replace(event, ours=False, why_ours=why) if event.kind == "oom-kill" and event.ours is None else event
        for event in events
    )


def _is_run(folder: str) -> bool:
    """Whether ``crashcart run`` made the folder; one with a part of the layout among the runs is a damaged run."""
    if os.path.lexists(os.path.join(folder, "run.json")):
        return True
    if not any(os.path.lexists(os.path.join(folder, name)) for name in ("nodes", "recording")):
        return False
    from crashcart.recording.folder import is_run, roots

    above = os.path.dirname(os.path.abspath(folder))
    return is_run(folder) or above in {os.path.abspath(root) for root in roots()}


def _files(folder: str) -> list[str]:
    return [path for name in names_in(folder, _MOST_FILES) if is_regular(path := os.path.join(folder, name))]


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:  # gone since it was listed
        return 0


def _is_config(fact: Fact) -> bool:
    return isinstance(fact.value, str) and fact.value.endswith(_CONFIGS) and not fact.name.startswith("environment")


def _beside(fact: Fact, scripts: Sequence[str]) -> str | None:
    """The config that a flag names: as it stands, or seen from the folder of the script."""
    name = str(fact.value)
    places = [name, *(os.path.join(os.path.dirname(script), name) for script in scripts)]
    return next((place for place in places if os.path.isfile(place)), None)
