"""Saving, sampling and evaluation fall on the same step, and together need more than each alone.

What happens: the run passes many evaluations and many saves, and dies at the first step where they coincide.

Why: what one phase leaves behind (gathered weights, cached generations, an EMA copy, a changed mode or sharding state) is
still in memory when the next begins. This is mostly a contributing factor: the cause is the memory, the state or the time of
the phases, the schedule only lets them meet.

How it shows: the step of death is a multiple of two periods, and earlier steps that were multiples of one alone passed. That
alone proves nothing: ``load_best_model_at_end`` demands that they coincide, and thousands of runs do it.

What to do: shift one of the periods, free what the first phase holds, and see whether both pass alone.
"""

from __future__ import annotations

from itertools import combinations
from math import lcm
from typing import TYPE_CHECKING

from crashcart.cause import compiled, weak
from crashcart.causes._length import epoch_steps
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.names import canonical
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Evidence

title = "Saving, sampling or evaluation coincide in the same step"
PERIODS = ("save.period", "eval.period", "sample.period")
EPOCH = "epoch"
WORDS = {"save.period": "saving", "eval.period": "evaluation", "sample.period": "sampling", EPOCH: "the end of an epoch"}
LARGER = 2  # sampling keeps no activations: up to twice the batch of the training it mostly needs less
SETTING = r"['\"]?(?P<name>[a-z][a-z_.]{0,60}(?:steps|period|interval|freq|frequency|every))['\"]?\s{0,20}[:=]\s{0,20}(?P<value>\d{1,7})\b"

SAVES = r"sav(?:ing|ed) (?:\w+ ){0,3}(?:checkpoint|model|state)|checkpoint saved"
EVALUATES = r"running (?:evaluation|validation)|evaluating|validating"
SAMPLES = r"(?:running|start\w{0,60}|generat\w{1,60}) (?:\w{1,60} ){0,2}(?:sampl|images|validation images)|sampling\b"
ECHOES = frozenset({"", "ChildFailedError", "ProcessExitedException", "CalledProcessError", "SystemExit"})

