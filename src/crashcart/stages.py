"""The stages of a run: one for each program that its script starts, with the processes that belong to it.

    bash run.sh
      +- python prepare.py                     preparation
      +- python server.py &                    service
      +- timeout 600 torchrun train.py         training: timeout is a wrapper, torchrun a launcher
      |    +- python train.py   rank 0
      |    +- python train.py   rank 1
      +- python evaluate.py                    evaluation

Shells are looked through, and so is a program that does not train and starts others that do: a guard around one command, or a driver
that starts several. Everything below a launcher, or below any other program, is of its stage. Which of them are ranks is known only
afterwards: those that took optimizer steps, and those that a launcher started as ranks.

Pure functions of a ``Flight``; works on recordings that were made before there were stages too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.flight import Stage, program_of
from crashcart.pattern import Pattern
from crashcart.redact import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crashcart.flight import Flight, Process

__all__ = [
    "ASKING",
    "choose_deciding",
    "distinguishing_arguments",
    "divide",
    "exit_of",
    "join_nodes",
    "made_up",
    "programs_beside",
    "set_stages",
]

_PYTHONS = ("python", "pypy")
_SERVANT = "from multiprocessing"
_NO_STAGE = frozenset({"tracker", "compile worker", "loader worker"})
# Commands of scripts that are no work of their own, however long they take.
_PLUMBING = frozenset({
    "sleep", "tee", "cat", "tail", "head", "grep", "sed", "awk", "wait", "cp", "mv", "rm", "mkdir", "ls", "find", "xargs", "date", "nvidia-smi", "watch", "ssh",
})  # fmt: skip
ASKING = frozenset({"SIGTERM", "SIGINT", "SIGHUP"})  # signals that ask a process to end
_LONG = 10.0  # seconds after which a program that is not Python is worth a stage
_TOGETHER = 1.5  # seconds by which a look may be late
_EVALUATION = Pattern(
    r"(?i)(?:^|[_\-./])(?:eval\w*|test\w*|infer\w*|predict\w*|generat\w*|sampl\w*|benchmark\w*|scor\w*|valid\w*)"
)
_PREPARATION = Pattern(r"(?i)(?:^|[_\-./])(?:prep\w*|preprocess\w*|download\w*|tokeni[sz]e\w*|convert\w*|setup\w*|build\w*|index\w*|extract\w*|fetch\w*)")  # fmt: skip
_SERVICE = Pattern(
    r"(?i)(?:^|[_\-./])(?:server?|serving|daemon|tensorboard|monitor\w{0,60}|proxy|redis\w{0,60}|gateway|http\.server|vllm\S{0,200})\b"
)
_TRAINING = Pattern(r"(?i)train|finetun|fine_tun|(?:^|[_\-./])(?:fit|sft|dpo|grpo|ppo)\b")
_LONGEST_ARGUMENTS = 60
_RESUME = Pattern(r"(?i)resume|restore|continue|ckpt|checkpoint|load[_-]")


def set_stages(flight: Flight) -> None:
    """Find the stages, give each process the role that it turned out to have, and choose the stage that decided."""
    flight.stages = divide(flight)
    for stage in flight.stages:
        _name_members(flight, stage)
        stage.failed = _failed(flight, stage)
    if flight.stages and flight.ending and flight.ending.get("code") != 0 and not any(one.failed for one in flight.stages):
        last = flight.stages[-1]  # nobody saw how it ended, but the script ended badly right after it
        last.failed = last.ended is not None and exit_of(flight, last) == (None, None)
    flight.stage = choose_deciding(flight)


def divide(flight: Flight) -> list[Stage]:
    """The programs of a run in the order in which they began."""
    tree = _Tree(flight)
    stages = [stage for root in tree.roots for stage in tree.stages_below(root, ())]
    stages = _join_ranks(flight, sorted(stages, key=lambda stage: stage.began))
    for stage in stages:
        stage.role = _role(stage, stages)
    return stages


def _join_ranks(flight: Flight, stages: list[Stage]) -> list[Stage]:
    """Ranks of one group that no common process of the job started (srun, Ray, an unknown launcher) are one stage."""
    joined: list[Stage] = []
    for stage in stages:
        own = _ranks_of_group(flight, stage)
        same = (one for one in joined if own and one.program == stage.program and _spans(one, stage))
        other = next((one for one in same if (theirs := _ranks_of_group(flight, one)) and not theirs & own), None)
        if other is None:
            joined.append(stage)
        else:
            _merge(other, stage)
            other.ranks = len(own | _ranks_of_group(flight, other))
    return joined


def _ranks_of_group(flight: Flight, stage: Stage) -> set[int]:
    """The numbers of ranks that say that they are of several."""
    mains = [flight.processes[pid] for pid in stage.mains]
    return {main.rank for main in mains if main.rank is not None and main.page.get("world_size", 0.0) > 1}


def _merge(stage: Stage, other: Stage) -> None:
    """Make one stage of two."""
    stage.pids |= other.pids
    stage.mains += other.mains
    stage.wrappers += other.wrappers
    stage.failed |= other.failed
    stage.trained |= other.trained
    stage.role = other.role if other.trained else stage.role
    stage.began = min(stage.began, other.began)
    stage.ended = None if stage.ended is None or other.ended is None else max(stage.ended, other.ended)


def programs_beside(flight: Flight) -> list[str]:
    """The other programs of the script that still ran when the one in question ended, and do not train."""
    stage = flight.stage
    if stage is None:
        return []
    end = stage.ended if stage.ended is not None else float("inf")
    return [
        other.program
        for other in flight.stages
        if other is not stage
        and other.role != "training"
        and other.began < end
        and (other.ended is None or other.ended > end - _TOGETHER)
    ]


def choose_deciding(flight: Flight) -> Stage | None:
    """The stage whose end was the end of the work.

    Training that failed and was not made up for goes before everything else, whatever the script ended with. Other programs that
    failed count where the script ended badly; one that it got over does not.
    """
    stages = [stage for stage in flight.stages if stage.role != "service"] or flight.stages
    if not stages:
        return None
    if flight.alive and not flight.ending:
        going = [stage for stage in stages if stage.ended is None]
        return next((stage for stage in reversed(going) if stage.role == "training"), (going or stages)[-1])
    failed = [stage for stage in stages if stage.failed]
    training = [stage for stage in failed if stage.role == "training" and not made_up(stage, stages)]
    if training:
        earliest = min(training, key=lambda stage: _failed_at(flight, stage))
        return [stage for stage in training if _same_work(stage, earliest)][-1]
    if flight.ending.get("code") != 0:  # what outlived a script that was stopped in the middle of it is what it was about
        left = [stage for stage in stages if stage.role == "training" and stage.ended is None]
        if left or failed:
            return (left or failed)[-1]
    trained = [stage for stage in stages if stage.role == "training"]
    return (trained or stages)[-1]


def exit_of(flight: Flight, stage: Stage) -> tuple[int | None, str | None]:
    """Exit code or signal of a stage: of the program itself, else of its launcher; a wrapper only hands it on.

    A launcher's 0 does not hide that its ranks failed. Ranks that were asked to end (SIGTERM from a launcher or a pool) only
    followed: then the launcher knows better.
    """
    mains = _last_attempt(flight, stage)
    known = [(gone.code, gone.signal) for main in mains if (gone := _gone(flight, main)).known]
    head_end = _gone(flight, flight.processes[stage.head])
    head = (head_end.code, head_end.signal) if head_end.known else None
    if len(mains) == 1 and known:
        return known[-1]
    if head is not None and flight.processes[stage.head].role != "wrapper" and (head != (0, None) or not stage.failed):
        return head
    bad = [end for end in known if end != (0, None)]
    faults = [end for end in bad if end[1] not in ASKING]
    if faults:
        return faults[0]
    if head is not None and head != (0, None):
        return head
    if _raised(flight, mains):
        return 1, None
    if bad:
        return bad[0]
    return head or (known[-1] if known else (None, None))


def distinguishing_arguments(stage: Stage, stages: Iterable[Stage]) -> str:
    """The arguments of a stage that not all stages of the same program have: ``--seed 2``."""
    others = [other.command.split() for other in stages if other.program == stage.program and other is not stage]
    words = stage.command.split()
    differing = []
    for place, word in enumerate(words):
        differs = any(word not in other for other in others)
        names_value = (
            word.startswith("-") and place + 1 < len(words) and any(words[place + 1] not in other for other in others)
        )
        if differs or names_value:
            differing.append(word)
    return clean(" ".join(differing))[:_LONGEST_ARGUMENTS]


def join_nodes(flights: Iterable[Flight]) -> list[Stage]:
    """The stages of a job on several machines: the same program, started for the same time, is one stage."""
    joined: dict[tuple[str, int], Stage] = {}
    ranks: dict[tuple[str, int], set[int | None]] = {}
    for flight in flights:
        seen: dict[str, int] = {}
        for stage in flight.stages:
            seen[stage.program] = number = seen.get(stage.program, 0) + 1
            own = {flight.processes[pid].rank for pid in stage.mains} if stage.ranks else set()
            ranks.setdefault((stage.program, number), set()).update(own)
            other = joined.setdefault((stage.program, number), stage)
            if other is not stage:
                _merge(other, stage)
    for key, stage in joined.items():
        stage.ranks = len(ranks[key])
    return sorted(joined.values(), key=lambda stage: stage.began)


class _Tree:
    """Who started whom."""

    def __init__(self, flight: Flight) -> None:
        self.flight = flight
        self._children: dict[int, list[Process]] = {}
        for process in sorted(flight.processes.values(), key=lambda one: (one.born, one.pid)):
            parent = process.parent if process.parent in flight.processes and process.parent != process.pid else None
            self._children.setdefault(parent if parent is not None else 0, []).append(process)
        self.roots = [one for one in self._children.get(0, ()) if one.pid != 0]

    def stages_below(self, process: Process, wrappers: tuple[Process, ...], depth: int = 0) -> Iterator[Stage]:
        """The stages of a process and of all that it started; ``wrappers`` are around it and around nothing else."""
        started = [one for one in self._children.get(process.pid, ()) if _is_program(one, process)]
        through = process.role == "shell" or self._starts_the_work(process, started)
        if not through or depth > len(self.flight.processes):
            yield from self._stage(process, wrappers)
            return
        is_wrapper = process.role != "shell" and len(started) == 1
        inner = (*wrappers, process) if is_wrapper else ()
        for child in started:
            yield from self.stages_below(child, inner, depth + 1)

    def _starts_the_work(self, process: Process, started: list[Process]) -> bool:
        """Whether a program only starts others: by its role, by its command line, or since they train and it does not."""
        if process.trained or process.role in {"launcher", "rank"} or not started:
            return process.role == "launcher" and not process.trained and bool(started) and self._wraps_launcher(started)
        if process.role == "wrapper" or any(_wraps(process, child) for child in started):
            return True
        return any(self._works(child) for child in started)

    def _wraps_launcher(self, started: list[Process]) -> bool:
        """Whether what was taken for a launcher, as the first process of a job is, started the launcher, or a plain program."""
        return len(started) == 1 and started[0].role in {"launcher", "shell", "program", "wrapper"}

    def _works(self, process: Process) -> bool:
        return any(one.trained or one.role == "launcher" for one in self._all_below(process))

    def _all_below(self, process: Process) -> list[Process]:
        found, queue = {process.pid: process}, [process]
        while queue:
            for child in self._children.get(queue.pop().pid, ()):
                if child.pid not in found:
                    found[child.pid] = child
                    queue.append(child)
        return [*found.values()]

    def _stage(self, head: Process, wrappers: tuple[Process, ...]) -> Iterator[Stage]:
        members = self._all_below(head)
        ranks = [member for member in members if _is_rank(member, head, self.flight)]
        if any(rank.trained for rank in ranks):  # beside those that train, a program of another name is a helper
            names = {self._program(rank) for rank in ranks if rank.trained}
            ranks = [rank for rank in ranks if rank.trained or self._program(rank) in names]
        _number(ranks)
        mains = sorted(ranks, key=lambda one: (one.rank or 0, one.born)) or [head]
        if not ranks and not wrappers and not self._worth_telling(head):
            return
        ends = [one.ended for one in (head, *mains)]
        yield Stage(
            program=self._program(mains[0]),
            command=self._command(mains[0]),
            head=head.pid,
            pids={one.pid for one in (*members, *wrappers)},
            mains=[main.pid for main in mains],
            wrappers=[wrapper.pid for wrapper in wrappers],
            began=min(one.born for one in (head, *mains)),
            ended=None if None in ends else max(end for end in ends if end is not None),
            ranks=len({rank.rank for rank in ranks}),
            trained=any(rank.trained for rank in ranks),
        )

    def _command(self, process: Process) -> str:
        """The command line of a process; for one that `multiprocessing` started, that of the program which did."""
        for _ in range(len(self.flight.processes)):
            parent = self.flight.processes.get(process.parent or 0)
            if _SERVANT not in process.command or parent is None:
                break
            process = parent
        return process.command

    def _program(self, process: Process) -> str:
        return program_of(self._command(process))

    def _worth_telling(self, head: Process) -> bool:
        if head.role in _NO_STAGE:
            return False
        name = head.command.split(" ", 1)[0].rpartition("/")[2]
        if head.reached or name.startswith(_PYTHONS) or head.role == "launcher" or head.pid == self.flight.facts.get("job"):
            return True
        last = (
            head.ended if head.ended is not None else max([time for time, _ in self.flight.samples[-1:]], default=head.born)
        )
        return name not in _PLUMBING and last - head.born > _LONG


def _number(ranks: list[Process]) -> None:
    """Number those that train side by side and say no rank (``torch.multiprocessing.spawn`` without a group) by their start."""
    if len(ranks) > 1 and not any(rank.rank or rank.page.get("rank", -1.0) >= 0 for rank in ranks):
        # By their numbers: those that one program starts within a tick of the clock say in any order that they began.
        for number, process in enumerate(sorted(ranks, key=lambda process: process.pid)):
            process.rank = number


def _is_program(process: Process, parent: Process) -> bool:
    """Whether a process runs a program of its own: no fork of its parent, and nothing that a library starts for itself.

    A shell that forks itself (a function in the background, a part of a pipe) starts programs all the same.
    """
    if process.role == "shell":
        return True
    copied = process.copy or (process.command == parent.command and not process.trained and process.role != "rank")
    return not copied and process.role not in _NO_STAGE and _SERVANT not in process.command


def _wraps(process: Process, child: Process) -> bool:
    """Whether a command line ends with that of the program that it started."""
    rest = child.command.partition(" ")[2]
    return bool(rest) and process.command.endswith(f" {rest}") and len(process.command) > len(child.command)


def _is_rank(process: Process, head: Process, flight: Flight) -> bool:
    if process.trained and process.role != "tracker":  # its own page says that it is no loader worker
        above = flight.processes.get(process.parent or 0)
        return above is None or not (above.trained and above.pid != head.pid) or process.role == "rank"
    if process.role != "rank":
        return False
    launched = head.role == "launcher" and head.pid != process.pid
    return launched or process.page.get("world_size", 0.0) > 1


def _name_members(flight: Flight, stage: Stage) -> None:
    """Roles as they turned out: before a first step nobody knows which program will train."""
    mains = set(stage.mains)
    ranked = stage.ranks > 0
    for pid in stage.pids:
        process = flight.processes[pid]
        if pid in mains:
            process.role = "rank" if ranked else "program"
            process.rank = process.rank if process.rank is not None else 0
        elif pid in stage.wrappers:
            process.role, process.rank = "wrapper", None
        elif process.role in {"rank", "program"}:
            process.role = "other"


def _role(stage: Stage, stages: list[Stage]) -> str:
    """What a program was for: what it did goes before what it is called, and that before its place in the script."""
    name = stage.program
    if stage.trained or (stage.ranks and not any(one.search(name) for one in (_EVALUATION, _PREPARATION, _SERVICE))):
        return "training"
    if _SERVICE.search(name):
        return "service"
    for role, pattern in (("training", _TRAINING), ("evaluation", _EVALUATION), ("preparation", _PREPARATION)):
        if pattern.search(name):
            return role
    trained = [other for other in stages if other.trained]
    if any(_spans(stage, other) for other in trained):
        return "service"
    if trained and stage.ended is not None and stage.ended <= trained[0].began + _TOGETHER:
        return "preparation"
    return "other"


def _spans(stage: Stage, other: Stage) -> bool:
    """Whether one ran in the background of another: it was there before and is still there well after the other began."""
    return stage.began <= other.began and (stage.ended is None or stage.ended > other.began + _TOGETHER)


class _Gone:
    """How a process ended, as the kernel told it."""

    __slots__ = ("code", "known", "signal")

    def __init__(self, code: int | None, signal: str | None, *, known: bool) -> None:
        self.code, self.signal, self.known = code, signal, known


def _gone(flight: Flight, process: Process) -> _Gone:
    for event in flight.of_kind("gone"):
        if event.details.get("pid") == process.pid:
            code, signal = event.details.get("code"), event.details.get("signal")
            return _Gone(code, signal, known=code is not None or signal is not None)
    return _Gone(None, None, known=False)


def _raised(flight: Flight, mains: Iterable[Process]) -> bool:
    pids = {main.pid for main in mains}
    return any(event.pid in pids and event.details.get("thread") == "MainThread" for event in flight.of_kind("exception"))


def _failed(flight: Flight, stage: Stage) -> bool:
    """Whether the program ended badly. What a launcher started again and ended with 0 did not, unless all of its ranks failed."""
    last = _last_attempt(flight, stage)
    gone = [_gone(flight, one) for one in last]
    bad = [one.known and (one.code, one.signal) != (0, None) for one in gone]
    raised = [_raised(flight, [one]) for one in last]
    all_bad = all(one or two for one, two in zip(bad, raised, strict=True))
    head = flight.processes[stage.head]
    by_head = _gone(flight, head)
    if by_head.known and head.pid not in stage.mains and head.role != "wrapper":
        return (by_head.code, by_head.signal) != (0, None) or all_bad
    if any(one.known for one in gone) or any(raised):
        return any(bad) or any(two and not one.known for one, two in zip(gone, raised, strict=True))
    return False


def _failed_at(flight: Flight, stage: Stage) -> float:
    """When the first of its last ranks raised or ended badly: of trainings side by side, a script often ends the others then."""
    pids = {process.pid for process in _last_attempt(flight, stage)}
    times = [
        event.time
        for event in flight.events
        if (event.kind == "exception" and event.pid in pids and event.details.get("thread") == "MainThread")
        or (
            event.kind == "gone"
            and event.details.get("pid") in pids
            and (event.details.get("code") or event.details.get("signal"))
        )
    ]
    return min(times, default=stage.ended if stage.ended is not None else float("inf"))


def _last_attempt(flight: Flight, stage: Stage) -> list[Process]:
    newest: dict[int | None, Process] = {}
    for process in sorted((flight.processes[pid] for pid in stage.mains), key=lambda one: one.born):
        newest[process.rank] = process
    return [*newest.values()]


def _same_work(stage: Stage, other: Stage) -> bool:
    return stage.command == other.command


def made_up(stage: Stage, stages: list[Stage]) -> bool:
    """Whether the same command, or one that goes on from its checkpoint, came to its end later."""
    later = [one for one in stages if one.began > stage.began and one.program == stage.program and not one.failed]
    return any(_same_work(one, stage) or _resumes(one.command, stage.command) for one in later if one.ended is not None)


def _resumes(command: str, earlier: str) -> bool:
    added = set(command.split()) - set(earlier.split())
    return any(_RESUME.search(word) for word in added)
