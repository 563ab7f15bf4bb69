"""The data loader stands still: a worker is locked up and the next batch never comes.

What happens: no more steps, GPU at 0 %, no error. The main process waits in ``_try_get_data``, the workers wait for a
lock.

Why: workers are forked, and a lock that a thread held at that moment stays locked in the child for ever: OpenCV's and
OpenMP's thread pools, tokenizers, HDF5, network and tracing libraries used before the fork; a worker that was killed
while it held the queue's lock; a full ``/dev/shm``.

How it shows: after Ctrl-C, or in a ``py-spy dump``, the main thread is in ``__next__``, ``_next_data``,
``_try_get_data``, ``queue.get`` or ``poll``, the pin thread in ``do_one_step``; ``DataLoader timed out after N seconds``
where a time-out is set.

What to do: ``num_workers=0`` shows whether it is the loader; then ``cv2.setNumThreads(0)``, ``OMP_NUM_THREADS=1``,
``TOKENIZERS_PARALLELISM=false``, open files inside the worker, or start workers with ``spawn`` or ``forkserver``. Set
``timeout=`` on the loader so that it raises instead of standing still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, weak
from crashcart.causes.hang._stacks import frame_in, in_tracker, moved_before, standing
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "The data loader stands still"
phrases = (
    decisive("dataloader timed out after", says="the loader's own time-out ran out"),
    weak("_try_get_data", "data_queue.get()", "worker_result_queue", "in do_one_step", "_pin_memory_loop",
         says="the loader's queues are on a stack", fatal=False),
    weak("parallelism has already been used", "might cause the dataloader", "may lead to deadlocks in the child",
         "might get a freeze", says="a warning about forks and threads, mostly harmless", fatal=False),
)  # fmt: skip
FILE = r"dataloader|data_utils|_utils[/\\]pin_memory|prefetch"
WAITS = r"^(?:_try_get_data|_get_data|_get_batch|do_one_step|_pin_memory_loop)$"
QUEUE = r"data_queue|worker_result_queue|\.get\(timeout|\bnext\(\w*iter|_wlock"


def in_log(case: Case) -> Iterator[Sign]:
    """A stack without an error that waits for the loader's queue."""
    for raised in standing(case):
        if in_tracker(raised) or "_worker_loop" in raised.functions:
            continue
        frame = frame_in(raised, FILE, WAITS) or next(
            (one for one in raised.frames if compiled(QUEUE).search(one.code)), None
        )
        if frame is not None:
            busy = moved_before(case, raised)
            says = f"the program stood in {frame.function}, waiting for a batch" + (
                ", though steps ran just before" if busy else ""
            )
            yield Sign("strong" if busy else "decisive", says, (evidence(raised.line),), order=raised.line.order)


fixes = (
    Fix(
        "Keep threads out of forked workers",
        "exact",
        "OpenCV: cv2.setNumThreads(0) in the worker; OpenMP, tokenizers and BLAS by environment",
        environment={"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OPENBLAS_NUM_THREADS": "1"},
    ),
    Fix(
        "Start workers without fork",
        "same-recipe",
        "spawn inherits no locks; the data set must be picklable",
        settings={"loader.context": "spawn"},
    ),
)
experiment = Experiment(
    title="Run past the place with num_workers=0, and once more with the old number and timeout=120 on the loader",
    change={"loader.workers": 0},
    confirms="without workers it passes; with them the loader times out",
    refutes="it stands still without workers too: then py-spy dump shows where",
)
