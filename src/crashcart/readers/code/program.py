"""The files of a job's own code: those that were read when the program was followed in thought, the entry first."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

from crashcart.record import field, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.execution import Execution

__all__ = ["Program", "program_of", "without_collecting"]


@record
class Program:
    """The files of a program; none where there are several entries, of which nobody knows which one is started."""

    sources: list[Source] = field(default_factory=list)
    entry: str | None = None

    def imports(self, *packages: str) -> bool:
        """Whether any file imports one of these packages."""
        return any(
            name == package or name.startswith(f"{package}.")
            for source in self.sources
            for name in source.names.values()
            for package in packages
        )


def program_of(execution: Execution) -> Program:
    """The files that were read of a program that was followed."""
    modules = execution.interpreter.modules
    sources = [source for source in modules.sources.values() if source is not None]
    return Program(sources, modules.entry)


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Trees are many small objects without cycles: looking for garbage among them takes half of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
