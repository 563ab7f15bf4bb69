"""After a resume some state started from scratch: optimizer, schedule, averaged weights, sampler or step.

What happens: the weights are back, but the loss jumps, the rate warms up again, the average restarts, or the same
samples come first again.

Why: only the model was saved or found; a key has another name; a flag says not to load the optimizer; the schedule is
built for the rest of the steps; the file for the trainer is missing and the code only warns.

How it shows: a warning at the resume that names what was not restored; a step or epoch counter that begins at 0 after a
checkpoint of a later step; a loss clearly above the last one before. A recording compares the
rate in the checkpoint with that of the first steps.

What to do: compare rate, step and loss of the first line after the resume with the last line before the checkpoint;
they must meet. Save and load model, optimizer, schedule, scaler, average, random states and the sampler's position
together.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from crashcart.cause import compiled, strong, weak
from crashcart.causes._joined import edits_of
from crashcart.causes.silent._lines import grade
from crashcart.deaths import order
from crashcart.doubts import repeat, resumed
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_float, to_int
from crashcart.places import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.flight import Event, Flight
    from crashcart.log import Line, Metrics
    from crashcart.model import Fact

title = "The resume did not restore everything: some state started from scratch"
piece = "resume"
lasting = True
judges_training = True
alike = ("checkpoint/incompatible", "silent/not-learning")
STATE = (
    r"(?:optimi[sz]er|scheduler|param_schedulers?|ema|trainer|scaler|rng|random|sampler|dataloader|lr|momentum|training) ?"
)
RESUMED = r"\b(?:resum(?:ed|ing)|restor(?:ed|ing)|loaded checkpoint|continuing from|loading (?:optimizer|scheduler|model|checkpoint|weights)? ?from|load snapshot)\b"
NO_RESUME = r"normal operation|network|connection|upload|download|wandb: (?!resuming)"
COUNT = r"(?:step|iteration|iter|epoch|update|checkpoint|ckpt)s?\W{0,3}(\d+)"
FAR = 100
JUMP = 1.5
RATE_JUMP = 3
FALLING = 5
LEAP = 10
FIRST_STEPS = 10

phrases = (
    strong("skip resuming", "failed to find state_dict_ema", "starting from loaded model weights", "state wasn't restored",
           "state was not restored", "could not load the optimizer", "could not load optimizer", "could not load the "
                                                                                                 "scheduler",
           "could not load scheduler", "optimizer state not found", "no optimizer state", "without optimizer state",
           "optimizer not loaded", "optimizer state was not loaded", "unable to load optimizer", "not loading optimizer",
           "fail to load optimizer", "failed to load optimizer", "optimizer state will not be", "scheduler state not found",
           "no scheduler state", "skipping optimizer state", "skip loading optimizer", "optimizer state is not loaded",
           "optimizer will be initialized from scratch", "initializing optimizer from scratch", "without loading the optimizer",
           "optimizer state mismatch", "starting with a fresh optimizer", "fresh optimizer state", "ema weights not found",
           "no ema weights", "ema state not found", "no rng state", "training will restart from step 0",
           "will start from step 0", "starting from epoch 0 instead",
           "dataloader is not resumable", "for module trainer, no file matches", "not a single sample in your "
                                                                                 "epoch_iterator",
           says="the program reports that part of the state was not restored", any_level=True,
           unless=r"--no-load-optim|finetun|fine-tun"),
    strong("not found in checkpoint", "not in checkpoint", "missing from checkpoint", "not restored", "not be restored",
           says="the checkpoint lacks part of the state", any_level=True, pattern=rf"\b{STATE}"),
    weak("initial_lr", says="the state of an optimizer was printed", fatal=False, any_level=True,
         pattern=r"^\s*initial_lr\s*:"),
    weak("didn't manage to set back the rng", "do not match the ones in the `trainer_state.json`", "resetting optimizer",
         "reset_optimizer", "will start from random", "resuming from a checkpoint that ended before", says="a warning at "
                                                                                                           "the resume",
                                                                                                           fatal=False,
         any_level=True),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """What begins again after a resume: a counter, the loss, or the rate of an optimizer that was printed twice."""
    yield from _rate_set_back(case)
    yield from _begins_again(case)
    yield from _leap(case)


def _rate_set_back(case: Case) -> Iterator[Sign]:
    """An optimizer printed twice: its rate was on its way, and is the initial one again."""
    rates: list[tuple[Line, float, float]] = []
    for line in case.log.lines:
        if "initial_lr" in line.lowered:
            near = "\n".join(one.text for one in case.log.around(line, before=6, after=6))
            first, now = (
                compiled(r"initial_lr\W+([\d.e+-]+)").search(line.text),
                compiled(r"(?<![a-z_])lr\W+([\d.e+-]+)").search(near),
            )
            initial, rate = (to_float(found[1].rstrip(".,")) if found else None for found in (first, now))
            if initial is not None and rate is not None:
                rates.append((line, initial, rate))
    for (line, initial, before), (later, _, after) in pairwise(rates):
        if after == initial != before:
            says = f"the learning rate was {before:g} and is back at its initial value {after:g}"
            yield Sign(grade(case, "strong"), says, (evidence(line), evidence(later)), fatal=False, order=line.order)
            return


def _is_another_task(commands: list[str]) -> bool:
    """Whether two of the commands give different values to the same flag."""
    values: dict[str, str] = {}
    for command in commands:
        words = command.replace("=", " ").split()
        for flag, value in pairwise(words):
            if flag.startswith("--") and not value.startswith("--") and values.setdefault(flag, value) != value:
                return True
    return False


def _begins_again(case: Case) -> Iterator[Sign]:
    """A counter that begins again, or a loss that jumps, right after a line that announces a resume.

    Not where a script trains twice with other settings: the second program takes over the weights for another task.
    """
    if case.flight is not None and _is_another_task([stage.command for stage in case.flight.stages if stage.trained]):
        return
    for line in case.log.lines:
        if compiled(RESUMED).search(line.text) is None or compiled(NO_RESUME).search(line.text):
            continue
        told = compiled(COUNT).search(line.text.rsplit("/", 1)[-1])
        after = [metric for metric in case.log.metrics if metric.line.order > line.order]
        first = next((one.step for one in after if one.step is not None), None)
        if (
            told
            and "epoch" not in told[0].lower()
            and first is not None
            and to_int(told[1], 0) > FAR
            and first < to_int(told[1], 0) // 10
        ):
            says = f"the checkpoint is from {told[0]}, but the first step after it is {first}"
            yield Sign(grade(case, "strong"), says, (evidence(line), evidence(after[0].line)), fatal=False, order=line.order)
            return
        rates = (
            [_rate(metric) for metric in case.log.metrics if metric.line.order < line.order and _rate(metric)],
            [_rate(one) for one in after if _rate(one)],
        )
        if (
            rates[0]
            and rates[1]
            and (rates[1][0] or 0) > RATE_JUMP * (rates[0][-1] or 0)
            and max(filter(None, rates[0])) == rates[0][0]
        ):
            says = f"the learning rate was {rates[0][-1]:g} before the resume and is {rates[1][0]:g} after it"
            yield Sign(grade(case, "strong"), says, (evidence(line), evidence(after[0].line)), fatal=False, order=line.order)
            return
        old = [metric.get("loss") for metric in case.log.metrics if metric.line.order < line.order]
        new = [one.get("loss") for one in after]
        before, now = next((v for v in reversed(old) if v is not None), None), next((v for v in new if v is not None), None)
        if before and now and now > JUMP * before > 0 and len(old) > 1:
            says = f"the loss was {before:g} before the resume and is {now:g} after it"
            yield Sign(grade(case, "strong"), says, (evidence(line), evidence(after[0].line)), fatal=False, order=line.order)
            return


def _leap(case: Case) -> Iterator[Sign]:
    """A rate that had been falling and is all at once many times higher, where no resume is announced."""
    rates = [(metric.line, rate) for metric in case.log.metrics if (rate := _rate(metric))]
    for at in range(FALLING, len(rates)):
        before = [rate for _, rate in rates[at - FALLING : at]]
        if before == sorted(set(before), reverse=True) and rates[at][1] > LEAP * before[-1]:
            says = f"the learning rate was falling and then jumps from {before[-1]:g} to {rates[at][1]:g}"
            yield Sign(
                "weak", says, (evidence(rates[at - 1][0]), evidence(rates[at][0])), fatal=False, order=rates[at][0].order
            )
            return


def _rate(one: Metrics) -> float | None:
    return next(
        (value for name, value in one.values if name in {"lr", "learning_rate", "learning rate", "train/learning_rate"}),
        None,
    )


def in_recorder(case: Case) -> Iterator[Sign]:
    """The rate in the checkpoint that was loaded against the rate of the first steps after it."""
    yield from _begun_anew(case)
    yield from _left_behind(case)
    flight = case.flight
    for process in flight.ranks if flight is not None else ():
        own = [event for event in (flight.events if flight is not None else ()) if event.pid == process.pid]
        loads = [one for one in own if one.kind == "phase" and one.details.get("phase") == "load" and _saved(one) > 0]
        if not loads:
            continue
        load = loads[-1]
        if flight is not None and _is_of_another_program(flight, load):
            continue
        rates = [one for one in own if one.kind == "lr" and one.time >= load.time and _first(one) > 0]
        lost = next((rate for rate in rates if _restarts(rate, _saved(load))), None)
        if lost is not None:
            says = f"the checkpoint has a learning rate of {_saved(load):g}, but step {lost.details.get('step')} after it used {_first(lost):g}"
            ours = _is_own(load, own)
            items = (load.evidence, lost.evidence)
            yield Sign(grade(case, "decisive") if ours else "weak", says, items, fatal=ours, order=order(case))
            return


def _left_behind(case: Case) -> Iterator[Sign]:
    """A rank that went on from its own file, of which the code saves the optimizer or the schedule and never loads it."""
    load = resumed(case.flight) if case.flight is not None else None
    for fact in case.all("code.resume") if load is not None and not case.before else ():
        saved = [part for part in fact.value["saved"] if part in {"optimizer", "schedule"}]
        if load is not None and saved:
            path = shortened(
                str(load.details.get("path")), str(case.flight.facts.get("folder") or "") if case.flight else ""
            )
            says = f"it resumed from {path}, which also contains the {' and the '.join(saved)}, but did not load them"
            yield Sign(grade(case, "strong"), says, (load.evidence, fact.evidence), fatal=False, order=order(case))
            return


def _begun_anew(case: Case) -> Iterator[Sign]:
    """A second start of the program that made the steps of the first one again, although it was to go on, or looked for its files."""
    again = repeat(case.flight) if case.flight is not None else None
    if case.flight is None or again is None:
        return
    unmatched = case.all("code.unmatched_names")
    folder = str(case.flight.facts.get("folder") or "")
    path, step = shortened(str(again.later.details.get("path")), folder), again.later.details.get("step")
    says = f"{again.stage.program} was restarted and saved {path} a second time after {step} steps: it started at step 0"
    if unmatched:
        says += f", since it looks for {unmatched[0].value['pattern']} and its files are called {unmatched[0].value['name']}"
    elif not again.meant or any(
        event.details.get("phase") == "load" and event.pid in again.stage.pids for event in case.flight.of_kind("phase")
    ):
        return
    sure = grade(case, "decisive" if unmatched else "strong")
    yield Sign(sure, says, (again.earlier.evidence, again.later.evidence), fatal=bool(unmatched), order=order(case))


def _saved(event: Event) -> float:
    rate = event.details.get("lr")
    return to_float(rate, 0.0)


def _first(event: Event) -> float:
    rates = event.details.get("rates") or [0.0]
    return to_float(rates[0], 0.0)


def _restarts(event: Event, saved: float) -> bool:
    """Whether the first steps run with a rate far from the saved one; later it may fall by plan."""
    step = event.details.get("step")
    ratio = _first(event) / saved
    return isinstance(step, int) and step <= FIRST_STEPS and not 1 / RATE_JUMP < ratio < RATE_JUMP


def _is_of_another_program(flight: Flight, load: Event) -> bool:
    """Whether another program of the run wrote what was loaded: that begins from its weights, and resumes nothing."""
    program_of_pid: dict[int | None, str] = {pid: stage.program for stage in flight.stages for pid in stage.pids}
    writers = {
        program_of_pid.get(saved.pid)
        for saved in flight.of_kind("checkpoint")
        if saved.details.get("path") == load.details.get("path")
    }
    return bool(writers) and None not in writers and program_of_pid.get(load.pid) not in writers


def _is_own(load: Event, own: list[Event]) -> bool:
    """Whether the program saves where it loaded from: then it went on with its own run, and did not begin from another's."""
    path = str(load.details.get("path") or "")
    folders = {path.rpartition("/")[0], path.rpartition("/")[0].rpartition("/")[0]} - {""}
    saved = [str(one.details.get("path") or "") for one in own if one.kind == "checkpoint"]
    return any(
        folder in folders for one in saved for folder in (one.rpartition("/")[0], one.rpartition("/")[0].rpartition("/")[0])
    )


