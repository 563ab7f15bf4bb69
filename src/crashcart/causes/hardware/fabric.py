"""The links between GPUs (NVLink, NVSwitch) or the service that sets them up are not working.

What happens: CUDA refuses to start on a machine with NVSwitch, or communication between the cards dies.

Why: ``nvidia-fabricmanager`` is not running, still at work, or of another version than the driver; a link or switch is
faulty; a container or virtual machine does not see the switches; one node of a multi-node NVLink domain has no IMEX
service.

How it shows: ``Error 802: system not yet initialized``; NCCL's ``nvls.cc ... Cuda failure 401`` or ``Failed to bind
NVLink SHARP (NVLS) Multicast memory``; ``uncorrectable NVLink error``; Xid 74 or 144 to 150, SXid lines of the
switches.

What to do: ``systemctl status nvidia-fabricmanager`` and its version against ``nvidia-smi``; ``nvidia-smi nvlink -s``;
restart the service or the node. ``NCCL_NVLS_ENABLE=0`` avoids multicast until then, at the price of speed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes.hardware._standing import links
from crashcart.causes.hardware._xid import LINK, xids
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "NVLink, NVSwitch or the fabric manager is not working"
alike = ("hardware/gpu-fault", "distributed/network")
phrases = (
    decisive("system not yet initialized", "cudaerrorsystemnotready", "cuda_error_system_not_ready",
             says="CUDA reports that the system is not initialised; on NVSwitch machines the fabric manager does that",
             any_level=True),
    decisive("uncorrectable nvlink error", "nvlinkuncorrectable", "nvlink_uncorrectable",
             says="a link between GPUs failed"),
    decisive("failed to bind nvlink sharp", "nvls.cc", says="multicast over NVSwitch failed", any_level=True,
             pattern=r"failed to bind nvlink|nvls\.cc:\d+.{0,20}(?:WARN|failure)", unless=r"out of memory"),
    strong("fabric manager", "fabricmanager", says="the fabric manager reports a problem", any_level=True,
           pattern=r"never|fail|error|not running|inactive|mismatch|not match|dead|timed? ?out",
           unless=r"NCCL_NVLS_ENABLE|usually caused|0 error|no error"),
    strong("all links are inactive", "nvlink fatal", "nvswitch fatal", says="links between GPUs are down"),
    strong("imex", says="the IMEX service (memory across nodes) failed",
           pattern=r"nvidia-imex.{0,60}(?:fail|not running|error)"),
    weak("sxid (pci", "sxid", says="an NVSwitch reported an error", fatal=False, pattern=r"\bSXid\b"),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """Xids of links and SXids of switches that someone pasted."""
    for xid in xids(case):
        if xid.code in LINK and not compiled("nonfatal").search(xid.line.text):
            says = f"the driver reported Xid {xid.code}, a link error"
            yield Sign("decisive", says, (evidence(xid.line),), order=xid.line.order)
    for line in case.log.lines:
        if "sxid" in line.lowered and compiled(r"\bSXid\b.{0,60}(?<!Non-)(?<!Non)\bFatal").search(line.text):
            yield Sign("decisive", "an NVSwitch reported a fatal error", (evidence(line),), order=line.order)
            return


def in_machine(case: Case) -> Iterator[Sign]:
    """Link errors in the kernel log; before a run, links and fabric as the driver tells them."""
    yield from links(case)
    for event in case.kernel:
        if event.ours is False:
            continue
        said = str(event.details.get("says", ""))
        if event.kind == "xid" and event.details.get("code") in LINK and "nonfatal" not in said.lower():
            says = f"the driver reported Xid {event.details['code']}, a link error"
            yield Sign("decisive" if event.ours else "strong", says, (event.evidence,))
        if event.kind == "sxid" and said.startswith("Fatal"):
            yield Sign("decisive" if event.ours else "strong", "an NVSwitch reported a fatal error", (event.evidence,))


fixes = (
    Fix(
        "Start the fabric manager",
        "by-hand",
        "it must have the same version as the driver; `nvidia-smi -q | grep -A 3 Fabric` then says Completed",
    ),
    Fix(
        "Turn off NVSwitch multicast",
        "same-recipe",
        "only a workaround for NVLS errors: reductions take another path, slower and in another order",
        environment={"NCCL_NVLS_ENABLE": "0"},
    ),
)
experiment = Experiment(
    title="Run nccl-tests all_reduce_perf on all cards of the node, with and without NCCL_NVLS_ENABLE=0",
    start_from="nothing: no training is needed",
    stop_after="one pass over all sizes",
    confirms="it fails as the training did, and passes after the service or the node was restarted",
    refutes="it passes on the same node: then look at the job's environment (container, visible devices)",
)
