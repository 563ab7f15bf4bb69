"""Loader workers: which one this process is, and each batch it has put together."""

from __future__ import annotations

import sys
from typing import Any

from . import page, patching, phases
from .mistakes import ours


def install(module: Any) -> None:
    """Wrap the loop that every worker runs."""
    patching.replace(module, "_worker_loop", _looping)


def _looping(original: Any) -> Any:
    code = original.__code__
    names = code.co_varnames[: code.co_argcount]

    def _worker_loop(*args: Any, **kwargs: Any) -> Any:
        try:
            given = dict(zip(names, args), **kwargs)
            page.put("worker", int(given["worker_id"]))
            phases.now.lasting = phases.START_UP
            _watch_fetching()
        except Exception:
            ours("worker")
        return original(*args, **kwargs)

    return _worker_loop


def _watch_fetching() -> None:
    """In this process alone: the trainer's own fetches are in its wait for data."""
    fetch = sys.modules.get("torch.utils.data._utils.fetch")
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        kind = getattr(fetch, name, None)
        if kind is not None:
            patching.replace(kind, "fetch", patching.within(phases.DATA))
