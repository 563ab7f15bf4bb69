"""The torch that the job's interpreter will import, from its files.

``torch/version.py`` is written by the build::

__version__ = '2.8.0+cu128'
debug = False
cuda: Optional[str] = '12.8'
hip: Optional[str] = None
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.numbers import to_int
from crashcart.readers.machine.interpreter import interpreter_of, site_folders
from crashcart.readers.machine.reading import Reading, text_of, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crashcart.model import Fact

__all__ = ["look"]

GROUP = "torch"
_LINE = r"^{name}(?:[ \t]*:[^=\n]*|[ \t]*)=\s*(?:'([^']*)'|\"([^\"]*)\"|None)"


def look(facts: Mapping[str, Fact]) -> Iterator[Reading]:
    """The interpreter, and the build of torch in it."""
    python, why = interpreter_of(facts)
    if python is None:
        how = "give the job with the path of its python, or activate its environment first"
        yield unknown((GROUP, "interpreter", "interpreter"), why, "", how)
        return
    yield Reading(GROUP, "interpreter", "interpreter", python, why, {"python": python})
    for folder in site_folders(python):
        path = os.path.join(folder, "torch", "version.py")
        text = text_of(path)
        version = _value(text, "__version__") if text else None
        if text and version:
            cuda, hip = _value(text, "cuda"), _value(text, "hip")
            built = f"CUDA {cuda}" if cuda else f"ROCm {hip}" if hip else "the CPU alone"
            value = {"version": version, "cuda": _numbers(cuda), "hip": hip, "compat": _compatible()}
            yield Reading(GROUP, "torch", "torch", f"{version}, built for {built}", path, value)
            return
    yield unknown((GROUP, "torch", "torch"), f"not found beside {python}", python, "install it, or give the job's python")


def _value(text: str, name: str) -> str | None:
    found = re.search(_LINE.format(name=name), text, re.MULTILINE)
    return (found[1] or found[2]) if found else None


def _numbers(version: str | None) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", version or "")
    return (to_int(found[1], 0), to_int(found[2], 0)) if found else None


def _compatible() -> bool:
    """Whether libraries are here that let a newer CUDA run on an older driver (``cuda-compat``, as in NVIDIA's containers)."""
    return any(os.path.isdir(f"/usr/local/{folder}/compat") for folder in ("cuda", "cuda-12", "cuda-13"))
