"""Runs our hooks right after a module of interest was executed, and costs a dictionary look-up for all others.

A finder in front of the others asks them for the module and lets its loader call us once. The loader stays the same object, so
`__loader__`, `inspect` and resources see what they would have seen.
"""

from __future__ import annotations

import sys

from . import our_frames
from .mistakes import ours

TYPE_CHECKING = False  # importing typing would cost a third of our start-up
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_wanted: dict[str, str] = {}
_busy: set[str] = set()


def hook(table: dict[str, str]) -> None:
    """For each module name the module of ours whose `install(module)` comes after it."""
    for name, installer in table.items():
        if name in sys.modules:
            _install(installer, sys.modules[name])
        else:
            _wanted[name] = installer
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of the others, with a loader that calls us once; nothing for a name that we do not want."""
        if name not in _wanted or name in _busy:
            return None
        _busy.add(name)
        try:
            spec = _asked(name, path, target)
            if spec is not None:
                try:
                    _watch(spec.loader, name)
                except Exception:
                    ours("after_import")
            return spec
        finally:
            _busy.discard(name)

    def invalidate_caches(self) -> None:
        """Nothing is cached."""


def _asked(name: str, path: Any, target: Any) -> Any:
    for finder in list(sys.meta_path):
        if isinstance(finder, _Finder):
            continue
        find: Callable[..., Any] | None = getattr(finder, "find_spec", None)
        spec = find(name, path, target) if find is not None else None
        if spec is not None:
            return spec
    return None


def _watch(loader: Any, name: str) -> None:
    execute = getattr(loader, "exec_module", None)
    if execute is None or isinstance(loader, type):  # a class serves every module of its kind
        return

    def exec_module(module: Any) -> Any:
        del loader.exec_module
        result = execute(module)
        installer = _wanted.pop(name, None)
        if installer is not None:
            _install(installer, sys.modules.get(name, module))
        return result

    loader.exec_module = exec_module


def _install(installer: str, module: Any) -> None:
    try:
        _ours(installer).install(module)
        if "torch._dynamo.eval_frame" in sys.modules:  # what was loaded just now must not be compiled either
            _ours("untraced").install(module)
    except Exception:
        ours("install " + installer)


def _ours(name: str) -> Any:
    """Load a module of ours; neither a debugger nor coverage gets to see how."""
    name = __name__.rpartition(".")[0] + "." + name
    if name not in sys.modules:
        trace = sys.gettrace()
        if trace is not None:
            sys.settrace(None)
        try:
            __import__(name)
            our_frames.disguise()
        finally:
            if trace is not None:
                sys.settrace(trace)
    return sys.modules[name]
