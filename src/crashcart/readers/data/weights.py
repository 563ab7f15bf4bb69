"""Files of weights that the job names and that are no weights: a pointer of Git LFS or a web page in their place."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.model import Evidence, Fact
from crashcart.readers.data.first_bytes import stand_in
from crashcart.regular_files import names_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case
    from crashcart.readers.code.program import Program

__all__ = ["weight_facts"]

WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".pkl", ".npz", ".tar", ".onnx", ".model")
ORIGINS = {"flag", "file", "default", "code"}
WORDS = {"pointer": "version https://git-lfs.github.com/spec/v1", "page": "<html ..."}
_MOST = 200


def weight_facts(case: Case, program: Program, places: Sequence[str]) -> Iterator[Fact]:
    """``data.stand_in`` for each such file that a setting names, itself or by its folder, where the code reads that setting."""
    told: set[str] = set()
    for fact in case.facts.values():
        if fact.origin not in ORIGINS or not isinstance(fact.value, str):
            continue
        files = list(_files(fact.value, places))
        bad = [(path, kind) for path in files if (kind := stand_in(path, os.path.getsize(path))) in WORDS]
        for path, kind in bad if bad and _is_read(program, fact) else ():
            if path not in told:
                told.add(path)
                seen = {"file": path, "kind": kind, "count": len(bad), "of": len(files)}
                value = {"path": path, "named": fact.evidence, "direct": len(files) == 1, **seen}
                yield Fact("data.stand_in", value, Evidence("data", WORDS[kind], path), "data")


def _is_read(program: Program, fact: Fact) -> bool:
    """Whether the code asks for the setting by its name; nobody knows what becomes of it where it does not."""
    key = re.escape(fact.spelling.rpartition(".")[2].lstrip("-").replace("-", "_"))
    return bool(key) and any(re.search(rf"\b{key}\b", source.text) for source in program.sources)


def _files(value: str, places: Sequence[str]) -> Iterator[str]:
    if not value.strip() or "\n" in value or "\0" in value or "://" in value or value in {".", "..", "/", "~"}:
        return
    for place in places:
        path = os.path.normpath(os.path.join(place, os.path.expanduser(value)))
        if os.path.isfile(path):
            yield from [path] if path.endswith(WEIGHTS) else []
            return
        if os.path.isdir(path) and not os.path.ismount(path):
            names = names_in(path)[:_MOST]
            files = [os.path.join(path, name) for name in names if name.endswith((".safetensors", ".bin", ".pth", ".pt"))]
            yield from (file for file in files if os.path.isfile(file))
            return
