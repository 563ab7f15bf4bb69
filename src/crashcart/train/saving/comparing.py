"""What a run was when it was saved, and what it is after the resume: where they differ, a sentence."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from crashcart.checkpoints.steps import named_step
from crashcart.train.saving import agreement
from crashcart.train.saving.kinds import doubts_about_kinds
from crashcart.train.saving.training_state import groups_of, learning_rates

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Before", "Resumed", "doubts_about"]

# What changes while a scheduler runs; all else in its state is a setting.
_PROGRESS = frozenset(
    {
        "last_epoch",
        "_step_count",
        "_last_lr",
        "verbose",
        "best",
        "num_bad_epochs",
        "cooldown_counter",
        "T_cur",
        "T_i",
        "mode_worse",
    }
)
_RATES = frozenset({"lr", "initial_lr", "max_lr", "min_lr", "params"})
_LOSSES = 5
_JUMP = 1.5  # a loss so many times that before, or a rate twice as far off, is another run


@dataclass
class Resumed:
    """Where a run goes on; false where it begins. `more` holds what else was saved."""

    path: str | None = None
    step: int = 0
    epoch: int = 0
    batch: int = 0
    loss: float | None = None
    lr: tuple[float, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    told: frozenset[str] = field(default=frozenset({"epoch", "batch"}), repr=False)  # which of the two were saved
    optimizer: Any = field(default=None, repr=False)
    _losses: list[float] = field(default_factory=list, repr=False)

    def __bool__(self) -> bool:
        return self.path is not None

    def __str__(self) -> str:
        if not self:
            return "nothing was resumed: this run begins at step 0"
        places = [f"{name} {getattr(self, name)}" for name in ("epoch", "batch") if name in self.told]
        parts = [f"step {self.step}", *places, f"lr {_rates(self.lr)}"]
        parts += [f"loss {self.loss:.4g}"] if self.loss is not None else []
        word = "doubt" if len(self.doubts) == 1 else "doubts"
        doubts = f"; {len(self.doubts)} {word}, see the warnings" if self.doubts else "; all as it was saved"
        return f"{self.path}: {', '.join(parts)}{doubts}"

    def check(self, loss: Any) -> bool:  # noqa: ANN401 - a number or a tensor
        """Compare the first five losses after the resume, and the rate, with those before; after that it does nothing.

        False, and a warning, where they disagree.
        """
        if not self or len(self._losses) >= _LOSSES:
            return True
        self._losses.append(float(loss.detach() if hasattr(loss, "detach") else loss))
        if len(self._losses) < _LOSSES and math.isfinite(self._losses[-1]):
            return True
        found = list(self._after())
        self._losses += [0.0] * (_LOSSES - len(self._losses))
        self.doubts += tuple(found)
        for doubt in found:
            warnings.warn(f"after the resume at step {self.step}: {doubt}", stacklevel=2)
        return not found

    def _after(self) -> Iterator[str]:
        mean = sum(self._losses) / len(self._losses)
        if not math.isfinite(mean):
            yield f"the loss is {mean}"
        elif self.loss is not None and mean > self.loss + (_JUMP - 1) * abs(self.loss):
            yield f"the loss is {mean:.4g} over the first {_LOSSES} steps, it was {self.loss:.4g} when it was saved"
        now = tuple(learning_rates(self.optimizer))
        if any(not _near(one, other, 2 * _JUMP) for one, other in zip(now, self.lr, strict=False)):
            yield f"the learning rate is {_rates(now)}, it was {_rates(self.lr)} when it was saved"


@dataclass
class Before:
    """What the program had set before a checkpoint was loaded over it."""

    groups: list[dict[str, Any]]
    schedule: dict[str, Any]

    @classmethod
    def of(cls, optimizer: Any, scheduler: Any) -> Before:  # noqa: ANN401 - of one kind or several
        """Take a copy of the settings."""
        return cls([dict(group) for group in groups_of(optimizer)], _settings(scheduler))


def doubts_about(run: Resumed, state: dict[str, Any], before: Before, parts: dict[str, Any]) -> Iterator[str]:
    """Every sentence in which the run that goes on differs from the one that was saved."""
    yield from _left_behind(state, parts)
    yield from _about_step(run, state, parts)
    yield from doubts_about_kinds(state, parts, _plain(state.get("scheduler")), before.schedule)
    yield from _about_rates(state, before, parts)
    yield from _about_data(run, state, parts)
    yield from _about_numbers(run, state)


def _left_behind(state: dict[str, Any], parts: dict[str, Any]) -> Iterator[str]:
    for name in ("model", "optimizer", "scheduler", "scaler"):
        if name in state and parts[name] is None:
            yield f"the checkpoint holds the state of the {name}, which was not given to resume: here it starts anew"


def _about_step(run: Resumed, state: dict[str, Any], parts: dict[str, Any]) -> Iterator[str]:
    named = named_step(str(run.path).rsplit("/", 1)[-1])
    if named is not None and named != run.step:
        yield f"its name says step {named}, and inside is step {run.step}"
    if "step" not in state and named is None:
        yield "it names no step, so this run counts from 0"
    count = getattr(parts["scheduler"], "last_epoch", None)
    if not isinstance(count, int) or not run.step:
        return
    known = [run.step, *([run.epoch, run.epoch + 1] if "epoch" in state else [])]
    fits = any(abs(count - one) <= max(1, one // 20) for one in known if one) or (count and not run.step % count)
    if not fits and (not count or count % run.step):
        yield f"the scheduler has made {count} steps, the run {run.step}"


def _about_rates(state: dict[str, Any], before: Before, parts: dict[str, Any]) -> Iterator[str]:
    now = groups_of(parts["optimizer"])
    for number, (asked, group) in enumerate(zip(before.groups, now, strict=False)):
        where = f" of group {number}" if len(now) > 1 else ""
        wanted, loaded = (one.get("initial_lr", one.get("lr")) for one in (asked, group))
        if not _same(wanted, loaded):
            yield f"lr{where} goes on from {_shown(loaded)} as saved, while the program had set {_shown(wanted)}"
        moving = _RATES | ({"momentum", "betas"} if "base_momentum" in group else set())  # OneCycleLR and CyclicLR move them
        for name in sorted(asked.keys() & group.keys() - moving):
            if not _same(asked[name], group[name]):
                yield f"{name}{where} is {_shown(group[name])} as saved, while the program had set {_shown(asked[name])}"
    rates = [float(group["lr"]) for group in now]
    if isinstance(state.get("lr"), list) and rates and not _same(state["lr"], rates):
        yield f"lr is {_rates(rates)} now, it was {_rates(state['lr'])} when it was saved"
    last = getattr(parts["scheduler"], "_last_lr", None)
    if last and rates and not _same([float(one) for one in last], rates):
        yield f"the scheduler stands at lr {_rates(last)}, the optimizer at {_rates(rates)}"
    after = _settings(parts["scheduler"])
    for name in sorted(before.schedule.keys() & after.keys()):
        if not _same(before.schedule[name], after[name]) and name != "base_lrs":
            yield f"the scheduler's {name} is {_shown(after[name])} as saved, while the program had set {_shown(before.schedule[name])}"


def _about_data(run: Resumed, state: dict[str, Any], parts: dict[str, Any]) -> Iterator[str]:
    batches = len(parts["loader"]) if hasattr(parts["loader"], "__len__") else None
    if batches is not None and isinstance(state.get("batches"), int) and batches != state["batches"]:
        yield f"an epoch has {batches} batches now, it had {state['batches']}"
    moved = any(hasattr(parts[name], "load_state_dict") and state.get(name) for name in ("loader", "sampler"))
    if run.batch and not moved:
        yield f"the data begins at the start of epoch {run.epoch} again, where {run.batch} batches had been seen: skip them"
    if isinstance(state.get("world"), int) and state["world"] != agreement.world():
        yield f"it was saved by {state['world']} ranks, here are {agreement.world()}: the global batch may differ"


def _about_numbers(run: Resumed, state: dict[str, Any]) -> Iterator[str]:
    if run.loss is not None and not math.isfinite(run.loss):
        yield f"its loss is {run.loss}"
    model = state.get("model")
    tensors = model.items() if isinstance(model, dict) else []
    wrong = [name for name, one in tensors if isinstance(one, torch.Tensor) and one.is_floating_point() and not _finite(one)]
    if wrong:
        yield f"{len(wrong)} tensors of the model are not finite, the first is {wrong[0]}: take an older checkpoint"


def _finite(tensor: torch.Tensor) -> bool:
    return bool(torch.isfinite(tensor.float() if tensor.dtype.itemsize == 1 else tensor).all())


def _settings(scheduler: Any) -> dict[str, Any]:  # noqa: ANN401 - a scheduler
    return _plain(scheduler.state_dict()) if hasattr(scheduler, "state_dict") else {}


def _plain(state: Any) -> dict[str, Any]:  # noqa: ANN401 - of a scheduler, if it is one
    plain = (int, float, str, list, tuple, dict)
    return {
        name: value
        for name, value in (state.items() if isinstance(state, dict) else ())
        if name not in _PROGRESS and isinstance(value, plain) and not name.startswith("_")
    }


def _same(one: Any, other: Any) -> bool:  # noqa: ANN401 - any two settings
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return _same(float(one), float(other))
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-6)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def _near(one: float, other: float, times: float) -> bool:
    return one == other or (one * other > 0 and 1 / times <= one / other <= times)


def _rates(rates: Any) -> str:  # noqa: ANN401 - numbers or tensors
    return ", ".join(f"{float(rate):.4g}" for rate in rates) or "unknown"


def _shown(value: Any) -> str:  # noqa: ANN401 - any setting
    return f"{float(value):.4g}" if isinstance(value, (float, torch.Tensor)) else repr(value)
