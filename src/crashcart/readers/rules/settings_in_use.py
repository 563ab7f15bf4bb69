"""The numbers of the job as the libraries get them: what reaches the loader, the optimizer, the trainer, and how the loops are built.

These beat what flags and files say, since the program may calculate with them: a batch divided by the ranks, a rate scaled by the
batch. Periods and lengths are read off the loops: ``if step % every == 0`` around a save is its period, the bound of the loop around
the epochs is their number, whatever the names are.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from typing import TYPE_CHECKING

from crashcart.model import Fact
from crashcart.names import canonical
from crashcart.readers.interpreter.execution import is_fed, stepped_by
from crashcart.readers.interpreter.libraries import modelled_packages
from crashcart.readers.interpreter.libraries.trainers import SETTINGS
from crashcart.readers.interpreter.store import NONE
from crashcart.readers.interpreter.trace import Call, Region
from crashcart.readers.interpreter.values import Constant, Container, Instance, Result, Unknown, Value, constant_of
from crashcart.readers.rules._settings import fact_of
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Event, Write

_LOADER = {
    "batch_size": (1, Constant(1), "batch_size"), "num_workers": (5, Constant(0), "workers"), "pin_memory": (7, Constant(False), "pin"),
    "drop_last": (8, Constant(False), "drop_last"), "persistent_workers": (None, Constant(False), "persistent"),
    "prefetch_factor": (None, None, "prefetch"),
}  # fmt: skip
_SAVES = frozenset(
    [
        "save",
        "save_checkpoint",
        "save_state",
        "save_pretrained",
        "save_model",
        "save_weights",
        "save_file",
        "save_ckpt",
        "save_training_state",
    ]
)
_LOGS = re.compile(r"(?:^|\.)(?:print|log|info|add_scalar|add_scalars|log_metrics|log_dict|write|set_postfix|log_metric)$")
_NAMED_EVALUATION = re.compile(
    r"(?i)(?:^|\.|_)(?:eval|evaluate|evaluation|valid|validate|validation|val|test)(?:_|$|\b)|estimate_loss"
)
_NAMED_SAMPLING = re.compile(
    r"(?i)(?:^|\.|_)(?:sample|sampling|generate|generation|log_images|log_sample|inference)(?:_|s?$|\b)"
)
_NAMED_BEST = re.compile(r"(?i)best")
_NAMED_RANK = re.compile(
    r"(?i)[\w.]{0,60}rank\w{0,20}(?:\(\))? (?:==|<=|<|in) [-\[\](), 01]{1,20}|(?:\w{1,40}\.){0,4}is_\w{0,20}(?:main|master|zero|chief)\w{0,20}(?:\(\))?"
)
_ARGUMENTS = (
    "transformers.TrainingArguments",
    "lightning.Trainer",
    "accelerate.Accelerator",
    "lightning.Fabric",
    "lightning.fabric.Fabric",
)
_TRAINER_NAMES = {
    "devices": "launch.processes_per_node",
    "num_nodes": "launch.nodes",
    "gpus": "launch.processes_per_node",
    "max_epochs": "train.epochs",
    "max_steps": "train.max_steps",
}
_TRACKERS = {
    "wandb.init": "wandb", "torch.utils.tensorboard.SummaryWriter": "tensorboard", "tensorboardX.SummaryWriter": "tensorboard",
    "tensorboard_logger.": "tensorboard", "mlflow.start_run": "mlflow", "mlflow.set_experiment": "mlflow", **dict.fromkeys(("comet_ml.Experiment", "comet_ml.ExistingExperiment", "comet_ml.OfflineExperiment", "comet_ml.start"), "comet"), "neptune.init": "neptune", "swanlab.init": "swanlab",
    "lightning.loggers.WandbLogger": "wandb", "lightning.loggers.TensorBoardLogger": "tensorboard", "trackio.init": "trackio", "clearml.Task.init": "clearml",
    "aim.Run": "aim", "visdom.Visdom": "visdom", "lightning.loggers.CSVLogger": "csv",
}  # fmt: skip
_TO_TRACKER = ("wandb.", "tensorboardX.", "torch.utils.tensorboard.", "mlflow.", "swanlab.", "neptune.", "comet_ml.")
_TRACKS = frozenset({"log", "add_scalar", "add_scalars", "log_metric", "log_metrics"})
_RATES = {
    "SGD": None,
    "Adam": 1e-3,
    "AdamW": 1e-3,
    "RMSprop": 1e-2,
    "Adagrad": 1e-2,
    "NAdam": 2e-3,
    "RAdam": 1e-3,
    "Adamax": 2e-3,
}


_KINDS = {"save", "eval", "log", "sample"}
_NEVER = 10**9  # rounds
_LEFT_TO_THE_LIBRARY = (None, "auto")
_OF_EACH_MODEL = frozenset({"train.learning_rate"})  # of several models, as of a generator and a discriminator, the first
_NUMBERS = {
    "train.batch_size",
    "eval.batch_size",
    "train.learning_rate",
    "loader.workers",
    "train.epochs",
    "train.max_steps",
    "train.accumulation",
}


def look(execution: Execution) -> Iterator[Fact]:
    """Settings under their canonical names, as the program uses them."""
    found: dict[str, list[Fact | None]] = {}
    for name, fact in _all(execution):
        found.setdefault(name, []).append(fact)
    for name, event in _unsure(execution):
        yield event.fact(f"unsure.{name}", True)
    for name, facts in found.items():
        known = [
            fact
            for fact in facts
            if fact is not None and fact.value is not None and not (isinstance(fact.value, str) and name in _NUMBERS)
        ]
        used = _used_of(name, known) if known and len(known) == len(facts) else None
        if used is not None:
            yield replace(used, name=f"used.{name}")
        elif execution.trace.calls and (
            len(known) > 1 or None in facts
        ):  # it is used, with a value that is not known: the setting itself may not be it
            yield execution.trace.calls[0].fact(f"unsure.{name}", True)


def _used_of(name: str, facts: list[Fact]) -> Fact | None:
    """The one of several places where a setting is used that speaks for the job."""
    named = [fact for fact in facts if ".period" in name and canonical(fact.spelling) == name]
    if name == "log.period" and all(map(_is_number, facts)):  # of several kinds of lines the most frequent
        return min(facts, key=lambda fact: fact.value)
    if name == "tracker.kind":  # a trainer without one does not keep the program from starting its own
        facts = [fact for fact in facts if fact.value != "none"] or facts
    for group in (facts, named):  # of several periods that of a setting that is called so
        if group and (name in _OF_EACH_MODEL or all(fact.value == group[0].value for fact in group)):
            return group[0]
    if name.startswith("save.period") and all(map(_is_number, facts)):
        return min(facts, key=lambda fact: fact.value)
    return None


def _is_number(fact: Fact) -> bool:
    return isinstance(fact.value, (int, float))


def _all(execution: Execution) -> Iterator[tuple[str, Fact | None]]:
    """The settings by the places where they are used; a period that no training lives to see is none."""
    for name, fact in _used(execution):
        kind, _, what = name.partition(".")
        if fact is None or not what.startswith("period") or not _is_number(fact) or fact.value < _NEVER:
            yield name, fact
        elif kind in {"save", "eval"}:
            yield f"{kind}.strategy", replace(fact, name=f"{kind}.strategy", value="no")


def _used(execution: Execution) -> Iterator[tuple[str, Fact | None]]:
    yield from _from_loaders(execution)
    yield from _from_trainers(execution)
    if not execution.rewritten_trainers:
        yield from _from_optimizers(execution)
        yield from _accumulation(execution)
        yield from _lengths(execution)
        of_trainer = {name for call in execution.trace.named(SETTINGS) for name in call.keywords if name.startswith("eval.")}
        periods = [(name, fact) for name, fact in _periods(execution) if not (of_trainer and name.startswith("eval."))]
        yield from periods
        if not any(name.startswith("log.") for name, _ in periods):
            yield from _every_round(execution)
    yield from _trackers(execution)
    yield from _never_done(execution)
    if execution.launch.starters and execution.ranks and execution.trace.calls:
        where = execution.launch.rank_facts[0].evidence if execution.launch.rank_facts else execution.trace.calls[0].evidence
        yield "launch.processes", Fact("launch.processes", execution.ranks, where, "code")


def _unsure(execution: Execution) -> Iterator[tuple[str, Event]]:
    """Numbers that are made of settings in a way that depends on what is not known: the setting itself is not the number."""
    for loader in execution.loaders:
        if loader.feeds == "train":
            for name, argument, position in (("train.batch_size", "batch_size", 1), ("loader.workers", "num_workers", 5)):
                value = loader.argument(position, argument, Constant(0))
                if not isinstance(value, Constant):
                    yield name, loader.call
    for call in execution.steps if not execution.rewritten_trainers else ():
        if not list(_moduli_around(execution, call)) and _is_now_and_then(execution, call):
            yield "train.accumulation", call
    shares = execution.launch.ranks != 1 and bool(execution.launch.kind or execution.launch.starters)
    for call in execution.backwards if shares else ():  # the ranks may share the batch of which each takes parts
        if _takes_part_of_batch(execution, call):
            yield "train.batch_size", call
    for call in _stepping(execution) if not execution.rewritten_trainers else ():
        rate = call.argument(1, "lr") if call.method[:1].isupper() else None
        if rate is not None and not isinstance(rate, Constant):
            yield "train.learning_rate", call


def _takes_part_of_batch(execution: Execution, call: Call) -> bool:
    """Whether gradients are made in a loop inside the round that got the batch, from one part of it after the other."""
    stepping = {id(loop) for step in execution.steps for loop in step.region.loops()[:1]}
    parts, whole = (*call.region.loops()[:2], None, None)[:2]
    if parts is None or whole is None or id(parts) in stepping or id(whole) not in stepping:
        return False
    return whole.iterable is not None and _count_of(execution, whole) is None


def _from_loaders(execution: Execution) -> Iterator[tuple[str, Fact | None]]:
    loaders = execution.loaders
    feeding = [loader for loader in loaders if loader.feeds == "train"]
    if not feeding and len(loaders) == 1 and not loaders[0].feeds:
        feeding = loaders
    others = [loader for loader in loaders if loader.feeds == "eval" and loader not in feeding]
    for group, prefix, names in (
        (feeding, "", _LOADER),
        (others, "eval", {name: _LOADER[name] for name in ("batch_size", "num_workers")}),
    ):
        for loader in group:
            for argument, (position, default, short) in names.items():
                value = loader.batch_size if argument == "batch_size" else loader.argument(position, argument, default)
                if argument == "batch_size" and execution.is_grouped_later(loader):
                    value = None
                name = f"{prefix}.{short}" if prefix else "train.batch_size" if short == "batch_size" else f"loader.{short}"
                if (argument == "prefetch_factor" and value is None) or (
                    short == "batch_size" and constant_of(value, 1) is None
                ):
                    continue
                yield name, fact_of(execution, name, value, loader.call)


def _from_optimizers(execution: Execution) -> Iterator[tuple[str, Fact | None]]:
    for call in _stepping(execution):
        position = 1 if call.method[:1].isupper() else None  # a function that makes optimizers has an order of its own
        rate = call.argument(position, "lr") or call.argument(position, "learning_rate")
        groups = call.argument(0, "params")
        own = [
            interpreted
            for group in execution.items(groups)
            if isinstance(group, Container)
            and group.kind == "dict"
            and (interpreted := execution.interpreter.items(group).get("lr")) is not None
        ]
        if rate is None and call.complete and not own and call.method in _RATES and _RATES[call.method] is not None:
            rate = Constant(_RATES[call.method]) if not _sets_rates(execution) else None
        if own and (rate is None or any(isinstance(constant_of(each), str) for each in own)):
            rate = own[0]
        if rate is None and not own:
            rate = _rate_in_settings(execution, call)
        if rate is None or constant_of(rate) == 0:  # the program sets it later
            rate = _scheduled_rate(execution)
        yield "train.learning_rate", fact_of(execution, "train.learning_rate", rate, call)


def _rate_in_settings(execution: Execution, call: Call) -> Value | None:
    """The rate among the settings that a library is given to make an optimizer of: ``create_optimizer(args, model)``."""
    for settings in call.arguments:
        if isinstance(settings, Container) and settings.kind in {"namespace", "config", "dict"}:
            entries = execution.interpreter.entries(settings)
            return next((value for key, value in entries.items() if canonical(str(key)) == "train.learning_rate"), None)
    return None


def _scheduled_rate(execution: Execution) -> Value | None:
    """The rate that the program hands to a schedule of its own, where it writes the rates of its optimizer itself."""
    if not _sets_rates(execution):
        return None
    found: dict[object, Value] = {}
    for call in execution.trace.calls:
        for value in (*call.arguments, *call.keywords.values()) if _is_own(call) else ():
            is_rate = execution.number(value) and any(fact.name == "train.learning_rate" for fact in value.origins)
            if is_rate:
                found[constant_of(value)] = value
    return next(iter(found.values())) if len(found) == 1 else None


def _is_own(call: Call) -> bool:
    """Whether a call is one of a function or class of the program."""
    return call.function is not None or isinstance(call.result, Instance)


def _stepping(execution: Execution) -> list[Call]:
    """The optimizers that the program steps; where none was seen to, those that it surely makes."""
    made = _without_alternatives(execution.optimizers)
    if not execution.steps or execution.library_trainers:
        return [call for call in made if call.region.is_certain()] or _alike(made)
    receivers = {id(stepped_by(call)) for call in execution.steps}
    return [call for call in made if id(call.result) in receivers] or made


def _alike(made: list[Call]) -> list[Call]:
    """Optimizers of which one will be made, where the rate is the same whichever that is."""
    rates = {constant_of(call.argument(1, "lr"), call) for call in made}
    return made if len(rates) == 1 else []


def _sets_rates(execution: Execution) -> bool:
    """Whether the program writes the rates of an optimizer itself: ``group["lr"] = rate``."""
    return any(isinstance(write.name, Constant) and write.name.value == "lr" for write in execution.trace.writes)


def _without_alternatives(calls: Sequence[Call]) -> list[Call]:
    """The calls but those that only happen under an open test, where others of them happen under fewer."""
    tests = [{id(region) for region in call.region.above() if region.kind == "branch"} for call in calls]
    return [call for call, own in zip(calls, tests, strict=True) if not any(other < own for other in tests)]


def _from_trainers(execution: Execution) -> Iterator[tuple[str, Fact | None]]:
    for call in execution.trace.named(SETTINGS):
        for setting, value in call.keywords.items():
            yield setting, fact_of(execution, setting, value, call)
    for call in execution.trace.named(*_ARGUMENTS):
        for keyword, value in call.keywords.items():
            name = _TRAINER_NAMES.get(keyword) if call.name == "lightning.Trainer" else None
            name = name or canonical(keyword, path="trainer")
            if name is not None and not (isinstance(value, Constant) and value.value in _LEFT_TO_THE_LIBRARY):
                yield name, fact_of(execution, name, value, call)


# ---- accumulation, lengths


def _accumulation(execution: Execution) -> Iterator[tuple[str, Fact | None]]:
    """``if (i + 1) % accum == 0: optimizer.step()``, or a loop of backward passes before one step."""
    for call in execution.steps:
        for region, modulus in _moduli_around(execution, call):
            inside = [region.holds(backward.region) for backward in execution.backwards]
            if any(inside):
                continue  # a model that is trained now and then, each time with gradients of its own
            if inside or not execution.backwards:
                value = modulus if inside else None
                yield "train.accumulation", fact_of(execution, "train.accumulation", value, call)
    if _steps_each_round(execution):
        yield "train.accumulation", execution.steps[0].fact("train.accumulation", 1)
    stepping = {id(loop) for call in execution.steps for loop in call.region.loops()[:1]}
    for call in execution.backwards:
        for loop in call.region.loops()[:1]:
            bound = _count_of(execution, loop) or _count_of_parts(execution, loop)
            outside = id(loop) not in stepping and any(id(outer) in stepping for outer in loop.loops()[1:])
            if outside and bound is not None:
                yield "train.accumulation", fact_of(execution, "train.accumulation", bound, call)


def _steps_each_round(execution: Execution) -> bool:
    """Whether each backward pass is followed by a step in the same round, under no test but one of which both arms step."""
    if not execution.steps or execution.library_trainers or execution.is_cut_short:
        return False
    if any(call.name.startswith("deepspeed.") for call in execution.steps) or execution.trace.named(*_ARGUMENTS):
        return False
    loops = {id(loop) for call in execution.steps for loop in call.region.loops()[:1]}
    if not all(call.region.loops() and id(call.region.loops()[0]) in loops for call in execution.backwards):
        return False
    arms = {
        (id(region.parent), id(region.node), region.sense)
        for call in execution.steps
        for region in _between(call.region, execution.training_loops)
    }
    return all(
        region.kind not in {"branch", "maybe", "every", "loop"}
        or (region.kind == "branch" and (id(region.parent), id(region.node), not region.sense) in arms)
        or _is_of_finite(region)
        or _is_behind_end(region)
        or any(region.holds(backward.region) for backward in execution.backwards)  # with gradients of its own
        for call in execution.steps
        for region in _between(call.region, execution.training_loops)
    )


def _is_now_and_then(execution: Execution, call: Call) -> bool:
    """Whether a step depends on a test that changes from round to round."""
    between = _between(call.region, execution.training_loops)
    return any(
        region.kind == "branch"
        and region.test is not None
        and "loop" in region.test.tags
        and not _is_of_finite(region)
        and not _is_behind_end(region)
        for region in between
    )


def _is_behind_end(region: Region) -> bool:
    """Whether a region is what follows ``if step > most: break``."""
    node = region.node
    return not region.sense and isinstance(node, ast.If) and isinstance(node.body[-1], (ast.Break, ast.Return, ast.Raise))


def _is_of_finite(region: Region) -> bool:
    return region.test is not None and "finite" in region.test.tags


def _moduli_around(execution: Execution, call: Call) -> Iterator[tuple[Region, Value]]:
    """The tests between the training loop and an optimizer's step that divide by something, and by what."""
    for region in _between(call.region, execution.training_loops):
        modulus = _modulus_of(region)
        if modulus is not None:
            yield region, modulus


