"""What is left of a run without its log: the last step that trackers wrote, the state of checkpoints, the schedule.

Step of death, in this order: the log, the trainer's state, wandb's summary, tfevents, MLflow, the newest checkpoint.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crashcart.checkpoints.steps import named_step
from crashcart.documents import load_json
from crashcart.model import Evidence, NotLooked
from crashcart.numbers import to_count
from crashcart.readers.traces.slurm import sacct
from crashcart.readers.traces.tfevents import last_step
from crashcart.readers.traces.tracker import mlrun_status, wandb_step
from crashcart.regular_files import read_whole
from crashcart.schedule import meeting

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.readers.traces.survivors import Found, Survivor

__all__ = ["describe", "traces"]

_LARGEST_STATE = 16 << 20
_NAMES = {"save": "saving a checkpoint", "sample": "sampling", "eval": "evaluation", "log": "logging"}


def traces(found: Found) -> tuple[int | None, list[Evidence], list[NotLooked]]:
    """The last step that any tracker knows, what each says, and what could not be asked."""
    notes: list[Evidence] = []
    steps: list[int] = []
    for survivor in found.of("trainer-state")[:1]:
        _take(_trainer_step(survivor.path), "the trainer's state says step", survivor, steps, notes)
    for survivor in found.of("wandb-summary")[:1]:
        _take(wandb_step(survivor.path), "the last row in wandb is step", survivor, steps, notes)
    for survivor in found.of("tfevents")[:1]:
        _take(last_step(survivor.path), "the last event in the tfevents file is step", survivor, steps, notes)
    for survivor in found.of("mlflow-run")[:1]:
        run = mlrun_status(survivor.path)
        if run is not None:
            _take(run.step, f"MLflow lists the run as {run.status}, last step", survivor, steps, notes)
    return max(steps, default=None), notes, _slurm(found, notes)


def _take(step: int | None, says: str, survivor: Survivor, steps: list[int], notes: list[Evidence]) -> None:
    if step is not None and not isinstance(step, bool):
        steps.append(step)
        notes.append(Evidence("tracker", f"{says} {step}", os.path.basename(survivor.path)))


def _trainer_step(path: str) -> int | None:
    try:
        step = load_json(read_whole(path, _LARGEST_STATE)).get("global_step")
    except (OSError, ValueError, AttributeError):
        return None
    return to_count(step)


def _slurm(found: Found, notes: list[Evidence]) -> list[NotLooked]:
    names = [os.path.basename(one.path) for one in found.of("slurm-output")[:1]]
    job = "".join(char for char in names[0].removeprefix("slurm-").split(".")[0] if char.isdigit()) if names else ""
    if not job:
        return []
    answer = sacct(job)
    if isinstance(answer, NotLooked):
        return [answer]
    notes.append(Evidence("slurm", f"Slurm lists job {job} as {answer}", f"sacct -j {job}"))
    return []


def describe(case: Case, step: int | None) -> tuple[int | None, list[Evidence]]:
    """The step of death as far as it is known, and notes on the schedule and the newest checkpoints."""
    notes: list[Evidence] = []
    if case.checkpoints:
        newest = case.checkpoints[0]
        folder, name = os.path.split(str(newest.path))
        step = step or newest.step or named_step(os.path.basename(folder))
        why = f" ({newest.reasons[0]})" if newest.reasons and newest.verdict != "whole" else ""
        says = f"the newest checkpoint is {newest.verdict}{why}, {newest.size_bytes / 1e9:.2f} GB"
        notes.append(Evidence("checkpoint", says, os.path.join(os.path.basename(folder), name)))
    met = meeting(case.facts, step) if step else None
    if met is not None:
        works = " and ".join(_NAMES.get(work, work) for work in met.works if work != "log") or "logging"
        which = f"step {step} was the first with {works}" if met.first else f"step {step} had {works}, like earlier steps"
        following = f"; the next such step is {met.next_step}" if met.next_step else ""
        notes.append(Evidence("schedule", f"{which}{following}", "the job's periods"))
        for work, earlier in met.earlier.items():
            if "+" not in work and work != "log" and earlier:
                listed = ", ".join(map(str, earlier[-4:]))
                says = f"{_NAMES.get(work, work)} had passed {len(earlier)} times before, last at {listed}"
                if work in {"sample", "eval"}:
                    says += ": its size alone does not explain the failure; check what coincides or stays in memory here"
                notes.append(Evidence("schedule", says, "the job's periods"))
    return step, notes
