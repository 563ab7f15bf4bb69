"""The kernel, a control group or the scheduler killed the run because host memory ran out.

What happens: a process gets SIGKILL. It cannot catch it, so there is no traceback: the shell says ``Killed``, the
launcher ``exitcode: -9`` or ``return code = -9``, a container ``137``.

Why: loader workers times prefetch times batch, an index or data set copied into each worker, pinned buffers, offloaded
optimizer state, every rank holding the whole data set. What counts is the limit of the job (``--mem``, the container's
limit), not the memory of the node: a node with free memory kills too. Batches on their way lie in shared memory, which
no process shows as its own.

How it shows: Slurm's ``oom-kill event``, Kubernetes' ``OOMKilled``, Ray's memory monitor, or the kernel log name it. A
bare SIGKILL mostly means this, but a person, a time limit or a launcher that clears up sends the same signal: ``dmesg
-T | grep -i oom`` or the control group's ``memory.events`` settles it. A recording has those counters before and after:
when they did not move and memory was not short, somebody else sent the signal.

What to do: fewer workers and less prefetch, no pinned memory, read lazily or memory-mapped, ask for more memory. A
smaller batch with more accumulation keeps the training nearly the same; it does nothing when memory leaks per sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes.host_memory._before import counted, loaded, prefetched, smaller
from crashcart.causes.host_memory._foreseen import limit
from crashcart.causes.host_memory._kills import ECHOES, kills, not_for_memory, over, refused
from crashcart.causes.host_memory._recorded import (
    REFUSED,
    gib,
    guard_of,
    host_kills,
    killed_by_guard,
    leaked,
    no_kill,
    note_of_kill,
    own_kills,
    short,
)
from crashcart.deaths import before, finished, first, hung, order
from crashcart.log import evidence
from crashcart.model import Edit, Experiment, Fix, Sign
from crashcart.numbers import to_float

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.deaths import Death
    from crashcart.log import Line
    from crashcart.model import Evidence, Fact

title = "Host memory (RAM) ran out: the process was killed, or an allocation failed"
alike = ("host-memory/leak", "outside/user")
MANY_WORKERS = 32

phrases = (
    decisive(
        "ray-oom-prevention", "address the out of memory issue", "oom-kill event", "oom_kill event", "oom killed", "out-of-memory handler", "exceeded step memory limit",
        "exceeded job memory limit", "exceeded memory limit", "exceeded virtual memory limit", "term_memlimit",
        "exceeded h_vmem", "gone over memory limit", "over memory limit", "memory usage exceeded request_memory",
        says="the scheduler reports that the job exceeded its memory limit",
        unless=r"\b0 oom|cuda|gpu",
    ),
    decisive("out of memory", "out_of_me", says="the scheduler's job state is OUT_OF_MEMORY",
             pattern=r"tasks? [\d,\-]+: Out Of Memory|\bOUT_OF_ME(?:\+|MORY)\s+\d+:\d+|\bState\W+OUT_OF_MEMORY"),
    decisive("job killed: ", says="PBS killed the job because of its memory use", pattern=r"job killed: p?v?mem\b.{0,60}exceeded"),
    decisive("oomkilled", "exceeded the request memory", "low on resource: memory", "memory limit of the container",
             says="the container was killed because it exceeded its memory limit", unless=r"oomkilled\W{0,4}(?:false|0\b|no\b)"),
    decisive("systemd-oomd", "earlyoom", "nohang[", "oomd[", says="a system memory watchdog killed a process", any_level=True,
             pattern=r"systemd-oomd\W.{0,20}kill|oomd: Killed|(?:earlyoom|nohang)\[?.{0,20}(?:sending SIG|kill)"),
    decisive("using all available ram", "more memory than is available. it has restarted", "kernel died: out of memory",
             says="the notebook's machine ran out of host memory"),
    decisive("killed due to memory pressure", "node running low on memory", "the memory usage threshold",
             "rayoutofmemoryerror", "of the memory on node", says="Ray's memory monitor killed a worker", any_level=True,
             pattern=r"(?<!\d)[1-9]\d{0,20} workers? .{0,40}killed due to memory pressure|running low on memory|exceeds the "
                     r"memory usage "
                     r"threshold|More than \d{1,20}% of the memory|RayOutOfMemoryError"),
    decisive("exceeds threshold", says="Ray's memory monitor killed a task",
             pattern=r"memory.{0,90}exceeds threshold.{0,40}kill",
             any_level=True),
    weak("killed process", "kill process", "invoked oom-killer", "oom-kill:constraint", "due to memory pressure",
         "oom_reaper: reaped", says="the kernel killed a process because memory ran out", fatal=False,
         pattern=r"out of memory|oom|anon-rss|memory pressure"),
    weak("can't allocate memory", "cannot allocate memory", "not enough memory: you tried", "std::bad_alloc", "memoryerror",
         "unable to allocate", "paging file is too small", "os error 1455", "buy new ram",
         says="a host memory allocation failed", unless=r"cuda|device|thrust"),
    weak("sigkill", "with code -9", "status 137", "exit code 137", "exit code: 9", "by signal: 9", "signal 9",
         says="a process was killed by SIGKILL", pattern=r"\bSIGKILL\b|-9\b|\b137\b|\b9\b", fatal=False),
    weak("kernel died", "worker died or was killed", says="a helper process vanished; memory is a common reason"),
    strong("excessive memory usage causing the operating system", "perhaps out of memory?", "kernel appears to have died",
           "kernel crashed while executing code", says="a process vanished; memory is the usual reason"),
    weak("exited unexpectedly", says="a loader worker vanished; the OOM killer is one possible reason", pattern="DataLoader worker"),
)  # fmt: skip
_FORKS = frozenset({"start", "_Popen", "_launch"})
_VICTIM = r"Kill(?:ed)? process (\d{1,20}),? (?:UID \d{1,20}, )?\(([^)]{0,200})\)|task=([^,]{1,200}),pid=(\d{1,20})"
_OURS = r"python|^pt_|torch|train|accelerate|deepspeed|^ray|finetune|wandb|jupyter|ipykernel"


def in_log(case: Case) -> Iterator[Sign]:
    """A kill that nothing explains, a refused allocation, or a kernel's report pasted into the log."""
    for end in kills(case):
        yield Sign("strong", f"{end.says}; the kernel log would show it", (evidence(end.line),), order=end.line.order)
    for end in refused(case):
        yield Sign("strong", end.says, (evidence(end.line),), order=end.line.order)
    for raised in case.log.raised:
        if (
            raised.stack_only
            and raised.frames
            and "multiprocessing" in raised.frames[-1].file
            and _FORKS & set(raised.functions[-3:])
        ):
            says = "the stack ends in a fork, which fails when memory runs out"
            yield Sign("weak", says, (evidence(raised.line),), order=raised.line.order)
    for line in case.log.index.saying(("kill process", "killed process", "oom-kill:")):
        if _is_ours(line, case) and not over(case, line):
            yield Sign("decisive", "the log contains the kernel's report of the kill", (evidence(line),), order=line.order)
            return


