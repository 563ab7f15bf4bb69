"""The device cannot do what the program asks: no code for its architecture, or no such number format.

What happens: the first kernel, or a check at start-up, fails on this card while the same program runs on another.

Why: the wheel or extension was not compiled for the card's architecture (a newer card than the build, or an old one it
no longer carries); bfloat16, FP8, TF32 or FlashAttention need a newer generation; half precision or an operator is
missing on the CPU or on Apple's MPS; an AMD card that the ROCm build does not list.

How it shows: ``no kernel image is available``, ``sm_120 is not compatible`` followed by a failure (the warning alone is
none), ``FlashAttention only supports Ampere GPUs or newer``, ``doesn't support bf16``, ``not implemented for 'Half'``,
``invalid device function``.

What to do: a torch build that lists the architecture (``torch.cuda.get_arch_list()``), extensions rebuilt with
``TORCH_CUDA_ARCH_LIST``; fp16 instead of bf16, another attention implementation, another card.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import decisive, strong, weak
from crashcart.causes._cards import on_cards, surely
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "This device does not support what the program needs"
alike = ("hardware/driver-mismatch", "code/compile")
phrases = (
    decisive("no kernel image is available", "nobinaryforgpu", "error_invalid_isa", "cudaerrornokernelimage",
             "unable to find code object for all", says="there is no compiled code for this GPU's architecture"),
    decisive("support bf16", "support bfloat16", "bfloat16 is only supported", "bf16 is only supported",
             "bf16 is not supported",
             "bfloat16 is not supported", "requires ampere", "only supports ampere", "ampere+ gpu",
             says="this GPU generation does not have this number format or kernel",
             pattern=r"n[o']t support|only support|requires Ampere|Ampere\+|not supported"),
    decisive("compute capabilit", says="the GPU's compute capability is too low",
             pattern=r"(?:requires?|only (?:supported|available|works)|needs?|must have|at least|"
                     r"minimum).{0,80}compute capabilit|"
                     r"compute capabilit\w+.{0,40}(?:or higher|or newer|required|below|>=|not supported|too low|at least)",
             unless=r"PyTorch no longer supports|supports CUDA capabilities|minimum cuda capability"),
    decisive("requires .target sm_", "not supported on .target", "not defined for option 'gpu-name'",
             "invalid value for --gpu-architecture",
             "unsupported gpu architecture", "not supported in this architecture",
             says="the compiler cannot build this for the GPU's architecture"),
    decisive("mps tensor to float64", "implemented for the mps device", "not supported on mps",
             "mps framework doesn't support",
             "mps backend doesn't support", "mps does not support", says="Apple's MPS lacks this operator or number format",
             unless=r"fall(?:ing)? back"),
    decisive("flashattention", "flash attention", "flash_attn", says="FlashAttention does not run on this GPU",
             pattern=r"only supports? (?:\w+ ){0,3}GPUs|requires (?:A100|H100|Ampere|Hopper|sm)|not supported on "
                     r"(?:this|your) (?:GPU|device|card)|only runs? on"),
    decisive("not supported on your", "not supported on this", "not supported by your", "not supported by this", "unsupported gpu",
             "gpu is not supported", "does not support this gpu", "your gpu does not support", "your device does not support",
             "is not supported on sm", "not supported on hip", "unsupported compute capability", "unsupported device arch",
             says="the program reports that this GPU lacks something it needs",
             pattern=r"not supported (?:on|by) (?:your|this|the current) (?:\w+ ){0,2}(?:GPU|device|card|hardware|arch\w*|platform|accelerator)|"
                     r"unsupported (?:GPU|compute capability|device arch)|GPU is not supported|support this GPU|"
                     r"your (?:GPU|device) does not support|not supported on (?:sm_?\d|hip)",
             unless=r"fall(?:ing)?[ -]?back|disabl|will be ignored|using .{0,40}instead|p2p|persistence|nvidia-smi"),
    strong("not implemented for '", says="the CPU has no kernel for this number format",
           pattern=r"not implemented for '(?:Half|BFloat16|Float8\w*)'"),
    strong("invalid device function", "device kernel image is invalid", "hiperrorinvalidimage", "tensilelibrary",
           "named symbol not found", says="the compiled code does not match the GPU"),
    strong("is not compatible with the current pytorch", "because it is too old",
         says="torch warned that it has no code for this GPU",
         fatal=False, any_level=True),
    weak("illegal instruction", says="the CPU lacks an instruction"),
    weak("aicpu exception", "aicore exception", says="a kernel of the accelerator failed"),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """A process that died of an instruction its processor does not have."""
    for death in case.log.deaths:
        if death.signal == "SIGILL":
            says = "a process died with an illegal instruction: the program was built for another CPU"
            yield Sign("strong", says, (evidence(death.line),), order=death.line.order)
            return


# The first CUDA that can compile for a generation; code for 8.6 runs on 8.9, and the newest CUDA knows nothing below 7.5.
FIRST = {8: (11, 0), 9: (11, 8), 10: (12, 8), 11: (13, 0), 12: (12, 8)}
OLDEST = {13: (7, 5)}


def in_machine(case: Case) -> Iterator[Sign]:
    """The generation of the cards against what the CUDA of torch can have been compiled for."""
    torch = next(iter(case.all("machine.torch")), None)
    if torch is None or torch.value["cuda"] is None:
        return
    built: tuple[int, int] = torch.value["cuda"]
    for fact in on_cards(case, "card_memory"):
        capability = fact.value["capability"]
        if capability is None:
            continue
        card = f"GPU {fact.value['index']} ({fact.value['name']}) is of capability {capability[0]}.{capability[1]}"
        evidence = (torch.evidence, fact.evidence)
        if tuple(capability) < OLDEST.get(built[0], (0, 0)):
            says = f"{card}, which CUDA {built[0]}.{built[1]} of this interpreter's torch has no code for"
            yield Sign("decisive" if surely(case) else "strong", says, evidence)
        elif built < FIRST.get(capability[0], (0, 0)):
            says = (
                f"{card}, which CUDA {built[0]}.{built[1]} of this torch does not know: kernels fail unless they carry PTX"
            )
            yield Sign("strong", says, evidence)


fixes = (
    Fix(
        "Install a build for this architecture",
        "exact",
        "use a newer (or older) torch wheel whose torch.cuda.get_arch_list() contains the GPU's sm_XX; rebuild extensions for it",
    ),
    Fix(
        "Use fp16 instead of bf16 on older GPUs",
        "changes-training",
        "needs loss scaling, and can overflow where bf16 does not",
        settings={"train.bf16": False, "train.fp16": True},
    ),
)
experiment = Experiment(
    title="Print torch.cuda.get_device_capability() and torch.cuda.get_arch_list(), then run one such operation alone",
    start_from="nothing: no training is needed",
    stop_after="one operation on the device",
    confirms="the architecture is not in the list, or the operation fails here and works on a newer GPU",
    refutes="the operation works: then an extension built elsewhere lacks code for this GPU",
)
