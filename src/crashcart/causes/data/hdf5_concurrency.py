"""An HDF5 or LMDB handle is shared by several processes, or its lock is refused.

What happens: reading works in one process and fails with loader workers or several ranks: refused locks, nonsense headers in
a file that is whole, crashes of workers, wrong numbers without an error.

Why: a handle opened before the fork is shared with its file position and caches; HDF5 is not made for that. HDF5 1.10 and
later locks a file on opening, also for reading, which network file systems refuse and a writer blocks. Spawned workers
cannot pickle a handle. LMDB allows one environment of a path in a process and no use across a fork.

How it shows: ``unable to lock file, errno = 11``, ``h5py objects cannot be pickled``, ``can't pickle Environment objects``,
``MDB_BAD_RSLOT``, ``wrong B-tree signature`` or ``bad object header version number`` only with ``num_workers > 0``.

What to do: open the file lazily in each worker (in ``__getitem__`` or ``worker_init_fn``), read-only;
``HDF5_USE_FILE_LOCKING=FALSE`` only where nobody writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong
from crashcart.causes._joined import edits_of
from crashcart.causes._loaders import loaders
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.causes._loaders import Loader
    from crashcart.model import Fact

title = "Several processes share one HDF5 or LMDB file handle, or its lock was refused"
piece = "per_worker"
NONSENSE = (
    "bad object header version number", "wrong b-tree signature", "address of object past end of allocation",
    "bad symbol table node", "bad local heap signature", "addr overflow", "unable to determine object type",
    "incorrect metadata checksum", "bad heap free list", "unable to get group info", "can't read data (",
    "can't open directory or file", "object header message is of unknown", "unable to synchronously open object",
    "unable to open object",
)  # fmt: skip
BROKEN = r"inflate\(\) failed|fletcher32|truncated|errno = 2\b|errno = 24|errno = 28|doesn't exist|not found"

phrases = (
    decisive(
        "unable to lock file", "h5py objects cannot be pickled", "pickle environment objects",
        "cannot pickle 'environment'", "mdb_bad_rslot", "mdb_readers_full", "is already open in this process",
        "cannot pickle '_hl.", "badrsloterror", "readersfullerror", "lmdb.lockerror", "mdb_map_resized",
        "unable to fcntl lock", "no locks available",
        says="an HDF5 or LMDB handle is shared, or its lock was refused",
        pattern=r"lock file|h5py|Environment|MDB_|already open in this process|_hl|RslotError|ReadersFull|LockError|fcntl|"
                r"hdf5|\.h5",
    ),
    strong("mdb_txn_begin", says="LMDB refuses a transaction, usually because an environment is used across a fork",
           unless=r"MDB_CORRUPTED|MDB_INVALID"),
    strong(*NONSENSE, says="HDF5 reads invalid data, usually because workers share a handle", unless=BROKEN,
           pattern=r"bad object|B-tree|past end|symbol table|heap|metadata checksum|group info|Can't read data|unknown|"
                   r"addr overflow|object type"),
)  # fmt: skip
stacks = (Stack(r"/h5py/|/lmdb/", "the traceback ends in HDF5 or LMDB"),)


def in_log(case: Case) -> Iterator[Sign]:
    """HDF5 that fails in a loader worker; a worker that crashed where HDF5 or LMDB is in use."""
    for raised in case.log.uncaught(cut=True):
        where = raised.stack()
        inside = "h5py" in raised.stack(4) or "lmdb" in raised.stack(4)
        worker = raised.worker or compiled(r"_worker_loop|_utils/worker").search(where)
        if inside and worker and raised.kind in {"", "OSError", "KeyError", "RuntimeError", "ValueError"}:
            whole = compiled(BROKEN + r"|unable to open file|No such file").search(raised.message) is None
            if whole:
                yield Sign(
                    "strong", "HDF5 or LMDB failed in a loader worker", (evidence(raised.line),), order=raised.line.order
                )
    names = bool(case.log.index.saying(("h5py", "lmdb", "hdf5")))
    for death in case.log.deaths:
        if death.signal == "SIGSEGV" and "dataloader worker" in death.line.lowered:
            says = "a loader worker crashed" + (
                ", and HDF5 or LMDB is in use" if names else ", as with a handle shared across a fork"
            )
            yield Sign("strong" if names else "weak", says, (evidence(death.line),), order=death.line.order)


def in_code(case: Case) -> Iterator[Sign]:
    """A handle that was opened before the workers of a loader start, and that they read through."""
    for fact in case.all("code.handle"):
        loader = next((each for each in loaders(case) if each.fact.evidence == fact.value["loader"]), None)
        if fact.value["used_by_workers"] and loader is not None and loader.workers != 0:
            yield from _shared(fact, loader)


def _shared(fact: Fact, loader: Loader) -> Iterator[Sign]:
    kept, name = fact.value, f"{fact.value['class']}.{fact.value['attribute']}"
    number = f"the {loader.workers} workers" if loader.workers else "workers (if there are any)"
    places = (fact.evidence, *loader.evidence)
    if loader.started_by in {"spawn", "forkserver"}:
        if not kept["has_state"]:
            says = f"{name} is an open {kept['library']} file, which cannot be pickled, but {number} are started by {loader.started_by}"
            yield Sign("decisive" if loader.workers and loader.fact.value["sure"] else "strong", says, places)
        return
    if not loader.fact.value["worker_init"]:
        says = (
            f"{name} is opened before {number} are forked, so all of them share one {kept['library']} handle: two reads at the "
            "same time give wrong numbers or crash (and from Python 3.14 on it cannot be sent to them at all)"
        )
        yield Sign("strong", says, places)


def fix(case: Case) -> Iterator[Fix]:
    """In the code where it can be written, else in words."""
    edits = edits_of(case.all("code.handle"))
    if edits:
        why = "a property opens the file once per process; the samples are the same"
        yield Fix("Open the file on first use in each process", "exact", why, edits=edits)
    yield from by_hand


by_hand = (
    Fix(
        "Open the file in each worker, on first use, read-only",
        "exact",
        "store only the path in __init__; `if self.file is None: self.file = h5py.File(self.path, 'r')` in __getitem__; for "
        "LMDB "
        "lock=False, readahead=False; the samples stay the same",
    ),
    Fix(
        "Turn off HDF5 file locks if nobody writes the file",
        "by-hand",
        "HDF5's lock fails on some network file systems; never do this while another process writes the file",
        environment={"HDF5_USE_FILE_LOCKING": "FALSE"},
    ),
)
experiment = Experiment(
    title="Read the dataset once with num_workers=0 and once with workers, without a model",
    start_from="the beginning",
    stop_after="one epoch of reading each",
    confirms="one process reads everything and workers fail; with the file opened in each worker they pass",
    refutes="one process fails at the same place: then the file is damaged (data/corrupt-or-missing)",
)
