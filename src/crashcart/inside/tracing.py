"""Whether torch.compile is tracing, and torch once it is there; known only after torch was executed."""

from __future__ import annotations

from typing import Any


def _never() -> bool:
    return False


# Torch's own once dynamo is loaded: nothing traces before. Dynamo knows that function and takes it for True, so what follows it in a hook never enters a graph.
is_compiling: Any = _never
torch: Any = None


def _nobody() -> int:
    return 0


# How many of the program's own dispatch modes see every operation, and whether a profiler does: then ours must not be among them.
watched: Any = _nobody
profiled: Any = _nobody
modes: Any = _nobody
with_gradients: Any = _nobody
tensor: Any = None
