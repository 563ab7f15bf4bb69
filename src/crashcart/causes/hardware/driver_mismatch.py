"""The versions of driver, CUDA runtime, NVML or cuDNN are incompatible.

What happens: CUDA or cuDNN refuses to start, or the program silently runs on the CPU.

Why: the driver is older than the CUDA build of torch; the driver package was upgraded while the old module is still
loaded; a container brings compatibility libraries that the card does not allow; ``LD_LIBRARY_PATH`` puts another cuDNN
before the one that comes with torch; the machine has no driver at all.

How it shows: ``driver ... is too old``, ``CUDA driver version is insufficient``, ``Driver/library version mismatch``,
``Error 803`` or ``804``, ``cuDNN version incompatibility``, ``compiled with an unsupported toolchain``.

What to do: compare ``nvidia-smi`` (driver and the newest CUDA it can) with ``torch.version.cuda``; reboot after a
driver upgrade; take a torch build for an older CUDA, or a newer driver; unset ``LD_LIBRARY_PATH`` and try again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, decisive, strong, weak
from crashcart.causes._cards import known_cards, surely, visible
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "Driver, CUDA or cuDNN versions are incompatible"
alike = ("hardware/unsupported", "code/version")
_TENSORFLOW = r"dynamic library|tensorflow|dso_loader|cuda_diagnostics|cuda_driver\.cc"
phrases = (
    strong("cudnn_status_not_initialized", "cudnn_status_version_mismatch", "cudnn_status_sublibrary_version_mismatch",
           says="cuDNN cannot be initialised, usually because its version does not match the driver or CUDA, sometimes because GPU memory is full"),
    decisive("driver on your system is too old", "driver version is insufficient", "cudaerrorinsufficientdriver",
             "installed cuda driver", "cudaerrorcallrequiresnewerdriver", says="the driver is too old for this CUDA runtime",
             any_level=True, unless=r"is not supported on this platform"),
    decisive("driver/library version mismatch", "nvml/rm version mismatch", "librmversionmismatch", "nvrm: api mismatch",
             "system_driver_mismatch", says="the loaded driver and its libraries have different versions", any_level=True),
    decisive("display driver / cuda driver combination", "forward compatibility was attempted",
             "compat_not_supported_on_device",
             says="the libraries do not match the driver or GPU", any_level=True),
    decisive("but source was compiled with", says="cuDNN has a different version than the program was built with",
             pattern=r"CuDNN library: [\d.]+ but source was compiled with"),
    decisive("cudnn version incompatibility", "cudnn version mismatch", "incompatible version of cudnn",
             "cudnn_status_version_mismatch", "cudnn_status_sublibrary_version_mismatch",
             says="cuDNN has a different version than torch was built with"),
    decisive("unsupported toolchain", says="the kernels were compiled for a newer driver", pattern="PTX was compiled"),
    strong("found no nvidia driver", says="there is no driver, or the container does not see it"),
    strong("driver initialization failed", "incorrectly set up environment", says="the driver could not be started",
           pattern="CUDA"),
    strong("mps client failed to connect", says="the process expects a CUDA MPS service that is not running"),
    strong("cuda setup failed despite gpu", "could not load library libcudnn", "unable to load any of {libcudnn",
           says="a CUDA library could not be loaded"),
    strong("libcud", "libcublas", "libnvrtc", "libnccl", "libcusparse", "libnvjitlink", "libcuda.so",
           says="a CUDA library is missing or has another version",
           pattern=r"lib(?:cud\w{0,60}|cublas\w{0,60}|nvrtc\w{0,60}|nccl|cusparse\w{0,60}|nvJitLink)\.so[\w.]{0,60}:? .{0,60}(?:cannot open "
                   r"shared object|undefined "
                   r"symbol|version `)|undefined symbol: \w{0,60}(?:nvJitLink|cudnn|cublas|nccl)\w{0,60}", unless=_TENSORFLOW),
    strong("nvidia-container-cli", says="the container runtime does not work with the driver", any_level=True,
           pattern=r"nvidia-container-cli.{0,60}(?:requirement error|driver error|nvml error|initialization error|mount error)"),
    strong("torch not compiled with cuda enabled", "no cuda-capable device is detected", "no cuda gpus are available",
           "torch was not compiled with cuda", "has no attribute '_cuda_", says="CUDA finds no GPU, or torch was built without CUDA",
           pattern=r"(?:Error|Exception)\b.{0,120}(?:not compiled with CUDA|no CUDA-capable|No CUDA GPUs|'torch\._C' has no attribute '_cuda_)"),
    weak("mismatches the version that was used to compile", says="the installed CUDA is not the version torch was built with"),
    weak("no cuda-capable device is detected", "no cuda gpus are available", "torch not compiled with cuda enabled",
         says="CUDA finds no GPU: no driver, a different build of torch, or no visible device", fatal=False),
)  # fmt: skip
stacks = (
    Stack(
        r"torch/cuda/__init__\.py:(?:_lazy_init|_check_driver|init)$|/pynvml",
        "the traceback ends where CUDA is initialised",
    ),
)

FIRST_DRIVER = {10: 410, 11: 450, 12: 525, 13: 580}  # the first driver series of each CUDA, by NVIDIA's table


def in_machine(case: Case) -> Iterator[Sign]:
    """The CUDA that torch was built for against the newest that the driver can; within one major version both go together."""
    for fact in case.all("machine.driver_failed"):
        if "mismatch" in fact.value["why"].lower():
            yield Sign(
                "strong",
                "the loaded driver and its libraries have different versions: CUDA will not start",
                (fact.evidence,),
            )
    cards, torch = known_cards(case), next(iter(case.all("machine.torch")), None)
    if cards is None or torch is None or not visible(case):
        return
    built, newest = torch.value["cuda"], cards.value["cuda"] or _newest(cards.value["driver"])
    if built is None and torch.value["hip"] is None:
        says = "torch is built for CPU only, although this machine has GPUs"
        yield Sign("weak", says, (torch.evidence, cards.evidence))
    elif built is not None and newest is not None and built[0] > newest[0]:
        says = f"torch is built for CUDA {built[0]}.{built[1]} but driver {cards.value['driver']} supports at most CUDA {newest[0]}"
        if not surely(case):
            yield Sign("strong", f"{says}: CUDA will not start with this interpreter", (torch.evidence, cards.evidence))
        elif torch.value["compat"]:
            yield Sign(
                "strong", f"{says}: it fails unless the compatibility libraries are used", (torch.evidence, cards.evidence)
            )
        else:
            yield Sign("decisive", f"{says}: CUDA will not start", (torch.evidence, cards.evidence))


def _newest(driver: str) -> tuple[int, int] | None:
    """The newest CUDA of a driver that does not tell it, to its major version."""
    number = driver.split(".", maxsplit=1)[0]
    fitting = [major for major, first in FIRST_DRIVER.items() if to_int(number, 0) >= first]
    return (max(fitting), 0) if fitting else None


fixes = (
    Fix(
        "Use a driver and torch build that match",
        "by-hand",
        "reboot after a driver upgrade; install a newer driver, or a torch wheel for an older CUDA; keep system cuDNN out of "
        "LD_LIBRARY_PATH",
    ),
)
experiment = Experiment(
    title='On the same node: python -c "import torch; print(torch.version.cuda, torch.zeros(1).cuda())", beside nvidia-smi',
    start_from="nothing: no training is needed",
    stop_after="one tensor on the GPU",
    confirms="it fails in the same way, and works with a torch build for the CUDA version shown by nvidia-smi",
    refutes="it works: then the job's environment (container, modules, LD_LIBRARY_PATH) is different",
)
