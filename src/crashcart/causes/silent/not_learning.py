"""The run continues, but the model does not learn.

What happens: steps pass, checkpoints are written, and the weights hardly change.

Why: the learning rate is 0 or never leaves its warm-up (a schedule that counts steps is stepped once an epoch), no parameter is trainable or in the optimizer, gradients are detached or cleared, all
labels are masked (-100: a template that does not match, samples cut before their answer), every step is skipped.

How it shows: ``grad_norm`` or ``learning_rate`` is exactly 0 line after line; loss and gradient are exactly 0;
``trainable params: 0``; a loss that stays at chance (the logarithm of the number of classes) with an accuracy at
chance. A rate of 0 on the first line (warm-up) or the last one (end of decay) is right, and losses of GRPO, GANs and
PPO hover by nature.

What to do: print for ten steps how many parameters have a gradient, its norm, the rate of each group, and how many
labels count; overfit one batch: a model that cannot do that is wired wrongly.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from crashcart.attribution import of_stage
from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes._joined import edits_of, ranks
from crashcart.causes.silent._flat import flat, hovers
from crashcart.causes.silent._lines import grade, lines_with
from crashcart.deaths import order
from crashcart.doubts import FEW_NUMBERS, few_trained, unwarmed
from crashcart.flight import clock
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign
from crashcart.numbers import to_float, to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.flight import Event
    from crashcart.log import Metrics
    from crashcart.model import Strength

title = "The run continues but the model does not learn"
lasting = True
judges_training = True
alike = ("numerics/diverged", "silent/masked-nan")
GRADIENTS = ("grad_norm", "grad norm", "gnorm", "train/grad_norm")
RATES = ("learning_rate", "learning rate", "lr", "train/learning_rate")
SEVERAL = 3
SHOWN = 2
BEGUN = r"epoch\W{0,4}0*(?:[1-9]\d*)\b"

NONE_USED = r"\b(?:0|no) (?:batches|steps|updates|samples|optimizer steps) (?:were )?(?:used|trained|processed|done|performed|applied)\b"
SKIPPED = r"\bskipp(?:ing|ed) (?:this |the )?(?:batch|step|update|sample|iteration)\b"
MANY_SKIPPED = 10
BROADCAST = "using a target size (torch.size("
FEWEST_AT_ZERO, SHARE_AT_ZERO = 20, 0.3
HARDLY_ANY = 1e-3

phrases = (
    decisive("trainable param", "trainable weights", "trainable%: 0", "no trainable", "nothing to train",
             says="no parameter is trainable", any_level=True, unless=r"non-?trainable|\bLoRA\b.{0,200}\?",
             pattern=r"trainable (?:param|weight)\w*(?: \(\w+\))?\s*[:=]\s*0(?:\.0+)?(?!\d|[.,]\d| ?[KMB]\b)|"
                     r"^\s*0\s+trainable param|trainable%: 0(?:\.0+)?\s*$|\bno trainable (?:param|weight|layer)|"
                     r"nothing to train"),
    strong("training_step` returned `none`", "training_step returned none", says="the training step returns no loss",
           fatal=False, any_level=True),
    weak("none of the inputs have requires_grad", "will be ignored in loss calculation", "before `optimizer.step()`",
         "could not find response key", says="a warning that fits a run without gradients", fatal=False, any_level=True),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """Gradients, rates or losses that are 0 for long, and losses that stay at chance."""
    case = of_stage(case)
    yield from _all_skipped(case)
    yield from _broadcast(case)
    lines = [metric for metric in case.log.metrics if not hovers(metric)]
    yield from _zero(case, lines, GRADIENTS, "the gradient norm")
    begun = (
        len(lines) > SEVERAL - 1
        and case.log.finished is None
        and all(compiled(BEGUN).search(line.line.text) for line in lines)
    )
    yield from _zero(case, lines if begun else lines[1:-1], RATES, "the learning rate")
    both = [line for line in lines if _value(line, ("loss",)) == 0 == _value(line, GRADIENTS)]
    if both:
        says = "loss and gradient norm are exactly 0: no label counts, or nothing is connected"
        yield Sign(grade(case, "strong"), says, (evidence(both[0].line),), order=both[0].line.order)
    ignored = list(lines_with(case, "will be ignored in loss calculation"))
    if len(ignored) > SEVERAL * 2:
        says = "many samples have no label that counts"
        yield Sign(grade(case, "strong"), says, (evidence(ignored[0]),), fatal=False, order=ignored[0].order)
    for first, last, says in flat(case):
        yield Sign(grade(case, "strong"), says, (evidence(first), evidence(last)), fatal=False, order=first.order)


def _broadcast(case: Case) -> Iterator[Sign]:
    """Torch's warning that prediction and target differ in shape; some trainings learn all the same."""
    stayed = _loss_that_stayed(case)
    for line in lines_with(case, BROADCAST):
        says = "prediction and target differ in shape: each is compared with all of the others"
        if stayed is not None:
            says += ", and the loss is no lower at the end than at the beginning"
        places = (evidence(stayed[0].line), evidence(stayed[1].line)) if stayed is not None else ()
        strength: Strength = "weak" if stayed is None else grade(case, "strong")
        yield Sign(strength, says, (evidence(line), *places), fatal=False, order=line.order)
        return