def _between(region: Region, loops: list[Region]) -> Iterator[Region]:
    """The regions around an event up to the nearest training loop."""
    for each in region.above():
        if any(each is loop for loop in loops):
            return
        yield each


def _count_of(execution: Execution, loop: Region) -> Value | None:
    """How many rounds a loop over a range has."""
    inner = execution.underlying(loop.iterable)
    if not isinstance(inner, Result) or inner.name not in {"range", "tqdm.trange"} or inner.call is None:
        return None
    arguments = inner.call.arguments
    if len(arguments) == 1:
        return arguments[0]
    if len(arguments) != 2:  # noqa: PLR2004 - start and stop; a step is not followed
        return None
    if isinstance(arguments[1], Unknown) and arguments[1].kind == "offset" and arguments[1].base is arguments[0]:
        return arguments[1].bound  # ``range(start, start + 200)``
    start, stop = map(constant_of, arguments)
    if type(start) is not int:  # where a resumed run goes on: the end is the number of rounds in all
        return _last_of(arguments[1])
    if start == 0 or type(stop) is not int:
        return arguments[1] if start == 0 else None
    count = stop - start
    whole = next((fact for fact in arguments[1].origins if fact.value == count), None)
    return Constant(count, (whole,) if whole is not None else arguments[1].origins, direct=whole is not None)


