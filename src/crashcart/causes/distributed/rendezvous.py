"""The processes could not connect: port in use, wrong address, wrong world size, a stale store.

What happens: the job dies in ``init_process_group`` or in the launcher, before the first step.

Why: another job or an old process holds the master port; the address is not the host of rank 0 or its name does not
resolve; fewer or more processes start than the world size says (``srun`` tasks times spawned workers); a file store or
rendezvous id of an earlier run is used again; each node made up its own id.

How it shows: ``Address already in use``, ``EADDRINUSE``, ``1/2 clients joined``, ``store based barrier ...
worker_count=4`` with ``world_size=2``, ``RendezvousTimeoutError``, a client socket that timed out.

What to do: another port (``--master_port``, ``--rdzv_endpoint=host:0`` on one node), ``--rdzv_id`` the same on all nodes,
``MASTER_ADDR`` that resolves on all of them; count the processes; delete the old init file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong, weak
from crashcart.causes.hang._recorded import stall
from crashcart.deaths import order
from crashcart.log import evidence
from crashcart.model import Edit, Experiment, Fix, Sign
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "The processes could not connect to each other at the start (port, address or world size)"
TORCHRUN = ("torchrun", "torch.distributed.run")
alike = ("distributed/network", "config/launch-mismatch")
phrases = (
    decisive("has already checked in", "duplicate gpu detected : rank", "rank already joined", "duplicate rank",
             says="two processes have the same rank", any_level=True, pattern=r"rank"),
    strong(
        "can't resolve", "name or service not known", "temporary failure in name resolution", "name does not resolve",
        "could not resolve host", "nodename nor servname",
        says="the name of the master node cannot be resolved",
        pattern=r"nslookup|master|MASTER_ADDR|rdzv|c10d|TCPStore|socket\.cpp|init_process_group|torchrun|gloo", any_level=True,
    ),
    decisive(
        "address already in use", "eaddrinuse",
        pattern=r"RuntimeError|errno: 98|server socket|TCPStore|EADDRINUSE|DistNetworkError|Call to bind|c10d|store",
        unless=r"tensorboard|jupyter|visdom|dashboard|uvicorn|gradio|flask",
        says="the port of the TCP store is in use by another process",
    ),
    decisive(
        "failed to listen on any local network", "server socket has failed", "socket has failed to bind", "tried to launch distributed communication on port",
        says="the port of the TCP store cannot be opened",
    ),
    decisive("waiting for clients", "waiting for workers", pattern=r"\d/\d{1,20} (?:clients|workers) joined",
             says="not all processes connected to the store"),
    decisive("in store based barrier on rank", pattern=r"timed out",
             says="the number of processes does not match the world size"),
    strong("address already in use", pattern=r"Errno 98|Errno 48|10048",
           unless=r"tensorboard|jupyter|visdom|dashboard|uvicorn|gradio",
           says="a port is in use by another process"),
    strong("cannot assign requested address", "permission denied",
           pattern=r"c10d|server socket|TCPStore|errno: (?:99|13)\b.{0,200}socket",
           says="the store cannot open its address on this host"),
    strong(
        "client socket has timed out after", "failed to connect to any network address",
        "connect() timed out. original timeout",
        "not enough participants", "can't complete rendezvous", "rendezvous state is corrupt",
        says="a process could not reach the store",
    ),
    strong("rendezvous: environment variable", "port must have value from 0 to 65535", "invalid rank requested",
           "invalid master_port", says="with the launcher's settings the processes cannot connect"),
    strong(
        "name resolution", "name or service not known", "nodename nor servname", "host not found",
        pattern=r"host not found|TCPStore|rendezvous|rdzv|c10d|MASTER_ADDR|init_process_group|store",
        unless=r"https?://|HTTPS?Connection",
        says="the host name of the store cannot be resolved",
    ),
    weak("connection to the c10d store has failed", "rendezvoustimeouterror", "rendezvousclosederror",
         says="the rendezvous failed"),
    weak("timed out initializing process group", "socket timeout", says="the process group's start timed out"),
    weak("waiting in store based barrier", "config has no run_id", "global_rank:", says="the processes are connecting",
         fatal=False),
)  # fmt: skip
AT_START = frozenset(
    {"RendezvousTimeoutError", "RendezvousConnectionError", "RendezvousStateError", "RendezvousClosedError"}
)
LATER = frozenset(
    {"num_nodes_waiting", "_keep_alive", "_keep_alive_weak", "_exit_barrier", "_monitor_workers", "_restart_workers"}
)
MEMBER = r"GLOBAL_RANK: (\d+), MEMBER: \d+/(\d+)"
COUNT = r"world_size=(\d+),? (?:num_)?worker_count=(\d+)"
AT_END = 5
stacks = (
    Stack(
        r"elastic/rendezvous/|distributed/rendezvous\.py:|distributed_c10d\.py:(?:init_process_group|_new_process_group_helper|_store_based_barrier)|:_create_tcp_store$|:init_distributed(?:_mode)?$",
        "the traceback ends where the ranks connect to each other",
    ),
)


def in_log(case: Case) -> Iterator[Sign]:
    """A rendezvous that failed at the start, or members that never came."""
    for raised in case.log.raised:
        if raised.kind in AT_START and not raised.survivable:
            late = LATER & set(raised.functions)
            says = f"{raised.kind}" + (" after the start: the host of the store disappeared" if late else " at the start")
            yield Sign("weak" if late else "strong", says, (evidence(raised.line),), order=raised.line.order)
    yield from _members(case)
    yield from _counted(case)


def _counted(case: Case) -> Iterator[Sign]:
    """The store's barrier counts the processes; the last count does not fit the world."""
    waits = [
        (to_int(match[1], 0), to_int(match[2], 0), line)
        for line in case.log.lines
        if "worker_count" in line.lowered and (match := compiled(COUNT).search(line.text))
    ]
    if not waits:
        return
    world, count, line = waits[-1]
    if count > world:
        says = f"{count} processes connected to a store that expects {world}: a stale store, or the job was started twice"
        yield Sign("decisive", says, (evidence(line),), order=line.order)
    elif count < world and line.order >= case.log.lines[-min(AT_END, len(case.log.lines))].order:
        says = f"only {count} of {world} processes connected, and the log ends there"
        yield Sign("strong", says, (evidence(line),), order=line.order)


