"""Something could not be compiled: torch.compile, Triton, or an extension.

What happens: the first step (or the first import of an operator) starts a compiler, and that fails.

Why: no or a wrong compiler (gcc too new for nvcc, no ``Python.h``, no ``nvcc``); CUDA of the machine and of torch differ;
a graph that dynamo or inductor cannot express; a Triton kernel that needs more shared memory than the card has; a
recompile limit that ``fullgraph=True`` turns into an error.

How it shows: ``BackendCompilerFailed``, ``InductorError``, ``torch._dynamo.exc...``, ``OutOfResources``, ``Error building
extension``, ``ninja: build stopped``, ``nvcc fatal``. The first compiler message counts; ``has no attribute
'ds_opt_adam'`` at the end is an echo.

What to do: run without compilation to see whether the program is sound (``TORCH_COMPILE_DISABLE=1``); read the compiler's
first error; install compiler and headers; set ``CUDA_HOME`` to the CUDA of torch; install pre-built wheels.
"""

from __future__ import annotations

from crashcart.cause import Stack, decisive, strong, weak
from crashcart.model import Experiment, Fix

title = "Compilation failed (torch.compile, Triton or an extension)"
alike = ("code/version", "hardware/unsupported")
phrases = (
    decisive(
        "torch._dynamo.exc.", "torch._inductor.exc.", "backendcompilerfailed", "inductorerror:", "loweringexception",
        "cppcompileerror",
        "invalidcxxcompiler", "internaltorchdynamoerror", "failonrecompilelimithit", "failoncachelimithit",
        "guardondatadependentsymnode",
        "constraintviolationerror", "compiler_fn raised", "debug_wrapper raised", "torch._subclasses.fake_tensor",
        pattern=r"(?:Error|Failed|Exception|Unsupported|Hit|Compiler|Exceeded|SymNode|raised)\b\w*(?::| raised|$)",
        unless=r"import |File \"|suppress_errors|WON'T CONVERT",
        says="torch.compile failed",
    ),
    decisive(
        "working triton installation", "triton.compiler.errors", "out of resource: ", "passmanager::run failed",
        "triton ptx codegen error",
        "triton.runtime.errors", "no triton compiler", "tritonmissing", "ptxas fatal", "ptxas error",
        unless=r"import |\d ms\b|inf ms|^No valid triton configs|Ignoring|Unsupported gpu|"
        r"is not defined for option 'gpu-name'|requires \.target", says="a Triton kernel could not be built",
    ),
    decisive(
        "error building extension", "ninja: build stopped", "unsupported gnu version", "ninja is required to load c++",
        "cuda_home environment variable is not set", "unable to compile cuda", "cannot find -lcuda", "cannot find -lcudart",
        "no attribute 'ds_opt_adam'", "could not build wheels", "error compiling objects for extension",
        "failed building wheel",
        "cannot compile extensions", "nvcc not found", "unable to jit load", "jit compile failed",
        unless=r"Warning:", says="an extension could not be built",
    ),
    decisive("nvcc fatal", unless=r"Unsupported gpu architecture|gpu-name", says="nvcc failed"),
    decisive("fatal error:", pattern=r"\.(?:c|cc|cpp|cu|cuh|h|hpp)[:(]\d{1,20}.{0,200}fatal error:",
             says="the compiler could not find a header"),
    decisive("error: command", "returned non-zero exit status", "died with",
             pattern=r"(?:gcc|g\+\+|nvcc|c\+\+|cc1plus|ninja|cicc|ptxas)\b.{0,200}(?:fail|exit|died)",
             says="the compiler failed"),
    decisive("torch.jit.frontend", "nvrtc: error", "could not compile", "torch.jit.error",
             unless=r"File \"|gpu-architecture", says="the JIT compiler failed"),
    decisive("torch_extensions", pattern=r"Error.{0,60}\.so.{0,60}(?:cannot open shared object|undefined symbol)",
             says="the extension was not built"),
    strong("_run_ninja_build", says="the build of an extension failed"),
    weak("building extension module", "torch._dynamo", "torch/_inductor", "triton/compiler",
         says="something is being compiled", fatal=False),
)  # fmt: skip
stacks = (
    Stack(
        r"torch/_(?:inductor|dynamo|functorch)/|/triton/|torch/utils/cpp_extension\.py|/ninja/|torch/_C/_jit|/setuptools/command/build_ext|xla.{0,200}:compile",
        "the traceback ends in the compiler or in the build of an extension",
    ),
)


fixes = (
    Fix(
        "Run without compilation",
        "exact",
        "slower, but computes the same; it shows whether the program itself works",
        environment={"TORCH_COMPILE_DISABLE": "1"},
        settings={"train.compile": False},
    ),
    Fix(
        "Install a compiler, headers and CUDA that match torch",
        "by-hand",
        "check with `python -m torch.utils.collect_env`; you need a gcc that nvcc supports, python3-dev, ninja, and CUDA_HOME of torch's "
        "CUDA; or use "
        "pre-built wheels",
    ),
)
experiment = Experiment(
    title="Run three steps with TORCH_COMPILE_DISABLE=1 (or without the extension), and three with it",
    change={"environment": {"TORCH_COMPILE_DISABLE": "1"}},
    start_from="the beginning",
    stop_after="three steps",
    confirms="only the compiled run fails",
    refutes="both fail: then the error is in the program itself",
)