def _count_of_parts(execution: Execution, loop: Region) -> Value | None:
    """How many parts a loop goes over into which a batch was cut."""
    inner = execution.underlying(loop.iterable)
    if not isinstance(inner, Container):
        return None
    items, is_whole = execution.interpreter.listed(inner)
    return execution.interpreter.length_of(inner) or (Constant(len(items)) if is_whole else None)


def _last_of(stop: Value) -> Value:
    """The number before the end of a range that counts from 1: ``range(start, epochs + 1)``."""
    plain = constant_of(stop)
    whole = next((fact for fact in stop.origins if type(plain) is int and fact.value == plain - 1), None)
    return Constant(whole.value, (whole,), direct=True) if whole is not None else stop


def _lengths(execution: Execution) -> Iterator[tuple[str, Fact | None]]:
    """Epochs and steps by the loops around the optimizer's step."""
    seen: set[int] = set()
    for call in execution.steps:
        around = call.region.loops()
        # a loop without a backward pass goes over several optimizers
        loops = [loop for loop in around if any(loop.holds(backward.region) for backward in execution.backwards)] or around
        for number, loop in enumerate(loops):
            if id(loop) in seen or _is_repeated(execution, loop):
                continue
            seen.add(id(loop))
            event = _first_call(loop) or call
            fed = is_fed(loop) or _goes_through(execution, loop)
            inner_fed = any(is_fed(inner) or _goes_through(execution, inner) for inner in loops[:number])
            bound = _count_of(execution, loop)
            if bound is not None and not fed:
                name = "train.epochs" if inner_fed or number > 0 else "train.max_steps"
                if name == "train.epochs" or len(loops) == 1:  # else the rounds of one round of the loop around it
                    yield name, fact_of(execution, name, bound, event)
            if not inner_fed or fed:
                yield from _stops(execution, loop, event)


