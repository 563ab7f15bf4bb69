"""A node went away.

What happens: one machine stops answering: a crash, a power cut, a network cut, a reboot. Its log simply ends, often in
the middle of a line; the others wait until a time-out.

Why: hardware, kernel panic, maintenance, a cloud machine taken away without notice, a node so short of memory or
processor time that its daemon no longer answers.

How it shows: ``NODE_FAIL`` or ``DUE TO NODE FAILURE`` from Slurm, ``missed too many heartbeats`` from Ray, ``lost
communication with a remote daemon`` from MPI, ``NodeNotReady`` from Kubernetes. A log that merely ends proves nothing:
a killed process looks the same.

What to do: look at the node (``last reboot``, BMC and kernel log), exclude it, resume on others from the last
checkpoint.
"""

from __future__ import annotations

from crashcart.cause import decisive, strong
from crashcart.model import Experiment, Fix

title = "A node went away"
phrases = (
    decisive("node_fail", "due to node failure", "node failure on", "due to node fail",
             says="the scheduler says that the node failed",
             pattern=r"NODE_FAIL\b|due to node fail|node failure on \S", unless=r"--no-kill|requeue on"),
    decisive("too many heartbeats", "nodediederror", "node died unexpectedly", "because its node has died",
             "node unexpected termination", says="Ray lost the node", any_level=True),
    decisive("lost communication with a remote daemon", "lost communication with remote daemon",
             says="MPI lost the node's daemon"),
    decisive("nodenotready", "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready", "nodelost",
             "node is not ready",
             "node was not ready", "node not ready", "pod was terminated in response to imminent node shutdown",
             says="Kubernetes lost the node", any_level=True,
             unless=r"toleration|operator:\s*Exists|0/\d+ nodes are available"),
    strong("since they had no heartbeat", "detected dead node", says="the rendezvous dropped a node that no longer answered",
           any_level=True),
    strong("communication connection failure", "taintmanagereviction", "imminent node shutdown", "host unreachable",
           "lost connection to node", "node is unreachable", "node unreachable", says="a node no longer answered",
           unless=r"errno|retry"),
)  # fmt: skip
fixes = (
    Fix("Exclude the node and resume", "exact",
    "Slurm: --exclude=NODE and --requeue; Kubernetes: cordon it; tell the operators"),
)
experiment = Experiment(
    title="Look at the node: `last -x reboot`, the BMC's power log, `journalctl -b -1 -k`, `scontrol show node`",
    start_from="nothing: no training is needed",
    stop_after="the answer",
    confirms="it rebooted, panicked or lost its network at the time the log ends",
    refutes="it was up all the time: then a process died on it, look for a kill in its kernel log",
)