def in_code(case: Case) -> Iterator[Sign]:
    """A resume that takes the weights back and leaves the rest; a pattern that finds none of the files."""
    for fact in case.all("code.unmatched_names"):
        yield Sign("strong", f"this pattern matches no file like {fact.value['name']}", (fact.evidence,))
    for fact in case.all("code.resume"):
        missing, saved = fact.value["missing"], fact.value["saved"]
        if not missing:
            continue
        words = " and ".join(missing)
        says = f"a resume loads the weights but not the {words}: "
        are, it, starts = ("are", "they", "start") if len(saved or missing) > 1 else ("is", "it", "starts")
        says += f"the {' and '.join(saved)} {are} saved and never loaded" if saved else f"{it} {are} not saved at all"
        heavy = _begins_anew(fact)
        yield Sign(
            "strong" if heavy else "weak",
            f"{says}, so {it} {starts} from scratch when the job is resumed",
            (fact.evidence,),
            fatal=heavy,
        )


def _begins_anew(fact: Fact) -> bool:
    """An optimizer that was saved and is not loaded is a mistake; a scaler finds its scale again."""
    return "optimizer" in fact.value["missing"] or "schedule" in fact.value["saved"]


def fix(case: Case) -> Iterator[Fix]:
    """Look for the files by their names; load what was saved; then the general remedies."""
    edits = edits_of(case.all("code.unmatched_names"))
    if edits:
        why = "the next start then finds the files that this program writes, and resumes from the newest"
        yield Fix("Search for the files by their actual names", "exact", why, edits=edits)
    edits = edits_of(fact for fact in case.all("code.resume") if fact.value["missing"] and _begins_anew(fact))
    if edits:
        why = "the checkpoint contains it; the run then continues where it stopped"
        yield Fix("Also load the rest of the state", "same-recipe", why, edits=edits)
    yield from fixes


fixes = (
    Fix(
        "Save and load the complete state together, and check it at the resume",
        "by-hand",
        "this means model, optimizer, schedule, scaler, averaged weights, random states, sampler position and step; raise an error if one "
        "is missing; "
        "print rate, step and loss on both sides of the resume",
    ),
)
experiment = Experiment(
    title="Train 100 steps, save, train 100 more; then resume from the save and train the same 100",
    start_from="the beginning",
    stop_after="200 steps, and 100 after the resume",
    confirms="learning rate or loss of the resumed steps differ from the uninterrupted run right at the first step",
    refutes="they are equal: then the jump comes from the data or the averaging window of the log",
)