def _is_repeated(execution: Execution, loop: Region) -> bool:
    """Whether each round of a loop is a training of its own, with another optimizer: ``for run in range(runs)``, a process for each rank."""
    return any(loop.holds(call.region) for call in execution.optimizers)


def _goes_through(execution: Execution, loop: Region) -> bool:
    """Whether a loop has as many rounds as something has parts: ``for _ in range(len(loader))``."""
    bound = _count_of(execution, loop)
    return isinstance(bound, Unknown) and bound.kind == "length"


def _stops(execution: Execution, loop: Region, event: Event) -> Iterator[tuple[str, Fact | None]]:
    """``while step < most`` and ``if step >= most: break``."""
    tests = [loop.test] if isinstance(loop.test, Unknown) else []
    tests += [
        leave.region.test
        for leave in execution.trace.leaves
        if leave.kind in {"break", "return"} and isinstance(leave.region.test, Unknown) and _leaves(leave, loop)
    ]
    tests += [
        end.region.test
        for end in execution.trace.named("quit", "exit", "sys.exit")
        if isinstance(end.region.test, Unknown) and _is_good(end) and _leaves(end, loop)
    ]
    for test in tests:
        if (
            isinstance(test, Unknown)
            and test.bound is not None
            and isinstance(test.bound, Constant)
            and type(test.bound.value) in {int, float}
            and 0 < test.bound.value < math.inf
            and "time" not in test.tags
            and "tensor" not in test.tags
        ):
            counts_epochs = any(fact.name == "train.epochs" for fact in test.bound.origins)
            name = "train.epochs" if counts_epochs else "train.max_steps"
            each = _added_each_round(execution, test.base, _raised(execution, test.base, loop))
            bound = test.bound if each == 1 else _rounds_of(test.bound, each)
            yield name, fact_of(execution, name, bound, event)


