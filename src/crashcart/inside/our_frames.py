"""Keeps our frames out of what a program prints: tracebacks, the places of warnings, reports of coverage.

`warnings.warn(stacklevel=2)` counts frames, but passes over those of the import system, which it knows by the words "importlib"
and "_bootstrap" in their file names (CPython, `Python/_warnings.c`). Coverage and debuggers leave alone what starts with "<". So
our functions get such file names. Where tracebacks are made into text, our frames are left out.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing would cost a third of our start-up
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType
    from typing import Any

_FOLDER = __file__.rpartition("/")[0] + "/"
_DISGUISE = "<crashcart/inside/"
_PACKAGE = __name__.rpartition(".")[0] + "."
_CODE = type((lambda: None).__code__)
_FUNCTION = type(lambda: None)
_done: set[str] = set()


def is_ours(code: CodeType) -> bool:
    """Whether a function is one of ours."""
    return code.co_filename.startswith((_DISGUISE, _FOLDER))


def disguise() -> None:
    """Rename the files of all our functions that were loaded so far."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGE) and name not in _done:
            _done.add(name)
            for value in list(vars(module).values()):
                if isinstance(value, type):
                    for member in list(vars(value).values()):
                        _rename(member)
                else:
                    _rename(value)


def _rename(function: Any) -> None:
    if isinstance(function, _FUNCTION) and function.__code__.co_filename.startswith(_FOLDER):
        function.__code__ = _renamed(function.__code__)


def _renamed(code: CodeType) -> CodeType:
    name = "%s%s: importlib_bootstrap>" % (_DISGUISE, code.co_filename.rpartition("/")[2])
    constants = tuple([_renamed(constant) if isinstance(constant, _CODE) else constant for constant in code.co_consts])
    return code.replace(co_filename=name, co_consts=constants)


def install(module: Any) -> None:
    """Leave our frames out of what `inspect.stack` and `traceback` give, and with the latter `logging` and loader workers."""
    if module.__name__ == "inspect":
        _leave_out_of_stacks(module)
        return
    summary = module.StackSummary
    name = "_extract_from_extended_frame_gen" if hasattr(summary, "_extract_from_extended_frame_gen") else "extract"
    extract = getattr(summary, name).__func__

    def without_our_frames(cls: Any, /, frames: Any, **options: Any) -> Any:
        return extract(cls, _theirs(frames), **options)

    setattr(summary, name, classmethod(without_our_frames))
    from . import children  # not above: it needs this module

    disguise()
    children.watch(module)


def _leave_out_of_stacks(inspect: Any) -> None:
    original = inspect.getouterframes

    def getouterframes(frame: Any, context: int = 1) -> Any:
        return [info for info in original(frame, context) if not is_ours(info.frame.f_code)]

    getouterframes.__doc__, getouterframes.__module__ = original.__doc__, "inspect"
    inspect.getouterframes = getouterframes


def _theirs(frames: Any) -> Iterator[Any]:
    for pair in frames:
        if not is_ours(pair[0].f_code):
            yield pair
