"""States of models whose parameters are spread over ranks (FSDP): gathered on the first, and spread again, by torch itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

__all__ = ["by_number", "is_sharded", "load_model", "load_optimizer", "model_state", "optimizer_state"]


def is_sharded(model: Any) -> bool:  # noqa: ANN401 - a module or several
    """Whether a parameter lies in parts on several ranks, of FSDP's first or second kind."""
    if not hasattr(model, "modules"):
        return False
    kinds = {type(module).__name__ for module in model.modules()}
    return "FullyShardedDataParallel" in kinds or any(hasattr(parameter, "device_mesh") for parameter in model.parameters())


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
    """As `load_model`, for its optimizer; also from the state of a run that was not sharded, which has numbers for names."""
    options = _options()
    from torch.distributed.checkpoint.state_dict import set_optimizer_state_dict

    set_optimizer_state_dict(model, optimizer, _renamed(state, dict(enumerate(_names(model, optimizer)))), options=options)


def by_number(model: Any, optimizer: Any, state: Any) -> Any:  # noqa: ANN401 - one or several of each
    """The state of a sharded run's optimizer as one that is not sharded takes it; any other as it is."""
    if not hasattr(model, "named_parameters") or not hasattr(optimizer, "param_groups") or not isinstance(state, dict):
        return state
    return _renamed(state, {name: number for number, name in enumerate(_names(model, optimizer))})


def _renamed(state: dict[str, Any], names: dict[Any, Any]) -> dict[str, Any]:
    """Another name for each parameter, where all of them have one; else it is not ours to change."""
    groups = state.get("param_groups")
    if not isinstance(groups, list) or not all(param in names for group in groups for param in group.get("params", ())):
        return state
    return {
        **state,
        "state": {names.get(one, one): value for one, value in state["state"].items()},
        "param_groups": [{**group, "params": [names[param] for param in group["params"]]} for group in groups],
    }


def _names(model: Any, optimizer: Any) -> list[str]:  # noqa: ANN401 - a module and its optimizer
    """The names of the parameters, without what wraps their modules, in the optimizer's order."""
    wrappers = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
    if type(model).__name__ in {"DistributedDataParallel", "DataParallel"}:
        model = model.module
    names = {
        id(parameter): ".".join(part for part in name.split(".") if part not in wrappers)
        for name, parameter in model.named_parameters()
    }
    return [names.get(id(param), "") for group in optimizer.param_groups for param in group["params"]]
