"""torch.compile at work: a phase of its own, since it can take longer than anything else, and how often it compiles again."""

from __future__ import annotations

import sys
from typing import Any

from . import events, page, patching, phases
from .mistakes import Hook

_marks: list[tuple[int, float]] = []
_hook = Hook("torch.compile")


def install(module: Any) -> None:
    """Be told when a compilation starts and ends."""
    handler = module.callback_handler
    handler.register_start_callback(_begins)
    handler.register_end_callback(_ends)
    patching.reached.append("torch.compile")


def _begins(*_: Any) -> None:
    try:
        if len(_marks) < 100 and _hook.on:
            _marks.append(phases.enter(phases.COMPILE))
    except Exception:
        _hook.failed()


def _ends(*_: Any) -> None:
    try:
        if _marks:
            phases.leave(_marks.pop())
    except Exception:
        _hook.failed()


def count() -> None:
    """How often something was compiled again; a look at dynamo's own counter."""
    counter = getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COMPILE_COUNTER", None)
    if not counter:
        return
    again = sum([times - 1 for times in list(counter.values())])
    index = page.at("recompiles")
    before = page.here.numbers[index]
    page.here.numbers[index] = again
    if again > (0 if before != before else before):
        events.write("recompile", count=again, step=int(page.here.numbers[page.STEPS]))


page.after_fork.append(_marks.clear)
