"""A run that host memory ended soon: whether it leaked is known from its growth and what the code keeps."""

from __future__ import annotations

import pytest
from history import START, History

from crashcart.engine import examine
from crashcart.model import Evidence, Fact

REFUSED = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 314 bytes"


def _first(sizes: list[float], *, keeps: bool) -> str:
    """A rank that was refused memory after these sizes."""
    history = History(code=1)
    history.process(5, 1, "rank", "python train.py", born=1, rank=0, steps=30)
    history.flight.columns = {
        "host": ["memory_total", "memory_available"],
        "process": ["pid", "rss"],
        "page": ["pid", "steps"],
    }
    for second, size in enumerate(sizes, 2):
        rows = {"host": [[64e9, 50e9]], "process": [[5.0, size]], "page": [[5.0, 10.0 * second]]}
        history.flight.samples.append((START + second, rows))
    history.raised(5, len(sizes) + 2.2, "RuntimeError", REFUSED)
    history.gone(5, len(sizes) + 2.5, code=1)
    case = history.case()
    if keeps:
        place = Evidence("code", "meter.update(loss)", "train.py:59")
        case.seen["code.graph_kept"] = [
            Fact("code.graph_kept", {"kept": "loss", "holder": "self.sum", "edits": ()}, place, "code")
        ]
    return examine(case).findings[0].cause


@pytest.mark.parametrize(
    ("sizes", "keeps", "cause"),
    [
        ([4e8, 7e8, 1.1e9], True, "host-memory/leak"),
        ([4e8, 7e8, 1.1e9], False, "host-memory/oom-kill"),
        ([9e8, 9e8, 9e8], True, "host-memory/oom-kill"),
    ],
)
def test_a_growth_with_what_the_code_keeps_is_a_leak(sizes: list[float], keeps: bool, cause: str) -> None:  # noqa: FBT001
    assert _first(sizes, keeps=keeps) == cause