def _is_good(end: Call) -> bool:
    """Whether a program ends without an error: ``quit()``, ``sys.exit(0)``."""
    return not end.arguments or constant_of(end.arguments[0], end) in (0, None)


def _raised(execution: Execution, counter: Value | None, region: Region) -> list[Write]:
    """Where a counter is raised that a test in a region asks for: in its own function, or as an attribute anywhere."""
    function = next((each for each in region.above() if each.kind == "call"), None)
    return [
        write
        for write in execution.trace.writes
        if counter is not None
        and any(counter is each for each in (write.before, write.value))
        and isinstance(write.node, ast.AugAssign)
        and (
            write.owner is not None or function is next((each for each in write.region.above() if each.kind == "call"), None)
        )
    ]


def _added_each_round(execution: Execution, counter: Value | None, raised: list[Write]) -> float | None:
    """By how much a round of the loop raises a counter, which need not count rounds: ``images += batch_size``."""
    if isinstance(counter, Unknown) and counter.kind == "offset":
        return execution.number(counter.bound)
    added = [write.value for write in raised]
    if not added:
        return 1
    offsets = [value for value in added if isinstance(value, Unknown) and value.kind == "offset" and value.base is counter]
    return execution.number(offsets[0].bound) if len(offsets) == len(added) else None


