"""The run finished without a single optimizer step, or with all of them skipped.

What happens: the program says that training is finished and exits with 0, often within seconds. The checkpoint that it leaves holds the
weights that it started with.

Why: a resume that takes over the step of another run, so that the loop is over before it begins; a number of steps or epochs of 0; a
loader that gives no batch (``drop_last`` with a batch larger than the data set); a loss scale at which every step is skipped.

How it shows: ``Training finished`` right after ``Running training``, a final loss of 0.0, ``Trainer.fit stopped: No training
batches``. A recording counts optimizer steps: a program that made an optimizer and ends with 0 steps has trained nothing.

What to do: print the range of the loop and the length of the loader before it begins. Keep the checkpoints of different stages in
different folders, and take over the step only from a checkpoint of the same run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, strong
from crashcart.causes._joined import edits_of
from crashcart.deaths import order
from crashcart.doubts import taken_over, untrained
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign
from crashcart.places import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Fact

title = "The run finished, but nothing was trained"
lasting = True
judges_training = True
alike = ("data/empty-or-short", "silent/not-learning")
phrases = (
    strong("no training batches", says="the trainer stopped because there were no batches to train on", any_level=True, fatal=False,
           pattern=r"(?:stopped|skipp\w{1,4}).{0,40}No training batches"),
    strong("optimization steps", "optimizer steps", "training for 0", "train for 0", "0 training steps",
           says="the program reports that there are no steps to run", any_level=True,
           pattern=r"(?i)(?:optimi[sz]ation|optimi[sz]er) steps\s{0,4}[:=]\s{0,4}0\b|\btrain(?:ing)? for 0 (?:steps|epochs|iterations)\b|"
           r"^\W{0,4}0 training steps\b"),
)  # fmt: skip
TRAINS = r"(?i)\b(?:running|start(?:ing|ed)?|begin(?:ning)?) (?:the )?(?:train|fine-?tun)|\btrain(?:ing)? (?:is )?(?:finish|complet|done)|\bepochs?\b.{0,20}\d"


def in_recorder(case: Case) -> Iterator[Sign]:
    """A program that made an optimizer, said that it trains, and ended with 0 without a step."""
    flight = case.flight
    if flight is None:
        return
    said = next((line for line in case.log.lines if compiled(TRAINS).search(line.text)), None)
    for stage, made in untrained(flight):
        process = flight.processes[made.pid or 0]
        skipped = process.page.get("skipped", 0.0)
        if said is None and not skipped > 0:
            continue
        how = f"all {skipped:.0f} steps were skipped by the gradient scaler" if skipped > 0 else "it took no optimizer step"
        says = f"{stage.program} created an optimizer and exited with code 0, but {how}"
        quote = f"{stage.program}: 0 optimizer steps, {process.page.get('train_batches', 0.0):.0f} batches for training"
        seen = Evidence("recorder", quote, "recorder", process.rank)
        shown = (made.evidence, seen, *((evidence(said),) if said is not None else ()))
        if (state := taken_over(flight, stage)) is not None:
            other, saved, load = state
            where = shortened(str(load.details.get("path")), str(flight.facts.get("folder") or ""))
            says += f": it resumed from {where}, which {other.program} had saved after step {saved.details.get('step')}"
            shown = (load.evidence, saved.evidence, *shown)
        yield Sign("decisive", says, shown, order=order(case))
        return


def in_code(case: Case) -> Iterator[Sign]:
    """The call that takes over the steps of another program; else the test before the step that was never made."""
    for fact in _takes_over(case):
        yield Sign("strong", "here it takes over the step number of another program's run", (fact.evidence,), fatal=False)
    made_none = not case.before and case.flight is not None and any(True for _ in untrained(case.flight))
    for fact in case.all("code.step_condition") if made_none and not _takes_over(case) else ():
        places = (fact.value["test"], *fact.value["settings"], fact.evidence)
        yield Sign("strong", "the optimizer only steps if this is true, and it never was", places, fatal=False)
        return


def _takes_over(case: Case) -> list[Fact]:
    """Where the code goes on from a checkpoint, of a program that took over another one's state and made no step."""
    flight = case.flight
    found = [stage for stage, _ in untrained(flight)] if flight is not None else []
    if flight is None or not found or taken_over(flight, found[0]) is None:
        return []
    return case.all("code.trainer_resume")


def fix(case: Case) -> Iterator[Fix]:
    """Begin with the first step where another program's state was taken over; else words."""
    edits = edits_of(_takes_over(case))
    if edits:
        why = "the model keeps its initial weights; step, schedule and optimizer start from scratch"
        yield Fix("Do not take over the step number of the other program", "changes-training", why, edits=edits)
    yield from fixes


fixes = (
    Fix(
        "Find out why the training loop had nothing to do",
        "by-hand",
        "print the first and last step of its range and `len(loader)`. Usual reasons: a resume that takes over the step of another stage, "
        "a batch larger than the dataset with drop_last, or 0 planned steps",
    ),
)
experiment = Experiment(
    title="Start it without a checkpoint to resume from, with drop_last=False and a batch of 1, for ten steps",
    start_from="the beginning",
    stop_after="ten steps",
    confirms="it takes ten steps: then the resume or the batch size prevented training",
    refutes="it takes none: then its settings make the loop's range empty",
)
