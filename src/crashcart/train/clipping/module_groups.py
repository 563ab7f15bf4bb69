"""Which parameters belong to which pattern, whatever the model is wrapped in.

A pattern is the name of a module or parameter (``depth_head`` is everything below it) or a glob over such names
(``aggregator.*``, ``blocks.[0-3]``, ``*.norm``). The first pattern that fits takes the parameter, so each is in one group.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torch import nn

__all__ = ["Groups", "groups_of"]

_WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module"}
_REFUSED = {
    "FullyShardedDataParallel": "FSDP1 flattens and shards parameters: use its own clip_grad_norm_, or fully_shard (FSDP2)",
    "DeepSpeedEngine": "DeepSpeed keeps gradients for itself: set gradient_clipping in its config",
}


class Groups(NamedTuple):
    """Parameters in the order of their groups, the group of each, and the names that no pattern took (the last group)."""

    parameters: list[nn.Parameter]
    numbers: list[int]
    unmatched: list[str]


def groups_of(model: nn.Module, patterns: Sequence[str]) -> Groups:
    """Every parameter once; raises where a pattern would clip nothing."""
    for module in model.modules():
        if why := _REFUSED.get(type(module).__name__):
            raise TypeError(f"clip_by_module: {why}")
    names: dict[nn.Parameter, list[str]] = {}  # several where weights are tied
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    tests = [_test(pattern) for pattern in patterns]
    taken: dict[nn.Parameter, int] = {}
    for parameter, own in names.items():
        every = {spelling for name in own for spelling in _spellings(name)}
        taken[parameter] = next((number for number, fits in enumerate(tests) if fits(every)), len(patterns))
    for number in sorted(set(range(len(patterns))) - set(taken.values())):
        _explain(patterns, number, names, taken)
    order = sorted(taken, key=taken.__getitem__)
    unmatched = [_spellings(names[each][0])[-1] for each in order if taken[each] == len(patterns)]
    return Groups(order, [taken[each] for each in order], unmatched)


def _explain(
    patterns: Sequence[str], number: int, names: dict[nn.Parameter, list[str]], taken: dict[nn.Parameter, int]
) -> None:
    """A pattern without a parameter is an error, unless tied weights went to an earlier one under their other name."""
    pattern, fits = patterns[number], _test(patterns[number])
    under = [each for each, own in names.items() if fits({spelling for name in own for spelling in _spellings(name)})]
    if any(len(names[each]) > 1 for each in under):
        return
    if under:
        earlier = patterns[taken[under[0]]]
        raise ValueError(
            f"clip_by_module: all of {pattern!r} belongs to {earlier!r}, which comes first: put {pattern!r} before it"
        )
    known = {prefix: None for own in names.values() for prefix in _prefixes(_spellings(own[0])[-1])}
    alike = [name for name in known if name.endswith(f".{pattern}")][:1] or difflib.get_close_matches(pattern, known, n=1)
    tops = ", ".join(dict.fromkeys(name.partition(".")[0] for name in known)) or "none"
    hint = f"did you mean {alike[0]!r}?" if alike else f"the model has: {tops}"
    raise ValueError(f"clip_by_module: no parameter lies under {pattern!r}; {hint}")


def _test(pattern: str) -> Callable[[Iterable[str]], bool]:
    if not set(pattern) & set("*?["):
        return lambda names: any(name == pattern or name.startswith(f"{pattern}.") for name in names)
    fits = re.compile(fnmatch.translate(pattern)).match
    return lambda names: any(fits(prefix) for name in names for prefix in _prefixes(name))


def _spellings(name: str) -> list[str]:
    """As torch tells it, and without the names of wrappers: the plainest last."""
    parts = [part for part in name.split(".") if part not in _WRAPPERS]
    bare = next((index for index, part in enumerate(parts) if part != "module"), 0)
    return [name, ".".join(parts), ".".join(parts[bare:])]


def _prefixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
