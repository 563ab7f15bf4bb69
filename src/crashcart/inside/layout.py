"""The page of numbers that each Python process of a job keeps about itself, and the names of its phases.

64 doubles in a memory-mapped file: whoever writes one number never waits, and what was written survives SIGKILL. A number that
is not known is NaN. Parses on every Python 3, and imports nothing of the package: processes of other interpreters load it too.
"""

FIELDS = (
    "version", "pid", "started", "beats", "phase", "phase_since", "steps", "step_time", "lr", "lr_highest", "loss", "loss_step",
    "nonfinite", "scale", "skipped", "train_batches", "eval_batches", "batch_size", "largest_batch", "batch_elements",
    "largest_elements", "data_wait", "data_waits", "allocated", "peak", "reserved", "allocator_retries", "tracker_calls",
    "tracker_seconds", "checkpoints", "recompiles", "rank", "local_rank", "world_size", "worker", "restart", "signal",
    "own_errors", "last_progress", "torch", "backwards", "subgroups", "lr_made", "lr_top",
)  # fmt: skip
PHASES = (
    "start-up", "train", "evaluate", "sample", "checkpoint", "data", "collective", "tracker", "load", "compile", "exit",
)  # fmt: skip
# Clocks: `started` is Unix time; `phase_since` and `last_progress` are CLOCK_MONOTONIC, the same for all processes of a machine.
# `step_time` is the seconds between the last two steps, `data_wait` and `tracker_seconds` are sums; `lr` is the first group's,
# `lr_highest` the highest of the groups now; of the optimizer that stepped first, and its first group, `lr_made` is the rate that
# the constructor got and `lr_top` the largest of any step; `loss_step` is the number of steps before that loss. `beats` grows with each
# short phase, but for the waits that `data_waits` counts. `allocated`, `peak` and `reserved` are bytes of the current device, at most a second old.
# `backwards` are calls of `Tensor.backward`, `subgroups` process groups that do not hold all ranks.
SIZE = 64 * 8
# Bytes of what a process has printed last, in a file of their own.
PRINTED = 16384
VERSION = 1
# In the environment of every process of a job: the folder for these pages, and the signal that asks for stacks.
FOLDER = "CRASHCART_LIVE"
SIGNAL = "CRASHCART_SIGNAL"
# Where NCCL's flight recorder shall put its dumps, if the user has not said it.
NCCL = "CRASHCART_NCCL"
# The mark by which processes that leave the tree of the job are found again; it asks for nothing.
JOB = "CRASHCART_JOB"
# `CRASHCART=off` switches everything off, for a job or for one program in it.
SWITCH = "CRASHCART"
OFF = "off"
# In that folder: which streams are the job's own, and beside it the socket on which a rank asks for a channel of its own.
OUTPUT = "output"
RANK_NAMES = ("RANK", "OMPI_COMM_WORLD_RANK", "LOCAL_RANK")
SIZE_NAMES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "LOCAL_WORLD_SIZE")
