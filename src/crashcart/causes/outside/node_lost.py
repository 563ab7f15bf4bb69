"""A node stopped responding or went down.

What happens: one machine stops answering: a crash, a power cut, a network cut, a reboot. Its log simply ends, often in
the middle of a line; the others wait until a time-out.

Why: hardware, kernel panic, maintenance, a cloud machine taken away without notice, a node so short of memory or
processor time that its daemon no longer answers.

How it shows: ``NODE_FAIL`` or ``DUE TO NODE FAILURE`` from Slurm, ``missed too many heartbeats`` from Ray, ``lost
communication with a remote daemon`` from MPI, ``NodeNotReady`` from Kubernetes. A log that merely ends proves nothing:
a killed process looks the same. Where crashcart records on every node, one whose recording stops without a word of its end,
while the others go on, is named.

What to do: look at the node (``last reboot``, BMC and kernel log), exclude it, resume on others from the last
checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import decisive, strong
from crashcart.causes.outside._recorded import scheduler_said
from crashcart.deaths import finished, first, order, stopped_first
from crashcart.flight import clock, took
from crashcart.model import Evidence, Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

_SILENT = 1.5  # seconds for which the others must have gone on: all that are killed together are not lost
_TOGETHER = 0.5

title = "A node stopped responding or went down"
alike = ("outside/preempted", "host-memory/oom-kill")
phrases = (
    strong("no route to host", "connection timed out", says="the machine does not respond", pattern=r"^ssh: connect to host"),
    decisive("node_fail", "due to node failure", "node failure on", "due to node fail", "nodefail",
             says="the scheduler reports a node failure",
             pattern=r"NODE_?FAIL\b|due to node fail|node failure on \S", unless=r"--no-kill|requeue on"),
    decisive("too many heartbeats", "nodediederror", "node died unexpectedly", "its node has died", "node unexpected termination",
             "node it was running on", "was marked dead", "raylet crashed unexpectedly", "raylet failed", "node has been marked dead",
             says="Ray lost the node", any_level=True,
             pattern=r"heartbeats|NodeDiedError|node died|node has died|unexpected termination|running on (?:is dead|has died|died|was)|"
                     r"marked dead|raylet (?:crashed|failed)"),
    decisive("has lost communication with", "lost communication with a remote daemon", "lost communication with remote daemon",
             "lost contact with node", "lost contact with host", "daemon has unexpectedly failed after launch",
             says="MPI lost the node's daemon",
             pattern=r"lost (?:communication|contact) with (?:a |its |the )?(?:remote )?(?:daemon|node|host)|"
                     r"daemon has unexpectedly failed"),
    decisive("nodenotready", "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready", "nodelost",
             "node is not ready", "node was not ready", "node not ready", "in response to imminent node shutdown",
             "deletionbypodgc", "deletionbytaintmanager", "node no longer exists", "node is shutting down",
             says="Kubernetes lost the node", any_level=True,
             unless=r"toleration|operator:\s*Exists|0/\d+ nodes are available"),
    decisive("sister_eof", "sister mom", "mom died", "execd host went down", "execution host is down", "host went down",
             "host was rebooted", "host unavailable", "agent crashed", "agent failed", "lost connection to agent",
             "agent disconnected", "agent is lost", says="the batch system lost the host of the job", any_level=True,
             pattern=r"SISTER_EOF|sister MOM|\bmom died|went down|host is down|was rebooted|\bhost unavailable|\bagent (?:crashed|failed|is lost|"
                     r"disconnected)|connection to agent", unless=r"reconnect(?:ed|ing)|retry"),
    decisive("kernel panic", "system is going down", "system will power off", "restarting system", "host instance terminated",
             says="the machine itself went down", any_level=True,
             pattern=r"kernel panic - |system is going down|system will power off|reboot: Restarting system|host instance terminated"),
    strong("since they had no heartbeat", "detected dead node", says="the rendezvous dropped a node that stopped responding",
           any_level=True),
    strong("communication connection failure", "taintmanagereviction", "imminent node shutdown", "host unreachable",
           "lost connection to node", "node is unreachable", "node unreachable", "node is down", "node down", "nodes are down",
           "not responding, setting down", "runtime disconnected", "instance has been terminated", "instance was terminated",
           "commlib error: got read error", "hydu_sock_", "assert (!closed) failed", "lost heartbeat from", "no heartbeat from",
           says="a node stopped responding", any_level=True,
           unless=r"errno|retry|retrying|reconnected|if (?:the|a) node"),
)  # fmt: skip


def in_recorder(case: Case) -> Iterator[Sign]:
    """A node whose recording stops before anything had failed, while another's goes on."""
    flight = case.flight
    if flight is None or finished(case):
        return
    for why, words in scheduler_said(flight):
        if why == "a node failed":
            yield Sign("decisive", "Slurm reports a node failure", (words,), order=order(case))
    if stopped_first(case) is not None:
        return
    heard = max((node.last for node in flight.nodes), default=0.0)
    leader = first(case)
    for node in flight.nodes:
        failed = leader is not None and leader.time < node.last - _TOGETHER
        if not node.lost or failed or heard - node.last < _SILENT:
            continue
        ranks = f" (rank{'s' if len(node.ranks) > 1 else ''} {', '.join(map(str, node.ranks[:8]))})" if node.ranks else ""
        says = f"node {node.name}{ranks} sent nothing after {clock(node.last)}, {took(heard - node.last)} before the others stopped"
        quote = f"no sample since {clock(node.last)}, and no record of how the job ended there"
        rank = node.ranks[0] if len(node.ranks) == 1 else None
        seen = Evidence("recorder", quote, node.folder, rank, clock(node.last))
        yield Sign("decisive", says, (seen,), order=order(case))


fixes = (
    Fix(
        "Exclude the node and resume",
        "exact",
        "Slurm: --exclude=NODE and --requeue; Kubernetes: cordon it; inform the operators",
    ),
)
experiment = Experiment(
    title="Look at the node: `last -x reboot`, the BMC's power log, `journalctl -b -1 -k`, `scontrol show node`",
    start_from="nothing: no training is needed",
    stop_after="the answer",
    confirms="it rebooted, panicked or lost its network at the time the log ends",
    refutes="it was up all the time: then a process on it died; look for a kill in its kernel log",
)