def _rounds_of(bound: Constant, each: float | None) -> Value | None:
    """After how many rounds a counter reaches its bound."""
    return Constant(math.ceil(bound.value / each), bound.origins) if each is not None and each > 0 else None


def _leaves(leave: Event, loop: Region) -> bool:
    """Whether a ``break``, a ``return`` or the end of the program ends this loop: nothing but branches between them."""
    for region in leave.region.above():
        if region is loop:
            return True
        if region.kind in {"loop", "call", "maybe"}:
            return False
    return False


def _first_call(region: Region) -> Call | None:
    return next((event for event in region.events() if isinstance(event, Call)), None)


# ---- periods


def _periods(execution: Execution) -> Iterator[tuple[str, Fact | None]]:
    """What is done every so many steps or epochs, by the test around it."""
    inner = execution.step_loops
    accumulations = [modulus for call in execution.steps for _, modulus in _moduli_around(execution, call)]
    branches: dict[int, tuple[Region, dict[str, Call]]] = {}
    evaluating: set[int] = set()  # tests under which data are gone through, and not only something that is named so
    for call in execution.trace.calls:
        kind = _kind(execution, call)
        if kind == "eval" and any(above.method == "training_step" for above in call.calls_above()):
            continue  # Lightning evaluates by itself
        region = _periodic(call.region) if kind and execution.is_training(call) else None
        if region is not None and kind == "save" and _is_of_best(call.region, region):
            continue
        if region is not None and not _counts_inside(execution, region):
            branches.setdefault(id(region), (region, {}))[1].setdefault(kind, call)
            if kind == "eval" and call.name == "iterate":
                evaluating.add(id(region))
    yield from _every_epoch(execution, inner)
    kinds_seen = {kind for _, kinds in branches.values() for kind in kinds}
    yield from _named_periods(execution, inner, kinds_seen)
    for region, kinds in branches.values():
        per_epoch = _counts_epochs(execution, region, inner)
        for kind, call in kinds.items():
            if _modulus_of(region, accumulations) is None:
                continue  # after each step
            covered = (kind == "log" and (len(kinds) > 1 or per_epoch)) or (
                kind == "eval" and "sample" in kinds and id(region) not in evaluating
            )
            name = f"{kind}.period_epochs" if per_epoch else f"{kind}.period"
            period = _rounds_between(execution, region, _modulus_of(region, accumulations))
            if not covered:
                yield name, fact_of(execution, name, period, call)


def _is_of_best(region: Region, test: Region) -> bool:
    """Whether something under a periodic test is done only where a result is better than before: ``if loss < best: save()``."""
    for each in region.above():
        if each is test:
            return False
        if each.kind == "branch" and isinstance(each.node, ast.If) and _NAMED_BEST.search(ast.unparse(each.node.test)):
            return True
    return False


def _is_of_rank(region: Region) -> bool:
    """Whether a branch is a test of the rank whose outcome is not known, as its names say."""
    node = region.node
    return (
        region.kind == "branch"
        and region.sense
        and isinstance(node, ast.If)
        and bool(_NAMED_RANK.fullmatch(ast.unparse(node.test)))
    )


def _counts_epochs(execution: Execution, region: Region, inner: set[int]) -> bool:
    """Whether what a test counts are rounds around loops over the data, and not steps or rounds of something else."""
    loops = region.loops()
    if any(id(loop) in inner for loop in loops):
        return False
    if loops and isinstance(loops[0].node, ast.For) and "epoch" in ast.unparse(loops[0].node.target):
        return True
    if not loops or not execution.loaders:
        return not loops or id(loops[0]) in execution.epoch_loops
    held = [loop for loop in execution.training_loops if loops[0].holds(loop)]
    return not held or any(is_fed(loop) or _is_drawn(execution, loop) for loop in held)


def _counts_inside(execution: Execution, region: Region) -> bool:
    """Whether a test counts the rounds of a loop inside the training, as the batches or users of an evaluation."""
    nearest = next(iter(region.loops()), None)
    if nearest is None or execution.is_training_loop(nearest) or _feeds_rounds(execution, nearest):
        return False
    counter = _counter_of(region.test)
    drawn = [nearest.value, *execution.items(nearest.value)]
    if any(part is not None and part is counter for part in drawn):
        return True
    raised = _raised(execution, counter, region)
    return bool(raised) and all(nearest.holds(write.region) for write in raised)


def _feeds_rounds(execution: Execution, loop: Region) -> bool:
    """Whether a loop is that of a generator which hands the training its batches, a round of the one for a round of the other."""
    for region in loop.above():
        if region.kind == "feed" and region.parent is not None and id(region.parent) in execution.step_loops:
            return True
        if region.kind == "loop" and region is not loop:
            return False
    return False