def _is_ours(line: Line, case: Case) -> bool:
    """Whether the victim is the run: its pid stands in the log too, or it is a Python program and something died."""
    match = compiled(_VICTIM).search(line.text)
    if match is None or not compiled(r"out of memory|oom-kill|anon-rss").search(line.text):
        return False
    pid, name = match[1] or match[4], match[2] or match[3] or ""
    mentioned = rf"\bpid\W{{0,5}}{pid}\b|\b{pid}\W{{0,3}}Killed"
    if any(other is not line and _reports(other) and compiled(mentioned).search(other.text) for other in case.log.lines):
        return True
    return bool(compiled(_OURS).search(name)) and (bool(case.log.deaths) or _mostly_kernel(case))


def _reports(line: Line) -> bool:
    return "pid" in line.lowered or "killed" in line.lowered


def _mostly_kernel(case: Case) -> bool:
    """A log that ends with the kernel's words was pasted to show them."""
    errors = any(one.kind and not one.survivable and one.kind not in ECHOES for one in case.log.raised)
    return not errors and any("kill" in line.lowered for line in case.log.lines[-6:])


def in_machine(case: Case) -> Iterator[Sign]:
    """The kernel's own report of the kill, or an exit status of SIGKILL."""
    leader = first(case) if case.kernel else None
    denied = leader is not None and leader.says(REFUSED)  # which a kill of somebody else does not speak against
    is_leak = leader is not None and leaked(case, leader) is not None  # then the leak is the answer
    otherwise = _ended_otherwise(case, leader)
    kills = [event for event in case.kernel if event.kind == "oom-kill"]
    possible = [event for event in kills if event.ours or (event.ours is None and not otherwise)]
    for event in possible:
        victim = event.details.get("process", "a process")
        sure = event.ours is True and not is_leak
        why = f" ({event.why_ours})" if event.why_ours else ""
        yield Sign(
            "decisive" if sure else "strong", f"the kernel killed {victim} because memory ran out{why}", (event.evidence,)
        )
    if kills and not possible and not denied:  # one of them says enough
        why = kills[-1].why_ours if kills[-1].ours is False else otherwise
        says = f"the process killed by the kernel was not part of this run ({why or 'time or process differ'})"
        yield Sign("against", says, (kills[-1].evidence,))
    if (
        case.exit is not None
        and case.exit.signal == "SIGKILL"
        and not (_errors(case) or case.log.collectives or not_for_memory(case))
    ):
        yield Sign(
            "strong", "the command was killed by SIGKILL; the kernel log would show who sent it", (case.exit.evidence,)
        )


