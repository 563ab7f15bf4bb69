"""The process ran out of file descriptors.

What happens: a call that needs one more descriptor fails: opening a file, a pipe for a new worker, a lock, or the
tensor that a loader worker hands over.

Why: with torch's default way of sharing (``file_descriptor``) every tensor that a worker sends takes a descriptor until
it is freed; data sets that return many small tensors or keep references hold thousands. Open HDF5, LMDB or image files
in every worker, workers created anew each epoch, and sockets of many ranks come on top. ``ulimit -n`` is often 1024.

How it shows: ``[Errno 24] Too many open files``, ``received 0 items of ancdata``, ``unable to open shared memory object
</torch_...> in read-write mode``. A recording counts the open files of every process against the limit.

What to do: raise the limit (``ulimit -n 65536`` before the launch), close files, return one tensor per sample instead
of many, or ``torch.multiprocessing.set_sharing_strategy("file_system")`` (then mind ``/dev/shm``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes._joined import edits_of
from crashcart.causes._loaders import loaders
from crashcart.deaths import first, order
from crashcart.flight import clock
from crashcart.log import evidence
from crashcart.model import Edit, Evidence, Experiment, Fix, Sign
from crashcart.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Raised
    from crashcart.model import Fact

title = "Too many open files: the process ran out of file descriptors"
_WATCHES = r"inotify|watchdog\.observers"
phrases = (
    decisive("too many open files", "errno 24]", "errno = 24", "打开的文件过多", "打开文件过多", "开启太多文件",
             "zu viele offene dateien",
             "trop de fichiers ouverts", "demasiados archivos abiertos", "слишком много открытых файлов",
             "troppi file aperti",
             "muitos arquivos abertos", "開いているファイルが多すぎ", says="the process reached its limit of open files",
             unless=_WATCHES),
    decisive("items of ancdata", says="a tensor from a worker arrived without its file descriptor",
             pattern=r"received (?:\d+|%d|\{\w*\}) items of ancdata"),
    strong("unable to open shared memory object", says="a shared tensor could not be opened, usually because no file descriptors are left",
           unless=r"no such file|file exists|permission|no space"),
    weak("in recvfds", "rebuild_storage_fd", "in recv_handle", says="a file descriptor was being received", fatal=False),
    weak("pin memory thread exited", says="the pin-memory thread died, as it does when no file descriptors are left"),
)  # fmt: skip
_RECORDED = Pattern(r"Too many open files|Errno 24\b|items of ancdata|unable to open shared memory object")
_NEARLY, _FAR = 0.8, 0.5
USUAL = 1024
_LIMIT = r"too many open files|errno 24\b|items of ancdata"


def in_log(case: Case) -> Iterator[Sign]:
    """The limit reached in a helper thread (pinning, queue feeder, a pool's results), after which no more is heard."""
    for raised in case.log.raised:
        cut = raised.stack_only and raised.functions[-1:] == ("recvfds",)
        limit = compiled(_LIMIT).search(f"{raised.line.text} {raised.message[:200]}")
        if cut or (raised.survivable and limit):
            later = (one for one in case.log.raised if one.line.order > raised.line.order)
            after = any(one.kind and not one.survivable for one in later)
            if after or case.log.deaths or cut or _last(case, raised):
                says = "a process ran out of file descriptors while receiving a tensor"
                yield Sign("strong", says, (evidence(raised.line),), order=raised.line.order)
                return


def in_recorder(case: Case) -> Iterator[Sign]:
    """How many files the process that died held, against its limit."""
    leader = first(case)
    if leader is None or case.flight is None:
        return
    limit = (case.flight.facts.get("machine") or {}).get("open_files")
    counts = [count for _, count in case.flight.series("process", "files", leader.process.pid)]
    told = leader.says(_RECORDED)
    if not told or not counts or not isinstance(limit, int) or limit <= 0:
        if told:
            yield Sign(
                "decisive",
                f"{leader.process.name} could not open another file descriptor",
                (leader.evidence,),
                order=order(case),
            )
        return
    says = f"{leader.process.name} had {max(counts):.0f} open files; the limit is {limit}"
    at = clock(leader.time)
    seen = (leader.evidence, Evidence("recorder", says, f"recorder {at}", rank=leader.process.rank, time=at))
    yield Sign("decisive", says, seen, order=order(case))


def _last(case: Case, raised: Raised) -> bool:
    """Whether no step follows: the thread's death was the end."""
    steps = any(metric.line.order > raised.line.order for metric in case.log.metrics)
    return case.log.finished is None and not steps


def in_data(case: Case) -> Iterator[Sign]:
    """Before the start: a data set that opens all of its files at once, against how many may be open."""
    room = next(iter(case.all("host.open_files")), None)
    held = [fact for fact in case.all("data.held") if fact.value["kinds"].get("hdf5", 0) > 1]
    for fact in case.all("code.handle"):
        if fact.value["many"] and room is not None and len(held) == 1:
            count = held[0].value["kinds"]["hdf5"]
            says = f"the dataset {fact.value['class']} opens all of its files at once; {held[0].value['path']} has {count:,}, and a process may have {room.value:,} open"
            if count > room.value:
                yield Sign("decisive", says, (fact.evidence, held[0].evidence, room.evidence))
            elif count > _NEARLY * room.value:
                yield Sign("strong", f"{says}: too many together with libraries and workers", (fact.evidence, room.evidence))

    yield from _gathered(case, room, held)


def _gathered(case: Case, room: Fact | None, held: list[Fact]) -> Iterator[Sign]:
    """Files that stay open once they were read: in the end every process that lives on holds all of them."""
    if len(held) != 1:
        return
    count = held[0].value["kinds"]["hdf5"]
    own = [loader for loader in loaders(case) if loader.workers is not None]
    lasting = any(not one.workers or one.persistent for one in own)
    for fact in case.all("code.handles_gathered"):
        says = f"{fact.value['who']} keeps every file it has read open; {held[0].value['path']} has {count:,}"
        if room is None:
            if count > USUAL:
                says += f", and a process may have {USUAL:,} open by default"
                yield Sign("strong", f"{says}: too many unless the limit is raised there", (fact.evidence, held[0].evidence))
            continue
        says += f", and a process may have {room.value:,} open"
        items = (fact.evidence, held[0].evidence, room.evidence)
        if count > room.value:
            sure = lasting and all(one.fact.value["sure"] for one in own)
            yield Sign("decisive" if sure else "strong", says + ("" if sure else ", if a process reads all of them"), items)
        elif count > _NEARLY * room.value:
            yield Sign("strong", f"{says}: too many together with libraries and what workers send", items)


def fix(case: Case) -> Iterator[Fix]:
    """The oldest closed where files gather; then the limit."""
    edits = edits_of(case.all("code.handles_gathered"))
    if edits:
        why = "the samples are the same; a file is reopened when it is needed again"
        yield Fix("Keep only a few files open, and close the oldest", "exact", why, edits=edits)
    limit = case.facts.get("limit.open_files")
    if limit is not None and limit.span is not None and not case.before:
        why = f"{limit.evidence.quote} is below what the job keeps open"
        raised = (Edit(limit.span, '"$(ulimit -Hn)"'),)
        yield Fix("Raise the limit of open files to the machine's maximum", "exact", why, edits=raised)
    yield from by_hand


by_hand = (
    Fix(
        "Raise the limit of open files",
        "exact",
        "run `ulimit -n 65536` in the launch script before the command, or raise it for the container",
    ),
    Fix(
        "Share tensors by file name instead of by descriptor",
        "exact",
        'call torch.multiprocessing.set_sharing_strategy("file_system") at the start of the program: it needs no descriptor '
        "per tensor, but files "
        "stay in /dev/shm when a process is killed",
    ),
)
experiment = Experiment(
    title="Count the files in /proc/PID/fd of the main process and one worker every minute, once with the old and once with the raised limit",
    start_from="the beginning",
    stop_after="past the batch where it failed",
    confirms="the count reaches `ulimit -n` when it fails, and the run with the raised limit passes that point",
    refutes="the count is far below the limit when it fails; if it grows without end under any limit, descriptors leak",
)