def _all_skipped(case: Case) -> Iterator[Sign]:
    """Every batch was skipped: the run reaches its end and nothing was trained."""
    said = [
        line
        for line in case.log.index.saying(("batches", "steps", "updates", "samples"))
        if compiled(NONE_USED).search(line.text)
    ]
    skipped = [line for line in case.log.index.saying(("skipping", "skipped")) if compiled(SKIPPED).search(line.text)]
    if said:
        yield Sign("strong", "the program reports that it trained on nothing", (evidence(said[0]),), order=said[0].order)
    elif len(skipped) >= MANY_SKIPPED and not any(metric.get("loss") is not None for metric in case.log.metrics):
        says = f"{len(skipped)} batches were skipped, and no loss was ever printed"
        yield Sign("strong", says, (evidence(skipped[0]), evidence(skipped[-1])), order=skipped[0].order)


def _zero(case: Case, lines: list[Metrics], names: tuple[str, ...], what: str) -> Iterator[Sign]:
    known = [line for line in lines if _value(line, names) is not None]
    zero = [one for one in known if _value(one, names) == 0]
    if len(zero) >= SEVERAL and len(zero) > len(known) // 2:
        strength: Strength = grade(case, "strong")
        yield Sign(
            strength, f"{what} is exactly 0 in {len(zero)} step lines", (evidence(zero[0].line),), order=zero[0].line.order
        )


def _value(one: Metrics, names: tuple[str, ...]) -> float | None:
    return next((value for name in names if (value := one.get(name)) is not None), None)


def in_recorder(case: Case) -> Iterator[Sign]:
    """An optimizer of frozen tensors; a learning rate of 0 in every group over a good part of all steps, not only at their end."""
    yield from _frozen(case)
    yield from _few(case)
    yield from _unwarmed(case)
    yield from _decayed(case)
    for process in case.flight.ranks if case.flight is not None else ():
        if case.flight is None or process.page.get("lr_highest") != 0:
            continue
        steps = dict(case.flight.series("page", "steps", process.pid))
        rates = case.flight.series("page", "lr_highest", process.pid)
        last = max((at for at, (_, rate) in enumerate(rates) if rate > 0), default=-1)
        since = [(time, steps[time]) for time, _ in rates[last + 1 :] if time in steps]
        done = process.page.get("steps", 0.0)
        if since and done - since[0][1] >= max(FEWEST_AT_ZERO, SHARE_AT_ZERO * done):
            says = f"the learning rate of every group of {process.name} was 0 at step {since[0][1]:.0f} and still 0 at step {done:.0f}"
            at = clock(since[0][0])
            quote = f"{process.name}: lr_highest=0 from step {since[0][1]:.0f} to step {done:.0f}"
            yield Sign(
                "decisive", says, (Evidence("recorder", quote, f"recorder {at}", process.rank, at),), order=order(case)
            )
            return


def _unwarmed(case: Case) -> Iterator[Sign]:
    """A rate that was still rising at the last step, far below that of the optimizer, since its schedule was hardly stepped."""
    found = unwarmed(case.flight) if case.flight is not None else None
    if found is None:
        return
    process, schedule = found
    made, top, steps = (process.page[name] for name in ("lr_made", "lr_top", "steps"))
    stepped, kind = to_int(schedule.details.get("stepped"), 0), schedule.details.get("class", "schedule")
    says = (
        f"the learning rate never left its warm-up: it reached {top:.3g} of {made:.3g}, for the {kind} was stepped {stepped} times "
        f"in {steps:.0f} optimizer steps; it counts steps, and is stepped once an epoch"
    )
    quote = f"{process.name}: lr_made={made:.3g} lr_top={top:.3g} steps={steps:.0f}"
    place = str(schedule.details.get("place", "")).partition(" ")[0]
    here = (Evidence("recorder", "the schedule was made here", place),) if place else ()
    items = (Evidence("recorder", quote, "recorder", process.rank), schedule.evidence, *here)
    yield Sign("decisive", says, items, order=order(case))