phrases = (
    weak(
        "save_steps", "eval_steps", "save_period", "val_period", "sample_period", "checkpointing_steps", "validation_steps",
        "checkpointing_period", "save_interval", "eval_interval", "save_freq", "eval_freq",
        says="a period of saving, evaluation or sampling", fatal=False, pattern=r"(?!)",
    ),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """Periods that the log echoes, against the last step of a run that died."""
    periods: dict[str, tuple[int, Evidence]] = {}
    for line in case.log.index.saying(phrases[0].literals):
        if 'File "' not in line.text:
            for found in compiled(SETTING).finditer(line.text[:2000]):
                name = canonical(found["name"].replace("val_period", "eval_period"))
                period = to_int(found["value"], 0)
                if name in PERIODS and period > 1:
                    periods.setdefault(name, (period, evidence(line)))
    yield from _meeting(case, periods)


def in_config(case: Case) -> Iterator[Sign]:
    """Periods of the settings: where they will meet, or whether they met on the last step of a run that died."""
    periods = {}
    for name in PERIODS:
        value = to_int(case.number(name), 0)
        if value > 1:
            periods[name] = (value, case.facts[name].evidence)
    yield from _will_meet(case, periods) if case.before else _meeting(case, periods)


def _with_epochs(case: Case, periods: dict[str, tuple[int, Evidence]]) -> dict[str, tuple[int, Evidence]]:
    """The periods that are on, those in epochs and the epoch itself as steps, where the steps of an epoch are known."""
    on = {name: period for name, period in periods.items() if _strategy(case, name) not in {"no", "epoch"}}
    known = epoch_steps(case)
    if known is None or known[0] <= 1:
        return on
    steps, _, places = known
    for name in PERIODS:
        fact, each = case.facts.get(f"{name}_epochs"), case.number(f"{name}_epochs")
        by_epoch = case.facts.get(name.replace(".period", ".strategy")) if _strategy(case, name) == "epoch" else None
        if name not in on and by_epoch is not None:
            on[name] = (steps, by_epoch.evidence)
        elif name not in on and fact is not None and each and each > 0 and each == to_int(each):
            on[name] = (to_int(each, 0) * steps, fact.evidence)
    return {**on, EPOCH: (steps, places[0])} if places else on


def _will_meet(case: Case, periods: dict[str, tuple[int, Evidence]]) -> Iterator[Sign]:
    """The first step where phases meet, with the batch of each; a condition where sampling takes more than training does."""
    on = _with_epochs(case, periods)
    epoch = on.pop(EPOCH, None) if len(on) > 2 else on.get(EPOCH)
    if len(on) < 2:
        return
    pairs = list(combinations(on, 2)) if len(on) > 2 and "sample.period" in on else [tuple(on)]
    wanted = next((pair for pair in pairs if set(pair) == {"save.period", "sample.period"}), pairs[0])
    step, last = lcm(*(on[name][0] for name in wanted)), _last(case)
    if last is not None and 0 < last < step:
        return
    train, sample = case.number("train.batch_size"), case.number("sample.batch_size")
    places = [on[name][1] for name in wanted]
    says = f"step {step} is the first with {' and '.join(WORDS[name] for name in wanted)}"
    if epoch is not None and (known := epoch_steps(case)) is not None:
        together = lcm(step, epoch[0])
        at = f", and one also ends at {together}" if EPOCH not in wanted and (not last or together <= last) else ""
        says += f"; an epoch has {known[0]} steps ({known[1]}){at}"
        places += [place for place in known[2] if place not in places]
    alone = [number * on["sample.period"][0] for number in range(1, 4)] if "sample.period" in wanted else []
    if train and sample and sample > LARGER * train and "sample.period" in wanted and EPOCH not in wanted:
        before = (
            f"; sampling alone, at {', '.join(str(one) for one in alone if one < step)}, does not test this"
            if alone[0] < step
            else ""
        )
        says += f", if one phase leaves something in memory: the sampling batch is {sample:g}, the training batch {train:g}{before}"
        places += [case.facts["sample.batch_size"].evidence, case.facts["train.batch_size"].evidence]
        yield Sign("strong", says, tuple(places), fatal=False)
    else:
        yield Sign("weak", says, tuple(places), fatal=False)


def _last(case: Case) -> float | None:
    """The last step, from the steps of an epoch where nothing else says it."""
    last, epochs = case.number("train.max_steps"), case.number("train.epochs")
    if last is not None and last > 0:
        return last
    known = epoch_steps(case) if epochs else None
    return epochs * known[0] if epochs and known is not None else None


def _strategy(case: Case, name: str) -> str:
    fact = case.facts.get(name.replace(".period", ".strategy"))
    return "" if fact is None else "no" if fact.value is False else str(fact.value).lower()


def _meeting(case: Case, periods: dict[str, tuple[int, Evidence]]) -> Iterator[Sign]:
    """Two periods that divide the last step; a bar that still shows the step before counts too."""
    log, step = case.log, case.log.progress.step or case.step
    died = log.deaths or any(raised.kind for raised in log.raised) or case.exit or not log.lines
    if not step or log.finished is not None or not died:
        return
    for at in (step, step + 1):
        met = [name for name, (period, _) in periods.items() if at % period == 0]
        if len(met) > 1:
            says = f"{' and '.join(WORDS[name] for name in met)} fall on step {at}, where the run ended"
            sure = _both_began(case) or _died_in_a_phase(case)
            yield Sign("strong" if sure else "weak", says, tuple(periods[name][1] for name in met), fatal=False)
            return


def _died_in_a_phase(case: Case) -> bool:
    """Whether the recorder saw the first exception in one of the phases that can meet."""
    raised = next(case.flight.of_kind("exception"), None) if case.flight is not None else None
    return raised is not None and raised.details.get("phase") in {"evaluate", "sample", "checkpoint"}


def _both_began(case: Case) -> bool:
    """Whether the last lines announce two of the phases, and nothing else in the log says why it ended."""
    log = case.log
    if log.memory or log.collectives or any(raised.kind not in ECHOES for raised in log.raised if not raised.survivable):
        return False
    last = "\n".join(line.text for line in log.lines[-40:])
    return sum(compiled(words).search(last) is not None for words in (SAVES, EVALUATES, SAMPLES)) > 1


def fix(case: Case) -> Iterator[Fix]:
    """Before the start: sampling with no more than training takes; else words."""
    train, sample = case.number("train.batch_size"), case.number("sample.batch_size")
    if case.before and train and sample and sample > train:
        why = "training is unchanged; sampling then uses a batch size that is known to fit"
        yield Fix(f"Use a sampling batch of {train:g}", "same-recipe", why, settings={"sample.batch_size": to_int(train)})
    yield from by_hand


by_hand = (
    Fix(
        "Shift one of the periods so that the phases do not coincide",
        "by-hand",
        "training is unchanged; choose periods without a common multiple during the run, or free what the first "
        "phase keeps in memory",
    ),
)
experiment = Experiment(
    title="Resume twice from before the failing step: once with one period shifted, once unchanged as a control",
    confirms="only the unchanged run fails, at the next step where the same phases coincide",
    refutes="both pass or both fail: then the coincidence does not matter",
)
