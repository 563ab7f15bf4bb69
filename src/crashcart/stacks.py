"""What the innermost frames of a traceback point to, when its last line is missing or says too little.

The frame nearest to the error that any cause knows decides: an image reader inside a data set inside a training loop is about
the image. A traceback whose last line was cut off gives a strong sign, one that ends in a bare ``OSError``, and frames
without a beginning, a weak one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import causes, compiled
from crashcart.log import evidence
from crashcart.model import Sign

if TYPE_CHECKING:
    from crashcart.cause import Cause, Stack
    from crashcart.log import Log, Raised

__all__ = ["stack_signs"]

_DEPTH = 10
_SAYS_LITTLE = frozenset(
    {"OSError", "IOError", "RuntimeError", "Exception", "ValueError", "AssertionError", "SystemError", "error", "TypeError"}
)
_SHORT = 12  # characters of a message that say nothing yet


def stack_signs(log: Log) -> dict[str, list[Sign]]:
    """Signs by cause id, for the first traceback that needs them."""
    for raised in log.raised:
        if raised.survivable or not raised.frames or not (raised.stack_only or _says_little(raised)):
            continue
        found = _nearest(raised)
        if found:
            strength = "strong" if raised.cut else "weak"
            return {
                cause.id: [Sign(strength, stack.says, (evidence(raised.line),), order=raised.line.order)]  # type: ignore[arg-type]
                for cause, stack in found
            }
    return {}


def _places(raised: Raised) -> list[str]:
    """The innermost calls first: what the last line of code calls, then the frames."""
    innermost = raised.frames[-1]
    called = [f"{innermost.file}:{name}" for name in reversed(compiled(r"(\w{1,60})\(").findall(innermost.code))]
    frames = [f"{frame.file}:{frame.function}" for frame in reversed(raised.frames[-_DEPTH:])]
    return [place.replace("\\", "/") for place in (*(called if raised.stack_only else ()), *frames)]


def _says_little(raised: Raised) -> bool:
    return raised.kind in _SAYS_LITTLE and len(raised.message.split("\n")[0]) < _SHORT


def _nearest(raised: Raised) -> list[tuple[Cause, Stack]]:
    known = [(cause, stack) for cause in causes() for stack in cause.stacks]
    for place in _places(raised):
        found = [(cause, stack) for cause, stack in known if compiled(stack.pattern).search(place)]
        if found:
            return found
    return []