def _decayed(case: Case) -> Iterator[Sign]:
    """A schedule that had taken the rate to nearly nothing long before the end: it counts epochs, and was stepped with each batch."""
    for schedule in case.flight.of_kind("schedule") if case.flight is not None else ():
        stepped, steps = (to_int(schedule.details.get(name), 0) for name in ("stepped", "step"))
        made = [
            setting
            for setting in _settings(case, schedule, "scheduler")
            if setting.details.get("place") == schedule.details.get("place")
        ]
        settings = dict(made[0].details.get("settings") or ()) if len(made) == 1 else {}
        gamma, every = to_float(settings.get("gamma"), 1.0), to_int(settings.get("step_size", 1), 0)
        if stepped < FEWEST_AT_ZERO or stepped < steps / SHOWN or not 0 < gamma < 1 or every < 1 or "milestones" in settings:
            continue
        gone = (to_int(math.log(HARDLY_ANY) / math.log(gamma), 0) + 1) * every
        if gone * SHOWN <= stepped and _rate_is_gone(case, schedule):
            place = str(schedule.details.get("place", "")).partition(" ")[0]
            here = (Evidence("recorder", "the schedule was made here", place),) if place else ()
            says = (
                f"the {schedule.details.get('class')} was stepped {stepped} times in {steps} optimizer steps, and had the learning "
                f"rate at a thousandth after {gone}: it counts epochs, and is stepped with each batch"
            )
            yield Sign("decisive", says, (schedule.evidence, *here), order=order(case))
            return


def _rate_is_gone(case: Case, event: Event) -> bool:
    process = case.flight.processes.get(event.pid or 0) if case.flight is not None else None
    page = process.page if process is not None else {}
    return page.get("lr", math.nan) <= page.get("lr_made", math.nan) * HARDLY_ANY


def _frozen(case: Case) -> Iterator[Sign]:
    """Tensors of an optimizer none of which takes a gradient; where they only had none, an optimizer may have freed them."""
    flight = case.flight
    ranks = {process.pid: process for process in flight.ranks} if flight is not None else {}
    for event in flight.of_kind("no gradients") if flight is not None else ():
        process = ranks.get(event.pid or 0)
        frozen, tensors = event.details.get("frozen"), event.details.get("tensors")
        if process is None or len([*_optimizers(case, event)]) > 1:
            continue
        made = next((str(optimizer.details.get("place", "")) for optimizer in _optimizers(case, event)), "")
        where = f", made at {made.partition(' ')[0]}," if made else ""
        if frozen == tensors:
            says = f"all {tensors} tensors of the optimizer{where} are frozen: its {process.page.get('steps', 0.0):.0f} steps changed nothing"
            yield Sign("decisive", says, (event.evidence, *_place(made)), order=order(case))
        else:
            says = (
                f"none of the {tensors} tensors of the optimizer{where} had a gradient at step {event.details.get('step')}"
            )
            stayed = _loss_that_stayed(case)
            if stayed is None:
                yield Sign("weak", says, (event.evidence, *_place(made)), fatal=False, order=order(case))
            else:
                first, last = stayed
                says += ", and the loss did not fall"
                places = (event.evidence, *_place(made), evidence(first.line), evidence(last.line))
                yield Sign("decisive", says, places, order=order(case))
        return


def _few(case: Case) -> Iterator[Sign]:
    """An optimizer of a few numbers, or of a small part of the model where the code froze it by a slip, and a loss that did not fall."""
    found = few_trained(case.flight) if case.flight is not None else None
    stayed = _loss_that_stayed(case)
    if found is None or stayed is None:
        return
    made, saved = found
    count, frozen = to_int(made.details.get("parameters"), 0), case.all("code.frozen")
    if (count > FEW_NUMBERS and not (frozen and case.all("code.empty_part"))) or (saved is None and not frozen):
        return
    place = next((str(optimizer.details.get("place", "")) for optimizer in _optimizers(case, made)), "")
    where = f", made at {place.partition(' ')[0]}," if place else ""
    numbers = "1 number" if count == 1 else f"{count} numbers"
    whole = f" of a model with {to_int(saved.details.get('bytes'), 0)} bytes" if saved is not None else ""
    says = f"the optimizer{where} has {numbers}{whole}: everything else is frozen, and the loss did not fall"
    first, last = stayed
    items = (made.evidence, *_place(place), evidence(first.line), evidence(last.line))
    yield Sign("decisive", says, items, order=order(case))


def _place(made: str) -> tuple[Evidence, ...]:
    """Where an optimizer was made, as its settings were recorded: ``/job/train.py:17 main``."""
    place, _, function = made.partition(" ")
    return (
        (Evidence("recorder", f"the optimizer was created here{f' in {function}' if function else ''}", place),)
        if place
        else ()
    )


