"""The step and the epoch, as the name of a file or folder gives them.

checkpoint-2000   checkpoint_3   step_500   epoch=3-step=100.ckpt   global_step12   iter_0000500   model_0004999.pth
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Mapping

_STEP: Final = re.compile(r"(?:^|[^a-z])(?:global[_-]?)?steps?[=_-]?(\d{1,15})(?!\d)", re.IGNORECASE)
_COUNTED: Final = re.compile(r"(?:^|[^a-z])(?:checkpoint|ckpt|iter(?:ation)?)[=_-]?(\d{1,15})(?!\d)", re.IGNORECASE)
_PLAIN: Final = re.compile(r"^(?:model|weights|net|state|save|snapshot)[_-]?(\d{1,15})(?:\.\w+)*$", re.IGNORECASE)
_EPOCH: Final = re.compile(r"(?:^|[^a-z])epoch[=_-]?(\d{1,9})(?!\d)", re.IGNORECASE)
_STEP_KEYS: Final = ("global_step", "global_steps", "step", "iteration", "iter", "iter_num")


def named_step(name: str) -> int | None:
    """Read the step from a name."""
    for pattern in (_STEP, _COUNTED, _PLAIN):
        found = pattern.search(name)
        if found:
            return to_int(found.group(1))
    return None


def named_epoch(name: str) -> int | None:
    """Read the epoch from a name."""
    found = _EPOCH.search(name)
    return to_int(found.group(1)) if found else None


def named_count(name: str) -> int | None:
    """Read what tells a checkpoint from the others beside it: its step, else its epoch."""
    step = named_step(name)
    return named_epoch(name) if step is None else step


def step_in(numbers: Mapping[str, int]) -> int | None:
    """Read the step from what the outermost dict of a checkpoint holds."""
    return next((numbers[key] for key in _STEP_KEYS if key in numbers), None)
