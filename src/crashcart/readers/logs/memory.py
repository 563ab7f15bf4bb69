"""Device out-of-memory messages of every version and backend, with their numbers and the phase they fell into.

Samples::

    CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 2.44 GiB already allocated; ...)
    CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.2 GiB is free. ...
    include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.log import Index, Line, Memory, Raised
from crashcart.numbers import whole_product
from crashcart.pattern import Pattern
from crashcart.readers.logs.collectives import joined
from crashcart.readers.logs.progress import phase_of_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OUT_OF_MEMORY", "find_memory"]

# The scanner looks for these; the expression below decides.
OUT_OF_MEMORY = (
    "out of memory", "alloc_failed", "outofmemory", "cudaerrormemoryallocation", "cuda calloc", "resource_exhausted",
    "out_of_memory", "out_of_device_memory", "alloc device memory failed", "allocation_failed", "valid cudnn algorithm",
    "tried to allocate", "trying to allocate", "oom when allocating",
)  # fmt: skip
_WORDING = Pattern(
    r"(?:CUDA|HIP|MPS backend|NPU|XPU|MUSA|cuda runtime error \(2\)|CUDA driver error|Cuda failure|CUDA error)\W{0,4}(?:\d{1,9}\W{1,9})?(?:error: )?'?out of memory"
    r"|OutOfMemoryError|CU(?:BLAS|DNN|SPARSE|FFT|SOLVER)_STATUS_ALLOC_FAILED|CUBLAS_STATUS_NOT_INITIALIZED.{0,200}out of memory"
    r"|CUDA_ERROR_OUT_OF_MEMORY|hipErrorOutOfMemory|OUT_OF_DEVICE_MEMORY|alloc device memory failed|CURAND_STATUS_ALLOCATION_FAILED"
    r"|Unable to find a valid cuDNN algorithm|error=2 : out of memory|ran out of memory (?:on|with)|GPU ran out of memory"
    r"|cudaErrorMemoryAllocation|Failed to CUDA calloc|RESOURCE_EXHAUSTED: Out of memory|cu(?:da)?M\w{1,20}.{0,100}out of memory"
    r"|OOM when allocating tensor with shape|out of memory\W+Tr(?:ied|ying) to alloc|Tr(?:ied|ying) to allocate [\d.]+ ?[KMGT]i?B\W{1,3}\(?GPU \d",
    re.IGNORECASE,
)
_STATE = Pattern(r"state_dict|Failed to clone\(\) tensor")
_RETRIED = Pattern(
    r"retry|re-try|skip|reduc|halv|smaller|fall(?:ing)? back|recover|caught|continu|decreas|lower(?:ing)? |auto_find|"
    r"find_executable|batch size (?:scaler|finder)|attempt to",
    re.IGNORECASE,
)
_SIZE = r"([\d.]{1,12}) ?([KMGT]i?B|bytes|B)"
_UNITS = {"b": 1, "bytes": 1, "kib": 1 << 10, "kb": 1 << 10, "mib": 1 << 20, "mb": 1 << 20,
          "gib": 1 << 30, "gb": 1 << 30, "tib": 1 << 40, "tb": 1 << 40}  # fmt: skip
_NUMBERS = {
    "tried": Pattern(rf"[Tt]r(?:ied|ying) to allocate (?:about )?{_SIZE}"),
    "capacity": Pattern(rf"{_SIZE} total capaci?ty|total capaci?ty (?:of|is) {_SIZE}|max allowed: {_SIZE}"),
    "allowed": Pattern(rf"{_SIZE} allowed;"),
    "free": Pattern(rf"{_SIZE} free\b|{_SIZE} is free"),
    "allocated": Pattern(rf"{_SIZE} already allocated|{_SIZE} is allocated by PyTorch|MPS allocated: {_SIZE}"),
    "reserved": Pattern(rf"{_SIZE} (?:reserved|cached) in total|{_SIZE} cached"),
    "unallocated": Pattern(rf"{_SIZE} is reserved by PyTorch but unallocated"),
    "process": Pattern(rf"this process has {_SIZE} memory in use"),
}
_OTHERS = Pattern(rf"Process \d+ has {_SIZE} memory in use", re.IGNORECASE)


def find_memory(index: Index, raised: Sequence[Raised]) -> list[Memory]:
    """Every device out-of-memory message, with whatever numbers it gives."""
    by_order = {one.line.order: one for one in raised}
    lines = index.lines
    return [
        _memory(lines, place, by_order.get(lines[place].order))
        for place in index.places(OUT_OF_MEMORY)
        if _WORDING.search(lines[place].text)
    ]


def _memory(lines: Sequence[Line], index: int, raised: Raised | None) -> Memory:
    line = lines[index]
    text = f"{joined(lines, index, 3)}\n{joined(lines, index, 3, blank=' ')}"
    numbers = {name: _bytes(pattern.search(text)) for name, pattern in _NUMBERS.items()}
    allowed = numbers.pop("allowed")
    if allowed is not None and numbers["capacity"] is not None and allowed < numbers["capacity"]:
        # set_per_process_memory_fraction: the card has more, this process may not use it.
        numbers["free"] = min(numbers["free"] or 0, max(0, allowed - (numbers["process"] or 0)))
        numbers["capacity"] = allowed
    if "cached" in text and numbers["reserved"] is not None and numbers["reserved"] < (numbers["allocated"] or 0):
        numbers["reserved"] += numbers["allocated"] or 0  # before torch 1.4: cached beside what is allocated
    others = tuple(_bytes(match) or 0 for match in _OTHERS.finditer(joined(lines, index, 3)))
    if raised is not None:
        phase, survived = raised.phase, raised.survivable
    else:
        before = [other for other in lines[max(0, index - 60) : index] if other.window == line.window]
        phase, survived = phase_of_lines(before)[0], _went_on(lines, index)
    functions = raised.functions if raised is not None else ()
    if _STATE.search(line.text):
        phase, survived = "save", False  # FSDP warns and goes on with a state that is not whole
    return Memory(line, others=others, phase=phase, survived=survived, functions=functions, **numbers)


def _went_on(lines: Sequence[Line], index: int) -> bool:
    line = lines[index]
    if re.search(r"\b(?:WARN(?:ING)?|INFO)\b", line.text) and "NCCL" not in line.text:
        return True
    beside = [line, *(other for other in lines[index + 1 : index + 3] if other.window == line.window)]
    return any(_RETRIED.search(other.text) and "try setting" not in other.lowered for other in beside)


def _bytes(match: re.Match[str] | None) -> int | None:
    if match is None:
        return None
    number, unit = (group for group in match.groups() if group is not None)
    return whole_product(number, _UNITS[unit.lower()])
