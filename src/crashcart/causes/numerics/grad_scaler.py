"""The gradient scaler of mixed precision was called in the wrong order or on the wrong gradients.

What happens: ``scaler.step``, ``scaler.unscale_`` or ``scaler.update`` raises an assertion.

Why: the scaler keeps a small record for each optimizer between two updates. ``No inf checks were recorded`` means that
no parameter of that optimizer had a gradient: the step was taken without a backward pass (a ``continue`` or ``return``
between them after a NaN), all of them are frozen, or the loss is cut off from them. ``unscale_() has already been
called`` means two unscales before one ``update()``: clipping in each micro-step of an accumulation. ``Attempting to
unscale FP16 gradients`` means that the parameters themselves are half precision: a scaler needs float32 parameters.

How it shows: the exact sentences of ``torch/amp/grad_scaler.py``.

What to do: unscale and clip only on the micro-step that calls ``step``; when a batch is skipped, skip ``step`` and
``update`` too and clear the gradients, on all ranks together; load weights in float32 and let autocast do the rest;
with bfloat16 use no scaler at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, decisive, strong
from crashcart.causes._joined import edits_of, ranks
from crashcart.deaths import order
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Fact, Strength

title = "GradScaler was called in the wrong order or on the wrong gradients"
piece = "StepGuard"
alike = ("numerics/diverged", "code/bug")
INNERMOST = 3
REFUSED = frozenset({"AssertionError", "ValueError", "RuntimeError"})

phrases = (
    decisive(
        "no inf checks were recorded",
        says="the scaler called step or update although no gradient of this optimizer was unscaled",
    ),
    decisive("attempting to unscale fp16 gradients", says="the parameters themselves are in half precision"),
    decisive("unscale_() has already been called", says="unscale_() was called twice before update()"),
    decisive("unscale_() is being called after step()", says="unscale_() was called after step()"),
    decisive(
        "step() has already been called since the last update()",
        says="scaler.step() was called twice without update() in between",
    ),
    decisive("but _scale is none", says="the scaler was used before scaler.scale(loss)"),
    decisive(
        "_amp_foreach_non_finite_check_and_unscale",
        says="the scaler cannot unscale gradients of this type",
        pattern=r"not implemented for|Expected|RuntimeError",
    ),
    decisive(
        "performs unscaling of gradients internally",
        "closure use is not currently supported if gradscaler",
        "lbfgs optimizer are not compatible",
        "new_scale should be a float",
        says="this optimizer or call cannot be used with the scaler",
    ),
    strong("current scale_growth_tracker is none", "_growth_tracker is none", says="the scaler's state is not initialised"),
)
stacks = (Stack(r"(?:amp/grad_scaler|amp/scaler|grad_scaler)\.py:", "the traceback ends in the gradient scaler"),)


def in_code(case: Case) -> Iterator[Sign]:
    """A batch that is left out while the scaler goes on, or whose record in the scaler stays open; calls out of order."""
    for fact in _skips(case):
        only = "" if fact.value["enabled"] else ", if the scaler is enabled"
        if fact.value["what"] == "unscaled":
            says = f"this branch skips update() after unscale_: the next unscale_ fails{only}"
            yield Sign("strong", says, (fact.evidence,))
            continue
        parts = fact.value["every"] or 1
        when = "the loss is not finite" if parts == 1 else f"the losses of all {parts} micro-steps are not finite"
        says = f"if {when}, there are no gradients but scaler.step() is still called, which fails{only}"
        yield Sign("strong" if parts == 1 else "weak", says, (fact.evidence, fact.value["step"]))
    for fact in case.all("code.scaler_order"):
        yield _out_of_order(fact, before=case.before)


def _out_of_order(fact: Fact, *, before: bool) -> Sign:
    strength: Strength = "decisive" if fact.value["sure"] else "strong"
    if fact.value["what"] == "no_gradients":
        says = "if this backward pass is skipped, scaler.step() is called without gradients, which fails"
        return Sign("weak" if before else "strong", says, (fact.value["pass"], fact.evidence), fatal=not before)
    if fact.value["what"] == "never_updated":
        says = "scaler.step() is called repeatedly but update() never is: the second step fails"
        return Sign(strength, says, (fact.evidence,))
    if fact.value["what"] == "unscaled_again":
        says = "unscale_ is called twice for one optimizer step, without update() in between: the second call fails"
        return Sign(strength, says, (fact.evidence,))
    if fact.value["what"] == "clipped_scaled":
        says = "gradients are clipped while they are still multiplied by the loss scale, so the limit is far smaller than intended"
        return Sign("strong", says, (fact.evidence,), fatal=False)
    says = "unscale_ is called in each micro-step, but update() only once for several: the second unscale_ fails"
    every = fact.value["every"]
    how_often = f" ({every} micro-steps)" if every is not None else ", if the accumulation is above 1"
    return Sign(strength, f"{says}{how_often}", (fact.evidence,))


def _skips(case: Case) -> list[Fact]:
    """The places where the scaler is left in the wrong state."""
    return [fact for fact in case.all("code.nonfinite_skip") if fact.value["what"] in {"stepped", "unscaled"}]


def in_recorder(case: Case) -> Iterator[Sign]:
    """An uncaught exception that the scaler itself raised."""
    for event in case.flight.of_kind("exception") if case.flight is not None else ():
        inner = [str(frame) for frame in event.details.get("frames") or ()][-INNERMOST:]
        if any("grad_scaler.py:" in frame for frame in inner) and event.details.get("type") in REFUSED:
            says = f"the scaler raised an error on rank {event.rank} at step {event.details.get('step')}"
            yield Sign("decisive", says, (event.evidence,), order=order(case))
            return


def fix(case: Case) -> Iterator[Fix]:
    """Leave out the step with the batch, where the code allows; then the general remedies."""
    skips, disorder = _skips(case), case.all("code.scaler_order")
    exact = [fact for fact in disorder if fact.value["what"] != "clipped_scaled"]
    edits = (*edits_of(skips, "edits"), *edits_of(exact, "edits"))
    if edits:
        why = "one unscale_, one step and one update for each optimizer step, and none for a skipped batch"
        together = [fact for fact in skips if fact.value["distributed"] and not fact.value["together"] and ranks(case) != 1]
        if together:
            edits += edits_of(together, "edits_together")
            why += ", which all ranks skip together; nothing changes while the loss is finite"
        yield Fix("Put the scaler's calls in the right order", "exact", why, edits=edits)
    if edits_of(disorder, "edits") and len(exact) < len(disorder):
        why = "clipping then uses the real gradient norm"
        yield Fix("Unscale before clipping", "changes-training", why, edits=edits_of(disorder, "edits"))
    yield from fixes


fixes = (
    Fix(
        "Unscale, clip, step and update once for each optimizer step",
        "by-hand",
        "inside `if (micro_step + 1) % accumulation == 0:` call unscale_, clip_grad_norm_, step, update, zero_grad; if "
        "a batch "
        "is skipped, skip step and update as well, on every rank",
    ),
    Fix(
        "Train in bfloat16 without a scaler",
        "changes-training",
        "bfloat16 has the range of float32, so no scaling is needed; it requires Ampere or later",
        settings={"train.bf16": True, "train.fp16": False},
    ),
)
experiment = Experiment(
    title="Run 20 steps with the scaler disabled (GradScaler(enabled=False)) and print how many parameters have a gradient",
    start_from="the beginning",
    stop_after="20 steps",
    confirms="it works, and every parameter of the optimizer has a gradient: only the order of the calls was wrong",
    refutes="parameters have no gradient: then the loss does not reach them (frozen, detached), with or without the scaler",
)