def _members(case: Case) -> Iterator[Sign]:
    """Lightning counts who came; the log ends before all did."""
    seen: set[str] = set()
    total = 0
    for line in case.log.lines:
        if "global_rank:" in line.lowered and (match := compiled(MEMBER).search(line.text)):
            seen.add(match[1])
            total = to_int(match[2], 0)
    last = [line for line in case.log.lines[-AT_END:] if "member:" in line.lowered]
    if last and len(seen) < total and not case.log.raised:
        says = f"{len(seen)} of {total} processes connected, then the log ends"
        yield Sign("strong", says, (evidence(last[-1]),), order=last[-1].order)


def in_machine(case: Case) -> Iterator[Sign]:
    """Before a run: somebody listens on the port where the ranks are to meet."""
    for fact in case.all("machine.port"):
        if fact.value["taken"] and fact.value["port"]:
            says = (
                f"port {fact.value['port']} is in use on this machine: the ranks cannot connect there unless it becomes free"
            )
            yield Sign("strong", says, (fact.value["told"], fact.evidence))


def in_recorder(case: Case) -> Iterator[Sign]:
    """A job that was looked at while it waited for others to come."""
    found = stall(case)
    if found is not None and found.cause == "distributed/rendezvous":
        yield Sign(found.strength, found.says, found.evidence, order=order(case))


def fix(case: Case) -> Iterator[Fix]:
    """A port that is free, where the number stands in a file; torchrun on one machine can find one itself."""
    taken = [fact.value for fact in case.all("machine.port") if fact.value["taken"] and fact.value["free"]]
    if taken and taken[0]["span"] is not None:
        why = "this port is free on this machine now; the training is the same"
        yield Fix(f"Use port {taken[0]['free']}", "exact", why, edits=(Edit(taken[0]["span"], str(taken[0]["free"])),))
        return
    yield from _standalone(case)
    yield from by_hand


def _standalone(case: Case) -> Iterator[Fix]:
    """``--standalone`` behind torchrun's number of processes; its ``--master-port=0`` would hang."""
    kind, count, nodes = (case.facts.get(f"launch.{name}") for name in ("kind", "processes_per_node", "nodes"))
    if (
        kind is None
        or kind.value not in TORCHRUN
        or (nodes is not None and nodes.value != 1)
        or "--standalone" in _words(case)
    ):
        return
    why = "torchrun then picks a free port at each start, so that several jobs can run side by side"
    is_here = count is not None and count.span is not None and count.evidence.where == kind.evidence.where
    edits = (
        (Edit(count.span, f"{count.value} --standalone"),)
        if is_here and count is not None and count.span is not None
        else ()
    )
    yield Fix("Start torchrun with --standalone", "exact", why, edits=edits)


def _words(case: Case) -> list[str]:
    kind = case.facts.get("launch.kind")
    return kind.evidence.quote.split() if kind is not None else []


by_hand = (
    Fix(
        "Use a free port, the right address and the right number of processes",
        "exact",
        "stop the old launcher or use a free port; use the same --rdzv_id and an address that all nodes can resolve; delete "
        "a leftover "
        "init file",
    ),
)
experiment = Experiment(
    title="Start two processes that only call init_process_group and one barrier, with the same launcher settings",
    start_from="the beginning",
    stop_after="the barrier, or one minute",
    confirms="they fail in the same way; with a free port or the right address they connect",
    refutes="they connect at once: then the failure comes later (network, a rank that dies at start)",
)