def _loss_that_stayed(case: Case) -> tuple[Metrics, Metrics] | None:
    """The first and last lines with a loss, where the later half is lower by less than losses go up and down."""
    lines = [line for line in of_stage(case).log.metrics if _value(line, ("loss",)) is not None]
    values = [_value(line, ("loss",)) or 0.0 for line in lines]
    half = len(values) // 2
    if half < SEVERAL or not all(map(math.isfinite, values)):
        return None
    noise = sum(abs(later - earlier) for earlier, later in pairwise(values)) / (len(values) - 1)
    if len(set(values)) == 1:
        return lines[0], lines[-1]
    fell = sum(values[:half]) / half - sum(values[half:]) / (len(values) - half)
    return (lines[0], lines[-1]) if fell < noise else None


def _optimizers(case: Case, event: Event) -> Iterator[Event]:
    """The settings of the optimizers that a process has made."""
    return _settings(case, event, "optimizer")


def _settings(case: Case, event: Event, source: str) -> Iterator[Event]:
    """What a process told of the settings of its optimizers, or schedules."""
    for one in case.flight.of_kind("settings") if case.flight is not None else ():
        if one.pid == event.pid and one.details.get("source") == source:
            yield one


def in_code(case: Case) -> Iterator[Sign]:
    """Gradients that are never cleared; a rate of zero; errors of a step that nobody hears of."""
    for fact in case.all("code.never_cleared"):
        says = f"nothing clears the gradients of {fact.value['optimizer']}: each step adds to the gradients of all steps before it"
        yield Sign("strong", says, (fact.evidence,), fatal=False)
    yield from _froze(case)
    for fact in case.all("code.zero_rate"):
        says = "the learning rate is 0 and nothing raises it, so no step changes a weight"
        yield Sign("decisive" if fact.value["sure"] else "strong", says, (fact.evidence, *fact.value["places"]), fatal=False)
    for fact in case.all("code.step_error_hidden"):
        if ranks(case) == 1 or not fact.value["distributed"]:
            says = "every error in a training step is caught here: the run finishes even if every step fails"
            yield Sign("weak", says, (fact.evidence,), fatal=False)


def _froze(case: Case) -> Iterator[Sign]:
    """After a run that trained nearly nothing: where the rest was frozen, and the setting with an empty part."""
    if case.before or case.flight is None or few_trained(case.flight) is None:
        return
    frozen = case.all("code.frozen")
    for fact in frozen[:SHOWN]:
        yield Sign("strong", "this decides which parameters are trained", (fact.evidence, *fact.value["calls"]), fatal=False)
    for fact in case.all("code.empty_part")[:1] if frozen else ():
        setting = fact.value["setting"]
        says = "the text has an empty part, and every name starts with that"
        places = (*((setting.evidence,) if setting is not None else ()), fact.evidence)
        yield Sign("strong", says, places, fatal=False)


def fix(case: Case) -> Iterator[Fix]:
    """Leave out an empty part of a setting; clear the gradients after each step, where nothing does; else look for what is 0."""
    parts = case.all("code.empty_part") if any(True for _ in _froze(case)) else []
    if parts and parts[0].value["setting"] is not None:
        setting, whole = parts[0].value["setting"], parts[0].value["whole"]
        why = "every name starts with the empty part, so all parameters were frozen"
        yield Fix(f"Remove the empty part from {setting.spelling or setting.name}", "changes-training", why, settings={setting.name: whole})  # fmt: skip
    if any(True for _ in _decayed(case)):
        why = "move its `step()` behind the loop over the batches, or give `step_size` and `gamma` in steps"
        yield Fix("Step the schedule once an epoch, as it counts", "by-hand", why)
    if any(True for _ in _unwarmed(case)):
        why = 'move its `step()` into the loop over the batches, after that of the optimizer; in Lightning `"interval": "step"`'
        yield Fix("Step the schedule with each batch, as it counts", "by-hand", why)
    edits = edits_of(case.all("code.never_cleared"), "edits")
    if edits:
        yield Fix(
            "Clear the gradients after each step", "changes-training", "each step then has its own gradients", edits=edits
        )
    yield from fixes


fixes = (
    Fix(
        "Count gradients and labels for ten steps",
        "by-hand",
        "print the rate of each group, `sum(p.grad is not None for p in group)`, the norm, and `(labels != -100).sum()`; "
        "the one that "
        "is 0 shows the problem",
    ),
)
experiment = Experiment(
    title="Overfit one batch of 8 samples for 200 steps without schedule and augmentation",
    start_from="the beginning",
    stop_after="200 steps",
    confirms="the loss does not fall even there",
    refutes="it falls towards 0: then the rate, schedule or data of the full run are the problem",
)
