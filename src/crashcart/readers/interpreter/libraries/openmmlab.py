"""OpenMMLab's runners, which build a whole training out of a config: mmengine's ``Runner``, and the runners of mmcv before it.

runner = Runner.from_cfg(cfg); runner.train()
runner = build_runner(cfg.runner, default_args={...}); runner.register_training_hooks(...); runner.run(data_loaders, workflow)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.libraries.torch_library import world_size
from crashcart.readers.interpreter.libraries.trainers import record_settings
from crashcart.readers.interpreter.store import NONE
from crashcart.readers.interpreter.trace import Call
from crashcart.readers.interpreter.values import (
    Constant,
    Container,
    Instance,
    Result,
    Unknown,
    Value,
    constant_of,
    origins_of,
)

if TYPE_CHECKING:
    import ast

    from crashcart.readers.interpreter.interpreter import Interpreter

_TRACKERS = {
    "wandb": "wandb",
    "tensorboard": "tensorboard",
    "mlflow": "mlflow",
    "neptune": "neptune",
    "clearml": "clearml",
    "aim": "aim",
}
_ENGINE = "mmengine.runner.Runner"
_RUNNER = "mmcv.runner.Runner"


def _below(interpreter: Interpreter, owner: Value | None, *names: str) -> Value | None:
    """What a config holds under a way of keys; None where it holds nothing there, or nobody knows."""
    for name in names:
        owner = interpreter.entries(owner).get(name)
    return owner


def _known_or(value: Value | None, default: object) -> Value:
    return Constant(default) if value is None or constant_of(value, value) is None else value


def _is_closed(interpreter: Interpreter, owner: Value | None) -> bool:
    return isinstance(owner, Container) and not interpreter.store.get(owner, "open")


# ---- mmengine


@models(f"{_ENGINE}.from_cfg", "mmengine.runner.runner.Runner.from_cfg", "mmengine.registry.RUNNERS.build", _ENGINE)
def make_engine(interpreter: Interpreter, call: Call) -> Value:
    """A runner keeps the config that it was made from."""
    config = (
        call.argument(0, "cfg") if call.method != "Runner" else interpreter.container("config", call.keywords, call.node)
    )
    return Result(_ENGINE, call, origins=origins_of(config), data=config)


@models(f"{_ENGINE}.train")
def train_engine(interpreter: Interpreter, call: Call) -> Value:
    """The training of a config: its loaders, loop, hooks and optimizer."""
    config = call.receiver.data if isinstance(call.receiver, Result) else None
    if not _is_closed(interpreter, config) or interpreter.quiet:
        return Unknown()
    loop = _below(interpreter, config, "train_cfg")
    by_epoch = constant_of(
        _below(interpreter, loop, "by_epoch"), "Iter" not in str(constant_of(_below(interpreter, loop, "type")))
    )
    unit = "_epochs" if by_epoch else ""
    settings: dict[str, Value | None] = {
        "train.batch_size": _below(interpreter, config, "train_dataloader", "batch_size"),
        "loader.workers": _below(interpreter, config, "train_dataloader", "num_workers"),
        "train.epochs" if by_epoch else "train.max_steps": _below(
            interpreter, loop, "max_epochs" if by_epoch else "max_iters"
        ),
        "train.accumulation": _known_or(_below(interpreter, config, "optim_wrapper", "accumulative_counts"), 1),
        "train.learning_rate": _engine_rate(interpreter, config),
        "log.period": _known_or(_below(interpreter, config, "default_hooks", "logger", "interval"), 10),
        "tracker.kind": _trackers_of(interpreter, config),
    }
    if constant_of(_below(interpreter, config, "val_cfg")) is None and _below(interpreter, config, "val_cfg") is None:
        settings["eval.strategy"] = Constant("no")
    else:
        settings[f"eval.period{unit}"] = _known_or(_below(interpreter, loop, "val_interval"), 1 if by_epoch else 1000)
    settings |= _saves(interpreter, _below(interpreter, config, "default_hooks", "checkpoint"), -1)
    record_settings(interpreter, call.node, settings)
    _record_steps(interpreter, call.node, call.receiver)
    return NONE


def _engine_rate(interpreter: Interpreter, config: Value | None) -> Value | None:
    """The rate of the optimizer, scaled by the global batch where the config wants that."""
    rate = _below(interpreter, config, "optim_wrapper", "optimizer", "lr")
    scaling = _below(interpreter, config, "auto_scale_lr")
    if constant_of(_below(interpreter, scaling, "enable"), False) is False or rate is None:
        return rate
    batch = _below(interpreter, config, "train_dataloader", "batch_size")
    ranks, base = world_size(interpreter), _below(interpreter, scaling, "base_batch_size")
    numbers = [constant_of(value) for value in (rate, batch, ranks, base)]
    if not all(isinstance(number, (int, float)) and number for number in numbers):
        return Unknown(origins=origins_of(rate, batch))
    return Constant(numbers[0] * numbers[1] * numbers[2] / numbers[3], origins_of(rate, batch, base))


def _trackers_of(interpreter: Interpreter, config: Value | None) -> Value | None:
    """The trackers among the places that a visualizer writes to."""
    places = _below(interpreter, config, "visualizer", "vis_backends") or _below(interpreter, config, "vis_backends")
    return _named_trackers([_below(interpreter, each, "type") for each in interpreter.listed(places)[0]] if places else [])


def _named_trackers(types: list[Value | None]) -> Value | None:
    names = [constant_of(each) for each in types]
    if not all(isinstance(name, str) for name in names):
        return None
    found = sorted({tracker for name in names for word, tracker in _TRACKERS.items() if word in name.lower()})
    return Constant(",".join(found) or "none")


def _saves(interpreter: Interpreter, hook: Value | None, default: int) -> dict[str, Value | None]:
    """How often checkpoints are written: by epochs unless the hook counts steps; never with an interval of -1."""
    unit = "_epochs" if constant_of(_below(interpreter, hook, "by_epoch"), True) else ""
    interval = _known_or(_below(interpreter, hook, "interval"), default)
    return {f"save.period{unit}": interval} if constant_of(interval) != -1 else {"save.strategy": Constant("no")}


def _record_steps(interpreter: Interpreter, node: ast.AST, runner: Value | None, loader: Value | None = None) -> None:
    with interpreter.inside("loop", node, iterable=runner):
        if loader is not None:
            with interpreter.inside("feed", node):
                interpreter.element(loader, node)
        interpreter.record(Call, node, "?.backward", [], {}, receiver=Unknown(frozenset({"tensor", "graph"})))
        interpreter.record(Call, node, "torch.optim.Optimizer.step", [], {}, receiver=Unknown())


# ---- mmcv, before mmengine


@models("mmcv.runner.build_optimizer")
def build_optimizer(interpreter: Interpreter, call: Call) -> Value:
    """An optimizer by the name of its class, with the other keys of its config."""
    config = call.argument(1, "cfg")
    kind = constant_of(_below(interpreter, config, "type"))
    if not isinstance(kind, str):
        return Result("torch.optim.Optimizer", call)
    keywords = {
        name: value
        for name, value in interpreter.entries(config).items()
        if name not in {"type", "paramwise_cfg", "constructor"}
    }
    return interpreter.call_library(f"torch.optim.{kind}", [call.argument(0) or Unknown()], keywords, call.node)


@models(
    "mmcv.runner.build_runner",
    "mmcv.runner.EpochBasedRunner",
    "mmcv.runner.IterBasedRunner",
    "mmcv.runner.Runner",
)
def make_runner(interpreter: Interpreter, call: Call) -> Value:
    """A runner of epochs or of steps."""
    made = Result(_RUNNER, call, origins=origins_of(*call.arguments))
    config = (
        call.argument(0, "cfg")
        if call.method == "build_runner"
        else interpreter.container("config", call.keywords, call.node)
    )
    kind = constant_of(_below(interpreter, config, "type"), call.method)
    made.data = interpreter.container("config", {**interpreter.entries(config), "type": Constant(str(kind))}, call.node)
    return made


@models(f"{_RUNNER}.register_training_hooks", f"{_RUNNER}.register_hook")
def add_hooks(interpreter: Interpreter, call: Call) -> Value:
    """The hooks of a runner: what they are told is kept until it runs."""
    content = call.receiver.data if isinstance(call.receiver, Result) else None
    if not isinstance(content, Container):
        return NONE
    if call.method == "register_hook":
        hook = call.argument(0, "hook")
        made = hook.call if isinstance(hook, (Result, Instance)) else None
        if made is not None and "Eval" in made.method:
            interpreter.set_item(content, Constant("eval"), interpreter.container("config", made.keywords), None)
    else:
        for position, name in ((1, "optimizer_config"), (2, "checkpoint_config"), (3, "log_config")):
            interpreter.set_item(content, Constant(name), call.argument(position, name) or NONE, None)
    return NONE


@models(f"{_RUNNER}.run")
def run_runner(interpreter: Interpreter, call: Call) -> Value:
    """The training: the loaders are gone through, and the hooks do what they were told."""
    content = call.receiver.data if isinstance(call.receiver, Result) else None
    if not isinstance(content, Container) or interpreter.quiet:
        return NONE
    loaders = call.argument(0, "data_loaders")
    loader = interpreter.element(loaders, call.node) if isinstance(loaders, Container) else loaders
    by_epoch = "Iter" not in str(constant_of(_below(interpreter, content, "type")))
    length = _below(interpreter, content, "max_epochs" if by_epoch else "max_iters") or call.argument(2, "max_epochs")
    log = _below(interpreter, content, "log_config")
    settings: dict[str, Value | None] = {
        "train.epochs" if by_epoch else "train.max_steps": length,
        "train.accumulation": _known_or(_below(interpreter, content, "optimizer_config", "cumulative_iters"), 1),
        "log.period": _known_or(_below(interpreter, log, "interval"), 10),
        "tracker.kind": _named_trackers(
            [_below(interpreter, hook, "type") for hook in interpreter.listed(_below(interpreter, log, "hooks") or NONE)[0]]
        ),
    }
    settings |= _saves(interpreter, _below(interpreter, content, "checkpoint_config"), 1)
    evaluation = _below(interpreter, content, "eval")
    if evaluation is not None:
        unit = "_epochs" if constant_of(_below(interpreter, evaluation, "by_epoch"), True) else ""
        settings[f"eval.period{unit}"] = _known_or(_below(interpreter, evaluation, "interval"), 1)
    record_settings(interpreter, call.node, settings)
    _record_steps(interpreter, call.node, call.receiver, loader)
    return NONE
