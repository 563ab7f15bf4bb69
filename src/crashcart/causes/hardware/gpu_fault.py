"""The GPU, its memory or its bus failed.

What happens: the driver loses the card or finds damaged memory, and every process that uses it dies.

Why: worn or faulty memory (uncorrectable ECC errors), a card that falls off the PCIe bus (power, heat, riser, slot), a
hung micro-controller. No setting of the training causes these.

How it shows: ``uncorrectable ECC error``, ``GPU has fallen off the bus``, ``GPU is lost``, ``Unable to determine the
device handle``; in the kernel log an Xid. The number decides: 48, 64, 79, 94, 95 and 140 are the card; 13, 31, 43, 45
and 68 are mostly the program (an index out of range, an assertion, a kill), unless one card shows them under many
different programs. A recording has the Xids that the driver reported while the job ran, without the kernel log.

What to do: drain the node, read ``nvidia-smi -q`` (ECC, retired pages, row remapping) and ``dmesg | grep -i xid``,
reset the GPU or reboot, run on other cards meanwhile; if it comes back, have the card replaced. Resume from the last
checkpoint elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import decisive, strong, weak
from crashcart.causes.hardware._standing import faults
from crashcart.causes.hardware._xid import APPLICATION, HARDWARE, LINK, NOTICES, Told, xids
from crashcart.deaths import finished, order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Strength

title = "The GPU or its driver failed"
alike = ("code/bug", "hardware/fabric")
_NONE = r":\s*0\b|\b0 uncorr|no uncorr|=\s*0\b|enabled|correctable_errors"
phrases = (
    decisive("uncorrectable ecc error", "ecc_uncorrectable", "eccuncorrectable", "double bit ecc", "uncontained ecc",
             "contained ecc error", "multi-bit ecc", "uncorrectable hardware error", "errevent_athub",
             says="the accelerator's memory is damaged", unless=_NONE, any_level=True),
    decisive("fallen off the bus", "gpu is lost", "gpu_is_lost", "device handle for gpu", "surprise down error",
             says="the GPU is no longer on the bus", any_level=True),
    decisive("hardware stack error", "device hardware exception", "cudaerrorhardwarestackerror", "nvml_error_reset_required",
             "gpu requires reset", "gpu requires a reset", says="the GPU reports a hardware error"),
    strong("severity=uncorrected", "uncorrected (fatal) error received", "uncorrectable (fatal)",
           says="the PCIe link to a device failed"),
    strong("timeout waiting for rpc from gsp", "gsp rpc timeout", "gpu reset begin", "reason :gpu hang",
           "hw exception by gpu",
           says="the GPU's own processor stopped responding", any_level=True),
    strong("err!", says="nvidia-smi cannot read the GPU", pattern=r"\|.{0,200}\bERR!"),
    strong("is unhealthy", "hbm uncorrectable", "hbm ecc", says="the accelerator is reported as unhealthy",
           pattern=r"chip .{0,40}is unhealthy|HBM.{0,20}uncorrectable"),
    weak("nvrm: xid", "xid (pci", "xid error", says="the driver reported an Xid", fatal=False),
    weak("unspecified launch failure", "devices) is/are busy or unavailable",
         says="a GPU kernel failed and CUDA gives no reason"),
    weak("cuda error: unknown error", says="the driver gave no reason; this is what a lost GPU looks like"),
)  # fmt: skip
_PROGRAMS = 3


def in_log(case: Case) -> Iterator[Sign]:
    """What the numbers of Xid lines in the log say."""
    told = list(xids(case))
    for one in told:
        if one.code in APPLICATION | LINK | NOTICES:
            continue
        strength: Strength = "decisive" if one.code in HARDWARE else "strong"
        says = f"the driver reported Xid {one.code}, which comes from the GPU or its driver, not from the program"
        yield Sign(strength, says, (evidence(one.line),), order=one.line.order)
    repeated = _one_card_many_programs([one for one in told if one.code in APPLICATION])
    if repeated:
        says = f"one GPU ({repeated[0].pci}) failed under {len({one.pid for one in repeated})} different processes"
        yield Sign("strong", says, tuple(evidence(one.line) for one in repeated[:3]), order=repeated[0].line.order)


def _one_card_many_programs(told: list[Told]) -> list[Told]:
    for pci in dict.fromkeys(one.pci for one in told if one.pci):
        here = [one for one in told if one.pci == pci and one.pid]
        if len({one.pid for one in here}) >= _PROGRAMS:
            return here
    return []


def in_machine(case: Case) -> Iterator[Sign]:
    """Xids of the kernel log: whose fault they mostly are, and whether they belong to this run; before it, the cards' state."""
    yield from faults(case)
    for event in case.kernel:
        code = event.details.get("code")
        if event.kind != "xid" or event.ours is False or code in LINK | NOTICES:
            continue
        fault = event.details.get("fault")
        says = f"the driver reported Xid {code} ({event.details.get('name', 'unknown')})"
        if fault == "application" or code in APPLICATION:
            yield Sign("weak", f"{says}: usually caused by the program", (event.evidence,), fatal=False)
        elif fault == "hardware" and event.ours:
            yield Sign("decisive", f"{says}: a program cannot cause this", (event.evidence,))
        else:
            yield Sign("strong", says, (event.evidence,))


def in_recorder(case: Case) -> Iterator[Sign]:
    """Xids and memory errors that the driver reported while the job ran."""
    if case.flight is None:
        return
    fatal, at = not finished(case), order(case)
    for event in case.flight.of_kind("xid", "ecc-uncorrected"):
        code, card = event.details.get("number"), event.details.get("card")
        if event.kind == "ecc-uncorrected":
            says = f"the driver reported an uncorrectable memory error on GPU {card}"
            yield Sign("strong", says, (event.evidence,), fatal, at)
        elif code in APPLICATION:
            says = f"the driver reported Xid {code} on GPU {card}: usually caused by the program"
            yield Sign("weak", says, (event.evidence,), fatal=False, order=at)
        elif code not in LINK | NOTICES:
            sure = code in HARDWARE
            says = f"the driver reported Xid {code} on GPU {card}" + (": a program cannot cause this" if sure else "")
            yield Sign("decisive" if sure else "strong", says, (event.evidence,), fatal, at)


fixes = (
    Fix(
        "Take the GPU out of service and resume on another one",
        "by-hand",
        "drain the node or exclude the GPU with CUDA_VISIBLE_DEVICES; try nvidia-smi -r or a reboot; replace the card if "
        "the error comes back",
    ),
)
experiment = Experiment(
    title="Run the same job on other GPUs, and a memory test (dcgmi diag -r 3 or gpu-burn) on this one",
    start_from="the newest complete checkpoint",
    stop_after="twice the time it ran before it failed",
    confirms="the test fails, or the Xid returns on this GPU with another program, and the job works elsewhere",
    refutes="the job fails on other GPUs in the same way: then the program is the problem",
)
