"""Programs that start their ranks themselves: a plain ``python train.py`` is then no job of one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program

_STARTS = ("multiprocessing.spawn", "mp.spawn", "xmp.spawn", "start_processes", "notebook_launcher", "elastic_launch")


def look(program: Program) -> Iterator[Fact]:
    """``code.starts_ranks``: calls that start other ranks, and frameworks that start one for each device."""
    for source in program.sources:
        for call in source.calls(*_STARTS):
            yield source.fact("code.starts_ranks", source.called(call.func), call)
        for call in source.calls("Trainer", "Fabric"):
            if any(one.arg in {"devices", "gpus", "num_nodes", "strategy"} for one in call.keywords):
                yield source.fact("code.starts_ranks", source.called(call.func), call)
