"""Under which conditions optimizers step, and where checkpoints are written: for a run that made no step, or could not read its file.

if (i + 1) % self.accumulate == 0:        4096 // 64, by settings, of 30 batches
self.optimizer.step()
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Evidence, Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call

_MOST = 3


def look(execution: Execution) -> Iterator[Fact]:
    """``code.step_condition``: the nearest test around a step, and the settings behind it. ``code.saves``: where files are written."""
    steps = {(step.source.path, step.line): step for step in execution.steps}
    for step in [*steps.values()][:_MOST]:
        test = next(
            (above for above in step.source.parents(step.node) if isinstance(above, (ast.If, ast.FunctionDef))), None
        )
        if isinstance(test, ast.If):
            place = step.source.evidence(test)
            yield step.fact("code.step_condition", {"test": place, "settings": tuple(_settings(step))})
    saves = {(call.source.path, call.line): call for call in execution.trace.named("torch.save")}
    for save in [*saves.values()][:_MOST]:
        yield save.fact("code.saves", [call.evidence for call in save.calls_above()][:1])


def _settings(step: Call) -> Iterator[Evidence]:
    for region in step.region.above():
        if region.kind == "branch" and region.test is not None:
            yield from dict.fromkeys(fact.evidence for fact in region.test.origins)
            return
