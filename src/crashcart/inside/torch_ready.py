"""Once torch is executed: its version, and which hooks took hold."""

from __future__ import annotations

from typing import Any

from . import events, nccl, page, patching, tracing


def install(torch: Any) -> None:
    """Tell what was reached."""
    tracing.torch = torch
    tracing.watched = getattr(torch._C, "_len_torch_dispatch_stack", None) or tracing.watched
    tracing.profiled = getattr(torch._C._autograd, "_profiler_enabled", None) or tracing.profiled
    tracing.tensor = torch.Tensor
    tracing.with_gradients = torch.is_grad_enabled
    tracing.modes = getattr(torch._C, "_len_torch_function_stack", None) or tracing.modes
    page.put("torch", 1)
    page.after_fork.append(_again)
    nccl.install(torch)
    cuda = getattr(torch.version, "cuda", None)
    events.write("hello", how="torch", torch=str(torch.__version__), cuda=cuda, reached=list(patching.reached))


def _again() -> None:
    page.put("torch", 1)
