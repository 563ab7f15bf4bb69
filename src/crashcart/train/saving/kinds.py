"""Which optimizer and which scheduler a run had: a state of another kind loads without an error, and means something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["doubts_about_kinds", "kinds_of", "lacking", "several"]

_NAMED = 4


def several(part: Any) -> list[Any]:  # noqa: ANN401 - one optimizer or the like, or several in a dict or list
    """The single ones."""
    if part is None:
        return []
    if isinstance(part, dict):
        return list(part.values())
    return list(part) if isinstance(part, (list, tuple)) else [part]


def kinds_of(optimizer: Any, scheduler: Any) -> dict[str, list[str]]:  # noqa: ANN401 - one or several of each
    """The names of their classes, which their states do not hold."""
    kinds = {"optimizer": _names(optimizer), "scheduler": _names(scheduler)}
    return {name: names for name, names in kinds.items() if names}


def doubts_about_kinds(
    state: dict[str, Any], parts: dict[str, Any], was: dict[str, Any], has: dict[str, Any]
) -> Iterator[str]:
    """Where a part is of another kind than the one that was saved; the scheduler's settings in the checkpoint, and here before."""
    saved = state.get("kinds")
    kinds = saved if isinstance(saved, dict) else {}
    for name in ("optimizer", "scheduler"):
        now = _names(parts[name])
        if name in kinds and now and list(kinds[name]) != now:
            yield f"the {name} was {', '.join(map(str, kinds[name]))}, here it is {', '.join(now)}"
    strange, unset = was.keys() - has.keys(), has.keys() - was.keys()
    if "scheduler" not in kinds and strange and unset:  # One alone may be of another version of torch.
        yield f"the scheduler was of another kind: {_few(strange)} were saved, here it has {_few(unset)}"


def lacking(optimizer: Any) -> list[str]:  # noqa: ANN401 - an optimizer
    """Settings that its next step will ask for and a loaded state took away: it was the state of another kind."""
    defaults = getattr(optimizer, "defaults", None)
    if not isinstance(defaults, dict):
        return []
    return sorted({name for group in optimizer.param_groups for name in defaults if name not in group})


def _names(part: Any) -> list[str]:  # noqa: ANN401 - one or several
    """Accelerate's wrappers have the name of what they wrap."""
    inner = [
        one.optimizer if type(one).__name__ == "AcceleratedOptimizer"
        else one.scheduler if type(one).__name__ == "AcceleratedScheduler"
        else one
        for one in several(part)
    ]  # fmt: skip
    return [type(one).__name__ for one in inner]


def _few(names: set[str]) -> str:
    return ", ".join(sorted(names)[:_NAMED])
