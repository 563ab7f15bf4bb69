"""States of models whose parameters are spread over ranks (FSDP): gathered on the first, and spread again, by torch itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

__all__ = ["is_sharded", "load_model", "load_optimizer", "model_state", "optimizer_state"]


def is_sharded(model: Any) -> bool:  # noqa: ANN401 - a module or several
    """Whether a parameter lies in parts on several ranks, of FSDP's first or second kind."""
    if not hasattr(model, "modules"):
        return False
    kinds = {type(module).__name__ for module in model.modules()}
    return "FullyShardedDataParallel" in kinds or any(hasattr(one, "device_mesh") for one in model.parameters())


def _options(**more: Any) -> Any:  # noqa: ANN401 - StateDictOptions
    try:
        from torch.distributed.checkpoint.state_dict import StateDictOptions
    except ImportError:
        raise RuntimeError(
            "This torch cannot gather sharded parameters (2.2 and later can); save with torch.distributed.checkpoint in an atomic_folder."
        ) from None
    return StateDictOptions(full_state_dict=True, **more)


def model_state(model: nn.Module) -> dict[str, Any]:
    """Whole tensors on the host of the first rank; every rank must ask."""
    options = _options(cpu_offload=True)
    from torch.distributed.checkpoint.state_dict import get_model_state_dict

    return dict(get_model_state_dict(model, options=options))


def optimizer_state(model: nn.Module, optimizer: Any) -> dict[str, Any]:  # noqa: ANN401 - an optimizer
    """As `model_state`, of its optimizer, by the names of the parameters."""
    options = _options(cpu_offload=True)
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    return dict(get_optimizer_state_dict(model, optimizer, options=options))


def load_model(model: nn.Module, state: dict[str, Any]) -> None:
    """Give each rank its part of whole tensors."""
    options = _options()
    from torch.distributed.checkpoint.state_dict import set_model_state_dict

    set_model_state_dict(model, state, options=options)


def load_optimizer(model: nn.Module, optimizer: Any, state: dict[str, Any]) -> None:  # noqa: ANN401 - an optimizer
    """As `load_model`, for its optimizer."""
    options = _options()
    from torch.distributed.checkpoint.state_dict import set_optimizer_state_dict

    set_optimizer_state_dict(model, optimizer, state, options=options)
