"""The error here is only a consequence: another process died first.

What happens: a rank dies for a reason of its own; the others lose their connection to it, or are ended by the launcher,
and print the loudest lines of the log.

Why: collectives need everybody. The store lives in rank 0's process, so its death breaks every other rank's socket.

How it shows: ``Connection closed by remote peer``, ``Connection reset by peer``, ``Broken pipe`` in NCCL, gloo or
TCPStore lines; ``Horovod has been shut down``; a launcher that closes the rest with SIGTERM; and no error of a rank's
own. torchrun's "root cause" is the rank that exited first as the launcher saw it, often a victim. A recording knows who
ended first: what came later is told as its echo.

What to do: find the first rank that ended, and its own output: earlier lines, the other nodes' logs, the kernel log of
its host (OOM killer, Xid). Keep each rank's output (``torchrun --log-dir logs --tee 3``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, weak
from crashcart.deaths import deaths, finished, first, followers, hung, order, stop, terminated_first
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "Another process died first; this error is a consequence"
breadth = 2
alike = ("distributed/network", "host-memory/oom-kill")
phrases = (
    weak(
        "connection closed by peer", "connection closed by remote peer", "connection reset by peer", "broken pipe",
        "connection was likely closed", "should dump", "remote process exited or there was a network error",
        says="a connection to another process broke",
    ),
    weak("horovod has been shut down", "peer process has unexpectedly disconnected", "actor died unexpectedly",
         "actordiederror",
         "forcefully terminating all other processes", "primary job  terminated normally",
         says="another process ended first"),
    weak("closing signal sigterm", "via signal sigterm", "childfailederror", "killing subprocess",
         says="the launcher ended the rest",
         fatal=False),
    weak("death signal, shutting down workers", says="the launcher was asked to stop"),
)  # fmt: skip
ECHO = (
    r"(?:NCCL|socketProgress|Net :|NET/|gloo|pair\.cc|TCPStore|SocketImpl|c10d|store->get|ProcessGroup|\bstore\b).{0,100}"
    r"(?:closed by (?:remote )?peer|reset by peer|broken pipe|likely closed|should dump)|"
    r"horovod has been shut down|peer process has unexpectedly disconnected|"
    r"remote process exited or there was a network error|"
    r"actor died unexpectedly|ActorDiedError|forcefully terminating all other processes|NET/IB.{0,100}completion.{0,100}error 5\b|"
    r"Call to recv.{0,100} failed|Connection closed by (?:remote )?peer"
)
LITERALS = (
    "peer",
    "broken pipe",
    "likely closed",
    "should dump",
    "horovod",
    "actor died",
    "actordied",
    "forcefully",
    "error 5",
    "call to recv",
    "remote process exited",
)
OWN = r"NCCL|gloo|c10d|TCPStore|Horovod|reset by peer|closed by|Broken pipe|Watchdog|collective|store|rendezvous|Engine core"
LAUNCHERS = frozenset(
    {"ChildFailedError", "ProcessExitedException", "ProcessRaisedException", "CalledProcessError", "SystemExit",
    "SignalException",
     "DistBackendError", "DistNetworkError", "DistStoreError", "RendezvousConnectionError", "HorovodInternalError",
     "ActorDiedError"}
)  # fmt: skip
LATER = frozenset({"num_nodes_waiting", "_keep_alive", "_keep_alive_weak", "_exit_barrier"})
MOST = 3


def in_log(case: Case) -> Iterator[Sign]:
    """Broken connections, weighed by whether any rank shows an error of its own."""
    own = _own_error(case)
    found = 0
    for line in case.log.index.saying(LITERALS):
        if compiled(ECHO).search(line.text) and "NCCL INFO" not in line.text:
            says = "a connection to another process broke" + ("" if own else ", and no rank shows an error of its own")
            yield Sign("weak" if own else "strong", says, (evidence(line),), order=line.order)
            found += 1
            if found == MOST:
                break
    for raised in case.log.raised:
        if raised.kind.startswith("Rendezvous") and LATER & set(raised.functions):
            says = "the TCP store disappeared during the run: the process hosting it ended first"
            yield Sign("strong", says, (evidence(raised.line),), order=raised.line.order)


def _own_error(case: Case) -> bool:
    if any(collective.timeout_seconds is not None for collective in case.log.collectives) or case.log.memory:
        return True
    return any(
        raised.kind
        and not raised.survivable
        and raised.kind not in LAUNCHERS
        and not compiled(OWN).search(raised.message.split("\n")[0])
        for raised in case.log.raised
    )


def in_recorder(case: Case) -> Iterator[Sign]:
    """Who ended after the first; or that all who ended here only lost somebody elsewhere."""
    leader = first(case)
    if leader is not None:
        for death in followers(case, leader)[:MOST]:
            later = max(0.0, death.time - leader.time)
            says = f"{death.how} {later:.1f} s after {leader.process.name}, as a consequence"
            yield Sign("weak", says, (death.evidence,), fatal=False, order=order(case))
        return
    ends = deaths(case)
    lost = [end for end in ends if end.raised is not None and end.echo]
    if terminated_first(case) is not None:
        return
    if lost and not (finished(case) or hung(case) or stop(case)) and not case.log.collectives:
        says = f"{lost[0].process.name} lost its connection, and no process on this machine had ended before"
        yield Sign("strong", says, (lost[0].evidence,), order=order(case))


fixes = (
    Fix(
        "Find the rank that died first",
        "by-hand",
        "run `crashcart why` on the logs of all ranks and nodes together, with the kernel log of the host that stopped logging",
    ),
)
experiment = Experiment(
    title="Run again with each rank's output in its own file (torchrun --log-dir logs --tee 3, srun --output=%t.log)",
    start_from="the newest complete checkpoint",
    stop_after="the failing step, and as long again",
    confirms="one rank's file ends first, with its own error or a signal, before any other reports one",
    refutes="all ranks end with transport errors in the same second: then the network is the likely cause",
)
