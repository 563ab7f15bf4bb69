"""Layers whose number of outputs, or of rows, is a setting or a number in the code: how many classes or tokens the model has room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.rules._settings import fact_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution

_SIZES = {
    "torch.nn.Linear": (1, "out_features"),
    "torch.nn.LazyLinear": (0, "out_features"),
    "torch.nn.Conv1d": (1, "out_channels"),
    "torch.nn.Conv2d": (1, "out_channels"),
    "torch.nn.Conv3d": (1, "out_channels"),
    "torch.nn.Embedding": (0, "num_embeddings"),
}
_MOST = 64


def look(execution: Execution) -> Iterator[Fact]:
    """``code.output_size``: the layer, and its size with the place where it can be changed."""
    for call in execution.trace.named(*_SIZES)[:_MOST]:
        position, name = _SIZES[call.name]
        size = fact_of(execution, "model.outputs", call.argument(position, name), call)
        if size is not None and type(size.value) is int and size.span is not None:
            yield call.fact("code.output_size", {"layer": call.name.rpartition(".")[2], "size": size})
