"""What ``torch.amp.GradScaler`` keeps between two updates, and the calls that it refuses.

For each optimizer it knows whether its gradients were unscaled and whether it has stepped; ``update()`` forgets both. A step with no
gradient at all is refused (``No inf checks were recorded``), so is a second ``unscale_`` and a second step before ``update()``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.readers.interpreter.trace import Call, Event, Write
from crashcart.readers.interpreter.values import Constant, Instance, Library, Result, Value, constant_of
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from crashcart.readers.interpreter.execution import Execution

__all__ = ["Refusal", "enabled", "is_step_event", "kind_of", "places_of_birth", "refusals", "scaler_of", "scalers_on"]

_SCALER = re.compile(r"GradScaler\.(scale|unscale_|step|update)$")
_CLIPS = frozenset({"clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_grad_value"})


@record(frozen=True)
class Refusal:
    """A call that goes wrong: ``no_gradients``, ``unscaled_again``, ``stepped_again``, ``clipped_scaled``; ``earlier`` is the call behind it."""

    kind: str
    event: Call
    earlier: Call | None = None


def kind_of(event: Event) -> str:
    """What an event does to gradients or to the scaler; empty for anything else."""
    if isinstance(event, Write):
        return "clear" if event.name == "grad" and constant_of(event.value, event) is None else ""
    if not isinstance(event, Call) or event.function is not None:
        return ""
    if (match := _SCALER.search(event.name)) is not None:
        return f"scaler.{match[1]}" if match[1] != "scale" else ""
    if event.method == "backward":
        return "backward"
    if event.method == "zero_grad":
        return "clear" if constant_of(event.argument(0, "set_to_none"), True) is not False else ""  # torch's default
    return "clip" if event.method in _CLIPS else ""


def is_step_event(event: Event) -> bool:
    """Whether an event matters for the order of a step."""
    return bool(kind_of(event))


def scaler_of(event: Call) -> Value | None:
    """The scaler of a call of its methods, or the one that scaled what goes backward."""
    if event.method == "backward":
        scaled = event.receiver
        return (
            scaled.call.receiver
            if isinstance(scaled, Result) and scaled.name.endswith("GradScaler.scale") and scaled.call
            else None
        )
    return event.receiver


def enabled(scaler: Value | None) -> bool | None:
    """Whether a scaler is switched on; None where that is not known."""
    if not isinstance(scaler, Result) or scaler.call is None:
        return None
    value = scaler.call.argument(None, "enabled", Constant(True))  # torch's default
    return bool(value.value) if isinstance(value, Constant) else None


def places_of_birth(*executions: Execution) -> dict[int, object]:
    """Objects that are the same in a program that was followed several times: made by the same call, and as many before them."""
    found: dict[int, object] = {}
    for execution in executions:
        counts: dict[int, int] = {}
        for call in execution.trace.calls:
            if isinstance(call.result, (Result, Instance)) and call.result.call is call:
                counts[id(call.node)] = number = counts.get(id(call.node), 0) + 1
                found[id(call.result)] = (id(call.node), number)
    return found


def refusals(events: Iterable[Event], same: Mapping[int, object] | None = None) -> Iterator[Refusal]:
    """What a scaler refuses in this order of events; ``same`` says which objects are one in several runs of the interpreter."""
    state = _State(same or {})
    for event in events:
        if isinstance(event, Write):
            state.has_gradients = False
        elif isinstance(event, Call):
            yield from state.take(kind_of(event), event)


class _State:
    """Gradients are none before the first backward pass."""

    def __init__(self, same: Mapping[int, object]) -> None:
        self.same = same
        self.has_gradients = self.are_scaled = False
        self.cleared: set[object] = set()
        self.unscaled: dict[tuple[object, object], Call] = {}
        self.stepped: dict[tuple[object, object], Call] = {}
        self.clips: list[Call] = []

    def identity(self, value: Value | None) -> object:
        return self.same.get(id(value), value.name if isinstance(value, Library) else id(value))

    def take(self, kind: str, event: Call) -> Iterator[Refusal]:
        key = (self.identity(event.receiver), self.identity(event.argument(0, "optimizer")))
        if kind == "backward":
            self.has_gradients, self.are_scaled = True, scaler_of(event) is not None
            self.cleared.clear()
        elif kind == "clear":
            self.cleared.add(self.identity(event.receiver))
            self.has_gradients = self.has_gradients and not _is_model(event.receiver)
        elif kind == "clip" and self.has_gradients and self.are_scaled and not self.unscaled:
            self.clips.append(event)
        elif kind == "scaler.unscale_":
            earlier = self.unscaled.get(key) or self.stepped.get(key)
            if earlier is not None:
                yield Refusal("unscaled_again", event, earlier)
            self.unscaled[key] = event
        elif kind == "scaler.step":
            yield from self.step(key, event)
        elif kind == "scaler.update":
            self.unscaled.clear()
            self.stepped.clear()
            self.clips.clear()

    def step(self, key: tuple[object, object], event: Call) -> Iterator[Refusal]:
        yield from (Refusal("clipped_scaled", clip, event) for clip in self.clips)
        self.clips.clear()
        if key in self.stepped:
            yield Refusal("stepped_again", event, self.stepped[key])
        elif not self.has_gradients or key[1] in self.cleared:
            yield Refusal("no_gradients", event)
        self.stepped[key] = event


def _is_model(receiver: Value | None) -> bool:
    """Whether clearing goes through the whole model, and not through one optimizer, of which there may be several."""
    if isinstance(receiver, Instance):
        return receiver.cls.is_a("Module", "LightningModule")
    return isinstance(receiver, Result) and receiver.name.startswith(("torch.nn.", "torch.distributed.fsdp."))


def scalers_on(execution: Execution) -> bool:
    """Whether the program makes a scaler that may be switched on."""
    return any(enabled(call.result) is not False for call in execution.trace.methods("GradScaler", "ShardedGradScaler"))
