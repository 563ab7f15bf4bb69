"""Which imports of a pickle a training run would not have made.

Wholeness and trust are two questions: a checkpoint that carries `os.system` can be complete to the last byte. So these
become notes beside the verdict and never change it. Classes of the standard library that run or open something are
suspicious; classes of the user's own or of other packages are only named, since `weights_only=True` will refuse them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.checkpoints.paper import Global

_SAFE_BUILTINS: Final = frozenset(
    {"bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "object", "range", "set"}
    | {"slice", "str", "tuple", "type"}
)
_SAFE_MODULES: Final = frozenset(
    {"_codecs", "argparse", "collections", "copyreg", "datetime", "decimal", "enum", "fractions", "pathlib", "random"}
    | {"types", "typing", "uuid"}
)
_SAFE_PACKAGES: Final = frozenset(
    {"torch", "numpy", "__torch__", "transformers", "accelerate", "deepspeed", "megatron"}
    | {"lightning", "lightning_fabric", "pytorch_lightning"}
)
_RUN_THINGS: Final = (
    "torch.hub",
    "torch.load",
    "torch.serialization.load",
    "torch.utils.cpp_extension",
    "torch.utils.collect_env",
    "torch._dynamo",
    "torch._inductor",
    "torch.jit.load",
    "torch.package",
    "numpy.load",
    "numpy.f2py",
    "numpy.testing",
    "numpy.distutils",
)
_AT_MOST: Final = 8


def notes(imports: Iterable[Global]) -> tuple[str, ...]:
    """Say what would be imported by loading it that training does not need."""
    found = [_as_written(item) for item in imports if not _harmless(item)]
    suspicious = [name for name in found if _is_standard(name)]
    others = [name for name in found if not _is_standard(name)]
    return (*_sentence("suspicious: imports", suspicious), *_sentence("loading it imports", others))


def _harmless(item: Global) -> bool:
    written = f"{item.module}.{item.name}"
    if any(written == name or written.startswith(f"{name}.") for name in _RUN_THINGS):
        return False
    if item.module in {"builtins", "__builtin__"}:
        return item.name in _SAFE_BUILTINS
    package = item.module.partition(".")[0]
    return package in _SAFE_MODULES or package in _SAFE_PACKAGES


def _as_written(item: Global) -> str:
    # os.system is pickled under the name of the module that implements it.
    module = {"posix": "os", "nt": "os", "__builtin__": "builtins"}.get(item.module, item.module)
    return f"{module}.{item.name}"


def _is_standard(written: str) -> bool:
    package = written.partition(".")[0]
    return package in sys.stdlib_module_names or package in _SAFE_PACKAGES


def _sentence(opening: str, names: list[str]) -> tuple[str, ...]:
    if not names:
        return ()
    more = f" and {len(names) - _AT_MOST} more" if len(names) > _AT_MOST else ""
    return (f"{opening} {', '.join(names[:_AT_MOST])}{more}",)
