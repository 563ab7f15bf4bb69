"""Runs a training program in thought, and tells what it does: see `interpreter`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.deadline import attempt
from crashcart.readers.code.program import without_collecting
from crashcart.readers.interpreter.interpreter import Interpreter
from crashcart.readers.interpreter.libraries import Libraries

if TYPE_CHECKING:
    from crashcart.readers.interpreter.launch import Launch
    from crashcart.readers.interpreter.modules import Modules

__all__ = ["follow"]


def follow(modules: Modules, launch: Launch, seconds: float | None = None, function: str = "") -> Interpreter | None:
    """Follow the program that the entry file of its modules starts, or a function of it that a command calls.

    None where the entry file cannot be read. What was followed when the time is up, or the memory of the machine's stack, is kept: the
    trace then ends early (``exhausted``).
    """
    source = modules.source(modules.entry)
    if source is None:
        return None
    interpreter = Interpreter(modules, launch, Libraries())
    with without_collecting():
        if seconds is None:
            interpreter.run(source, function)
        else:
            _, in_time = attempt(lambda: interpreter.run(source, function), seconds, None)
            interpreter.exhausted |= not in_time
    return interpreter