def _ended_otherwise(case: Case, leader: Death | None) -> str:
    """How a run ended, where that was not by a kill and is known, from a recording or a log; else nothing."""
    if case.flight is None:
        ended = [one for one in case.log.uncaught() if one.kind and one.top and one.kind not in ECHOES]
        by_kill = any(death.signal == "SIGKILL" for death in case.log.deaths)
        return f"it raised {ended[0].kind}" if ended and not by_kill and not case.log.memory else ""
    if finished(case) or hung(case):
        return "it hung" if hung(case) else "it finished"
    if leader is None or leader.signal == "SIGKILL" or not (leader.raised or leader.signal or leader.code):
        return ""
    return leader.how


def _errors(case: Case) -> bool:
    return any(one.kind and not one.survivable and one.kind not in ECHOES for one in case.log.raised)


def in_config(case: Case) -> Iterator[Sign]:
    """Many loader processes, as a hypothesis where there is no log; loaders are not counted by flags, so it is at least that."""
    if case.before and case.all("code.loader"):
        yield from counted(case)
        return
    workers, ranks = case.number("loader.workers"), case.number("launch.processes") or 1
    if case.log.lines or not workers or workers * ranks < MANY_WORKERS:
        return
    says = f"{workers:g} workers for each of {ranks:g} ranks: at least {workers * ranks:g} loader processes, and as many again for each further loader"
    facts = [case.facts[name].evidence for name in ("loader.workers", "launch.processes") if name in case.facts]
    yield Sign("weak", says, tuple(facts))


def in_data(case: Case) -> Iterator[Sign]:
    """Before the start: what loaders make ahead, and data that is read as a whole, against what the job may use."""
    yield from prefetched(case, limit(case), "what the job may use", shared=False)
    yield from loaded(case)


def in_recorder(case: Case) -> Iterator[Sign]:
    """A SIGKILL beside the kernel's counters of kills, which tell whether it came from them; or memory that was refused."""
    leader = first(case)
    if leader is None:
        for death in before(case):
            yield from _killed(case, death, fatal=False)
        return
    yield from _killed(case, leader, fatal=True)
    if leader.says(REFUSED):
        # A request that no machine could fill is a mistake in the program; one that this machine has room for is not.
        sure = _reasonable(case, leader) and leaked(case, leader) is None  # where a leak led to it, the leak is the answer
        room = _allowed(case)
        why = f"; the launch script allows each process {gib(room.value)} ({room.spelling})" if room is not None else ""
        places = (leader.evidence, *((room.evidence,) if room is not None else ()))
        says = f"a host memory allocation of {leader.process.name} failed{why}"
        yield Sign("decisive" if sure else "strong", says, places, order=order(case))
    counted = no_kill(case, leader)
    if counted is not None and not_for_memory(case):
        says = "memory was not short, and the kernel killed no process for it"
        yield Sign("against", says, (counted.evidence, leader.evidence), order=order(case))


def _allowed(case: Case) -> Fact | None:
    """What the launch script allows each process (``ulimit -v``)."""
    return case.facts.get("limit.address_space") or case.facts.get("limit.memory")


def _reasonable(case: Case, death: Death) -> bool:
    """Whether what was asked for is less than the machine has."""
    message = str(death.raised.details.get("message", "")) if death.raised is not None else ""
    asked = compiled(r"tried to allocate (\d+) bytes").search(message)
    total = case.flight.last("host", "memory_total") if case.flight is not None else None
    return asked is not None and total is not None and to_float(asked[1], total) < total