def _counter_of(test: Value | None) -> Value | None:
    """What a test of a remainder divides."""
    while isinstance(test, Unknown) and test.base is not None and test.kind in {"divides", "remains", "remainder"}:
        test = test.base
    return test.base if isinstance(test, Unknown) and test.kind == "offset" else test


def _rounds_between(execution: Execution, region: Region, modulus: Value | None) -> Value | None:
    """How many rounds of the loop lie between those in which a counter divides: fewer where each raises it by more than 1.

    None where some rounds do not raise it, as a number of ticks of many images, or by nobody knows how much.
    """
    counter = _counter_of(region.test)
    raised = _raised(execution, counter, region)
    if counter is None or not raised:
        return modulus
    each, every = _added_each_round(execution, counter, raised), constant_of(modulus)
    if each == 1 and not any(map(_is_at_times, raised)):
        return modulus
    if any(map(_is_at_times, raised)) or type(each) is not int or type(every) is not int or each <= 0 or every <= 0:
        return None
    return Constant(math.lcm(each, every) // each, modulus.origins if modulus is not None else ())


def _is_at_times(event: Event) -> bool:
    """Whether something happens in some rounds of its loop alone, as a test says that changes from round to round."""
    for region in event.region.above():
        if region.kind == "loop":
            return False
        changes = region.kind == "branch" and isinstance(region.test, Unknown) and "loop" in region.test.tags
        if changes and not region.test.moduli and not _is_of_finite(region) and not _is_behind_end(region):  # type: ignore[union-attr]
            return True
    return False


def _is_drawn(execution: Execution, loop: Region) -> bool:
    """Whether a loop takes its batches itself, ``batch = next(batches)``, or from a generator that goes over a loader."""
    return any(
        call.region.loops()[:1] == [loop] or any(each.kind == "feed" and each.parent is loop for each in call.region.above())
        for call in execution.trace.named("iterate")
    )


def _named_periods(execution: Execution, inner: set[int], kinds_seen: set[str]) -> Iterator[tuple[str, Fact | None]]:
    """Periods by the names of their settings, where what is done under the test does not say what it is for."""
    seen: set[int] = set()
    for call in execution.trace.calls if kinds_seen != _KINDS else ():
        region = _periodic(call.region)
        if region is None or id(region) in seen:
            continue
        seen.add(id(region))
        modulus = _modulus_of(region)
        names = [fact.name for fact in modulus.origins] if isinstance(modulus, Constant) and modulus.direct else []
        kind = names[0].partition(".")[0] if names and names[0].partition(".")[2].startswith("period") else ""
        if kind in _KINDS - kinds_seen and execution.is_training(call):
            per_epoch = _counts_epochs(execution, region, inner)
            name = f"{kind}.period_epochs" if per_epoch else f"{kind}.period"
            yield name, fact_of(execution, name, modulus, call)


def _every_epoch(execution: Execution, inner: set[int]) -> Iterator[tuple[str, Fact | None]]:
    """What stands in the loop over epochs under no test: it is done after each of them."""
    seen: set[str] = set()
    for call in execution.trace.calls:
        kind = _kind(execution, call) if execution.is_training(call) and (call.function is None) else ""
        if kind not in {"save", "eval"} or kind in seen:
            continue
        around = list(call.region.above())
        depth = next(
            (
                number
                for number, region in enumerate(around)
                if region.kind == "loop" and id(region) in execution.epoch_loops
            ),
            None,
        )
        within = around[: depth or 0]
        if (
            depth is not None
            and not any(id(region) in inner for region in within)
            and all(region.kind not in {"branch", "handler", "maybe"} or _is_of_rank(region) for region in within)
        ):
            seen.add(kind)
            yield f"{kind}.period_epochs", Fact(f"{kind}.period_epochs", 1, call.evidence, "code")


def _every_round(execution: Execution) -> Iterator[tuple[str, Fact | None]]:
    """What goes to a tracker in each round of the training, under no test."""
    for call in execution.trace.calls:
        if call.function is None and call.name.startswith(_TO_TRACKER) and call.method in _TRACKS:
            for region in call.region.above():
                if id(region) in execution.step_loops:
                    yield "log.period", call.fact("log.period", 1)
                    return
                if region.kind in {"branch", "every", "handler", "maybe", "loop"}:
                    break


def _never_done(execution: Execution) -> Iterator[tuple[str, Fact | None]]:
    """That nothing is evaluated or saved, where all of the program was followed."""
    if execution.steps and _is_whole(execution):
        kinds = {_kind(execution, call) for call in execution.trace.calls}
        kinds |= {"eval"} if execution.evaluation_loops else set()
        for kind in sorted({"eval", "save"} - kinds):
            yield f"{kind}.strategy", execution.steps[0].fact(f"{kind}.strategy", "no")


def _is_whole(execution: Execution) -> bool:
    """Whether all that the program does was followed: what was not seen does not happen."""
    interpreter = execution.interpreter
    return not (execution.is_cut_short or interpreter.unresolved or interpreter.imports_unseen or execution.library_trainers)


def _trackers(execution: Execution) -> Iterator[tuple[str, Fact | None]]:
    """The trackers that the program starts."""
    found = {
        name: call
        for prefix, name in _TRACKERS.items()
        for call in execution.trace.calls
        if call.function is None and _called(call).startswith(prefix)
    }
    certain = {name: call for name, call in found.items() if call.region.is_certain()}
    kept = certain or {name: call for name, call in found.items() if call in _without_alternatives(list(found.values()))}
    if kept:
        first = next(iter(kept.values()))
        yield "tracker.kind", first.fact("tracker.kind", ",".join(sorted(kept)))
    elif execution.steps and not execution.library_trainers and not execution.is_cut_short and not _may_track(execution):
        yield "tracker.kind", execution.steps[0].fact("tracker.kind", "none")


def _called(call: Call) -> str:
    """The full name of a call, without the module in which Lightning keeps a logger."""
    return f"lightning.loggers.{call.method}" if call.name.startswith("lightning.loggers.") else call.name


def _may_track(execution: Execution) -> bool:
    """Whether a file of the program imports a tracker that it may start unseen, or a trainer that has one of its own."""
    packages = {"lightning", "pytorch_lightning"}
    if any(
        constant_of(call.argument(None, "log_with", NONE), "") is not None for call in execution.trace.methods("Accelerator")
    ):
        packages.add("accelerate")
    if not _is_whole(execution):
        packages |= {name.partition(".")[0] for name in _TRACKERS} | {"accelerate", "tensorboard"}
    for module in execution.interpreter.loaded.values():
        for node in ast.walk(module.source.tree) if module.source is not None else ():
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            others = "tensorboard" in packages and any("tensorboard" in name for name in names)
            if others or any(name.partition(".")[0] in packages - {"torch"} for name in names):
                return True
    return False


def _periodic(region: Region) -> Region | None:
    """The nearest test around an event that holds every so many rounds."""
    return next(
        (each for each in region.above() if each.kind in {"branch", "every"} and _modulus_of(each) is not None), None
    )


def _modulus_of(region: Region, but: Sequence[Value] = ()) -> Value | None:
    """The c of a region that is entered every c rounds; of several the last that is not among others, as accumulation is."""
    test = region.test
    if not isinstance(test, Unknown) or not test.moduli or region.sense is not (test.kind == "divides"):
        return None
    others = [modulus for modulus in reversed(test.moduli) if not any(modulus is each for each in but)]
    return next((modulus for modulus in others if not _is_among(modulus, but)), others[0] if others else None)


def _is_among(value: Value, others: Sequence[Value]) -> bool:
    plain = constant_of(value)
    return any(value is each or (plain is not None and plain == constant_of(each)) for each in others)


def _kind(execution: Execution, call: Call) -> str:
    """What a call is there for, as far as a period goes."""
    if call.method in _SAVES and call.function is None:
        return "save" if _is_save(call) else ""
    if call.name == "iterate":
        caller = next(iter(call.calls_above()), None)  # a function that samples takes a batch to begin with
        is_sampled = caller is not None and bool(_NAMED_SAMPLING.search(caller.method))
        return "eval" if not is_sampled and not execution._feeds_training(call) else ""  # noqa: SLF001 - the same question as for loaders
    if call.function is not None or _is_unread(call):
        names = (call.method, _written_name(call))
        if any(map(_NAMED_SAMPLING.search, names)):
            return "sample"
        return "eval" if any(map(_NAMED_EVALUATION.search, names)) else "log" if call.name == "print" else ""
    if call.method == "eval" and not call.arguments and "." in call.name:
        return "eval" if _goes_on_to_evaluate(execution, call) else ""
    return "log" if _LOGS.search(call.name) else ""


def _goes_on_to_evaluate(execution: Execution, call: Call) -> bool:
    """Whether a model that is put into evaluation mode is run over something there, and not only sampled from."""
    if any(_NAMED_SAMPLING.search(above.method) for above in call.calls_above()):
        return False
    test = _periodic(call.region)
    return any(_periodic(loop) is test for loop in execution.evaluation_loops)


def _is_unread(call: Call) -> bool:
    """Whether a function of a package is called of which nothing is known."""
    package = call.name.partition(".")[0]
    is_known = package in modelled_packages() or package in sys.stdlib_module_names
    return call.receiver is None and "." in call.name and not is_known and not isinstance(call.result, Instance)


def _written_name(call: Call) -> str:
    """What a function is called where it is called: ``eval_step`` for a ``step`` that another function made."""
    written = call.node.func if isinstance(call.node, ast.Call) else None
    return written.id if isinstance(written, ast.Name) else ""


def _is_save(call: Call) -> bool:
    return (
        call.name in {"torch.save", "safetensors.torch.save_file"}
        or call.name.startswith(("accelerate.", "lightning."))
        or call.method != "save"
        or "checkpoint" in call.name.lower()
    )
