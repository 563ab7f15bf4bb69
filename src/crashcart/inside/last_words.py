"""The event of an uncaught exception: type, message, frames, and of the locals their shapes, never their values."""

from __future__ import annotations

import sys
from _thread import get_ident

from . import events, layout, our_frames, page, phases
from .mistakes import Hook
from .shapes import describe, parts

# Not from typing: it makes named tuples by `eval`, and CPython then forgets that an interrupt is to end it by SIGINT.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

_MESSAGE = 2000
_CAUSE = 1000
_FRAMES = 60
_INNERMOST, _OF_THE_PROGRAM = 6, 6
_NAMES = 40
_COUNTED = 1 << 20  # numbers whose bounds are looked for
_look = Hook("last batch")
_LIBRARIES = ("site-packages", "dist-packages", "/lib/python3", "<frozen")


def write(error: BaseException, trace: TracebackType | None, thread: str) -> None:
    """One event, with what the error came from."""
    frames = _frames(trace)
    bounds = isinstance(error, IndexError)
    phase = _phase(frames)
    innermost = frames[-1][0].f_code if frames else None
    hook = innermost.co_name if innermost is not None and our_frames.is_ours(innermost) else None
    frames = [pair for pair in frames if not our_frames.is_ours(pair[0].f_code)] or frames
    shown = frames if len(frames) <= _FRAMES else frames[:20] + frames[-40:]
    events.write(
        "exception",
        type=_type(error),
        message=_message(error),
        because=_because(error),
        frames=[_place(frame, line) for frame, line, _ in shown],
        locals=[
            {"frame": _place(frame, line), "names": _locals(frame, bounds=bounds), "columns": _columns(frame, at)}
            for frame, line, at in _telling(frames)
        ],
        thread=thread or "MainThread",
        hook=hook,
        phase=phase,
        step=int(page.here.numbers[page.STEPS]),
        **_batch(thread),
    )
    if "OutOfMemoryError" in type(error).__name__ and "torch" in sys.modules:
        from . import memory

        memory.out_of_memory(phase)


def _batch(thread: str) -> dict[str, object]:
    """The batch that the training thread worked on, where it is in host memory: was it finite, of which samples was it made."""
    inputs: Any = sys.modules.get(__name__.rpartition(".")[0] + ".inputs")
    if inputs is None or thread or get_ident() != phases.now.thread:
        return {}
    try:
        told: dict[str, object] = inputs.at_the_end()
    except Exception:
        _look.failed()
        return {}
    return told


def _frames(trace: TracebackType | None) -> list[tuple[Any, int, int]]:
    """The frames, each with its line and its place in the bytecode."""
    frames: list[tuple[Any, int, int]] = []
    while trace is not None and len(frames) < 2000:
        frames.append((trace.tb_frame, trace.tb_lineno, trace.tb_lasti))
        trace = trace.tb_next
    return frames


def _columns(frame: Any, at: int) -> list[int] | None:
    """First and last line, first and last column of what a frame was working out; known from Python 3.11 on."""
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is None or at < 0:
        return None
    for number, (line, last_line, column, last_column) in enumerate(positions()):
        if number * 2 == at:
            numbers = [line, last_line, column, last_column]
            return numbers if None not in numbers else None
    return None


def _phase(frames: list[tuple[Any, int, int]]) -> str:
    """The phase in which the error came up: it is over by now, but our wrapper is among the frames."""
    for frame, _, _ in reversed(frames):
        if our_frames.is_ours(frame.f_code) and "mark" in frame.f_locals and "phase" in frame.f_locals:
            return str(layout.PHASES[frame.f_locals["phase"]])
    return phases.name()


def _telling(frames: list[tuple[Any, int, int]]) -> list[tuple[Any, int, int]]:
    own = [pair for pair in frames if not any(part in pair[0].f_code.co_filename for part in _LIBRARIES)]
    wanted = {id(pair[0]) for pair in frames[-_INNERMOST:] + own[-_OF_THE_PROGRAM:]}
    return [pair for pair in frames[-200:] if id(pair[0]) in wanted]


def _place(frame: Any, line: int) -> str:
    code = frame.f_code
    return "%s:%d %s" % (code.co_filename, line, getattr(code, "co_qualname", code.co_name))


def _locals(frame: Any, *, bounds: bool) -> dict[str, str]:
    """What the names of a frame hold, by type and shape; with `bounds` also the smallest and the largest of whole numbers."""
    names: dict[str, str] = {}
    for name, value in list(frame.f_locals.items()):
        if len(names) == _NAMES:
            break
        if not name.startswith("__") and not callable_or_module(value):
            names[str(name)[:60]] = describe(value) + (_bounds(value) if bounds else "")
    for name, value in parts(frame.f_locals.get("self")):
        if len(names) < _NAMES:
            names["self." + name[:55]] = value
    return names


def _bounds(value: Any) -> str:
    """The smallest and the largest of indices in host memory: an error of an index says neither."""
    torch: Any = sys.modules.get("torch")
    try:
        if (
            torch is None
            or type(value) is not torch.Tensor
            or not value.is_cpu
            or value.dtype not in (torch.int64, torch.int32)
        ):
            return ""
        if not 0 < value.numel() <= _COUNTED or torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
            return ""
        return " from %d to %d" % (int(value.min()), int(value.max()))
    except Exception:
        _look.failed()
        return ""


def callable_or_module(value: object) -> bool:
    """Functions, classes and modules say nothing about the data."""
    return isinstance(value, type) or type(value).__name__ in ("function", "module", "builtin_function_or_method", "method")


def _type(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else kind.__module__ + "." + kind.__qualname__


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # a program's own __str__
        return "(no message)"
    return _shortened(text, _MESSAGE)


def _shortened(text: str, most: int) -> str:
    """Beginning and end: what was carried over from another process has its innermost frames and its error last."""
    half = most // 2
    return text if len(text) <= most else text[: half - 3] + " … " + text[-half:]


def _because(error: BaseException) -> list[str]:
    chain: list[str] = []
    seen = {id(error)}
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while cause is not None and id(cause) not in seen and len(chain) < 5:
        seen.add(id(cause))
        chain.append(_type(cause) + ": " + _shortened(_message(cause), _CAUSE))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return chain