def _killed(case: Case, death: Death, *, fatal: bool) -> Iterator[Sign]:
    note = note_of_kill(case, death)
    if death.signal != "SIGKILL" and (note is None or death.raised is None):
        return
    if note is not None:
        if note.value["of_memory"]:
            who = "it" if death.signal else "its worker"
            says = f"{death.how}, and whoever killed {who} wrote that its memory use was the reason"
            yield Sign(
                "strong" if leaked(case, death) else "decisive",
                says,
                (death.evidence, note.evidence, *_started(case)),
                fatal,
                order(case),
            )
        return
    own, host, lacking = own_kills(case, death), host_kills(case, death), short(case, death.time)
    seen = (death.evidence, *((lacking,) if lacking else ()))
    at = order(case)
    if own is not None and own.moved:
        says = f"{death.how}, and the kernel counted an OOM kill in the job's cgroup"
        yield Sign("strong" if leaked(case, death) else "decisive", says, (*seen, own.evidence), fatal, at)
    elif own is None and host is not None and host.moved:
        says = f"{death.how}, and the kernel counted an OOM kill on the machine"
        yield Sign("decisive" if lacking else "strong", says, (*seen, host.evidence), fatal, at)
    elif (grew := killed_by_guard(case, death)) is not None:
        says = f"{death.how} after its memory had grown, and {guard_of(case)} of this job may limit that"
        yield Sign("strong", says, (*seen, grew, *_started(case)), fatal, at)
    elif lacking:
        says = f"{death.how} when memory was short; a watchdog (systemd-oomd, earlyoom, a scheduler) kills without the kernel counting it"
        yield Sign("strong", says, seen, fatal, at)


def _started(case: Case) -> list[Evidence]:
    """Where the launch script starts what may have killed for memory."""
    return [fact.evidence for fact in (*case.all("launch.service"), *case.all("launch.kills"))][:1]


SMALLER = Fix(
    "Use a smaller batch for evaluation and sampling",
    "same-recipe",
    "it failed in that phase; training is unchanged",
    settings={"eval.batch_size": "quarter", "sample.batch_size": "quarter"},
)
WORKERS = Fix(
    "Use half the loader workers and less prefetch",
    "same-recipe",
    "each worker holds its own copies and prefetched batches; training sees the same data in a different random order",
    settings={"loader.workers": "half", "loader.prefetch": 2},
)
PINNED = Fix("Turn off pinned memory", "exact", "pinned buffers cannot be swapped or shared", settings={"loader.pin": False})
ON_USE = Fix(
    "Read each file only when it is needed",
    "by-hand",
    "store the paths in __init__ and read in __getitem__; this is slower, because each item is read again every time, but the samples are the same",
)
EACH = Fix(
    "Reduce the memory of each process",
    "by-hand",
    "the limit applies to each process, so fewer workers do not help: memory-map arrays (`mmap_mode='r'`), convert single "
    "samples and not the whole table, keep no copy in each worker; or raise the limit",
)
MORE = Fix(
    "Ask for more host memory",
    "exact",
    "Slurm: --mem; Kubernetes: resources.limits.memory; what counts is the job's limit, not the node's memory",
)


def fix(case: Case) -> Iterator[Fix]:
    """By where it died, as far as that is known, and by whether the job has loader workers at all."""
    if case.before and any(True for _ in loaded(case)):
        yield ON_USE
    fitting = list(smaller(case, limit(case), shared=False)) if case.before else []
    yield from fitting
    if fitting or (case.before and not case.number("loader.workers")):
        yield MORE
        return
    leader = first(case) if case.flight is not None else None
    note = note_of_kill(case, leader) if leader is not None else None
    if note is not None and note.value["of_memory"]:
        yield EACH
    room = _allowed(case) if leader is not None and leader.says(REFUSED) else None
    if room is not None and room.span is not None:
        why = f"{room.evidence.quote} limits each process to {gib(room.value)}; do this if the machine has twice that"
        yield Fix(
            "Double the memory limit in the launch script", "exact", why, edits=(Edit(room.span, str(room.value // 512)),)
        )
    if _phase(case) in {"evaluate", "sample"}:
        yield SMALLER
    if case.flight is None or any("loader" in process.role for process in case.flight.processes.values()):
        yield WORKERS
        yield PINNED
    yield MORE


def _phase(case: Case) -> str | None:
    raised = next(case.flight.of_kind("exception"), None) if case.flight is not None else None
    if raised is not None:
        return str(raised.details.get("phase"))
    return next((one.phase for one in case.log.uncaught() if one.phase), None)


experiment = Experiment(
    title="Run the same command with half the workers, and once unchanged as a control; record memory.current of the cgroup",
    change={"loader.workers": "half"},
    start_from="the beginning",
    stop_after="twice the time it ran before it was killed",
    confirms="the control's memory reaches the limit and it is killed; the changed run levels off below it",
    refutes="memory stays far below the limit in both, or memory.events shows no oom_kill although it was killed",
)
