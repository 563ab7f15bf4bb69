"""What a nested batch is made of: arrays, named fields, plain sequences, lists of items, and single things.

Only the kinds of node and how each is put together again are known here; which dimension counts samples is not.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils.rnn import PackedSequence

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["fields_of", "is_array", "kind_of", "rebuilt", "refusal", "with_samples"]

_GRAPHS = ("torch_geometric", "dgl")
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
_LOOKED_AT = 64  # items of a list that tell what it is a list of: nobody has more fields, and texts have thousands of tokens
_OWN_SLICES = ("tensordict",)  # dict-like, but it cuts itself along its own batch dimensions


def is_array(node: object) -> bool:
    """A tensor or whatever behaves like a numpy array, with at least one dimension."""
    return isinstance(getattr(node, "shape", None), tuple) and bool(node.shape) and hasattr(node, "__getitem__")  # type: ignore[attr-defined]


def kind_of(node: object) -> str:
    """``array``, ``named`` (fields), ``sequence`` (of fields or of samples), ``items`` (one a sample) or ``single``."""
    if type(node) in _ATOMS:
        return "single"
    if isinstance(node, torch.Tensor):
        return "array" if node.dim() else "single"
    if isinstance(node, (list, tuple, range)) and not isinstance(node, torch.Size):
        if hasattr(node, "_fields"):
            return "named"
        return "items" if all(kind_of(item) == "single" for item in node[:_LOOKED_AT]) else "sequence"
    if isinstance(node, Mapping) and not _module(node).startswith(_OWN_SLICES):
        return "named"
    if is_array(node):
        return "array"
    if hasattr(type(node), "__attrs_attrs__") or (dataclasses.is_dataclass(node) and not isinstance(node, type)):
        return "named"
    return "single"


def fields_of(node: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - any named node or sequence
    """Names and values of the children; those of a sequence are its indices."""
    if isinstance(node, Mapping):
        return [(str(key), node[key]) for key in node]
    if hasattr(node, "_fields"):
        return list(zip(node._fields, node, strict=True))
    if isinstance(node, (list, tuple)):
        return [(str(index), item) for index, item in enumerate(node)]
    return [(name, getattr(node, name)) for name in _attributes(node)]


def rebuilt(node: Any, values: Iterable[Any]) -> Any:  # noqa: ANN401 - any named node or sequence
    """The same kind of node with other children, in the order of `fields_of`; the given one is left alone."""
    if hasattr(node, "_fields"):
        return node._make(values)
    if isinstance(node, (list, tuple)):
        return type(node)(values)
    if type(node) is dict:
        return dict(zip(node, values, strict=True))
    made = copy.copy(node)
    if isinstance(node, Mapping):
        for key, value in zip(list(node), values, strict=True):
            made[key] = value
    else:
        for name, value in zip(_attributes(node), values, strict=True):
            object.__setattr__(made, name, value)  # a frozen dataclass forbids the plain way
    return made


def with_samples(node: Any, made: Any, start: int, stop: int) -> Any:  # noqa: ANN401 - any named node
    """Cut what transformers' BatchEncoding keeps of each text beside its tensors (offsets, words)."""
    encodings = getattr(node, "_encodings", None)
    if isinstance(encodings, list):
        made._encodings = encodings[start:stop]  # noqa: SLF001 - there is no public way
    return made


def refusal(node: Any) -> str | None:  # noqa: ANN401 - any node
    """Why a node cannot be cut into samples; None where it can, or is one thing for all of them."""
    if isinstance(node, PackedSequence):
        return "is a PackedSequence, whose steps are interleaved: split before packing"
    if isinstance(node, torch.Tensor):
        if node.is_nested:
            return "is a nested tensor: split its unbind() instead"
        return None if node.layout == torch.strided else f"is a {node.layout} tensor, which has no views: densify it"
    if _module(node).startswith(_GRAPHS):
        return f"is a {type(node).__name__}, whose nodes and edges belong together: split the list of graphs before batching"
    if kind_of(node) != "single" or isinstance(node, (str, bytes, bytearray, torch.Size, type)):
        return None
    if getattr(node, "shape", None) == ():  # numpy's array of a single number
        return None
    holds = any(isinstance(value, torch.Tensor) and value.dim() for value in getattr(node, "__dict__", {}).values())
    if holds or hasattr(type(node), "__len__"):
        return f"is a {type(node).__name__}, which cannot be cut: use a dict, list or dataclass"
    return None


def _attributes(node: Any) -> list[str]:  # noqa: ANN401 - a dataclass or a class of attrs
    described = getattr(type(node), "__attrs_attrs__", None) or dataclasses.fields(node)
    return [one.name for one in described]


def _module(node: object) -> str:
    return type(node).__module__ or ""
