"""What `torch.compile` must not look into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["untraced"]

Method = TypeVar("Method", bound="Callable[..., Any]")


def untraced(method: Method) -> Method:
    """As torch's optimizers do: a compiled function that calls us breaks its graph at the call and never looks into it."""
    disable: Callable[[Method], Method] = getattr(torch, "_disable_dynamo", lambda method: method)
    return disable(method)
